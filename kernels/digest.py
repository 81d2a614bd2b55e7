"""A digest of the code that a kernel runs: numbers measured on code with another digest are stale.

The digest covers a function of `kernels/` and every definition in `kernels/` that it uses, in any module. Comments,
docstrings, annotations, error messages and formatting do not count, so a reworded sentence makes nothing stale.
Imports neither torch nor triton.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from kernels.edits import Edit, source_of


@functools.cache
def digest_of(module: str, function: str, edit: Edit | None = None) -> str:
    """The digest of a function in `kernels/` and of what it uses there, with `edit` applied to its module.

    Raises ValueError if the module, or the function in it, does not exist.
    """
    used: dict[tuple[str, str], str] = {}
    wanted = [(module, function)]
    while wanted:
        at = wanted.pop()
        if at in used:
            continue
        place = _module(at[0], edit if at[0] == module else None)
        if found := place.definitions.get(at[1]):
            used[at] = "".join(_text(node) for node in found)
            names = {node.id for one in found for node in ast.walk(one) if isinstance(node, ast.Name)}
            wanted += [(at[0], name) for name in sorted(names)]
        elif at[1] in place.imports:
            source, name = place.imports[at[1]]
            wanted += [(source, name)] if name else [(source, one) for one in _module(source).definitions]
    if (module, function) not in used:
        raise ValueError(f"{module} has no {function}")
    return hashlib.sha256("\n".join(sorted(used.values())).encode()).hexdigest()[:16]


def running(source: str) -> str:
    """The part of a Python file that runs, as text: without comments, docstrings, annotations and error messages."""
    return _text(_Running().visit(ast.parse(source)))


@dataclass(frozen=True)
class _Module:
    """What a module binds: definitions by name, and imports from `kernels/` as (module, name or "")."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str]]


@functools.cache
def _module(name: str, edit: Edit | None = None) -> _Module:
    source = source_of(name)
    module = _Module({}, {})
    for node in _Running().visit(ast.parse(edit.apply(source) if edit else source)).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "kernels":
            whole = node.module == "kernels"
            for alias in node.names:
                at = (f"kernels.{alias.name}", "") if whole else (str(node.module), alias.name)
                module.imports[alias.asname or alias.name] = at
        for bound in _bound(node):
            module.definitions.setdefault(bound, []).append(node)
    return module


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


class _Running(ast.NodeTransformer):
    """Leaves out what does not run: strings that stand alone, annotations, error messages."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        if node.annotation and not _is_constexpr(node.annotation):
            node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if _is_constexpr(node.annotation):
            return node
        return ast.Assign([node.target], node.value) if node.value else None

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)


def _is_constexpr(annotation: ast.expr) -> bool:
    """Whether Triton compiles the value in: the one annotation that changes what runs."""
    return "constexpr" in ast.unparse(annotation)


def _text(node: object) -> str:
    """A node as text that is the same in every version of Python: `ast.dump` shows empty fields in some versions."""
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
    return f"{type(node).__name__}({','.join(f'{name}={_text(value)}' for name, value in fields)})"
