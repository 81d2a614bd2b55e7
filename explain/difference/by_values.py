"""Causes that the values show by themselves, whatever the code: a rule for each.

`SURE`: no edit of the code could say more. `UNDEFINED`: an edit says what made it so. `ELSE`: an edit that gives B's
values says more, if there is one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.difference.evaluate import callee, evaluate
from explain.difference.evidence import Evidence
from explain.difference.replay import names_in, value_of
from explain.figures.numbers import number

LOG2_E = 1.4426950408889634
Said = tuple[str, str]
"""A cause and what shows it, in words."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Values:
    """Both values where they first differ: whole, and the elements that differ, as `a` and `b`."""

    evidence: Evidence
    right: Floats
    wrong: Floats
    a: Floats
    b: Floats
    sort: str  # "f", or "i" for whole numbers; empty for pointers and masks

    @classmethod
    def of(cls, evidence: Evidence) -> Values | None:
        """None if they cannot be compared, element by element."""
        if evidence.right is None or evidence.right.value is None or evidence.wrong.value is None:
            return None
        right, wrong = evidence.right.value, evidence.wrong.value
        if right.shape != wrong.shape:
            return None
        sorts = {("i" if value.dtype.kind in "iu" else value.dtype.kind) for value in (right, wrong)}
        sort = sorts.pop() if len(sorts) == 1 and evidence.wrong.kind != "pointer" else ""
        right, wrong = np.atleast_1d(right.astype(np.float64)), np.atleast_1d(wrong.astype(np.float64))
        differs = ~((right == wrong) | (np.isnan(right) & np.isnan(wrong)))
        return cls(evidence, right, wrong, right[differs], wrong[differs], sort) if differs.any() else None


Rule = Callable[[Values], Said | None]


def told_by(rules: Iterable[Rule], evidence: Evidence) -> Said | None:
    """What the first rule that holds says; None if none does."""
    values = Values.of(evidence)
    return None if values is None else next(filter(None, (rule(values) for rule in rules)), None)


# --- sure ---


def _undefined(seen: Values) -> Said | None:
    """−∞ − −∞, 0 / 0 or −∞ × 0, where a part of B's statement computes it."""
    if not np.isnan(seen.b).all() or np.isnan(seen.a).any():
        return None
    evidence = seen.evidence
    node = value_of(evidence.b.statement(evidence.wrong.site))
    held = evidence.b.held(evidence.b.frame(evidence.wrong))
    for part in ast.walk(node) if node is not None else ():
        for op, words, values in _NAN:
            if isinstance(part, ast.BinOp) and isinstance(part.op, op):
                sides = [evaluate(side, held) for side in (part.left, part.right)]
                if all(side is not None and np.any(side == value) for side, value in zip(sides, values, strict=True)):
                    return f"{words} is NaN", f"`{ast.unparse(part)}` is {words} there"
    return None


_NAN: tuple[tuple[type[ast.operator], str, tuple[float, float]], ...] = (
    (ast.Sub, "−∞ − −∞", (-np.inf, -np.inf)),
    (ast.Div, "0 / 0", (0.0, 0.0)),
    (ast.Mult, "−∞ × 0", (-np.inf, 0.0)),
    (ast.Mult, "0 × −∞", (0.0, -np.inf)),
)


def _lost_nan(seen: Values) -> Said | None:
    if np.isnan(seen.a).all() and np.isfinite(seen.b).all():
        return "a NaN is lost: a number takes its place", "A has NaN there and B a number"
    return None


def _exp_overflows(seen: Values) -> Said | None:
    """exp of numbers from which nothing is subtracted, where A subtracts: ∞, or 0 for all."""
    evidence = seen.evidence
    if evidence.expression is None or not np.isfinite(seen.a).any():
        return None
    held = evidence.b.held(evidence.b.frame(evidence.wrong))
    statement = value_of(evidence.b.statement(evidence.wrong.site))
    if not any(_subtracts(part) for part in _exponentials(evidence.expression)):
        return None
    for part in _exponentials(statement) if statement is not None else ():
        made = None if _subtracts(part) else evaluate(part, held)
        if made is None or not (np.isposinf(made).any() or not np.any(made)):
            continue
        value, why = ("∞", "exp(89) is ∞") if np.isposinf(made).any() else ("0", "exp(−104) is 0")
        return f"`{ast.unparse(part)}` is {value}: subtract the row's maximum first", f"{why} in float32"
    return None


def _exponentials(node: ast.AST) -> list[ast.expr]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call) and callee(part) in ("exp", "exp2")]


def _subtracts(node: ast.AST) -> bool:
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in ast.walk(node))


def _overflow(seen: Values) -> Said | None:
    a = seen.a[np.isinf(seen.b)]
    if a.size and np.isfinite(a).all() and np.abs(seen.a).max() > np.finfo(np.float16).max:
        return "overflow of a dtype", f"A has {number(a[0], 4)} there and B infinity"
    return None


def _finite_infinity(seen: Values) -> Said | None:
    if (seen.a == -np.inf).all() and (seen.b == seen.b[0]).all() and np.isfinite(seen.b[0]) and seen.b[0] < -100:
        said = number(seen.b[0], 6)
        return f"{said} stands for −∞", f"every element that differs is −∞ in A and {said} in B"
    return None


