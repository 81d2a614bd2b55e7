"""What the GPU counted of the climb's kernels: tensor-core use, bytes, the clock, and what warps wait for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from explain.chapters.speed.climb_figures import tera
from explain.chapters.speed.legend import legend
from explain.chapters.speed.results import Limit
from explain.chapters.speed.rungs import BY_NAME, RUNGS, Rung, Step, share
from explain.counters.stalls import REASONS, Stalls
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.tables import Column
from explain.gpus import Gpu
from explain.records.model import Point

CLOCK_ROUGH = 1.02
"""Two estimated clocks differ if their ratio is more: time and share are of different launches."""


class Waits(NamedTuple):
    """What the warps of one kernel spend their time on.

    `tensor`: how busy its tensor cores are, in percent. `empty`: the fraction of its warps that have no work. They stay
    at a barrier, so that part of the barrier's time costs nothing.
    """

    kernel: str
    stalls: Stalls
    tensor: float | None = None
    empty: float = 0.0

    def share(self, reason: str) -> float:
        """The fraction of all warps' time in this state. Warps without work do not count as waiting at a barrier."""
        return max(0.0, self.stalls.share(reason) - self.empty * (reason == "barrier"))

    @property
    def by_group(self) -> Mapping[str, float]:
        """The fraction of all warps' time in each of GROUPS."""
        states = {group: [key for key, one in REASONS.items() if one.kind in kinds] for group, kinds in GROUPS.items()}
        return {group: sum(map(self.share, keys)) for group, keys in states.items()} | {EMPTY: self.empty}


GROUPS: Mapping[str, Sequence[str]] = {
    "issues, or is ready to": ("issued", "ready"),
    "waits for arithmetic, or its last instruction": ("tensor", "pace"),
    "waits for memory": ("memory",),
    "waits on chip: exponentials, shared memory": ("chip",),
    "waits for other warps (barrier)": ("barrier",),
    "anything else": ("code", "other"),
}
EMPTY = "has no work"
"""The bars' parts: kinds of a warp's time (`stalls.KINDS`)."""
HUES: Mapping[str, str] = {
    "issues, or is ready to": "series-1", "waits for arithmetic, or its last instruction": "series-4",
    "waits for memory": "hbm", "waits on chip: exponentials, shared memory": "series-3",
    "waits for other warps (barrier)": "series-2",
}  # fmt: skip
SHADES: Mapping[str, float] = dict(zip((*(one for one in GROUPS if one not in HUES), EMPTY), (0.36, 0.04), strict=True))
"""How dark the grey of each other wait is."""
WIDTH, PHONE, STALL_ROW, BAR, AXIS = 700.0, 330.0, 46.0, 18.0, 40.0
WORKING = GROUPS["issues, or is ready to"]


