"""The likely cause of a difference: edits of the right statement, each run again on run B's recorded values.

A hypothesis counts if it gives exactly what B has, at every step that ran the statement (up to `TRIED`). None looks at
which bug it might be. Where none fits, the cause is unknown.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.evaluate import callee, evaluate
from explain.difference.replay import Event, Replay, value_of

TRIED = 12
LOG2_E = 1.4426950408889634
_SWAPPED = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}
_ORDERS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_REVERSED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
}  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """Run A's event and run B's, which differs; `names` are B's names of A's variables, `alike` compares values."""

    a: Replay
    b: Replay
    right: Event | None
    wrong: Event
    names: Mapping[str, str]
    alike: Callable[[NDArray[Any], NDArray[Any]], bool]

    @cached_property
    def expression(self) -> ast.expr | None:
        """What A's statement assigns."""
        return None if self.right is None else value_of(self.a.statement(self.right.site))

    @cached_property
    def samples(self) -> list[tuple[dict[str, Any], NDArray[Any]]]:
        """B's variables, by A's names, before each run of the statement, and what it then had."""
        events = [self.wrong, *(one for one in self.b.sites[self.wrong.site] if one is not self.wrong)]
        found = []
        for event in [one for one in events if one.value is not None][:TRIED]:
            held = self.b.held(self.b.frame(event))
            mine = {name: held[its] for name, its in self.names.items() if its in held}
            found.append(({**held, **mine}, event.value))
        return found  # type: ignore[return-value]

    def gives(self, expression: ast.expr) -> bool:
        """Whether an expression, on B's own values, is what B has."""
        for held, value in self.samples:
            made = evaluate(expression, held)
            if made is None:
                return False
            try:
                made = np.broadcast_to(np.asarray(made), np.shape(value))
            except ValueError:
                return False
            if not self.alike(made, value):
                return False
        return bool(self.samples)

    def defined_by(self, name: str) -> ast.expr | None:
        """The expression that A last set this variable to, before the event; None if there is none."""
        if self.right is None:
            return None
        number = self.a.frame(self.right).get(name)
        return None if number is None else value_of(self.a.statement(self.a.events[number].site))


def cause_of(evidence: Evidence) -> tuple[str, str]:
    """The likely cause, and the evidence for it, in words. Both are empty if the cause is unknown."""
    seen = _by_values(evidence)
    if seen and seen[2]:
        return seen[:2]
    expression = evidence.expression
    if expression is not None and not evidence.gives(expression):
        for edited, words in _edits(expression, evidence):
            if evidence.gives(edited):
                line = evidence.right.site[1] if evidence.right else 0
                shown = f"with `{ast.unparse(edited)}`, A's line {line} gives exactly B's value"
                return words, shown
    return seen[:2] if seen else ("", "")


# --- what the values say ---


def _by_values(evidence: Evidence) -> tuple[str, str, bool] | None:
    """A cause that the two values show by themselves, what shows it, and whether nothing can say more."""
    if evidence.right is None or evidence.right.value is None or evidence.wrong.value is None:
        return None
    right, wrong = evidence.right.value, evidence.wrong.value
    if right.shape != wrong.shape or right.dtype.kind != "f" or wrong.dtype.kind != "f":
        return None
    right, wrong = right.astype(np.float64), wrong.astype(np.float64)
    differs = ~((right == wrong) | (np.isnan(right) & np.isnan(wrong)))
    a, b = right[differs], wrong[differs]
    if not a.size:
        return None
    if np.isnan(b).all() and not np.isnan(a).any() and (pair := _infinities(evidence)):
        return "−∞ − −∞ is NaN", f"`{pair}` is −∞ − −∞ there", True
    if np.isnan(a).all() and np.isfinite(b).all():
        return "a NaN is lost", "A has NaN there and B a number", True
    if np.isinf(b).any() and np.isfinite(a[np.isinf(b)]).all() and np.abs(a).max() > np.finfo(np.float16).max:
        return "overflow of a dtype", f"A has {a[np.isinf(b)][0]:.4g} there and B infinity", True
    if (a == -np.inf).all() and (b == b[0]).all() and np.isfinite(b[0]):
        if b[0] < -100:
            return f"{b[0]:.6g} stands for −∞", f"every element that differs is −∞ in A and {b[0]:.6g} in B", True
        return f"{b[0]:.6g} where −∞ belongs", f"every element that differs is −∞ in A and {b[0]:.6g} in B", False
    with np.errstate(all="ignore"):
        if a.size > 1 and (right.astype(np.float16) == wrong).all():
            return "rounded to 16 bits", "B has exactly A's values rounded to float16", True
        ratio = b / a
    for factor, words in ((LOG2_E, "log2 e is folded in once more"), (1 / LOG2_E, "log2 e is missing")):
        if np.allclose(ratio, factor, rtol=1e-4):
            return f"base 2 against base e: {words}", f"B has A's values × {factor:.5g}", True
    if a.size > 1 and np.isfinite(ratio).all() and np.ptp(ratio) < 1e-4 * abs(ratio[0]):
        return f"a factor {ratio[0]:.6g} too many", f"B has A's values × {ratio[0]:.6g}", False
    return None