def _rounded(seen: Values) -> Said | None:
    with np.errstate(over="ignore"):
        rounded = seen.a.size > 1 and (seen.right.astype(np.float16) == seen.wrong).all()
    return ("rounded to 16 bits", "B has exactly A's values rounded to float16") if rounded else None


def _other_base(seen: Values) -> Said | None:
    for factor, words in ((LOG2_E, "too many"), (1 / LOG2_E, "is missing")):
        if np.allclose(_ratio(seen), factor, rtol=1e-4):
            return f"base 2 against base e: a factor log2 e = 1.4427 {words}", f"B has A's values × {factor:.5g}"
    return None


# --- else ---


def _number_for_infinity(seen: Values) -> Said | None:
    if (seen.a == -np.inf).all() and (seen.b == seen.b[0]).all() and np.isfinite(seen.b[0]):
        said = number(seen.b[0], 6)
        return f"{said} in place of −∞", f"every element that differs is −∞ in A and {said} in B"
    return None


def _factor(seen: Values) -> Said | None:
    """One factor everywhere. A's statement may have a variable of this size."""
    ratio, evidence = _ratio(seen), seen.evidence
    if seen.a.size < 2 or not np.isfinite(ratio).all() or np.ptp(ratio) >= 1e-4 * abs(ratio[0]) or not ratio[0]:
        return None
    shown = f"B has A's values × {number(ratio[0], 6)}"
    assert evidence.right is not None
    held = {**evidence.a.constants, **evidence.a.held(evidence.a.frame(evidence.right))}
    for name in names_in(evidence.a.statement(evidence.right.site)):
        value = float(held[name]) if name in held and np.size(held[name]) == 1 else 0.0
        for factor, words in ((1 / value, "is missing"), (value, "is there twice")) if value not in (0.0, 1.0) else ():
            if np.isclose(ratio[0], factor, rtol=1e-4):
                said = evidence.said(ast.Name(name, ast.Load()), "factor")
                return f"{said} {words}", f"{shown}, and it is {number(value, 6)}"
    return f"a factor {number(ratio[0], 6)} too many", shown


def _sign(seen: Values) -> Said | None:
    """The sign alone differs: lost, or turned in all."""
    if seen.a.size < 2 or not np.allclose(seen.b, -seen.a, rtol=1e-6):
        return None
    if (seen.wrong[seen.wrong != 0] > 0).all():
        return "the sign is lost: absolute values", "B has A's absolute values"
    return ("the sign is wrong", "B has A's values × −1") if np.array_equal(seen.wrong, -seen.right) else None


def _offset(seen: Values) -> Said | None:
    """Whole numbers that are all too large, or too small, by as much."""
    by = seen.b - seen.a
    if (by != by[0]).any():
        return None
    name = f"`{seen.evidence.wrong.name}`" if seen.evidence.wrong.name else "the stored number"
    size = "large" if by[0] > 0 else "small"
    return f"{name} is {abs(by[0]):.0f} too {size}", f"B has A's numbers {'+' if by[0] > 0 else '−'} {abs(by[0]):.0f}"


def _special_case(seen: Values) -> Said | None:
    """Wrong where a variable is −∞, NaN or 0, and nowhere else: of B's values at all steps some are right."""
    evidence = seen.evidence
    if evidence.expression is None:
        return None
    wrong: list[NDArray[np.bool_]] = []
    cases: dict[tuple[str, str], list[NDArray[np.bool_]]] = {}
    names = [name for name in names_in(evidence.b.statement(evidence.wrong.site)) if name != "tl"]
    for held, value in evidence.samples:
        made = evidence.made(evidence.expression, held, value)
        if made is None:
            return None
        wrong.append(~np.isclose(made, value, rtol=1e-5, equal_nan=True).reshape(-1))
        for name in names:
            its = np.asarray(held.get(name, 0.0))
            same = its.shape == value.shape and its.dtype.kind == "f"
            for case, where in (("−∞", its == -np.inf), ("NaN", np.isnan(its)), ("0", its == 0)) if same else ():
                cases.setdefault((name, case), []).append(where.reshape(-1))
    every = np.concatenate(wrong)
    for (name, case), where in sorted(cases.items(), key=lambda one: one[0][1] == "0"):  # exp(−∞) = 0: −∞ says more
        if 0 < every.sum() < every.size and np.array_equal(np.concatenate(where), every):
            count = f"{every.sum():,} of {every.size:,} elements"
            return f"wrong where `{name}` is {case}, and only there", f"at {count}, the others are right"
    return None


def _ratio(seen: Values) -> Floats:
    with np.errstate(all="ignore"):
        return seen.b / seen.a


def _of(sort: str, *rules: Rule) -> tuple[Rule, ...]:
    """Rules for values of one sort."""
    return tuple(lambda seen, rule=rule: rule(seen) if seen.sort == sort else None for rule in rules)


SURE = _of("f", _lost_nan, _exp_overflows, _overflow, _finite_infinity, _rounded, _other_base)
ELSE = (*_of("f", _number_for_infinity, _factor, _sign, _special_case), *_of("i", _offset))
UNDEFINED = _of("f", _undefined)
