"""From which N on FlashAttention is faster, and what the first call is: what `python -m explain measure --plan times` measured on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log10

from explain.device.measurement import Provenance, Timing
from explain.figures import palette, svg
from explain.records.model import Record
from explain.records.plans import COMPARED, lengths
from kernels.parameters import Values


@dataclass(frozen=True)
class Times:
    """Both kernels' times by N, with what they have in common and where they were taken."""

    by_kernel: Mapping[str, Mapping[int, Timing]]
    setting: Values
    provenance: Provenance

    def gain(self, seq_len: int) -> float:
        """How many times as long standard attention takes, by the medians."""
        standard, flash = (self.by_kernel[kernel][seq_len] for kernel in COMPARED)
        return standard.median_ms / flash.median_ms

    @property
    def lengths(self) -> list[int]:
        """The N at which both were measured."""
        return sorted(set.intersection(*(set(self.by_kernel[kernel]) for kernel in COMPARED)))

    @property
    def faster_from(self) -> int | None:
        """The N from which FlashAttention is faster at every length measured."""
        slower = [n for n in self.lengths if self.gain(n) <= 1]
        return next((n for n in self.lengths if n > max(slower, default=0)), None)


def of(record: Record | None) -> Times | None:
    """The record's times, if both kernels were timed at two lengths or more."""
    by_kernel: dict[str, dict[int, Timing]] = {}
    for kernel in COMPARED:
        points = [record.point(experiment) for experiment in lengths(kernel)] if record else []
        by_kernel[kernel] = {p.experiment.values["seq_len"]: p.timing for p in points if p and p.timing}
    if record is None or len(set.intersection(*map(set, by_kernel.values()))) < 2:
        return None
    return Times(by_kernel, lengths(COMPARED[0])[0].values, record.provenance)


def answer(times: Times) -> str:
    """The two questions answered from the numbers."""
    last, flash = times.lengths[-1], times.by_kernel["flash_attention"]
    first, second = flash[times.lengths[0]], flash[times.lengths[1]]
    start = times.faster_from
    begins = f"from N = {start:,} on" if start else "at no N"
    shortest = ", the shortest measured" if start == times.lengths[0] else ""
    return (
        f"FlashAttention is faster {begins}{shortest}; at N = {last:,} standard attention takes {times.gain(last):.1f} times as long. On short sequences that is "
        "one launch against three, on long ones the bytes of S and P. **Is the first call warm-up?** It is compilation: FlashAttention's first call "
        f"took {first.first_call_ms:,.0f} ms and its first at another N {second.first_call_ms:.2g} ms, since one compiled kernel serves all of these. "
        "Standard attention compiles anew for each power of two: its softmax has a tile as long as the row."
    )


def table(times: Times) -> str:
    """Every length, as markdown."""
    lines = [
        "| N | standard, first call | standard, after | FlashAttention, first call | FlashAttention, after | ratio |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for n in times.lengths:
        cells = []
        for kernel in COMPARED:
            timing = times.by_kernel[kernel][n]
            cells += [f"{timing.first_call_ms:,.1f} ms", f"{1e3 * timing.median_ms:,.0f} µs"]
        lines.append(f"| {n:,} | {' | '.join(cells)} | **{times.gain(n):.1f}** |")
    return "\n".join(lines)


def source(times: Times) -> str:
    """Where the numbers come from."""
    where, p = times.provenance, times.setting
    return (
        f"recorded · {where.gpu}, torch {where.torch}, triton {where.triton}, {where.date} · {p['heads']} heads, d = {p['head_dim']}, "
        f"{p['dtype']}, tiles {p['block_m']} × {p['block_n']}, not causal; medians, L2 cleared before each. These kernels are written to be read, not tuned."
    )


SHORTEST = 1e-6
"""Seconds at the left end of the bars of a first call."""


def first_call(compiled: float | None, first: float, later: float, who: str) -> str:
    """What a first call takes beside the later ones, as bars on a logarithmic scale. Seconds; `compiled` of the compilation alone, None where not known; `who` is the GPU."""
    bars = [("compiling alone, on a CPU", compiled, palette.css("series-7"))] if compiled is not None else []
    bars += [
        ("the first call, compilation included", first, palette.css("series-2")),
        ("each call after it", later, palette.css("slate")),
    ]
    left, wide, high = 250.0, 420.0, 30.0
    decades = range(round(log10(SHORTEST)), 2)
    parts = []
    for decade in decades:
        x = left + wide * (decade - decades[0]) / (len(decades) - 1)
        parts += [svg.line(x, 4, x, 8 + high * len(bars), opacity=0.15), svg.text(x, 24 + high * len(bars), spoken(10.0**decade), size=12, anchor="middle", faint=True)]  # fmt: skip
    for row, (words, seconds, colour) in enumerate(bars):
        y = 8 + row * high
        share = (log10(max(seconds, SHORTEST)) - decades[0]) / (len(decades) - 1)
        parts += [
            svg.text(left - 12, y + 16, words, anchor="end"),
            svg.rect(left, y, wide * share, high - 8, colour),
            svg.text(left + wide * share + 8, y + 16, spoken(seconds), bold=True),
        ]
    return svg.picture(left + wide + 110, 34 + high * len(bars), f"A first call on {who} beside the later ones", parts, "54rem")  # fmt: skip


def spoken(seconds: float) -> str:
    """ "1.39 s", "12.7 µs"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def repaid(first: float, later: float) -> str:
    """How many later calls a first one is worth, in a sentence."""
    return f"The first call takes as long as **{first / later:,.0f}** later ones."
