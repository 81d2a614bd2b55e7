"""Questions of the chapter on softmax: the naive kernel (left) beside the safe one (right), and six logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explain.chapters.softmax import figures
from explain.chapters.triton_ladder import ladder
from explain.exercises import Question, Runs, Why, first, set_to
from explain.figures.numbers import count, number
from kernels.inputs import representable

SUMS_TO_1, ZEROS, NO_WEIGHTS = "weights that sum to 1", "only zeros", "at least one NaN"
NAIVE, SAFE = 0, 1


@dataclass(frozen=True)
class Shown:
    """The naive and the safe run of one row; `logits()` are the sliders' six logits, float64 (6,)."""

    runs: Runs
    logits: Callable[[], np.ndarray]


def _sum_stored(shown: Shown) -> float:
    experiment, trace = shown.runs[NAIVE]
    shape = (experiment.values["rows"], experiment.values["cols"])
    return float(ladder.stored(trace, "y", "y_ptr", shape)[0].sum())


def _stored(shown: Shown) -> str:
    total = _sum_stored(shown)
    return NO_WEIGHTS if np.isnan(total) else SUMS_TO_1 if total else ZEROS


def _why_stored(shown: Shown) -> Why:
    steps, total = set_to(shown.runs[NAIVE], "running_sum")[-2]  # the last one guards against 0 ÷ 0
    largest = max(float(x.max()) for _, x in set_to(shown.runs[NAIVE], "scores"))
    words = f"The row's largest x is {number(largest)}, so ℓ = Σ exp(x) = {number(float(total))} in float32."
    return Why(f"{words} The stored row sums to {number(_sum_stored(shown))}.", steps[0], NAIVE)


def _bytes_read(shown: Shown) -> list[int]:
    return [trace.traffic()["read_bytes"] for _, trace in shown.runs]


def _why_bytes(shown: Shown) -> Why:
    naive, safe = _bytes_read(shown)
    reads = [ladder.reads_of_x(*run) for run in shown.runs]
    return Why(
        f"Naive reads each x {number(reads[NAIVE])} times, {count(naive)} bytes. Safe reads it {number(reads[SAFE])} "
        f"times, {count(safe)} bytes. {count(safe)} − {count(naive)} = {count(safe - naive)}."
    )


def _row_max(shown: Shown) -> float:
    return max(float(x.max()) for _, x in set_to(shown.runs[SAFE], "scores"))


def _why_max(shown: Shown) -> Why:
    values = [float(m) for _, m in set_to(shown.runs[SAFE], "running_max")]
    path = ", ".join(number(value) for value in dict.fromkeys(values))
    return Why(f"m takes the values {path}. {number(_row_max(shown))} is the largest x of the row.")


def _naive_sum(shown: Shown, shift: float, dtype: str) -> float:
    return figures.as_written(shown.logits() + shift, dtype).total


def _largest_shift(shown: Shown) -> int:
    return max(shift for shift in figures.SHIFTS if np.isfinite(_naive_sum(shown, shift, "fp16")))


def _shifts(shown: Shown) -> list[str]:
    """A few shifts to choose from; all of them where the answer is another one, for logits far from 0."""
    few = (0, 5, 8, 10, 20)
    return [number(shift) for shift in (few if _largest_shift(shown) in few else figures.SHIFTS)]


def _why_shift(shown: Shown) -> Why:
    largest = _largest_shift(shown)
    above = [shift for shift in figures.SHIFTS if shift > largest]
    then = f" With {above[0]:+} it is {number(_naive_sum(shown, above[0], 'fp16'))}." if above else ""
    return Why(
        f"With {largest:+g}, ℓ = {number(_naive_sum(shown, largest, 'fp16'))}.{then} "
        f"The largest number in fp16 is {count(int(figures.LARGEST['fp16']))}."
    )


def _why_underflow(shown: Shown) -> Why:
    row = figures.as_written(shown.logits() - 200, "fp32")
    return Why(
        f"The largest logit is {figures.logit(float(row.x.max()))}, and exp of it is {number(float(row.p.max()))} in "
        f"float32. Naive stores {number(float(row.y[0]))} for x0: 0 ÷ 0 is NaN. Safe subtracts m first, and "
        "nothing changes."
    )


def _in_bf16(shown: Shown) -> np.ndarray:
    return np.unique(representable(shown.logits() + 2000, "bf16"))


def _why_bf16(shown: Shown) -> Why:
    left = ", ".join(number(float(x), 5) for x in _in_bf16(shown))
    return Why(
        f"In bf16 the six logits are {left}. A number near 2,000 has steps of 8 there: different logits round to the "
        "same number before softmax begins."
    )


QUESTIONS = (
    Question[Shown](
        "stored",
        "What does the naive kernel (left) store for this row?",
        "choice",
        _stored,
        _why_stored,
        (SUMS_TO_1, ZEROS, NO_WEIGHTS),
        hint="Compare exp(x) with the largest number of the format. What is ∞ ÷ ∞?",
    ),
    Question[Shown](
        "maximum",
        "Go to the step where m of the safe kernel (right) first is the maximum of the whole row.",
        "step",
        lambda shown: first(set_to(shown.runs[SAFE], "running_max"), lambda m: m == _row_max(shown)),
        _why_max,
        run=SAFE,
        hint="Find the tile that holds the row's maximum.",
    ),
    Question[Shown](
        "extra-pass",
        "How many bytes more than the naive kernel does the safe kernel read on this row?",
        "number",
        lambda shown: _bytes_read(shown)[SAFE] - _bytes_read(shown)[NAIVE],
        _why_bytes,
        unit="bytes",
        hint="Count how often each kernel reads the row.",
    ),
    Question[Shown](
        "overflow-fp16",
        "*Six logits*, format fp16: which is the largest of these that you can add before ℓ of the naive softmax is ∞?",
        "choice",
        lambda shown: number(_largest_shift(shown)),
        _why_shift,
        _shifts,
        hint="The largest fp16 number is 65,504. Find where ℓ passes it.",
    ),
    Question[Shown](
        "underflow-fp32",
        "*Six logits*, format fp32: add −200. What is ℓ of the naive softmax?",
        "number",
        lambda shown: _naive_sum(shown, -200, "fp32"),
        _why_underflow,
        hint="Compare exp(x) with the smallest number of the format.",
    ),
    Question[Shown](
        "rounded-bf16",
        "*Six logits*, format bf16: add 2,000. How many different numbers do the six logits become?",
        "number",
        lambda shown: len(_in_bf16(shown)),
        _why_bf16,
        hint="Neighbours in bf16 are 8 apart here. Round each logit.",
    ),
)
