"""Where an attention kernel rounds to the dtype of its inputs, read from its source, without torch or triton."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from explain.source import functions
from kernels.catalog import KERNELS
from kernels.edits import source_of

FLOAT32 = ("lse_ptr",)
"""Outputs that are float32 whatever the inputs' dtype."""


@dataclass(frozen=True)
class Rounding:
    """A quantity that becomes 16 bits wide: its symbol, the line of its module, and whether it is stored in HBM."""

    symbol: str
    module: str
    line: int
    stored: bool


@functools.cache
def roundings(kernel: str) -> tuple[Rounding, ...]:
    """Every rounding of a kernel to the dtype of its inputs, launch by launch, in the order of its lines."""
    return tuple(one for module, name in _launched(kernel) for one in _of_function(kernel, module, name))


def _launched(kernel: str) -> Iterator[tuple[str, str]]:
    """(module, function) of each launch of a kernel's wrapper, in order."""
    entry = KERNELS[kernel]
    imported = {
        alias.name: str(node.module)
        for node in ast.parse(source_of(entry.module)).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in _in_order(functions.function_source(entry.module, entry.function)):
        match node:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name))) if name.endswith("_kernel"):
                yield imported.get(name, entry.module), name


def _of_function(kernel: str, module: str, name: str) -> Iterator[Rounding]:
    text = functions.function_source(module, name)
    above = source_of(module).partition(text)[0].count("\n")
    names = KERNELS[kernel].buffers.get(name, {})
    for node in _in_order(text):
        match node:
            case ast.Call(func=ast.Attribute(attr="store"), args=[pointer, *_]):
                root = next(one.id for one in ast.walk(pointer) if isinstance(one, ast.Name) and "_ptr" in one.id)
                buffer = root.removesuffix("_ptr")
                if root not in FLOAT32:
                    yield Rounding(names.get(buffer, buffer).upper(), module, above + node.lineno, True)
            case ast.Call(func=ast.Attribute(ast.Name(id=variable), "to"), args=[ast.Attribute(attr="dtype")]):
                symbol = "P̃" if variable == KERNELS[kernel].roles["exponentials"] else variable.upper()
                yield Rounding(symbol, module, above + node.lineno, False)


def _in_order(text: str) -> list[ast.expr]:
    """The expressions of a function's text, by line."""
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr))
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))
