"""Questions of the chapter on exactness: the errors of two attention kernels and of other orders, against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from explain.chapters.exactness import orders
from explain.chapters.exactness.roundings import roundings
from explain.exercises import Question, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, fixed, ratio, scientific
from explain.output import Output
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES


@dataclass(frozen=True)
class Shown:
    """The attention that the page compares, and `output(way)`: its result beside float64. It raises WorkerError."""

    experiment: Experiment
    output: Callable[[orders.Way], Output]


def _of(shown: Shown, experiment: Experiment) -> Output:
    return shown.output(orders.Way("", experiment))


def _medians(shown: Shown) -> dict[str, float]:
    pairs = {dtype: flash for dtype, flash, _ in orders.by_dtype(shown.experiment)}
    return {dtype: _of(shown, pairs[dtype]).quantile(0.5) for dtype in ITEM_BYTES}


def _why_factor(shown: Shown) -> Why:
    medians = _medians(shown)
    factor = medians["bf16"] / medians["fp16"]
    return Why(f"Median errors of FlashAttention-2: fp16 {scientific(medians['fp16'])}, bf16 "
               f"{scientific(medians['bf16'])}. The quotient is {fixed(factor, 2)}: bf16 has 8 bits of precision, "
               "fp16 has 11, and 2³ = 8.")  # fmt: skip


def _quotients(shown: Shown) -> dict[str, float]:
    """Standard attention's largest error ÷ FlashAttention-2's, by dtype."""
    return {
        dtype: _of(shown, standard).largest() / (_of(shown, flash).largest() or math.nan)
        for dtype, flash, standard in orders.by_dtype(shown.experiment)
    }


def _why_closest(shown: Shown) -> Why:
    each = ", ".join(f"{dtype} {ratio(one)}" for dtype, one in _quotients(shown).items())
    return Why(f"Largest error of standard attention ÷ that of FlashAttention-2: {each}. In 16 bits standard attention "
               "also rounds S.")  # fmt: skip


def _changed(shown: Shown) -> dict[str, int]:
    """How many elements of O each other way changes, by its name."""
    first, *others = orders.ways(shown.experiment)
    own = shown.output(first)
    return {way.name: shown.output(way).changed_from(own) for way in others}


def _why_fewest(shown: Shown) -> Why:
    each = ", ".join(f"{name} {count(changed)}" for name, changed in _changed(shown).items())
    return Why(
        f"Elements that change: {each}."
        + (
            " exp2 has the same m at every key, so P̃ rounds to the same 16 bits almost everywhere."
            if ITEM_BYTES[shown.experiment.values["dtype"]] == 2
            else " In float32 P̃ is not rounded to 16 bits, so every way changes many."
        )
    )


def _rounded(shown: Shown) -> dict[str, list[str]]:
    """What FlashAttention and standard attention round to 16 bits, by symbol; P̃ is P before its division."""
    _, *pair = next(iter(orders.by_dtype(shown.experiment)))
    return {KERNELS[one.kernel].short: [it.symbol.replace("P̃", "P") for it in roundings(one.kernel)] for one in pair}


def _only_standard(shown: Shown) -> str:
    flash, standard = _rounded(shown).values()
    (only,) = set(standard) - set(flash)
    return only


def _why_only(shown: Shown) -> Why:
    each = (f"{name}: {len(symbols)} roundings, {' and '.join(symbols)}." for name, symbols in _rounded(shown).items())
    return Why(f"{' '.join(each)} FlashAttention keeps S on chip in 32 bits, so its median error is the smaller one.")


QUESTIONS = (
    Question[Shown](
        "cause",
        "In 16 bits FlashAttention has the smaller median error. Which number does only standard attention round? "
        "P and P̃ count as one.",
        "choice",
        _only_standard,
        _why_only,
        ("O", "P", "Q", "S"),
        hint="FlashAttention rounds P̃ too, for the second matmul. Which number does it keep in 32 bits?",
    ),
    Question[Shown](
        "factor",
        "By what factor is the median error of FlashAttention-2 larger in bf16 than in fp16?",
        "number",
        lambda shown: _medians(shown)["bf16"] / _medians(shown)["fp16"],
        _why_factor,
        unit="×",
        tolerance=0.05,
        hint="Divide the two median errors: bf16 ÷ fp16.",
    ),
    Question[Shown](
        "closest",
        "In which dtype are the largest errors of both kernels closest to each other?",
        "choice",
        lambda shown: min(_quotients(shown), key=lambda dtype: abs(math.log(_quotients(shown)[dtype]))),
        _why_closest,
        tuple(ITEM_BYTES),
        hint="Divide the larger of the two errors by the smaller, in each dtype.",
    ),
    Question[Shown](
        "bits",
        "Which way changes the fewest elements of O?",
        "choice",
        lambda shown: min(_changed(shown), key=_changed(shown).__getitem__),
        _why_fewest,
        lambda shown: [way.name for way in list(orders.ways(shown.experiment))[1:]],
        hint="Compare the maps. Think of what rounds P̃ differently.",
    ),
)
