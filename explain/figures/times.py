"""From which N on FlashAttention is faster, and what the first call is: what `python -m explain measure --plan times` measured on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain.device.measurement import Provenance, Timing
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
