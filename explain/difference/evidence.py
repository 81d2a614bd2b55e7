"""What is known where run B first differs from run A: both statements, and what each variable held at each step."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.evaluate import PROGRAM, callee, evaluate
from explain.difference.replay import Event, Replay, Site, names_in, value_of
from explain.figures.labels import listed

TRIED = 12


@dataclass(frozen=True)
class Evidence:
    """Run A's event and run B's, which differs; `names` are B's names of A's variables, `alike` compares values.

    `paired` says which assignment of A each of B's is. With `as_paired` a variable of A stands for what B's last paired
    assignment set, whatever that variable holds since.
    With `secret` A's expressions are not quoted.
    """

    a: Replay
    b: Replay
    right: Event | None
    wrong: Event
    names: Mapping[str, str]
    paired: Mapping[Site, Site]
    alike: Callable[[NDArray[Any], NDArray[Any]], bool]
    secret: bool
    as_paired: bool = False

    def said(self, node: ast.expr, noun: str = "", joined: str = "with") -> str:
        """A part of A's code in a sentence, with `noun` before it: "the factor `l_i * alpha`".

        Where A is secret: "a factor with `l_i` and `alpha`", by B's names; a single variable is named there too.
        """
        the = f"the {noun} " if noun else ""
        if isinstance(node, ast.UnaryOp) and callee(node.operand) == "float":
            return f"{the}−∞"
        if not self.secret:
            return f"{the}`{ast.unparse(node)}`"
        inner = node
        while isinstance(inner, ast.Subscript) or callee(inner) in ("to", "trans"):
            inner = inner.value if isinstance(inner, ast.Subscript) else _converted(inner)
        if isinstance(inner, ast.Name | ast.Constant):
            return f"{the}`{self.own(inner)}`"
        variables = [f"`{self.names.get(name, name)}`" for name in names_in(inner) if name not in ("tl", "float")]
        return (
            f"a {noun or 'term'} {joined} {listed(variables)}"
            if variables
            else f"a {noun or 'call'} of `{callee(inner)}`"
        )

    def named(self, node: ast.expr) -> bool:
        """Whether a part of A's code can be said: where A is secret, only if B has its variables too."""
        return not self.secret or set(names_in(node)) - {"tl", "float"} <= self.names.keys()

    def own(self, node: ast.expr) -> str:
        """An expression of A in B's names."""
        return ast.unparse(self.renamed(node, self.names))

    @staticmethod
    def renamed(node: ast.expr, names: Mapping[str, str]) -> ast.expr:
        """A copy with other names for its variables."""
        made = copy.deepcopy(node)
        for part in ast.walk(made):
            if isinstance(part, ast.Name):
                part.id = names.get(part.id, part.id)
        return made

    @cached_property
    def expression(self) -> ast.expr | None:
        """What A's statement assigns; a variable that B does not have is written out."""
        made = None if self.right is None else value_of(self.a.statement(self.right.site))
        return None if made is None or self.right is None else self._written_out(made, self.right)

    def _written_out(self, expression: ast.expr, at: Event) -> ast.expr:
        """An expression of A. Variables that B lacks are replaced by what A assigned to them in the same round."""
        made, frame = copy.deepcopy(expression), self.a.frame(at)
        for place, part in reversed([*enumerate(ast.walk(made))]):
            event = self.a.events[frame[part.id]] if isinstance(part, ast.Name) and part.id in frame else None
            if event is None or event.site in self.paired.values() or event.kind == "load" or event.rounds != at.rounds:
                continue
            inner = value_of(self.a.statement(event.site))
            if inner is not None:
                made = replaced(made, place, self._written_out(inner, event))
        return made

    @cached_property
    def samples(self) -> list[tuple[dict[str, Any], NDArray[Any]]]:
        """B's variables, by A's names, before each run of the statement, and what it then had."""
        events = [self.wrong, *(one for one in self.b.sites[self.wrong.site] if one is not self.wrong)]
        found = []
        for event in [one for one in events if one.value is not None][:TRIED]:
            held = self.b.held(self.b.frame(event))
            mine = {name: held[its] for name, its in self.names.items() if its in held}
            mine |= self._set_by_pairs(event) if self.as_paired else {}
            found.append(({PROGRAM: event.program, **self.a.constants, **held, **mine}, event.value))
        return found  # type: ignore[return-value]

    def _set_by_pairs(self, event: Event) -> dict[str, NDArray[Any]]:
        """A's variables before B's event, as the last paired assignments of B set them."""
        before = map(self.b.events.__getitem__, self.b.by_program[event.launch, event.program])
        pairs = ((self.paired[one.site][2], one.value) for one in before
                 if one.step < event.step and one.site in self.paired and one.value is not None)  # fmt: skip
        return {name: value for name, value in pairs if name}

    @cached_property
    def read_by_b(self) -> set[str]:
        """The variables that B's statement reads."""
        return set(names_in(self.b.statement(self.wrong.site))) - {"tl"}

    @cached_property
    def more_often(self) -> list[str]:
        """The variables of A that B's statement reads more often than A's."""
        statements = self.b.statement(self.wrong.site), self.a.statement(self.right.site) if self.right else None
        mine, theirs = (
            Counter(node.id for node in ast.walk(value_of(one) or ast.Pass()) if isinstance(node, ast.Name))
            for one in statements
        )
        return sorted(name for name, own in self.names.items() if mine[own] > theirs[name])

    @cached_property
    def compares(self) -> bool:
        """Whether B's statement has a comparison, or reads a mask: else it cannot be one that is slightly wrong."""
        node = self.b.statement(self.wrong.site)
        held = self.b.held(self.b.frame(self.wrong))
        masks = any(np.asarray(held[name]).dtype.kind == "b" for name in names_in(node) if name in held)
        return masks or any(isinstance(part, ast.Compare) for part in (ast.walk(node) if node else ()))

    @cached_property
    def calls(self) -> set[str]:
        """The names that B's statement calls."""
        node = self.b.statement(self.wrong.site)
        return {callee(part) for part in (ast.walk(node) if node else ()) if isinstance(part, ast.expr)} - {""}

    def gives(self, expression: ast.expr) -> bool:
        """Whether an expression, on B's own values, is what B has."""
        return bool(self.samples) and all(
            (made := self.made(expression, held, value)) is not None and self.alike(made, value)
            for held, value in self.samples
        )

    def made(self, expression: ast.expr, held: Mapping[str, Any], value: NDArray[Any]) -> NDArray[Any] | None:
        """The value of an expression on B's own values, in the shape of B's value; None if the shapes do not fit."""
        made = evaluate(expression, held)
        try:
            return None if made is None else np.broadcast_to(np.asarray(made), np.shape(value))
        except ValueError:
            return None

    def defined_by(self, name: str) -> ast.expr | None:
        """The expression that A last set this variable to, before the event; None if there is none."""
        if self.right is None:
            return None
        event = self.a.frame(self.right).get(name)
        return None if event is None else value_of(self.a.statement(self.a.events[event].site))


def replaced(expression: ast.expr, place: int, new: ast.expr) -> ast.expr:
    """A copy of an expression with the part that `ast.walk` reaches at `place` exchanged."""
    if place == 0:
        return new
    made = copy.deepcopy(expression)
    old = list(ast.walk(made))[place]

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    exchanged = Exchange().visit(made)
    assert isinstance(exchanged, ast.expr)
    return exchanged


def _converted(call: ast.expr) -> ast.expr:
    """What `x.to(…)`, `tl.trans(x)` or `x.trans()` converts."""
    assert isinstance(call, ast.Call)
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") != "tl":
        return call.func.value
    return call.args[0]