def _infinities(evidence: Evidence) -> str:
    """Says where B's statement subtracts two infinities; "" if it does not."""
    node = value_of(evidence.b.statement(evidence.wrong.site))
    held = evidence.b.held(evidence.b.frame(evidence.wrong))
    for part in ast.walk(node) if node is not None else ():
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub):
            sides = [evaluate(side, held) for side in (part.left, part.right)]
            if all(side is not None and np.isneginf(side).any() for side in sides):
                return ast.unparse(part)
    return ""


# --- edits of the right statement ---


def _edits(expression: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    """The right expression with one part changed, and the cause that this would be; telling ones first."""
    parts = [*enumerate(ast.walk(expression))][::-1]  # the smallest change first
    for edits in (_of_form, _other_variables, _constants):
        for number, part in parts:
            for new, words in edits(part, evidence) if isinstance(part, ast.expr) else ():
                yield _replaced(expression, number, new), words


def _replaced(expression: ast.expr, number: int, new: ast.expr) -> ast.expr:
    """A copy of an expression with the part that `ast.walk` reaches at `number` exchanged."""
    if number == 0:
        return new
    made = copy.deepcopy(expression)
    old = list(ast.walk(made))[number]

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    exchanged = Exchange().visit(made)
    assert isinstance(exchanged, ast.expr)
    return exchanged


def _of_form(part: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    text = ast.unparse
    match part:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, _lost_factor(lost, evidence)
                yield ast.BinOp(part, ast.Mult(), lost), f"the factor `{text(lost)}` is there twice"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, f"`{text(lost)}` is not added"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield left, f"`{text(right)}` is not subtracted"
            yield ast.BinOp(part, ast.Sub(), right), f"`{text(right)}` is subtracted twice"
            yield ast.BinOp(right, ast.Sub(), left), f"`{text(part)}` is upside down: its sign is wrong"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            yield left, f"not divided by `{text(right)}`"
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, f"the mask lacks a condition: `{text(lost)}`"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if type(op) in _ORDERS:
                yield (
                    ast.Compare(left, [_ORDERS[type(op)]()], [right]),
                    f"mask off by one: at the edge of `{text(part)}`",
                )
            for step in (1, -1):
                moved = ast.BinOp(right, ast.Add() if step > 0 else ast.Sub(), ast.Constant(1))
                yield ast.Compare(left, [op], [moved]), f"mask off by one: {step:+d} at the edge of `{text(part)}`"
    if isinstance(part, ast.Call):
        if _is_rescale(part, evidence):
            yield ast.Constant(1.0), f"α is missing: 1 in place of `{text(part)}`"
        yield from _of_call(part)


def _of_call(part: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    name, text, arguments = callee(part), ast.unparse, part.args
    if name in _SWAPPED and isinstance(part.func, ast.Attribute):
        swapped = ast.Attribute(part.func.value, _SWAPPED[name], ast.Load())
        yield ast.Call(swapped, arguments, []), f"base 2 against base e: {_SWAPPED[name]} in place of {name}"
    if name in ("maximum", "minimum") and len(arguments) == 2:
        for kept, lost in (arguments, arguments[::-1]):
            what = "the maximum so far is not kept" if name == "maximum" else "a bound is missing"
            yield kept, f"{what}: `{text(lost)}` is left out"
    if name == "where" and len(arguments) == 3:
        for kept in arguments[1:]:
            yield kept, f"`{text(arguments[0])}` is not asked: always `{text(kept)}`"
    if name == "gather":
        yield arguments[0], f"`{text(arguments[0])}` is read at its own places, not at `{text(arguments[1])}`"
    for number, word in enumerate(part.keywords):
        if word.arg == "axis" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, int):
            other = ast.keyword("axis", ast.Constant(1 - word.value.value))
            words = [*part.keywords[:number], other, *part.keywords[number + 1 :]]
            yield ast.Call(part.func, arguments, words), f"{name} over the wrong axis"


def _lost_factor(lost: ast.expr, evidence: Evidence) -> str:
    inner = lost.value if isinstance(lost, ast.Subscript) else lost
    made = evidence.defined_by(inner.id) if isinstance(inner, ast.Name) else inner
    if made is not None and _is_rescale(made, evidence):
        return f"not rescaled: the factor α, `{ast.unparse(lost)}`, is missing"
    return f"the factor `{ast.unparse(lost)}` is missing"


def _is_rescale(made: ast.expr, evidence: Evidence) -> bool:
    """Whether an expression is exp(old − new) of two maxima, as α is: both have the same shape."""
    match made:
        case ast.Call(args=[ast.BinOp(left=old, op=ast.Sub(), right=new), *_]) if callee(made) in ("exp", "exp2"):
            held = evidence.samples[0][0] if evidence.samples else {}
            values = [evaluate(side, held) for side in (old, new)]
            shapes = [np.shape(one) for one in values if one is not None]
            return len(shapes) == 2 and shapes[0] == shapes[1]
    return False


def _constants(part: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    for number in () if isinstance(part, ast.Constant) else (0.0, 1.0):
        yield ast.Constant(number), f"{number:g} in place of `{ast.unparse(part)}`"


def _other_variables(part: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    if not isinstance(part, ast.Name) or not evidence.samples:
        return
    held = evidence.samples[0][0]
    mine = held.get(part.id)
    for name, value in held.items():
        if mine is not None and name != part.id and np.shape(value) == np.shape(mine):
            stale = name == evidence.wrong.name
            words = (
                f"stale: `{name}` has the value of an earlier tile" if stale else f"`{name}` in place of `{part.id}`"
            )
            yield ast.Name(name, ast.Load()), words
