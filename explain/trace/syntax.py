"""What Triton's compiler refuses, read from the syntax: from the compiler itself, `CodeGenerator`, where it can be."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triton.compiler.code_generator import CodeGenerator
from triton.runtime.interpreter import InterpretedFunction

WORDS: dict[type[ast.AST], str] = {
    ast.Break: "`break`",
    ast.Continue: "`continue`",
    ast.Raise: "`raise`",
    ast.Try: "`try`",
    ast.Delete: "`del`",
    ast.Lambda: "a lambda",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.NamedExpr: "`:=`",
    ast.GeneratorExp: "a generator",
    ast.DictComp: "a dict comprehension",
    ast.SetComp: "a set comprehension",
}
PARTS = (ast.comprehension, ast.FormattedValue, ast.Starred)
"""Nodes that the compiler reads as parts of other nodes."""


class Syntax:
    """Finds what the compiler would refuse in one function."""

    def __init__(self, fn: Any, function: ast.FunctionDef) -> None:
        self.own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and _binds(node)}
        self.own |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
        self.scope = {**fn.__globals__, **{name: cell.cell_contents for name, cell in cells if _is_set(cell)}}
        generator = object.__new__(CodeGenerator)  # its rule for names needs these three alone
        generator.gscope, generator.lscope, generator.visiting_arg_default_value = self.scope, {}, False
        self.lookup: Callable[[str], Any] = generator._define_name_lookup()

    def refusal(self, statements: Sequence[ast.stmt]) -> tuple[ast.AST, str] | None:
        """The first node of a block that is refused, and why: of all that is compiled whatever the values are.

        A branch of an `if` is a block of its own: if the condition is a constant, only one is compiled.
        """
        for statement in statements:
            for node in _compiled(statement):
                if why := self.of(node):
                    return node, f"line {getattr(node, 'lineno', statement.lineno)}: {why}"
            if isinstance(statement, ast.Return):
                return None
        return None

    def of(self, node: ast.AST) -> str:
        """Why the compiler refuses this one node; "" if it does not."""
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                return "a function or class inside a kernel cannot be compiled"
            case ast.stmt() | ast.expr() if not isinstance(node, PARTS) and not _is_visited(node):
                return f"{WORDS.get(type(node), type(node).__name__)} cannot be compiled: Triton's language has none"
            case ast.For(orelse=[_, *_]) | ast.While(orelse=[_, *_]):
                return "a loop with `else` cannot be compiled"
            case ast.For(iter=iterator, target=target) if not isinstance(iterator, ast.Call):
                return f"`for {ast.unparse(target)} in {ast.unparse(iterator)}`: only ranges can be looped over"
            case ast.For(target=target) if not isinstance(target, ast.Name):
                return f"`for {ast.unparse(target)} in …`: a loop has one variable"
            case ast.Assign(targets=[_, _, *_]):
                return f"`{ast.unparse(node)}`: assign to one target at a time"
            case ast.Subscript(ctx=ast.Store()):
                return f"`{ast.unparse(node)} = …`: a tensor's elements cannot be assigned; use tl.where"
            case ast.Attribute(ctx=ast.Store()):
                return f"`{ast.unparse(node)} = …`: attributes cannot be assigned"
            case ast.Compare(ops=[_, _, *_]):
                return f"`{ast.unparse(node)}`: chained comparisons cannot be compiled; join two with `&`"
            case ast.Compare(ops=[operator]) if type(operator) not in (*CodeGenerator._method_name_for_comp_op, *_IS):
                return f"`{ast.unparse(node)}`: this comparison cannot be compiled"
            case ast.BinOp(op=operator) if type(operator) not in CodeGenerator._method_name_for_bin_op:
                return f"`{ast.unparse(node)}`: this operator cannot be compiled"
            case ast.Name(id=name, ctx=ast.Load()) if name not in self.own:
                return self.of_name(name)
        return ""

    def of_name(self, name: str) -> str:
        """Why the compiler refuses a name of the module, or of a function around this one."""
        if name not in self.scope and not hasattr(builtins, name):
            return ""  # Python says it
        if isinstance(self.scope.get(name), InterpretedFunction):  # what @triton.jit makes for the interpreter
            return ""
        try:
            self.lookup(name)
        except NameError as error:
            if name in self.scope:
                return f"the global {name} is no constexpr: write `{name} = tl.constexpr(…)`, or pass it as an argument"
            return str(error)
        return ""


_IS = (ast.Is, ast.IsNot)


def _is_visited(node: ast.AST) -> bool:
    return hasattr(CodeGenerator, f"visit_{type(node).__name__}")


def _binds(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _compiled(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is compiled with it: no branch of an `if`, no annotation, no default."""
    yield node
    match node:
        case ast.If(test=test):
            yield from _compiled(test)
        case ast.IfExp(test=test):
            yield from _compiled(test)
        case ast.AnnAssign(target=target, value=value):
            yield from _compiled(target)
            if value is not None:
                yield from _compiled(value)
        case ast.FunctionDef() | ast.ClassDef() | ast.Lambda():
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _compiled(child)
