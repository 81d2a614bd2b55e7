"""Questions about the climb: the benchmark's times of each kernel on one shape."""

from __future__ import annotations

from dataclasses import dataclass

from explain.chapters.speed import rungs
from explain.chapters.speed.results import Case, Limit
from explain.exercises import Question, Why
from explain.figures.numbers import percent, ratio, si


@dataclass(frozen=True)
class Shown:
    """The chosen case of the benchmark, the measured peak, and what is known of the largest speedup's causes."""

    case: Case
    peak: Limit | None
    why: str = ""


def _largest(shown: Shown) -> rungs.Step:
    step = rungs.largest(rungs.climb(shown.case))
    if step is None:
        raise ValueError("The kernels of the climb were not timed on this shape.")
    return step


def _why_largest(shown: Shown) -> Why:
    gains = ", ".join(f"{step.rung.label} {ratio(step.gain)}" for step in rungs.climb(shown.case) if step.gain)
    rung = _largest(shown).rung
    return Why(f"{rung.label}{shown.why}. {rung.idea} Speedup of each kernel over the one before: {gains}.")


def _top(shown: Shown) -> tuple[float, float]:
    step = rungs.climb(shown.case)[-1]
    if not step.per_second or not shown.peak:
        raise ValueError("The top kernel or the peak was not measured on this shape.")
    return step.per_second, shown.peak.per_second


def _why_top(shown: Shown) -> Why:
    own, peak = _top(shown)
    return Why(f"{si(own, 'FLOP/s')} ÷ {si(peak, 'FLOP/s')}, the measured matmul, = {percent(own / peak, 1)}.")


QUESTIONS = (
    Question[Shown](
        "largest-step",
        "Which kernel has the largest speedup over the one before, on this shape?",
        "choice",
        lambda shown: _largest(shown).rung.label,
        _why_largest,
        [rung.label for rung in rungs.RUNGS],
        asked=lambda shown: rungs.largest(rungs.climb(shown.case)) is not None,
        hint="Divide each bar by the one before it.",
    ),
    Question[Shown](
        "peak",
        "What percentage of the measured peak does the top kernel reach on this shape?",
        "number",
        lambda shown: 100 * _top(shown)[0] / _top(shown)[1],
        _why_top,
        unit="%",
        tolerance=0.02,
        asked=lambda shown: shown.peak is not None and rungs.climb(shown.case)[-1].per_second is not None,
        hint="Divide the last bar by the measured peak.",
    ),
)
