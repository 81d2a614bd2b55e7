"""From which N on FlashAttention is faster, and what the first call is: what scripts/record_times.py measured on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explain import recordings


@dataclass(frozen=True)
class Times:
    """Both kernels' times by N: {kernel: {N: timing}}, in milliseconds, with what they have in common and where they were taken."""

    by_kernel: Mapping[str, Mapping[int, Mapping[str, Any]]]
    setting: Mapping[str, Any]
    provenance: Mapping[str, str]

    def gain(self, seq_len: int) -> float:
        """How many times as long standard attention takes, by the medians."""
        standard, flash = (self.by_kernel[kernel][seq_len] for kernel in ("attention_standard", "flash_attention"))
        return float(standard["median_ms"] / flash["median_ms"])

    @property
    def lengths(self) -> list[int]:
        return sorted(self.by_kernel["flash_attention"])

    @property
    def faster_from(self) -> int | None:
        """The N from which FlashAttention is faster at every length measured."""
        slower = [n for n in self.lengths if self.gain(n) <= 1]
        return next((n for n in self.lengths if n > max(slower, default=0)), None)


def recorded() -> Times | None:
    """What was measured, if it was."""
    record = recordings.measured("times-h200")
    if record is None:
        return None
    by_kernel: dict[str, dict[int, dict[str, Any]]] = {}
    for run in record["runs"]:
        experiment = run["experiment"]
        by_kernel.setdefault(experiment["kernel"], {})[experiment["parameters"]["seq_len"]] = run["timing"]
    return Times(by_kernel, record["runs"][0]["experiment"]["parameters"], record["provenance"])


def answer(times: Times) -> str:
    """The two questions answered from the numbers."""
    last, flash = times.lengths[-1], times.by_kernel["flash_attention"]
    first, second = flash[times.lengths[0]], flash[times.lengths[1]]
    start = times.faster_from
    begins = f"from N = {start:,} on" if start else "at no N"
    shortest = ", the shortest measured" if start == times.lengths[0] else ""
    return (
        f"**From which N is it faster?** Here {begins}{shortest}; at N = {last:,} standard attention takes {times.gain(last):.1f} times as long. On short sequences that is "
        "one launch against three, on long ones the bytes of S and P. **Is the first call warm-up?** It is compilation: FlashAttention's first call "
        f"took {first['first_call_ms']:,.0f} ms and its first at another N {second['first_call_ms']:.2g} ms, since one compiled kernel serves all of these. "
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
        for kernel in ("attention_standard", "flash_attention"):
            timing = times.by_kernel[kernel][n]
            cells += [f"{timing['first_call_ms']:,.1f} ms", f"{1e3 * timing['median_ms']:,.0f} µs"]
        lines.append(f"| {n:,} | {' | '.join(cells)} | **{times.gain(n):.1f}** |")
    return "\n".join(lines)


def source(times: Times) -> str:
    """Where the numbers come from."""
    where, p = times.provenance, times.setting
    return (
        f"recorded · {where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']} · {p['heads']} heads, d = {p['head_dim']}, "
        f"{p['dtype']}, tiles {p['block_m']} × {p['block_n']}, not causal; medians, L2 cleared before each. These kernels are written to be read, not tuned."
    )
