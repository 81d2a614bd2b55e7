"""Questions about one run's bytes, from the formula down to HBM."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from explain.chapters.three_numbers.levels import Level
from explain.chapters.three_numbers.shown import Shown as Counted
from explain.exercises import Question, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, number, percent, ratio
from kernels.traffic import Term


@dataclass(frozen=True)
class Shown:
    """The run, and what was counted of it."""

    experiment: Experiment
    counted: Counted


def _terms(shown: Shown) -> dict[int, list[Term]]:
    """The formula's terms by their bytes."""
    found: dict[int, list[Term]] = {}
    for term in shown.counted.traffic.terms:
        found.setdefault(term.bytes, []).append(term)
    return found


def _named(terms: list[Term]) -> str:
    """Terms of equal bytes as one answer: "read k, read v"."""
    return ", ".join(dict.fromkeys(f"{'write' if term.written else 'read'} {term.buffer}" for term in terms))


def _largest(shown: Shown) -> list[Term]:
    found = _terms(shown)
    return found[max(found)]


def _why_largest(shown: Shown) -> Why:
    terms, traffic = _largest(shown), shown.counted.traffic
    term, every = terms[0], traffic.read_bytes + traffic.written_bytes
    named = f"*{_named(terms)}*{', each' * (len(terms) > 1)}"
    return Why(f"{named}: {count(term.elements)} elements × {count(term.times)} × {term.item_bytes} B = "
               f"{count(term.bytes)} bytes, {percent(term.bytes / every)} of {count(every)}.")  # fmt: skip


def _reads(shown: Shown) -> list[tuple[Level, int]]:
    return [(level, level.read) for level in shown.counted.levels if level.read]


def _steps(shown: Shown) -> dict[str, float]:
    """Read bytes of a level ÷ those of the next, by the names of both."""
    known = _reads(shown)
    return {f"{above.name} → {below.name}": more / less for (above, more), (below, less) in pairwise(known)}


def _why_steps(shown: Shown) -> Why:
    each = ", ".join(f"{level.name} {count(read)}" for level, read in _reads(shown))
    factors = ", ".join(f"{name} {ratio(factor)}" for name, factor in _steps(shown).items())
    return Why(f"Bytes read: {each}. Factors: {factors}.")


def _why_ratio(shown: Shown) -> Why:
    formula, dram = shown.counted.levels.formula.read, shown.counted.levels.dram.read
    assert formula
    assert dram
    return Why(f"The formula has {count(formula)} bytes of loads, HBM delivers {count(dram)}: "
               f"{count(formula)} ÷ {count(dram)} = {number(formula / dram)}. The caches serve the rest.")  # fmt: skip


QUESTIONS = (
    Question[Shown](
        "largest-term",
        "By the formula, what moves the most bytes? Buffers with equal bytes share one answer.",
        "choice",
        lambda shown: _named(_largest(shown)),
        _why_largest,
        lambda shown: [_named(terms) for terms in _terms(shown).values()],
        hint="The table of the formula has a line for each buffer that is read and for each that is written.",
    ),
    Question[Shown](
        "ratio",
        "Divide the bytes that the loads request, by formula, by the bytes that HBM delivers. What is the ratio?",
        "number",
        lambda shown: (shown.counted.levels.formula.read or 0) / (shown.counted.levels.dram.read or 1),
        _why_ratio,
        unit="×",
        tolerance=0.02,
        asked=lambda shown: bool(shown.counted.levels.dram.read),
        hint="Divide the first level of reads by the last.",
    ),
    Question[Shown](
        "largest-step",
        "Between which two levels do the bytes read fall by the largest factor?",
        "choice",
        lambda shown: max(_steps(shown), key=_steps(shown).__getitem__),
        _why_steps,
        lambda shown: list(_steps(shown)),
        asked=lambda shown: len(_steps(shown)) > 1,
        hint="Divide each level's bytes read by those of the next.",
    ),
)