def counters_table(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """What the GPU counted of each kernel, as markdown: tensor-core use and bytes, L2 cold."""
    found = ((rung, counted[rung.name].counters) for rung in rungs if rung.name in counted)
    shown = [(rung, counters.cold) for rung, counters in found if counters]
    gigabytes = partial(numbers.aligned, unit="B", prefix="G")
    moved = (Column(name, gigabytes) for name in ("L2 ↔ SMs", "DRAM (HBM)", "spilled"))
    active = Column("tensor pipe active", lambda percent: f"**{numbers.fixed(percent, 0)}%**")
    columns: tables.Columns = ("kernel", active, *moved)
    rows = [
        (rung.label, c.tensor_active_percent, c.sm_bytes, c.hbm_bytes, c.spilled_bytes or None) for rung, c in shown
    ]
    return tables.markdown(columns, rows)


def tensor_bars(counted: Mapping[str, Point], rungs: Sequence[Rung], *, narrow: bool = False) -> str:
    """A bar per kernel: the share of cycles in which its tensor pipe was active, L2 cold; empty if none was counted.

    `narrow` is for a phone: a kernel's name and share stand above its bar.
    """
    found = [(at, rung, counted[rung.name].counters) for at, rung in enumerate(rungs, 1) if rung.name in counted]
    shown = [
        (f"{at} {rung.label}", rung, active / 100)
        for at, rung, counters in found
        if counters and (active := counters.cold.tensor_active_percent) is not None
    ]
    if not shown:
        return ""
    beside = 0.0 if narrow else labels.widest((name for name, *_ in shown), 15) + 16
    wide, above, room = (PHONE, 20.0, 0.0) if narrow else (440.0, 0.0, 70.0)
    row, places = above + 30, (0.0, wide) if narrow else (beside - 10, beside + wide + 10)
    anchors, parts = ("start", "end") if narrow else ("end", "start"), []
    for at, (name, rung, part) in enumerate(shown):
        y = row * at
        parts += [
            svg.text(places[0], y + 18, name, size=15, anchor=anchors[0]),
            svg.rect(beside, y + above + 3, wide, 22, palette.css("slate"), opacity=0.12),
            svg.rect(beside, y + above + 3, wide * part, 22, palette.css(palette.kernel(rung.entry.hue)), opacity=0.8),
            svg.text(places[1], y + 18, numbers.percent(part), size=15, bold=True, anchor=anchors[1]),
        ]
    foot = row * len(shown)
    parts.append(svg.text(beside + wide, foot + 16, "100% of the cycles", size=13, anchor="end", faint=True))
    label = f"Tensor pipe active: {', '.join(f'{name} {numbers.percent(part)}' for name, _, part in shown)}"
    return svg.picture(beside + wide + room, foot + 24, label, parts, "52rem")


def tensor_told(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """The lowest and the highest of `tensor_bars` in a sentence; markdown, empty if fewer than two were counted."""
    counters = [(rung.label, counted[rung.name].counters) for rung in rungs if rung.name in counted]
    active = [(name, one.cold.tensor_active_percent) for name, one in counters if one]
    known = [(name, percent) for name, percent in active if percent is not None]
    if len(known) < 2:
        return ""
    (first, low), (last, high) = known[0], known[-1]
    return f"From {first} to {last}: **{numbers.percent(low / 100)} → {numbers.percent(high / 100)}**."


def shares_told(
    steps: Sequence[Step],
    peak: Limit | None,
    counted: Mapping[str, Point],
    specified: float | None = None,
    gpu: Gpu | None = None,
) -> str:
    """Why the top kernel's share of the peak is not its share of the cycles; markdown, empty unless both are known.

    `specified`: the datasheet's FLOP/s. `gpu` was measured: with its FLOPs per cycle a clock is estimated.
    """
    top = steps[-1]
    of_peak, point = share(top, peak), counted.get(top.rung.name)
    cycles = point.counters.cold.tensor_active_percent if point and point.counters else None
    if not of_peak or not peak or not top.per_second or cycles is None:
        return ""
    busy, shares = (
        numbers.percent(cycles / 100),
        [f"{numbers.percent(of_peak)} of a large matmul's {tera(peak.per_second)}"],
    )
    if specified:
        shares.append(f"{numbers.percent(top.per_second / specified)} of the datasheet's {tera(specified)}")
    return (
        f"\n\n**Why {busy} here, and {numbers.percent(of_peak)} of the peak?** One counts cycles, the other "
        f"FLOPs per second. All are of {top.rung.label}:\n\n"
        f"- Its **{numbers.si(top.per_second, 'FLOP/s')}** are {' and '.join(shares)}.\n"
        f"- Its tensor cores multiply in **{busy}** of the cycles. If the GPU lowers its clock to save power, this "
        f"share stays and the FLOPs per second fall.{_lowered(_clocks(steps, counted, gpu))}"
    )


def clock_told(steps: Sequence[Step], counted: Mapping[str, Point], gpu: Gpu | None, after: str = "") -> str:
    """How the clock of the top kernel is estimated, and that it falls as the tensor cores get busier; markdown, empty
    where the top kernel was not timed and counted. `after`: the clock that the driver reported after the last launch.
    """
    top = steps[-1]
    point = counted.get(top.rung.name)
    cycles = point.counters.cold.tensor_active_percent if point and point.counters else None
    if not top.per_second or cycles is None:
        return ""
    said = _clock(top.per_second, cycles / 100, gpu, after)
    if found := _clocks(steps, counted, gpu):
        each = (f"{numbers.si(clock, 'Hz')} at {numbers.percent(busy)} busy ({name})" for busy, clock, name in found)
        said += f" The busier the tensor cores, the lower this clock: {', '.join(each)}."
    return said


Clock = tuple[float, float, str]
"""The share of the cycles in which a kernel's tensor cores multiply, the estimated clock, and the kernel's name."""


def _lowered(found: Sequence[Clock]) -> str:
    """That the GPU did lower its clock, as a sentence; empty where it is not known."""
    if not found:
        return ""
    (_, before, _), (_, now, name) = found[0], found[-1]
    return f" It did: about {numbers.si(now, 'Hz')} in {name}, not {numbers.si(before, 'Hz')}."


def _clocks(steps: Sequence[Step], counted: Mapping[str, Point], gpu: Gpu | None) -> Sequence[Clock]:
    """Estimated clocks that fall as the tensor cores get busier, a few of them; empty where they do not fall.

    Kernels that multiply what a causal mask hides are left out: that work is in their cycles and not in their FLOPs.
    """
    if not gpu or not gpu.tensor_flops_per_cycle:
        return ()
    found = []
    for step in steps:
        point = counted.get(step.rung.name)
        percent = point.counters.cold.tensor_active_percent if point and point.counters else None
        if not step.per_second or not point or not percent or percent < 1:
            continue
        if not point.experiment.values["causal"] or RUNGS.index(step.rung) >= RUNGS.index(BY_NAME["causal"]):
            clock = step.per_second / (percent / 100 * gpu.tensor_flops_per_cycle * gpu.sms)
            found.append((percent / 100, clock, step.rung.label))
    found.sort()
    rises = any(later[1] > CLOCK_ROUGH * former[1] for former, later in itertools.combinations(found, 2))
    if len(found) < 3 or rises or found[-1][1] * CLOCK_ROUGH > found[0][1]:
        return ()
    still = [one for one in found if one[1] * CLOCK_ROUGH >= found[0][1]]  # up to where it hardly falls
    return tuple(dict.fromkeys((found[0], still[-1], found[-1])))


def _clock(per_second: float, share: float, gpu: Gpu | None, after: str) -> str:
    """The clock that both numbers would have together, as an estimate; or why neither gives the other."""
    if gpu is None or not gpu.tensor_flops_per_cycle or not share:
        return "So neither gives the other: the clock was not recorded."
    clock = per_second / (share * gpu.tensor_flops_per_cycle * gpu.sms)
    return (
        f"FLOPs per second = share × {numbers.count(gpu.tensor_flops_per_cycle)} FLOPs per cycle and SM × "
        f"{gpu.sms} SMs × clock. So the clock is about {numbers.si(clock, 'Hz')}: an estimate, "
        "because time and share are of different launches."
        + f" The driver's {numbers.grouped(after)} were read after the last launch, without load."
        * bool(after)
    )


def stall_bars(kernels: Sequence[Waits], *, narrow: bool = False) -> str:
    """A bar per kernel: all of its warps' time, divided into GROUPS and EMPTY, in one order and the same colours.

    `narrow` is for a phone.
    """
    width, row, below = (PHONE, STALL_ROW + 16, 16) if narrow else (WIDTH, STALL_ROW, 0)
    divided = [one.by_group for one in kernels]
    shown = [group for group in (*GROUPS, EMPTY) if any(by_group[group] >= 0.005 for by_group in divided)]
    parts, top = legend({group: _look(group) for group in shown}, width, (EMPTY,))
    for at, (one, by_group) in enumerate(zip(kernels, divided, strict=True)):
        name, stalls, tensor, _ = one
        y, x = top + at * row + below, 0.0
        parts.append(svg.text(0, y + 15 - below, name, bold=True))
        who = "" if narrow else f"a scheduler's {numbers.fixed(stalls.warps, 1)} "
        busy = f"{who}warps issue in {numbers.percent(stalls.busy)} of cycles"
        if tensor is not None:
            busy += f" · tensor pipe active in {numbers.fixed(tensor, 0)}%"
        parts.append(
            svg.text(
                0 if narrow else width, y + 15, busy, size=svg.SMALL, anchor="start" if narrow else "end", faint=True
            )
        )
        whole = sum(by_group[group] for group in shown) or 1.0  # counted in several runs, so not exactly 1
        for group in shown:
            part, (colour, shade) = by_group[group], _look(group)
            wide = width * part / whole
            if wide <= 0:
                continue
            title = _stall_title(one, group)
            edge = palette.css(colour) if group == EMPTY else "none"
            dashed = group == EMPTY
            box = svg.rect(
                x, y + 22, wide, BAR, palette.css(colour), opacity=shade, stroke=edge, dashed=dashed, title=title
            )
            parts.append(box)
            words = numbers.percent(part)
            if labels.text_width(words, svg.SMALL) + 6 <= wide:
                ink = palette.letters(palette.fill(colour)) if shade == 1 else ""
                parts.append(svg.text(x + wide / 2, y + 35.5, words, size=svg.SMALL, anchor="middle", fill=ink))
            x += wide
    foot = top + row * len(kernels)
    parts.append(svg.line(0, foot + 4, width, foot + 4))
    for part, anchor, words in ((0.0, "start", ""), (0.5, "middle", " of the warps' time"), (1.0, "end", "")):
        x = part * width
        parts.append(svg.line(x, foot, x, foot + 8))
        parts.append(svg.text(x, foot + 24, numbers.percent(part) + words, size=svg.SMALL, anchor=anchor, faint=True))
    label = f"What the warps of {', '.join(name for name, *_ in kernels)} spend their time on"
    return svg.picture(width, foot + AXIS, label, parts, most="900px")


def _look(group: str) -> tuple[str, float]:
    """A group's hue and opacity."""
    return ("slate", SHADES[group]) if group in SHADES else (HUES[group], 1.0)


def _stall_title(one: Waits, group: str) -> str:
    own = [(key, one.share(key)) for key, reason in REASONS.items() if reason.kind in GROUPS.get(group, ())]
    said = ", ".join(f"{REASONS[key].name} {numbers.percent(part, 1)}" for key, part in own if part > 0)
    told = f"{group}, {numbers.percent(one.by_group[group], 1)} of the warps' time"
    return f"{told}: {said}" if said else told


def spilling_told(waits: Sequence[Waits], counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """Which part of a bar has the loads of spilled registers, for the kernel that spills most; markdown, else empty."""
    spills = {
        rung.label: point.counters.cold.spilled_bytes or 0
        for rung in rungs
        if (point := counted.get(rung.name)) and point.counters
    }
    most = max(waits, key=lambda one: spills.get(one.kernel, 0))
    if not (size := spills.get(most.kernel, 0)):
        return ""
    memory, chip = (most.by_group[name] for name in GROUPS if GROUPS[name] in (("memory",), ("chip",)))
    said = (
        f"\n\n**{most.kernel}** spills {numbers.moved(size)}. Its loads of spilled registers are part of *waits for "
        f"memory*, {numbers.percent(memory)}."
    )
    if chip > memory:
        said += f" The larger part, *waits on chip*, {numbers.percent(chip)}, is not the spill."
    return said


def stalls_told(one: Waits) -> str:
    """The bar of one kernel in sentences; markdown."""
    _, stalls, tensor, empty = one
    said = []
    if stalls.most:
        key = max(stalls.most, key=one.share)
        part = f"**{numbers.percent(one.share(key))}** of the warps' time"
        said.append(f"The most common stall is *{REASONS[key].name}*, {part}: {REASONS[key].words}")
    waiting = 1 - sum(stalls.by_kind[kind] for kind in WORKING) / (1 - empty)
    if tensor is not None and tensor > 100 * stalls.busy and tensor > 50 < 100 * waiting:
        said.append(
            "Its warps wait most of the time, and yet the tensor pipe is active in "
            f"**{numbers.fixed(tensor, 0)}%** of cycles: one instruction starts a long matmul. Waiting costs little "
            "while the tensor pipe is busy."
        )
    if empty:
        said.append(
            f"The dashed part, {numbers.percent(empty)}: warps without work. Triton rounds the number of warps of a "
            "Gluon kernel up to a multiple of four; they stay at a barrier and cost no time."
        )
    return " ".join(said)
