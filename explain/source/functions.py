"""The source text of kernels: a module's functions, where a line is, and what changed from one text to another.

Imports neither torch nor triton: sources are read from the files.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
from contextlib import suppress

from kernels.edits import source_of

CONTEXT = 3
"""Unchanged lines that an excerpt keeps around a change."""
_SHAPE = re.compile(r" \([A-Z_, ]+\)$")  # at the end of a comment


def file_of(module: str) -> str:
    """A module's path in the project: "kernels/attention.py"."""
    return f"{module.replace('.', '/')}.py"


@functools.cache
def jitted(module: str) -> tuple[str, ...]:
    """The names of the functions that are compiled for the GPU, in the file's order."""
    functions = [node for node in ast.parse(source_of(module)).body if isinstance(node, ast.FunctionDef)]
    return tuple(f.name for f in functions if any(ast.unparse(d).endswith(".jit") for d in f.decorator_list))


@functools.cache
def function_source(module: str, function: str) -> str:
    """The text of a module's function, with its decorators."""
    return function_in(source_of(module), function)


def function_in(text: str, name: str) -> str:
    """The lines of one top-level function of a module's `text`, with its decorators.

    Raises:
        SyntaxError: Python cannot read the text.
        StopIteration: it has no function of this name.
    """
    node = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


@functools.cache
def body_source(module: str, function: str) -> str:
    """The text of a module's function without its decorators and parameters: "def name(…):" and its body."""
    text = function_source(module, function)
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    lines, declared = text.splitlines(), [*ast.walk(node.args), node.returns]
    last = max(getattr(one, "end_lineno", node.lineno) for one in declared)
    colon = next(at for at in range(last - 1, len(lines)) if re.search(r":\s*(#.*)?$", lines[at]))
    return "\n".join([f"def {function}(…):", *lines[colon + 1 :]])


@functools.cache
def defining(module: str, function: str) -> str:
    """The module of this project that has a function: `module`, or one that it imports, directly or not.

    Raises LookupError if none has it.
    """
    tree = ast.parse(source_of(module))
    if any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body):
        return module
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernels."):
            with suppress(LookupError):
                return defining(str(node.module), function)
    raise LookupError(f"{function} is neither in {module} nor in what it imports")


@functools.cache
def function_found(module: str, function: str) -> str:
    """The text of a function that `module` has or imports from this project. Raises LookupError if there is none."""
    return function_source(defining(module, function), function)


@functools.cache
def stored(source: str) -> tuple[str, ...]:
    """The buffers that a kernel's text writes to, in its order: ("dk", "dv") for stores at `dk_ptr + …`."""
    found: dict[str, None] = {}
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("tl.store", "tl.atomic_add"):
            names = (node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name))
            found |= dict.fromkeys(re.sub(r"_ptrs?$", "", name) for name in names if re.search(r"_ptrs?$", name))
    return tuple(found)


def functions_source(module: str, functions: tuple[str, ...]) -> str:
    """The text of several functions, in this order."""
    return "\n\n\n".join(function_source(module, name) for name in functions)


@functools.cache
def line_number(module: str, line: str, functions: tuple[str, ...] = ()) -> int:
    """Where a line is in a module, from 1: the first in `functions`, if any are given.

    Raises:
        ValueError: the line is not there.
    """
    text = source_of(module)
    for name in functions:
        own = function_source(module, name)
        lines = [one.strip() for one in own.splitlines()]
        if line in lines:
            return text[: text.index(own)].count("\n") + lines.index(line) + 1
    if functions:
        raise ValueError(f"{line!r} is in none of {', '.join(functions)} of {module}")
    return [one.strip() for one in text.splitlines()].index(line) + 1


@functools.cache
def marked(below: str, above: str) -> str:
    """The text `above` marked as a diff from `below`. A line that only changed its indentation counts as kept."""
    old, new = below.splitlines(), above.splitlines()
    below_plain, above_plain = ([_SHAPE.sub("", " ".join(line.split())) for line in lines] for lines in (old, new))
    lines: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, below_plain, above_plain, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [f" {line}" for line in new[k:m]]
        else:
            lines += [f"-{line}" for line in old[i:j]] + [f"+{line}" for line in new[k:m]]
    return "\n".join(lines)


def without_column(line: str) -> str:
    """The line with its shape next to its words, not in a column far to the right."""
    return re.sub(r" +(?=\([A-Z_, ]+\)$)", "  ", line)


def excerpt(diff: str) -> str:
    """The changed lines of a diff and CONTEXT lines around them; says where two or more others are left out."""
    lines = diff.splitlines()
    changed = [at for at, line in enumerate(lines) if line[:1] in "+-"]
    near = {at for one in changed for at in range(one - CONTEXT, one + CONTEXT + 1)}
    near |= {at for at in range(len(lines)) if {at - 1, at + 1} <= near}
    shown: list[str] = []
    skipped = 0
    for at, line in enumerate(lines):
        if at in near:
            shown += [f" … {skipped} lines left out"] * bool(skipped and shown) + [without_column(line)]
        skipped = 0 if at in near else skipped + 1
    return "\n".join(shown)
