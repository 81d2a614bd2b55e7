"""The likely cause of a difference: edits of the right statement, each run again on run B's recorded values.

A hypothesis counts if it gives exactly what B has, at every step that ran the statement (up to `TRIED`). None looks at
which bug it might be. Where none fits, the cause is unknown.

Where run A is the solution of a puzzle, its code is secret: a cause then names variables in place of an expression.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.evaluate import callee, evaluate
from explain.difference.replay import Event, Replay, Site, names_in, value_of
from explain.figures.numbers import number

TRIED = 12
LOG2_E = 1.4426950408889634
_SWAPPED = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}
_ORDERS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


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
        listed = " and ".join(filter(None, [", ".join(variables[:-1]), *variables[-1:]]))
        return f"a {noun or 'term'} {joined} {listed}" if variables else f"a {noun or 'call'} of `{callee(inner)}`"

    def named(self, node: ast.expr) -> bool:
        """Whether a part of A's code can be said: where A is secret, only if B has its variables too."""
        return not self.secret or set(names_in(node)) - {"tl", "float"} <= self.names.keys()

    def own(self, node: ast.expr) -> str:
        """An expression of A in B's names."""
        made = copy.deepcopy(node)
        for part in ast.walk(made):
            if isinstance(part, ast.Name):
                part.id = self.names.get(part.id, part.id)
        return ast.unparse(made)

    @cached_property
    def expression(self) -> ast.expr | None:
        """What A's statement assigns; a variable that B does not have is written out."""
        made = None if self.right is None else value_of(self.a.statement(self.right.site))
        return None if made is None or self.right is None else self._written_out(made, self.right)

    def _written_out(self, expression: ast.expr, at: Event) -> ast.expr:
        """An expression of A, with what assignments of the same round set that B does not have."""
        made, frame = copy.deepcopy(expression), self.a.frame(at)
        for place, part in reversed([*enumerate(ast.walk(made))]):
            event = self.a.events[frame[part.id]] if isinstance(part, ast.Name) and part.id in frame else None
            if event is None or event.site in self.paired.values() or event.kind == "load" or event.rounds != at.rounds:
                continue
            inner = value_of(self.a.statement(event.site))
            if inner is not None:
                made = _replaced(made, place, self._written_out(inner, event))
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
            found.append(({**self.a.constants, **held, **mine}, event.value))
        return found  # type: ignore[return-value]

    def _set_by_pairs(self, event: Event) -> dict[str, NDArray[Any]]:
        """A's variables before B's event, as the last paired assignments of B set them."""
        before = map(self.b.events.__getitem__, self.b.by_program[event.launch, event.program])
        pairs = ((self.paired[one.site][2], one.value) for one in before
                 if one.step < event.step and one.site in self.paired and one.value is not None)  # fmt: skip
        return {name: value for name, value in pairs if name}

    @cached_property
    def compares(self) -> bool:
        """Whether B's statement has a comparison, or reads a mask: else it cannot be one that is slightly wrong."""
        node = self.b.statement(self.wrong.site)
        held = self.b.held(self.b.frame(self.wrong))
        masks = any(np.asarray(held[name]).dtype.kind == "b" for name in names_in(node) if name in held)
        return masks or any(isinstance(part, ast.Compare) for part in (ast.walk(node) if node else ()))

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
        event = self.a.frame(self.right).get(name)
        return None if event is None else value_of(self.a.statement(self.a.events[event].site))


def cause_of(evidence: Evidence, order: tuple[str, str] | None) -> tuple[str, str] | None:
    """The likely cause, and the evidence for it, in words; None if the cause is unknown.

    `order` is the cause that what the statement reads is set too early, too late or never, if it may be that.
    """
    seen = _by_values(evidence)
    if seen and seen[2]:
        return seen[:2]
    found = _by_edits(evidence)
    if found is None and order is None and seen is None:
        found = _by_edits(replace(evidence, as_paired=True))
    if found is not None:
        return found
    return order or (seen[:2] if seen else None)


