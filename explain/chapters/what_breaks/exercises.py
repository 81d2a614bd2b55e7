"""Questions about an exhibit: the correct kernel (left) beside the broken one (right)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.chapters.what_breaks.divergence import Divergence
from explain.chapters.what_breaks.exhibits import WORDS
from explain.exercises import Question, Runs, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, number
from explain.trace.model import Trace, numbers

BROKEN = 1
Run = tuple[Experiment, Trace]


@dataclass(frozen=True)
class Shown:
    """Both runs, and where they differ."""

    runs: Runs
    found: Sequence[Divergence]


def _why_first(shown: Shown) -> Why:
    one = shown.found[0]
    where = f" at {one.place}" if one.place else ""
    return Why(
        f"At step {one.step}, line {one.line}, `{one.variable}`{where} is {number(one.right, 4)} in the correct kernel "
        f"and {number(one.broken, 4)} in the broken one.",
        one.step,
        BROKEN,
    )


def _why_elements(shown: Shown) -> Why:
    one, last = shown.found[0], shown.found[-1]
    return Why(
        f"Elements of `{one.variable}` that differ at step {one.step}: {count(one.elements)}. The last variable to "
        f"differ is `{last.variable}`, at step {last.step}, in {count(last.elements)}.",
        one.step,
        BROKEN,
    )


def _exhibit(shown: Shown) -> str:
    return shown.runs[BROKEN][0].kernel.partition("~")[2]


def _needs(shown: Shown) -> str:
    return WORDS[_exhibit(shown)].needs


def _why_needs(shown: Shown) -> Why:
    said = WORDS[_exhibit(shown)].story
    if not shown.found:
        return Why(f"On this input the two runs are equal, in all {shown.runs[BROKEN][1].steps} steps. {said}")
    return Why(f"{_why_first(shown).words} {said}", shown.found[0].step, BROKEN)


def _possible(shown: Shown) -> Sequence[str]:
    """What four exhibits need: this one and the next three."""
    names = list(WORDS)
    at = names.index(_exhibit(shown))
    return sorted(WORDS[names[(at + more) % len(names)]].needs for more in range(4))


def _stored(run: Run) -> Mapping[int, NDArray[np.float64]]:
    """What an attention kernel stores of O, by row."""
    experiment, trace = run
    roles = experiment.entry.roles
    rows: dict[int, NDArray[np.float64]] = {}
    for step, value in trace.history(roles["output"]):
        of = numbers(trace.state(step)[roles["rows"]])
        rows |= {int(row): own for row, own in zip(of, numbers(value).astype(np.float64), strict=True)}
    return rows


def _wrong_rows(shown: Shown) -> list[int]:
    """The rows of O that differ."""
    right, broken = map(_stored, shown.runs)
    return [row for row, own in right.items() if not np.array_equal(own, broken[row], equal_nan=True)]


def _why_rows(shown: Shown) -> Why:
    wrong, every = _wrong_rows(shown), len(_stored(shown.runs[BROKEN]))
    named = f": from row {min(wrong)} to row {max(wrong)}" if wrong else ""
    hidden = shown.runs[BROKEN][0].values["causal"] and wrong and min(wrong)
    why = f" The mask is causal: rows 0–{hidden - 1} see only keys 0–{hidden - 1}." if hidden else ""
    return Why(f"{len(wrong)} of {every} rows{named}.{why}")


QUESTIONS = (
    Question[Shown](
        "needs",
        "What does an input need to show this bug?",
        "choice",
        _needs,
        _why_needs,
        _possible,
        hint="Where is the changed value used? Think of scores for which that use goes wrong.",
    ),
    Question[Shown](
        "elements",
        "At the first difference one variable has other values than in the correct run. How many of its elements "
        "differ?",
        "number",
        lambda shown: shown.found[0].elements,
        _why_elements,
        asked=lambda shown: bool(shown.found),
        hint="Go to the first difference. Count its marked elements.",
    ),
    Question[Shown](
        "rows",
        "In how many rows of O do the two runs differ?",
        "number",
        lambda shown: len(_wrong_rows(shown)),
        _why_rows,
        asked=lambda shown: shown.runs[BROKEN][0].entry.family == "attention",
        hint="Choose each tile of queries in turn, and go to the beat that stores O: rows that differ are marked.",
    ),
)
