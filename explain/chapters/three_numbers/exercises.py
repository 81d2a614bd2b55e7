"""Questions about one run's bytes, from the formula down to HBM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from explain.chapters.three_numbers.figures import FAR, terms_by_key
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


def _terms(shown: Shown) -> dict[int, list[Sequence[Term]]]:
    """The formula's terms of each buffer, read or written, by their bytes."""
    found: dict[int, list[Sequence[Term]]] = {}
    for terms in terms_by_key(shown.counted.traffic).values():
        found.setdefault(sum(term.bytes for term in terms), []).append(terms)
    return found


def _named(buffers: list[Sequence[Term]]) -> str:
    """Buffers of equal bytes as one answer: "read k, read v"."""
    return ", ".join(f"{'write' if term.written else 'read'} {term.buffer}" for term, *_ in buffers)


def _largest(shown: Shown) -> list[Sequence[Term]]:
    found = _terms(shown)
    return found[max(found)]


def _why_largest(shown: Shown) -> Why:
    buffers, traffic = _largest(shown), shown.counted.traffic
    bytes, every = sum(term.bytes for term in buffers[0]), traffic.read_bytes + traffic.written_bytes
    named = f"*{_named(buffers)}*{', each' * (len(buffers) > 1)}"
    sizes = " + ".join(f"{count(term.elements)} elements × {count(term.times)} × {term.item_bytes} B"
                       for term in buffers[0])  # fmt: skip
    return Why(f"{named}: {sizes} = {count(bytes)} bytes, {percent(bytes / every)} of {count(every)}.")


def _reads(shown: Shown) -> list[tuple[Level, int]]:
    return [(level, level.read) for level in shown.counted.levels if level.read]


def _steps(shown: Shown) -> dict[str, float]:
    """Read bytes of a level ÷ those of the next, by the names of both."""
    known = _reads(shown)
    return {f"{above.name} → {below.name}": more / less for (above, more), (below, less) in pairwise(known)}


def _has_largest_step(shown: Shown) -> bool:
    """Whether the reads fall from one level to the next, and from no other as much."""
    *others, second, largest = [1.0, 1.0, *sorted(_steps(shown).values())]
    return len(others) > 1 and largest > FAR * max(second, 1.0)


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
        asked=lambda shown: len(_terms(shown)) > 1,
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
        asked=_has_largest_step,
        hint="Divide each level's bytes read by those of the next.",
    ),
)