def _by_edits(evidence: Evidence) -> tuple[str, str] | None:
    """The first edit of A's statement that gives B's values, unless the statement itself does."""
    expression = evidence.expression
    if expression is None or evidence.gives(expression):
        return None
    for edited, words in _edits(expression, evidence):
        if evidence.gives(edited):
            line = evidence.right.site[1] if evidence.right else 0
            return words, f"with `{ast.unparse(edited)}`, A's line {line} gives exactly B's value"
    return None


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
    if np.isnan(b).all() and not np.isnan(a).any() and (pair := _undefined(evidence)):
        return f"{pair[0]} is NaN", f"`{pair[1]}` is {pair[0]} there", True
    if np.isnan(a).all() and np.isfinite(b).all():
        return "a NaN is lost: a number takes its place", "A has NaN there and B a number", True
    if np.isinf(b).any() and np.isfinite(a[np.isinf(b)]).all() and np.abs(a).max() > np.finfo(np.float16).max:
        return "overflow of a dtype", f"A has {number(a[np.isinf(b)][0], 4)} there and B infinity", True
    if (a == -np.inf).all() and (b == b[0]).all() and np.isfinite(b[0]):
        said, why = number(b[0], 6), f"every element that differs is −∞ in A and {number(b[0], 6)} in B"
        return (f"{said} stands for −∞", why, True) if b[0] < -100 else (f"{said} where −∞ belongs", why, False)
    with np.errstate(all="ignore"):
        if a.size > 1 and (right.astype(np.float16) == wrong).all():
            return "rounded to 16 bits", "B has exactly A's values rounded to float16", True
        ratio = b / a
    for factor, words in (
        (LOG2_E, "a factor log2 e = 1.4427 too many"),
        (1 / LOG2_E, "a factor log2 e = 1.4427 is missing"),
    ):
        if np.allclose(ratio, factor, rtol=1e-4):
            return f"base 2 against base e: {words}", f"B has A's values × {factor:.5g}", True
    if a.size > 1 and np.isfinite(ratio).all() and np.ptp(ratio) < 1e-4 * abs(ratio[0]):
        return f"a factor {number(ratio[0], 6)} too many", f"B has A's values × {number(ratio[0], 6)}", False
    return None


def _undefined(evidence: Evidence) -> tuple[str, str] | None:
    """−∞ − −∞ or 0 / 0, and the part of B's statement that computes it; None if no part does."""
    node = value_of(evidence.b.statement(evidence.wrong.site))
    held = evidence.b.held(evidence.b.frame(evidence.wrong))
    kinds = ((ast.Sub, "−∞ − −∞", -np.inf), (ast.Div, "0 / 0", 0.0))
    for part in ast.walk(node) if node is not None else ():
        for op, words, value in kinds:
            if isinstance(part, ast.BinOp) and isinstance(part.op, op):
                sides = [evaluate(side, held) for side in (part.left, part.right)]
                if all(side is not None and np.any(np.equal(side, value)) for side in sides):
                    return words, ast.unparse(part)
    return None


# --- edits of the right statement ---


