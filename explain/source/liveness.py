"""Liveness: which of a function's variables will still be read, from the source alone.

A variable is live after a line if some path from there reads it before overwriting it (Aho, Lam, Sethi, Ullman,
"Compilers", 2nd ed., 9.2.5). Loops are repeated until nothing changes; both branches of an `if` count. This is what the
source needs to keep, not what the compiler allocates: the compiler moves, splits and recomputes values.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Names = frozenset[str]
_NONE: Names = frozenset()


def alive(text: str, first_line: int = 1) -> dict[int, list[str]]:
    """The function's own variables that are live after each line, in the order in which they are first set.

    A statement counts at its first line; `first_line` is the line of the `def`. After a loop's header means inside its
    body; after the header of an `if` or `while` means on either branch. {} if the source is not a function.
    """
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return {}
    if not tree.body or not isinstance(function := tree.body[0], ast.FunctionDef):
        return {}
    order = _own_names(function)
    flow = _Flow(frozenset(order))
    flow.after[function.lineno] = flow.before(function.body, _NONE)
    return {first_line + line - 1: sorted(names, key=order.__getitem__) for line, names in sorted(flow.after.items())}


def _own_names(function: ast.FunctionDef) -> Mapping[str, int]:
    """The arguments and the variables set in the body, each with its position."""
    parts = function.args
    arguments = [arg.arg for arg in (*parts.posonlyargs, *parts.args, *parts.kwonlyargs)]
    stored = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    stored.sort(key=lambda node: (node.lineno, node.col_offset))
    return {name: at for at, name in enumerate(dict.fromkeys([*arguments, *(node.id for node in stored)]))}


@dataclass
class _Flow:
    """Goes backwards, from the variables live after a statement to those live before it; `after` keeps them by line."""

    own: Names
    after: dict[int, Names] = field(default_factory=dict)
    at_break: Names = _NONE
    at_continue: Names = _NONE

    def before(self, statements: Sequence[ast.stmt], alive: Names) -> Names:
        for statement in reversed(statements):
            alive = self.before_one(statement, alive)
        return alive

    def before_one(self, statement: ast.stmt, alive: Names) -> Names:
        match statement:
            case ast.If(test=test, body=body, orelse=otherwise):
                either = self.before(body, alive) | self.before(otherwise, alive)
                return self.met(statement, either) | self.read([test])
            case ast.For(target=target, iter=source, body=body, orelse=otherwise):
                done = self.before(otherwise, alive)
                inside = self.loop(body, done, alive, set_by_header=self.stored([target]))
                self.met(statement, inside)
                return (inside - self.stored([target])) | done | self.read([source])
            case ast.While(test=test, body=body, orelse=otherwise):
                done = self.before(otherwise, alive)
                inside = self.loop(body, done | self.read([test]), alive)
                return self.met(statement, inside | done) | self.read([test])
            case ast.With(items=items, body=body):
                return self.met(statement, self.before(body, alive)) | self.read(items)
            case ast.Return():
                self.met(statement, _NONE)
                return self.read([statement])
            case ast.Break():
                return self.met(statement, self.at_break)
            case ast.Continue():
                return self.met(statement, self.at_continue)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.met(statement, alive)
                return alive | self.read([statement]) | (frozenset([name]) & self.own)
        self.met(statement, alive)
        return (alive - self.stored([statement])) | self.read([statement])

    def loop(self, body: Sequence[ast.stmt], leaving: Names, after: Names, set_by_header: Names = _NONE) -> Names:
        """What is live on entering the body: `leaving` when the header ends the loop, `after` when a break does."""
        outer = self.at_break, self.at_continue
        at_header, inside = leaving, _NONE
        while True:
            self.at_break, self.at_continue = after, at_header
            inside = self.before(body, at_header)
            grown = at_header | (inside - set_by_header)
            if grown == at_header:
                self.at_break, self.at_continue = outer
                return inside
            at_header = grown

    def met(self, statement: ast.stmt, alive: Names) -> Names:
        """Adds the live variables to the line's entry: a line may hold two statements, and loops visit a line again."""
        self.after[statement.lineno] = self.after.get(statement.lineno, _NONE) | alive
        return alive

    def read(self, nodes: Iterable[ast.AST]) -> Names:
        return self.named(nodes, ast.Load)

    def stored(self, nodes: Iterable[ast.AST]) -> Names:
        return self.named(nodes, ast.Store)

    def named(self, nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> Names:
        found = (inner for node in nodes for inner in ast.walk(node))
        names = {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
        return frozenset(names) & self.own
