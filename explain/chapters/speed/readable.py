"""Our readable kernel, a line beside the climb: its settings, and why exp2 gains more there than in the climb.

Imports neither streamlit nor torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from explain.chapters.speed.results import Case
from explain.chapters.speed.rungs import BY_NAME, RUNGS, Rung, Step, below
from explain.chapters.sweeps import masking
from explain.figures.numbers import count, duration, moved, number, percent, ratio
from explain.records.model import Point, Record
from explain.source import functions
from kernels.catalog import KERNELS

WITH_EXP, KERNEL = "flash_attention", "flash_attention_exp2"
"""The readable kernel with exp, and the one beside the climb."""
TWIN = BY_NAME["exp2"]
"""The kernel of the climb with the same arithmetic."""
_TILE = re.compile(r"rows, keys = (\d+), (\d+)")
_LAUNCH = re.compile(r"num_warps=(\d+), num_stages=(\d+)|warps: int = (\d+),\s+stages: int = (\d+)")


_WITH_PRODUCER = re.compile(
    r"\[1\], \[\d+\],.*block_n: int = (?P<block_n>\d+),\s+stages: int = (?P<stages>\d+)"
    r".*, (?P<block_m>\d+), block_n\).*num_warps=(?P<warps>\d+)",
    re.DOTALL,
)
"""In a Gluon rung with one producer warp: its tile, its consumer warps, its stages."""


@dataclass(frozen=True)
class Setting:
    """Queries and keys of a tile, and how the program is launched."""

    block_m: int
    block_n: int
    warps: int
    stages: int

    @property
    def words(self) -> str:
        """ "64 × 64, 4 warps, 2 stages"."""
        stages = f"{self.stages} stage{'s' * (self.stages > 1)}"
        return f"{self.block_m} × {self.block_n}, {self.warps} warps, {stages}"


def of_rung(rung: Rung) -> Setting:
    """The setting of a rung at head_dim 64 and 128, as its source has it; `warps` are those that compute.

    Raises ValueError for a rung with several groups of consumer warps.
    """
    if found := _WITH_PRODUCER.search(rung.source):
        return Setting(**{name: int(value) for name, value in found.groupdict().items()})
    tile = _TILE.search(functions.function_source("kernels.rungs.shape", "tile"))
    launch = _LAUNCH.search(rung.source)
    if not tile or not launch:
        raise ValueError(f"rung={rung.name}: its source does not name its warps and stages")
    return Setting(*map(int, (*tile.groups(), *filter(None, launch.groups()))))


def setting(case: Case) -> Setting | None:
    """The readable kernel's setting on this case, as it was compiled; None where no such tile is recorded."""
    pair = masking.compiled(KERNEL, {"head_dim": case.shape[3], "dtype": case.dtype})
    if pair is None:
        return None
    values, launch = pair[0].experiment.values, pair[0].launch
    return Setting(values["block_m"], values["block_n"], launch.num_warps, launch.num_stages)


def both(record: Record | None, case: Case) -> tuple[Point, Point] | None:
    """The readable kernels with exp and with exp2 at equal sizes: the case's d and dtype, the longest N without a mask;
    None unless a GPU timed both.
    """
    alike = {"head_dim": case.shape[3], "dtype": case.dtype, "causal": False}.items()
    found = [
        point
        for point in (record.points.values() if record else ())
        if point.experiment.kernel == KERNEL and point.seconds and alike <= point.experiment.values.items()
    ]
    for point in sorted(found, key=lambda one: -one.experiment.values["seq_len"]):
        other = record.point(point.experiment.through(WITH_EXP)) if record else None
        if other and other.seconds:
            return other, point
    return None


def told(case: Case, steps: tuple[Step, ...], counted: Mapping[str, Point], record: Record | None) -> tuple[str, ...]:
    """Why the line is above the kernel with the same arithmetic, and why exp2 gains more there; markdown paragraphs.

    Empty if the line is not above it, as under the causal mask, or has no time.
    """
    own, at = setting(case), RUNGS.index(TWIN) + 1
    twin, seconds = steps[at - 1], case.seconds_of(KERNEL)
    if own is None or not seconds or not twin.per_second or case.work / seconds <= twin.per_second:
        return ()
    above, speeds = of_rung(TWIN), [number(one / 1e12) for one in (case.work / seconds, twin.per_second)]
    said = [
        f"**Why is the line *our readable kernel* ({speeds[0]}) above kernel {at} ({speeds[1]})?** It is "
        f"{KERNELS[KERNEL].short} of the other pages. The arithmetic is the same. The settings differ:\n\n"
        f"- readable: {own.words}. The next K and V load while a tile is computed.\n"
        f"- kernel {at}: {above.words}. Nothing loads ahead."
    ]
    if twin.gain and not case.causal and (pair := both(record, case)):
        said.append(_gain(twin, pair, counted))
    return tuple(said)


def _gain(twin: Step, pair: tuple[Point, Point], counted: Mapping[str, Point]) -> str:
    """Why exp2 gains more in the readable kernels than in the climb."""
    (slow, fast), p = [point.seconds or 0.0 for point in pair], pair[0].experiment.values
    reached = number(pair[1].experiment.traffic.flops_of("matmul") / fast / 1e12)
    said = (
        f"**Why does exp2 gain {ratio(twin.gain or 0.0)} here, and {ratio(slow / fast)} between the readable "
        f"kernels?** Those are on *Measurements*, with tiles of {p['block_m']} × {p['block_n']}: {duration(slow)} → "
        f"{duration(fast)}, {reached} TFLOP/s (d = {p['head_dim']}, N = {count(p['seq_len'])}).\n\n"
    )
    lower = below(twin.rung)
    found = counted.get(lower.name) if lower else None
    if lower and found and found.counters and (stalls := found.counters.stalls):
        waits = percent(stalls.by_kind["memory"] + stalls.by_kind["barrier"])
        said += (
            f"- Here: kernel {RUNGS.index(lower) + 1}'s warps wait for memory and other warps {waits} of the time "
            "(*What the warps wait for*, below). exp2 saves none of that.\n"
        )
    spills = [point.counters.cold.spilled_bytes or 0 if point.counters else 0 for point in pair]
    if spills[0] > spills[1]:
        more = f"{moved(spills[0])} against {moved(spills[1])}"
        said += f"- There: the readable kernels load ahead. With exp the kernel also spills more: {more}."
    return said