def _edits(expression: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    """The right expression with one part changed, and the cause that this would be; telling ones first."""
    parts = [*enumerate(ast.walk(expression))][::-1]  # the smallest change first
    for edits in (_of_form, _other_variables, _constants):
        for place, part in parts:
            for new, words in edits(part, evidence) if isinstance(part, ast.expr) else ():
                yield _replaced(expression, place, new), words


def _replaced(expression: ast.expr, place: int, new: ast.expr) -> ast.expr:
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


def _of_form(part: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    said, own = evidence.said, evidence.own
    match part:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, _lost_factor(lost, evidence)
                yield ast.BinOp(part, ast.Mult(), lost), f"{said(lost, 'factor')} is there twice"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield (
                    kept,
                    f"the {said(lost)} so far is not added"
                    if _is_target(lost, evidence)
                    else f"{said(lost)} is not added",
                )
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield left, f"{said(right)} is not subtracted"
            yield ast.BinOp(part, ast.Sub(), right), f"{said(right)} is subtracted twice"
            turned = ast.BinOp(right, ast.Sub(), left)
            yield turned, f"`{own(turned)}` is upside down: its sign is wrong"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            yield left, f"not divided by {said(right)}"
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, f"the mask lacks {said(lost, 'condition', 'on')}"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if evidence.compares:
            for edited in _moved(left, op, right):
                made = evaluate(left, evidence.samples[0][0]) if evidence.samples else None
                floats = made is not None and np.asarray(made).dtype.kind == "f"
                what = "equal numbers go the wrong way in" if floats else "mask off by one: at the edge of"
                yield edited, f"{what} `{own(edited)}`"
    if isinstance(part, ast.Call):
        if _is_rescale(part, evidence):
            place = "" if evidence.secret else f": 1 in place of {said(part)}"
            yield ast.Constant(1.0), f"not rescaled: the factor α = exp(old m − new m) is missing{place}"
        yield from _of_call(part, evidence)


def _moved(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[ast.expr]:
    """A comparison with its edge moved by one element."""
    if type(op) in _ORDERS:
        yield ast.Compare(left, [_ORDERS[type(op)]()], [right])
    for sign in (ast.Add(), ast.Sub()):
        yield ast.Compare(left, [op], [ast.BinOp(right, sign, ast.Constant(1))])


def _of_call(part: ast.Call, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    name, said, arguments = callee(part), evidence.said, part.args
    if name in _SWAPPED and isinstance(part.func, ast.Attribute):
        swapped = ast.Attribute(part.func.value, _SWAPPED[name], ast.Load())
        yield ast.Call(swapped, arguments, []), f"base 2 against base e: {_SWAPPED[name]} in place of {name}"
    if name in ("maximum", "minimum") and len(arguments) == 2:
        for kept, lost in (arguments, arguments[::-1]):
            what = "the maximum so far is not kept" if name == "maximum" else "a bound is missing"
            what = "the maximum of this tile is missing" if callee(lost) == "max" else what
            yield kept, f"{what}: {said(lost)} is left out" if evidence.named(lost) else what
    if name == "where" and len(arguments) == 3:
        for kept in arguments[1:]:
            yield kept, f"{said(arguments[0], 'case', 'that depends on')} is missing: always {said(kept)}"
    if name == "trans":
        yield arguments[0], f"{said(arguments[0])} is not transposed"
    if name == "gather":
        yield arguments[0], f"{said(arguments[0])} is read at its own places, not at {said(arguments[1])}"
    for place, word in enumerate(part.keywords):
        if word.arg == "axis" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, int):
            other, rest = ast.keyword("axis", ast.Constant(1 - word.value.value)), part.keywords[:place]
            rest = [*rest, *part.keywords[place + 1 :]]
            yield ast.Call(part.func, arguments, [*rest, other]), f"{name} over the wrong axis"
            yield ast.Call(part.func, arguments, rest), f"{name} over all axes, not over one"


def _lost_factor(lost: ast.expr, evidence: Evidence) -> str:
    inner = lost.value if isinstance(lost, ast.Subscript) else lost
    made = evidence.defined_by(inner.id) if isinstance(inner, ast.Name) else inner
    if made is not None and _is_rescale(made, evidence):
        symbol = _GREEK.get(inner.id, "α") if isinstance(inner, ast.Name) else "α"
        return f"not rescaled: the factor {symbol}, {evidence.said(lost)}, is missing"
    return f"{evidence.said(lost, 'factor')} is missing"


_GREEK = {"beta": "β"}


def _is_target(node: ast.expr, evidence: Evidence) -> bool:
    """Whether an expression of A is the variable that its statement sets: what it held before."""
    return isinstance(node, ast.Name) and evidence.right is not None and node.id == evidence.right.name


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
    if isinstance(part, ast.Constant) or callee(part) == "float":  # −∞ is one thing, not minus float("inf")
        return
    condition = isinstance(part, ast.Compare) or (
        isinstance(part, ast.Subscript) and isinstance(part.value, ast.Compare)
    )
    for value in (0.0, 1.0):
        stands = f"always {'true' if value else 'false'}" if condition else f"{value:g}"
        yield ast.Constant(value), f"{stands} in place of {evidence.said(part, *_NOUN if condition else ())}"


_NOUN = ("condition", "on")


def _other_variables(part: ast.expr, evidence: Evidence) -> Iterator[tuple[ast.expr, str]]:
    if not isinstance(part, ast.Name) or not evidence.samples:
        return
    held = evidence.samples[0][0]
    mine = held.get(part.id)
    statement = evidence.b.statement(evidence.wrong.site)
    used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} if statement else held.keys()
    for name, value in held.items():
        its = evidence.names.get(name, name)
        if its not in used:
            continue  # equal by chance: B's statement does not have it
        if mine is not None and name != part.id and np.shape(value) == np.shape(mine):
            stale = its == evidence.wrong.name
            words = f"stale: `{its}` still has its old value" if stale else f"`{its}` in place of {evidence.said(part)}"
            yield ast.Name(name, ast.Load()), words


def _converted(call: ast.expr) -> ast.expr:
    """What `x.to(…)`, `tl.trans(x)` or `x.trans()` converts."""
    assert isinstance(call, ast.Call)
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") != "tl":
        return call.func.value
    return call.args[0]
