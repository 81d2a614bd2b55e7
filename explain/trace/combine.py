"""Reductions and scans by a function of the kernel's own: many lanes at a time, where the interpreter takes one by one.

A reduction joins neighbours, then neighbours of the results, as a GPU may: the function is associative. A scan goes
along its axis and takes the other axes at once. A function with a branch takes scalars, so it runs lane by lane.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton import language as tl
from triton.runtime import interpreter

BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.Not)


def reduced(op: Any, operands: tuple[Any, ...]) -> Any:
    """What `tl.reduce` makes of tiles of one shape: a list of tensors. `op` is the interpreter's `ReduceOps`."""
    tiles, axis = op.unravel(operands, op.axis)
    parts = [np.moveaxis(tile.handle.data, axis, -1) for tile in tiles]
    lanes = parts[0].shape[-1]
    if not _takes_tiles(op.combine_fn.fn) or lanes & (lanes - 1) or len({part.shape for part in parts}) > 1:
        return op.generic_reduce(operands)
    dtypes = [tile.dtype for tile in tiles]
    while parts[0].shape[-1] > 1:
        parts = _joined(op, dtypes, [part[..., 0::2] for part in parts], [part[..., 1::2] for part in parts])
    results = [part[..., 0] for part in parts]
    if op.keep_dims:
        kept = tuple(range(operands[0].handle.data.ndim)) if op.axis is None else axis
        results = [np.expand_dims(one, kept) for one in results]
    return [op.to_tensor(one, dtype) for one, dtype in zip(results, dtypes, strict=True)]


def scanned(op: Any, operands: tuple[Any, ...]) -> Any:
    """What `tl.associative_scan` makes of tiles of one shape: a list of tensors, or None. `op` is its `ScanOps`."""
    if not _takes_tiles(op.combine_fn.fn):
        return None
    dtypes = [tile.dtype for tile in operands]

    def turned(data: NDArray[Any]) -> NDArray[Any]:
        return np.flip(data, axis=op.axis) if op.reverse else data

    inputs = [np.moveaxis(turned(tile.handle.data), op.axis, 0) for tile in operands]
    outputs = [data.copy() for data in inputs]
    for lane in range(1, len(inputs[0])):
        joined = _joined(op, dtypes, [data[lane - 1] for data in outputs], [data[lane] for data in inputs])
        for output, data in zip(outputs, joined, strict=True):
            output[lane] = data
    back = (np.ascontiguousarray(turned(np.moveaxis(data, 0, op.axis))) for data in outputs)
    return [op.to_tensor(data, dtype) for data, dtype in zip(back, dtypes, strict=True)]


def _joined(
    op: Any, dtypes: Sequence[Any], left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """What the combine function makes of two tuples of tiles, each of its dtype."""
    tiles = [op.to_tensor(data, dtype) for side in (left, right) for data, dtype in zip(side, dtypes, strict=True)]
    made = op.combine_fn.fn(*tiles)
    return [
        _data(one, dtype, data.shape)
        for one, dtype, data in zip(made if isinstance(made, tuple) else (made,), dtypes, left, strict=True)
    ]


def _data(value: Any, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    tensor = interpreter.interpreter_semantic.cast(interpreter.interpreter_semantic.to_tensor(value), dtype)
    return np.broadcast_to(tensor.handle.data, shape)


@functools.cache
def _takes_tiles(function: Callable[..., Any]) -> bool:
    """Whether a combine function takes tiles: it has no branch, and calls no function that may have one."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return False
    nodes = list(ast.walk(tree))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    known = {id(value) for value in vars(tl).values()}
    names = [function.__globals__.get(one.id) for one in called if isinstance(one, ast.Name)]
    return all(id(one) in known for one in names) and not any(isinstance(node, BRANCHES) for node in nodes)
