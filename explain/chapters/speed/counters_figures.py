"""What the GPU counted of the climb's kernels: tensor-core use, bytes, and why warps wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from explain.chapters.speed.rungs import Rung
from explain.counters.stalls import KINDS, REASONS, Stalls
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.tables import Column
from explain.records.model import Point

KIND_COLOURS: Mapping[str, str] = dict(zip(KINDS, palette.SERIES, strict=True))
WIDTH, STALL_ROW, BAR = 700.0, 46.0, 18.0


def counters_table(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """What the GPU counted of each kernel, as markdown: tensor-core use and bytes, L2 cold."""
    found = ((rung, counted[rung.name].counters) for rung in rungs if rung.name in counted)
    shown = [(rung, counters.cold) for rung, counters in found if counters]
    gigabytes = partial(numbers.aligned, unit="B", prefix="G")
    moved = (Column(name, gigabytes) for name in ("L2 ↔ SMs", "DRAM (HBM)", "spilled"))
    columns: tables.Columns = ("kernel", Column("tensor pipe active", lambda percent: f"**{percent:.0f}%**"), *moved)
    rows = [(rung.label, c.tensor_active_percent, c.sm_bytes, c.hbm_bytes, c.spilled_bytes) for rung, c in shown]
    return tables.markdown(columns, rows)


def stall_bars(kernels: Sequence[tuple[str, Stalls]]) -> str:
    """A bar per kernel, all of its warps' time, divided into kinds: the same kinds, order and colours in each."""
    parted = [(name, stalls, stalls.by_kind) for name, stalls in kernels]
    shown = [kind for kind in KINDS if any(by_kind[kind] >= 0.005 for *_, by_kind in parted)]
    parts, top = _legend(shown)
    for at, (name, stalls, by_kind) in enumerate(parted):
        y, x = top + at * STALL_ROW, 0.0
        parts.append(svg.text(0, y + 15, name, bold=True))
        busy = f"{stalls.warps:.1f} warps per scheduler, issuing in {numbers.percent(stalls.busy)} of cycles"
        parts.append(svg.text(WIDTH, y + 15, busy, size=svg.SMALL, anchor="end", faint=True))
        whole = sum(by_kind[kind] for kind in shown) or 1.0  # counted in several runs, so not exactly 1
        for kind in shown:
            part, colour = by_kind[kind], KIND_COLOURS[kind]
            wide = WIDTH * part / whole
            if wide <= 0:
                continue
            parts.append(svg.rect(x, y + 22, wide, BAR, palette.css(colour), title=_stall_title(stalls, kind)))
            words = numbers.percent(part)
            if labels.text_width(words, svg.SMALL) + 6 <= wide:
                ink = palette.letters(palette.fill(colour))
                parts.append(svg.text(x + wide / 2, y + 35.5, words, size=svg.SMALL, anchor="middle", fill=ink))
            x += wide
    label = f"What the warps of {', '.join(name for name, _ in kernels)} spend their time on"
    return svg.picture(WIDTH, top + STALL_ROW * len(kernels), label, parts, most="900px")


def _legend(kinds: Sequence[str]) -> tuple[list[str], float]:
    parts, x, y = [], 0.0, 4.0
    for kind in kinds:
        wide = 36 + labels.text_width(KINDS[kind], svg.SMALL)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        parts.append(svg.rect(x, y, 11, 11, palette.css(KIND_COLOURS[kind])))
        parts.append(svg.text(x + 17, y + 10.5, KINDS[kind], size=svg.SMALL))
        x += wide
    return parts, y + 22


def _stall_title(stalls: Stalls, kind: str) -> str:
    own = [(key, stalls.share(key)) for key, reason in REASONS.items() if reason.kind == kind]
    said = ", ".join(f"{REASONS[key].name} {numbers.percent(part, 1)}" for key, part in own if part > 0)
    return f"{KINDS[kind]}, {numbers.percent(stalls.by_kind[kind], 1)} of the warps' time: {said}"


def stalls_told(stalls: Stalls) -> str:
    """The bars of one kernel in two sentences; markdown."""
    busy = f"issues an instruction in **{numbers.percent(stalls.busy)}** of its cycles"
    first = f"A scheduler has **{stalls.warps:.1f} warps** and {busy}."
    if not stalls.most:
        return first
    key = stalls.most[0]
    part = f"**{numbers.percent(stalls.share(key))}** of its warps' time"
    return f"{first} The most common stall is *{REASONS[key].name}*, {part}: {REASONS[key].words}"
