"""What the GPU counted of the climb's kernels: tensor-core use, bytes, and why warps wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from explain.chapters.speed.rungs import Rung
from explain.counters.stalls import REASONS, Stalls
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.tables import Column
from explain.records.model import Point

GROUPS: Mapping[str, Sequence[str]] = {
    "issues, or is ready to": ("issued", "ready"),
    "waits for arithmetic, or its last instruction": ("tensor", "pace"),
    "waits for memory or exponentials": ("memory", "chip"),
    "waits for other warps (barrier)": ("barrier",),
    "anything else": ("code", "other"),
}
"""The bars' parts: kinds of a warp's time (`stalls.KINDS`)."""
COLOURS: Mapping[str, str] = {**dict(zip(GROUPS, palette.SERIES, strict=False)), "anything else": "slate"}
WIDTH, STALL_ROW, BAR, AXIS = 700.0, 46.0, 18.0, 40.0
WORKING = GROUPS["issues, or is ready to"]


def counters_table(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """What the GPU counted of each kernel, as markdown: tensor-core use and bytes, L2 cold."""
    found = ((rung, counted[rung.name].counters) for rung in rungs if rung.name in counted)
    shown = [(rung, counters.cold) for rung, counters in found if counters]
    gigabytes = partial(numbers.aligned, unit="B", prefix="G")
    moved = (Column(name, gigabytes) for name in ("L2 ↔ SMs", "DRAM (HBM)", "spilled"))
    columns: tables.Columns = ("kernel", Column("tensor pipe active", lambda percent: f"**{percent:.0f}%**"), *moved)
    rows = [
        (rung.label, c.tensor_active_percent, c.sm_bytes, c.hbm_bytes, c.spilled_bytes or None) for rung, c in shown
    ]
    return tables.markdown(columns, rows)


def stall_bars(kernels: Sequence[tuple[str, Stalls, float | None]]) -> str:
    """A bar per kernel, all of its warps' time, divided into GROUPS: the same parts, order and colours in each.

    The third of a kernel is how busy its tensor cores are, in percent.
    """
    parted = [(name, stalls, tensor, _by_group(stalls)) for name, stalls, tensor in kernels]
    shown = [group for group in GROUPS if any(by_group[group] >= 0.005 for *_, by_group in parted)]
    parts, top = _legend(shown)
    for at, (name, stalls, tensor, by_group) in enumerate(parted):
        y, x = top + at * STALL_ROW, 0.0
        parts.append(svg.text(0, y + 15, name, bold=True))
        busy = f"a scheduler's {stalls.warps:.1f} warps issue in {numbers.percent(stalls.busy)} of cycles"
        if tensor is not None:
            busy += f" · tensor pipe active in {tensor:.0f}%"
        parts.append(svg.text(WIDTH, y + 15, busy, size=svg.SMALL, anchor="end", faint=True))
        whole = sum(by_group[group] for group in shown) or 1.0  # counted in several runs, so not exactly 1
        for group in shown:
            part, colour = by_group[group], COLOURS[group]
            wide = WIDTH * part / whole
            if wide <= 0:
                continue
            parts.append(svg.rect(x, y + 22, wide, BAR, palette.css(colour), title=_stall_title(stalls, group)))
            words = numbers.percent(part)
            if labels.text_width(words, svg.SMALL) + 6 <= wide:
                ink = palette.letters(palette.fill(colour))
                parts.append(svg.text(x + wide / 2, y + 35.5, words, size=svg.SMALL, anchor="middle", fill=ink))
            x += wide
    foot = top + STALL_ROW * len(kernels)
    parts.append(svg.line(0, foot + 4, WIDTH, foot + 4))
    for share, anchor, words in ((0.0, "start", ""), (0.5, "middle", " of the warps' time"), (1.0, "end", "")):
        x = share * WIDTH
        parts.append(svg.line(x, foot, x, foot + 8))
        parts.append(svg.text(x, foot + 24, numbers.percent(share) + words, size=svg.SMALL, anchor=anchor, faint=True))
    label = f"What the warps of {', '.join(name for name, *_ in kernels)} spend their time on"
    return svg.picture(WIDTH, foot + AXIS, label, parts, most="900px")


def _by_group(stalls: Stalls) -> Mapping[str, float]:
    return {group: sum(stalls.by_kind[kind] for kind in kinds) for group, kinds in GROUPS.items()}


def _legend(groups: Sequence[str]) -> tuple[list[str], float]:
    parts, x, y = [], 0.0, 4.0
    for group in groups:
        wide = 36 + labels.text_width(group, svg.SMALL)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        parts.append(svg.rect(x, y, 11, 11, palette.css(COLOURS[group])))
        parts.append(svg.text(x + 17, y + 10.5, group, size=svg.SMALL))
        x += wide
    return parts, y + 22


def _stall_title(stalls: Stalls, group: str) -> str:
    own = [(key, stalls.share(key)) for key, reason in REASONS.items() if reason.kind in GROUPS[group]]
    said = ", ".join(f"{REASONS[key].name} {numbers.percent(part, 1)}" for key, part in own if part > 0)
    return f"{group}, {numbers.percent(_by_group(stalls)[group], 1)} of the warps' time: {said}"


def stalls_told(stalls: Stalls, tensor: float | None = None) -> str:
    """The bar of one kernel in sentences; markdown. `tensor` is how busy its tensor cores are, in percent."""
    busy = f"issues an instruction in **{numbers.percent(stalls.busy)}** of its cycles"
    said = [f"A scheduler has **{stalls.warps:.1f} warps** and {busy}."]
    if stalls.most:
        key = stalls.most[0]
        part = f"**{numbers.percent(stalls.share(key))}** of its warps' time"
        said.append(f"The most common stall is *{REASONS[key].name}*, {part}: {REASONS[key].words}")
    waiting = 1 - sum(stalls.by_kind[kind] for kind in WORKING)
    if tensor is not None and tensor > 100 * stalls.busy and tensor > 50 < 100 * waiting:
        said.append(
            f"Its warps wait {numbers.percent(waiting)} of their time, and yet the tensor pipe is active in "
            f"**{tensor:.0f}%** of cycles: one instruction starts a long matmul. Waiting costs little while the "
            "tensor pipe is busy."
        )
    return " ".join(said)
