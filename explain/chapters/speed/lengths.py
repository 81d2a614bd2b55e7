"""From which N on FlashAttention is faster, and what a first call costs, as a GPU's record has it.

`python -m explain measure --plan times` measures it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from math import log10

from explain.chapters.sweeps.analysis import Crossing, crossing
from explain.chapters.sweeps.model import HEAD, PAIR
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.tables import Column
from explain.gpus import Gpu
from explain.kept import kept
from explain.prediction import NOT_PREDICTED, Model
from explain.records.model import Record
from kernels.parameters import Values

LENGTHS = tuple(2**bit for bit in range(7, 15))


@functools.cache
def experiments(kernel: str) -> tuple[Experiment, ...]:
    """The kernel at each of LENGTHS, all else as it is."""
    return tuple(Experiment.of(kernel, {**HEAD, "seq_len": n}, "normal") for n in LENGTHS)


@dataclass(frozen=True)
class Times:
    """Both kernels' times by N, the parameters they share, and where they were measured."""

    by_kernel: Mapping[str, Mapping[int, Timing]]
    setting: Values
    provenance: Provenance

    def gain(self, seq_len: int) -> float:
        """FlashAttention's speedup over standard attention: the ratio of the medians."""
        standard, flash = (self.by_kernel[kernel][seq_len] for kernel in PAIR)
        return standard.median_ms / flash.median_ms

    @property
    def lengths(self) -> list[int]:
        """The N at which both were measured."""
        return sorted(set.intersection(*(set(self.by_kernel[kernel]) for kernel in PAIR)))

    @property
    def medians(self) -> Mapping[str, Mapping[int, float]]:
        """Each kernel's median time in seconds, by N."""
        return {kernel: {n: self.by_kernel[kernel][n].median_ms / 1e3 for n in self.lengths} for kernel in PAIR}

    @property
    def crossing(self) -> Crossing | None:
        """From which N on FlashAttention is faster: the chapter Speed's computation, on the same numbers."""
        return _crossing(self.medians)

    @property
    def source(self) -> str:
        """Where the numbers come from, for a caption."""
        where, p = self.provenance, self.setting
        return (
            f"recorded · {where.gpu}, torch {where.torch}, triton {where.triton}, {where.date} · {p['heads']} heads, d "
            f"= {p['head_dim']}, {p['dtype']}, tiles {p['block_m']} × {p['block_n']}, not causal · medians, L2 cleared "
            "before each launch · these kernels are written to be read, not tuned"
        )


def of(record: Record | None) -> Times | None:
    """The record's times, if both kernels were timed at two lengths or more."""
    by_kernel: dict[str, dict[int, Timing]] = {}
    for kernel in PAIR:
        points = [record.point(experiment) for experiment in experiments(kernel)] if record else []
        by_kernel[kernel] = {p.experiment.values["seq_len"]: p.timing for p in points if p and p.timing}
    if record is None or len(set.intersection(*map(set, by_kernel.values()))) < 2:
        return None
    return Times(by_kernel, experiments(PAIR[0])[0].values, record.provenance)


def _crossing(seconds: Mapping[str, Mapping[int, float]]) -> Crossing | None:
    standard, flash = ({float(n): one for n, one in times.items()} for times in seconds.values())
    return crossing(standard, flash)


def answer(times: Times) -> str:
    """From which N on FlashAttention is faster, and why; markdown."""
    found, names = times.crossing, ("**FlashAttention**", "**standard attention**")
    faster = found.told(*names, "is faster", "takes … as long", "N") if found else ""
    return (
        f"{faster}\n\nStandard attention needs three launches, FlashAttention one. On long sequences FlashAttention "
        "also saves the bytes of S and P."
    )


def predicted(model: Model, gpu: Gpu) -> Mapping[str, Mapping[int, float]]:
    """Predicted seconds of both kernels on a GPU, by N; empty if they cannot be predicted."""
    found = {
        kernel: {one.values["seq_len"]: seconds for one in experiments(kernel) if (seconds := model.seconds(one, gpu))}
        for kernel in PAIR
    }
    return found if all(found.values()) else {}


def predicted_answer(times: Mapping[str, Mapping[int, float]], gpu: Gpu) -> str:
    """From which N on FlashAttention is predicted to be faster on a GPU; markdown."""
    if not times:
        return NOT_PREDICTED.format(gpu.name)
    found = _crossing(times)
    start = f"from **N = {numbers.count(int(found.first))} on**" if found and found.first else "at none of these N"
    return f"Predicted for the {gpu.name}: **FlashAttention** is faster than **standard attention** {start}."


@kept
def table(times: Times) -> str:
    """Every length, as markdown."""
    duration = numbers.duration
    columns = [Column("N"), Column("standard, first call", duration), Column("standard, later calls", duration)]
    columns += [Column("FlashAttention, first call", duration), Column("FlashAttention, later calls", duration)]
    rows = []
    for n in times.lengths:
        timings = [times.by_kernel[kernel][n] for kernel in PAIR]
        cells = [ms / 1e3 for timing in timings for ms in (timing.first_call_ms, timing.median_ms)]
        rows.append([n, *cells, times.gain(n)])
    return tables.markdown([*columns, Column("speedup", numbers.ratio)], rows)


SHORTEST = 1e-6
"""Seconds at the left end of the bars."""


def first_call(
    compiled: tuple[str, float] | None, first: float, later: float, gpu: str, triton: str = ""
) -> str:  # fmt: skip
    """A first call beside the later ones, as bars on a log scale. Seconds.

    `compiled`: the compilation alone, if known, and the triton that compiled; `triton`: that of the calls.
    """
    by = f", triton {triton}" if triton else ""
    bars = [(f"compilation alone, triton {compiled[0]}", compiled[1], "slate")] if compiled else []
    bars += [(f"first call, compiling{by}", first, "series-2"), ("each later call", later, "series-1")]
    left, wide, high = labels.widest(words for words, *_ in bars) + 26, 420.0, 30.0
    foot, decades = 8 + high * len(bars), range(round(log10(SHORTEST)), 2)

    def at(seconds: float) -> float:
        return left + wide * (log10(max(seconds, SHORTEST)) - decades[0]) / (len(decades) - 1)

    parts = []
    for decade in decades:
        x, words = at(10.0**decade), numbers.duration(10.0**decade, zeros=False)
        parts.append(svg.line(x, 4, x, foot, opacity=0.15))
        parts.append(svg.text(x, foot + 16, words, size=svg.SMALL, anchor="middle", faint=True))
    for row, (words, seconds, hue) in enumerate(bars):
        y = 8 + row * high
        parts.append(svg.text(left - 12, y + 16, words, anchor="end"))
        parts.append(svg.rect(left, y, at(seconds) - left, high - 8, palette.css(hue)))
        parts.append(svg.text(at(seconds) + 8, y + 16, numbers.duration(seconds), bold=True))
    parts.append(svg.text(left + wide, foot + 34, "logarithmic scale", size=svg.SMALL, anchor="end", faint=True))
    return svg.picture(left + wide + 90, foot + 42, f"A first call on {gpu} beside the later ones", parts, "54rem")
