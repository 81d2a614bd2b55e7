"""The chapter's pictures, tables and the sentences beside them. Values in; SVG, Plotly figures and markdown out."""

from __future__ import annotations

import functools
import html
import statistics
from collections.abc import Mapping, Sequence
from math import log10

import plotly.graph_objects as go

from explain.chapters.speed.results import TABLES, Case, Limit, Variant, all_baselines, colours, ratio
from explain.chapters.speed.rungs import Rung, Spill, Step, largest, share
from explain.chapters.speed.timeline import SCOPES, Program, Span, Timeline
from explain.chapters.speed.tuning import TROUBLES, Grid
from explain.chapters.speed.tuning import Point as Setting
from explain.counters.stalls import KINDS, REASONS, Stalls
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.lines import Line, chart
from explain.figures.plot import plot
from explain.figures.tables import Column
from explain.gpus import Gpu
from explain.records.model import Point

NO_TIME = "no time"
SMALL = 12
"""Font size of what stands beside a picture's main words."""


def _tera(per_second: float) -> str:
    """Under "TFLOP/s": "709", "8.98"."""
    return numbers.number(per_second / 1e12)


# The climb

TOP, TALL, ROW, LEAST_COLUMN, GAP = 26.0, 240.0, 20.0, 88.0, 17.0
BELOW = 24.0  # from the foot of the columns to the numbers under them


@functools.lru_cache(maxsize=64)
def climb(
    steps: tuple[Step, ...], libraries: tuple[Variant, ...], peak: Limit | None, shape: str, chosen: str
) -> str:  # fmt: skip
    """A column per kernel, as high as its throughput, with its numbers below; libraries and peak are lines."""
    speeds = [step.per_second or 0.0 for step in steps] + [one.per_second or 0.0 for one in libraries]
    most = 1.04 * max(*speeds, peak.per_second if peak else 0.0, 1.0)
    heads = ("TFLOP/s", "of the peak" if peak else "", "speedup over the one before")
    names = [f"{at} {step.rung.label}" for at, step in enumerate(steps, start=1)]
    wide = max(LEAST_COLUMN, labels.widest(names, 13, bold=True) + 10)
    heads_wide = max(labels.widest(labels.wrapped(head, 110, SMALL), SMALL) for head in heads)
    left, base = 1.05 * heads_wide + 20, TOP + TALL
    right = left + wide * len(steps)
    foot = base + BELOW + 3 * ROW

    parts = _scale(most, left, right, base)
    for at, step in enumerate(steps):
        parts.append(_column(step, at + 1, (left + at * wide, wide, base), most, peak, step.rung.name == chosen))
    for at, head in enumerate(heads, start=1):
        for row, words in enumerate(labels.wrapped(head, 110, SMALL)):
            parts.append(
                svg.text(left - 10, base + BELOW + at * ROW + row * 14, words, size=SMALL, anchor="end", faint=True)
            )
    parts += _brackets(steps, left, wide, foot + 14)
    lines, room = _lines(libraries, peak, (left, right, base), most)
    words = f"{len(steps)} kernels on {shape}: " + "; ".join(f"{step.rung.label} {_said(step)}" for step in steps)
    return svg.picture(right + room, foot + 42, words, parts + lines, most=f"{1.25 * (right + room):.0f}px")


def _scale(most: float, left: float, right: float, base: float) -> list[str]:
    """Lines at round TFLOP/s."""
    tera = most / 1e12
    apart = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tera / step <= 6), 1000)
    parts = [svg.text(left - 10, TOP - 10, "TFLOP/s", size=SMALL, anchor="end", faint=True)]
    for mark in range(0, int(tera) + 1, apart):
        y = base - TALL * mark / tera
        parts.append(svg.line(left, y, right, y, opacity=0.14 if mark else 0.5))
        parts.append(svg.text(left - 10, y + 4, f"{mark}", size=SMALL, anchor="end", faint=True))
    return parts


def _column(
    step: Step, number: int, place: tuple[float, float, float], most: float, peak: Limit | None, chosen: bool
) -> str:  # fmt: skip
    """One kernel's column, name and numbers, as a button."""
    (x, wide, base), rung = place, step.rung
    middle, colour = x + wide / 2, palette.css(palette.kernel(rung.entry.hue))
    tall = base - TOP + BELOW + 3 * ROW
    parts = [svg.rect(x + 3, TOP - 6, wide - 6, tall + 12, "currentColor", opacity=0.001)]
    if step.per_second:
        high = TALL * step.per_second / most
        parts.append(svg.rect(x + 3, base - high, wide - 6, high, colour, opacity=0.95 if chosen else 0.62))
    else:
        parts.append(svg.rect(x + 8, base - 26, wide - 16, 26, colour, opacity=0.08, stroke=colour, dashed=True))
        parts.append(svg.text(middle, base - 9, _why_none(step), size=SMALL, anchor="middle", faint=True))
    parts.append(svg.text(middle, base + 19, f"{number} {rung.label}", size=13, anchor="middle", bold=chosen))
    of_peak = share(step, peak)
    cells = (
        (_tera(step.per_second) if step.per_second else numbers.NONE, True, ""),
        (numbers.percent(of_peak) if of_peak else "", False, ""),
        (numbers.ratio(step.gain) if step.gain else "", step.slower, palette.css_ink("alarm") if step.slower else ""),
    )
    for row, (words, bold, fill) in enumerate(cells, start=1):
        parts.append(svg.text(middle, base + BELOW + row * ROW, words, anchor="middle", bold=bold, fill=fill))
    frame = f'x="{x + 1:.1f}" y="{TOP - 6:.1f}" width="{wide - 2:.1f}" height="{tall + 14:.1f}"'
    parts.append(f'<rect class="frame" {frame} rx="4" fill="none"/>')
    label = html.escape(f"Kernel {number}, {rung.title}: {_said(step)}")
    state = f'data-press="{rung.name}" aria-pressed="{str(chosen).lower()}" aria-label="{label}"'
    return f'<g role="button" tabindex="0" {state}>{"".join(parts)}</g>'


def _why_none(step: Step) -> str:
    if step.variant is None:
        return "not timed"
    return "wrong result" if step.variant.missed else NO_TIME


def _said(step: Step) -> str:
    """Its throughput and speedup, for a screen reader."""
    if step.per_second is None:
        return _why_none(step)
    gain = f", {numbers.ratio(step.gain)} the kernel before" if step.gain else ""
    return f"{numbers.si(step.per_second, 'FLOP/s')}{gain}"


def _brackets(steps: Sequence[Step], left: float, wide: float, y: float) -> list[str]:
    """Which kernels are plain Triton, and which Gluon."""
    parts = []
    for gluon, words in ((False, "plain Triton"), (True, "Gluon")):
        own = [at for at, step in enumerate(steps) if step.rung.gluon == gluon]
        if own:
            x, end = left + own[0] * wide + 6, left + (own[-1] + 1) * wide - 6
            hue = palette.css(palette.kernel(steps[own[0]].rung.entry.hue))
            parts.append(svg.rect(x, y, end - x, 3, hue))
            parts.append(svg.text((x + end) / 2, y + 19, words, size=SMALL, anchor="middle", faint=True))
    return parts


def _lines(
    libraries: Sequence[Variant], peak: Limit | None, place: tuple[float, float, float], most: float
) -> tuple[list[str], float]:  # fmt: skip
    """The libraries and the peak across all columns, their names at the right; and how wide these are."""
    left, right, base = place
    lines = [(one.per_second or 0.0, one.label, palette.css(one.hue or "slate"), "") for one in libraries]
    if peak:
        lines.append((peak.per_second, f"peak: {peak.name}", "currentColor", ' stroke-dasharray="6 4"'))
    names = [f"{name}, {_tera(speed)}" for speed, name, *_ in lines]
    heights = [base - TALL * speed / most for speed, *_ in lines]
    places = labels.spread(heights, GAP, low=TOP - 16)
    parts = []
    for (_, _, colour, dash), name, y, label_y in zip(lines, names, heights, places, strict=True):
        path = f"M{left:.1f} {y:.1f}H{right + 4:.1f}L{right + 16:.1f} {label_y:.1f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        parts.append(svg.text(right + 20, label_y + 4.5, name, size=13))
    return parts, 32 + labels.widest(names, 13)


def climb_told(
    steps: Sequence[Step], libraries: Sequence[Variant], peak: Limit | None, spill: Spill | None = None
) -> str:  # fmt: skip
    """The result of the climb in sentences; markdown. `spill`: what the kernel before the largest speedup spills."""
    timed = [step for step in steps if step.per_second]
    if not timed:
        return "None of the kernels is timed yet. Their code and ideas are below."
    top, said = timed[-1], []
    speed = top.per_second or 0.0
    parts = [f"{numbers.percent(of_peak)} of the peak"] if (of_peak := share(top, peak)) else []
    parts += [f"{numbers.ratio(speed / one.per_second)} {one.label}" for one in libraries if one.per_second]
    reached = f"**{top.rung.label}** reaches **{numbers.si(speed, 'FLOP/s')}**"
    said.append(f"{reached}: {', '.join(parts)}." if parts else f"{reached}.")
    if len(timed) > 1:
        first = timed[0]
        said.append(f"That is {numbers.ratio(speed / (first.per_second or 1.0))} {first.rung.label}.")
    if len(timed) > 2 and (most := largest(steps)) and most.gain:
        also = f": {spill.rung.label} also spills {numbers.moved(spill.size)} of registers" if spill else ""
        said.append(f"The largest speedup is **{most.rung.label}**, {numbers.ratio(most.gain)}{also}.")
    if slow := [f"**{step.rung.label}**" for step in steps if step.slower]:
        said.append(f"Slower than the kernel before, on this shape: {', '.join(slow)}.")
    if missing := sum(step.variant is None for step in steps):
        said.append(f"Not timed at this shape: {missing} of {len(steps)}.")
    return " ".join(said)


def number(step: Step, peak: Limit | None, lower: Rung | None, spill: Spill | None = None) -> str:
    """A kernel's throughput and speedup in sentences, or why it has none; markdown."""
    if step.variant is None:
        return "Not timed at this shape yet."
    if step.per_second is None:
        return f"No time: {'its error exceeds the tolerance' if step.variant.missed else step.variant.why}."
    parts = [f"**{numbers.si(step.per_second, 'FLOP/s')}**"]
    if of_peak := share(step, peak):
        parts.append(f"{numbers.percent(of_peak)} of the peak")
    if step.gain and lower:
        parts.append(f"{numbers.ratio(step.gain)} {lower.label}")
    said = [f"{', '.join(parts)}."]
    if step.slower:
        said.append("On this shape it is slower than the kernel before.")
    if step.gain and spill:
        said.append(f"The speedup has two causes. {_causes(spill)}")
    return " ".join(said)


def _causes(spill: Spill) -> str:
    """The two causes of a speedup over a kernel that spills, from the counters: busier tensor cores, and no spills."""
    said, (before, now) = "", spill.tensor
    if before is not None and now is not None:
        said += f"Tensor cores: busy {before:.0f}% of their peak in {spill.rung.label}, {now:.0f}% here. "
    said += f"Spills: {spill.rung.label} moves {numbers.moved(spill.size)} of spilled registers, this kernel none."
    if spill.seconds and spill.of and spill.bandwidth:
        cost, whole = numbers.duration(spill.seconds), numbers.duration(spill.of)
        said += (
            f" At the measured L2 bandwidth of {numbers.si(spill.bandwidth, 'B/s')} that takes {cost} of its {whole}."
        )
    return said


def counters_table(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """What the GPU counted of each kernel, as markdown: tensor-core use and bytes, L2 cold."""
    shown = [
        (rung, counters.cold) for rung in rungs if rung.name in counted and (counters := counted[rung.name].counters)
    ]
    moved = (Column(name, numbers.moved) for name in ("L2 ↔ SMs", "HBM", "spilled"))
    columns: tables.Columns = ("kernel", Column("tensor cores", lambda percent: f"**{percent:.0f}%**"), *moved)
    rows = [(rung.label, c.tensor_active_percent, c.sm_bytes, c.hbm_bytes, c.spilled_bytes) for rung, c in shown]
    return tables.markdown(columns, rows)


# Why warps wait

KIND_COLOURS: Mapping[str, str] = dict(zip(KINDS, palette.SERIES, strict=True))
WIDTH, STALL_ROW, BAR = 700.0, 46.0, 18.0


def stall_bars(kernels: Sequence[tuple[str, Stalls]]) -> str:
    """A bar per kernel, all of its warps' time, divided into kinds: the same kinds, order and colours in each."""
    parted = [(name, stalls, stalls.by_kind) for name, stalls in kernels]
    shown = [kind for kind in KINDS if any(by_kind[kind] >= 0.005 for *_, by_kind in parted)]
    parts, top = _legend(shown)
    for at, (name, stalls, by_kind) in enumerate(parted):
        y, x = top + at * STALL_ROW, 0.0
        parts.append(svg.text(0, y + 15, name, bold=True))
        busy = f"{stalls.warps:.1f} warps per scheduler, issuing in {numbers.percent(stalls.busy)} of cycles"
        parts.append(svg.text(WIDTH, y + 15, busy, size=SMALL, anchor="end", faint=True))
        whole = sum(by_kind[kind] for kind in shown) or 1.0  # counted in several runs, so not exactly 1
        for kind in shown:
            part, colour = by_kind[kind], KIND_COLOURS[kind]
            wide = WIDTH * part / whole
            if wide <= 0:
                continue
            parts.append(svg.rect(x, y + 22, wide, BAR, palette.css(colour), title=_stall_title(stalls, kind)))
            words = numbers.percent(part)
            if labels.text_width(words, SMALL) + 6 <= wide:
                ink = palette.letters(palette.fill(colour))
                parts.append(svg.text(x + wide / 2, y + 35.5, words, size=SMALL, anchor="middle", fill=ink))
            x += wide
    label = f"What the warps of {', '.join(name for name, _ in kernels)} spend their time on"
    return svg.picture(WIDTH, top + STALL_ROW * len(kernels), label, parts, most="900px")


def _legend(kinds: Sequence[str]) -> tuple[list[str], float]:
    parts, x, y = [], 0.0, 4.0
    for kind in kinds:
        wide = 36 + labels.text_width(KINDS[kind], SMALL)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        parts.append(svg.rect(x, y, 11, 11, palette.css(KIND_COLOURS[kind])))
        parts.append(svg.text(x + 17, y + 10.5, KINDS[kind], size=SMALL))
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


# What warps do over time

SPANS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Q Kᵀ": ("scores", ("QK",)),
    "softmax": ("p", ("softmax",)),
    "P̃ V": ("acc", ("PV",)),
    "rescale Õ": ("alpha", ("rescale",)),
    "load or store": ("hbm", ("load Q", "load K", "load V", "store O")),
    "wait": ("slate", ("wait Q", "wait K", "wait V", "turn", "place Q", "place K", "place V")),
}
"""The kinds of a timeline's spans: the palette's colour, and the scopes of each."""
MATMUL_ROWS = {"QK": "Q Kᵀ", "PV": "P̃ V"}
"""Scopes that overlap with others of their group, and so have rows of their own."""
SHOWN = 4
"""Tiles of keys in sight at first."""


def lanes(timeline: Timeline, program: Program) -> go.Figure:
    """A program's warps over time in µs. The whole run can be scrolled; a few tiles in the middle are in sight."""
    figure = plot()
    rows: list[str] = []
    for name, lane in program.named:
        own_rows = {} if lane.produces else MATMUL_ROWS
        rows += (
            [name]
            if lane.produces
            else [*(f"{name} · {row}" for row in MATMUL_ROWS.values()), f"{name} · softmax, waits"]
        )
        for kind, (hue, scopes) in SPANS.items():
            spans = [span for span in lane.spans if span.scope in scopes]
            if not spans:
                continue
            figure.add_bar(
                name=kind, legendgroup=kind, orientation="h", width=0.72,
                y=[f"{name} · {own_rows[span.scope]}" if span.scope in own_rows else rows[-1] for span in spans],
                base=[timeline.microseconds(span.start) for span in spans],
                x=[timeline.microseconds(span.cycles) for span in spans],
                marker={"color": palette.mid(hue), "line": {"width": 0.5, "color": "rgba(127,127,127,0.6)"}},
                customdata=[_span(timeline, span) for span in spans],
                showlegend=not any(trace.name == kind for trace in figure.data),
                hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]}<extra>" + name + "</extra>",
            )  # fmt: skip
    start, end = window(program)
    figure.update_layout(
        xaxis={
            "title": "time since the program's start, µs", "zeroline": False, "automargin": True,
            "range": [timeline.microseconds(start), timeline.microseconds(end)],
            "rangeslider": {"visible": True, "thickness": 0.12},
        },
        yaxis={
            "title": "", "categoryorder": "array", "categoryarray": rows[::-1], "fixedrange": True, "showgrid": False,
        },
        barmode="overlay", bargap=0.2, height=190 + 34 * len(rows), margin={"l": 8, "r": 8, "t": 8, "b": 48},
        hovermode="closest", dragmode="pan",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )  # fmt: skip
    return figure


def window(program: Program) -> tuple[int, int]:
    """The cycles in sight at first: SHOWN tiles of keys in the middle of the run."""
    group = next((lane for _, lane in program.named if not lane.produces), program.lanes[0])
    starts = [span.start for span in group.spans if span.scope == "QK"]
    if len(starts) <= SHOWN + 1:
        return 0, program.cycles
    first = (len(starts) - SHOWN) // 2
    return starts[first], starts[first + SHOWN]


def _span(timeline: Timeline, span: Span) -> tuple[str, str]:
    start, end, long = (timeline.microseconds(cycles) for cycles in (span.start, span.end, span.cycles))
    cycles = f"{span.cycles:,} cycles, {long:.3f} µs; from {span.start:,} to {span.end:,}"
    return SCOPES[span.scope], f"{cycles}, {start:.2f} to {end:.2f} µs"


def compared(timelines: Sequence[Timeline]) -> str:
    """Every run, the mean of its programs, as markdown."""
    rows = []
    for one in timelines:
        overlaps = [program.hidden for program in one.programs if program.hidden is not None]
        busy = statistics.fmean(program.matmuls for program in one.programs)
        cycles = statistics.fmean(program.cycles / max(program.visits(), 1) for program in one.programs)
        rows.append((one.title, busy, statistics.fmean(overlaps) if overlaps else None, round(cycles)))
    names = ("a matmul runs", "softmax overlaps with a matmul")
    shares = [Column(name, lambda part: f"**≤ {numbers.percent(part)}**") for name in names]
    columns: tables.Columns = ["run", *shares, Column("cycles per tile of keys")]
    return tables.markdown(columns, rows)


def timeline_told(timeline: Timeline, program: Program) -> str:
    """The lanes in sentences; markdown."""
    whole = numbers.duration(timeline.microseconds(program.cycles) / 1e6)
    told = f"A matmul runs in at most **{numbers.percent(program.matmuls)}** of this program's {whole}."
    if program.hidden is not None:
        told += f" At most **{numbers.percent(program.hidden)}** of the softmax overlaps with one."
    told += f" Reading the clock costs time: with it the longest program takes {timeline.marked_us:.1f} µs;"
    if timeline.plain_us is None:
        return f"{told} a launch without it was not timed."
    return f"{told} a whole launch without it takes {timeline.plain_us:.1f} µs."


# Tuning

CELL, CELL_HIGH, GRID_TOP = 92.0, 38.0, 46.0
SPILLED = "⚠"
"""Marks a setting that spills registers."""


@functools.lru_cache(maxsize=8)
def grid(of: Grid, hue: int) -> str:
    """Tile sizes down, warps and stages across. A cell has its time (darker is faster) or the compiler's report."""
    rows = sorted({(point.block_m, point.block_n) for point in of.points})
    columns = sorted({(point.warps, point.stages) for point in of.points})
    names = [f"{block_m} × {block_n}" for block_m, block_n in rows]
    left = 1.05 * max(labels.text_width("queries × keys", SMALL), labels.widest(names)) + 16
    right, best = left + CELL * len(columns), of.timed[0] if of.timed else None
    parts = [svg.text(left - 12, GRID_TOP - 8, "queries × keys", size=SMALL, anchor="end", faint=True)]
    for at, (warps, stages) in enumerate(columns):
        x = left + CELL * at
        if at == 0 or columns[at - 1][0] != warps:
            parts.append(svg.text(x + 4, 16, f"{warps} warps", size=13, bold=True))
        parts.append(svg.text(x + CELL / 2, GRID_TOP - 8, _stages(stages), size=SMALL, anchor="middle", faint=True))
    for at, name in enumerate(names):
        y = GRID_TOP + CELL_HIGH * at
        parts.append(svg.text(left - 12, y + 24, name, anchor="end"))
        if at and rows[at - 1][0] != rows[at][0]:
            parts.append(svg.line(8, y - 0.5, right, y - 0.5, opacity=0.35))
    for point in of.points:
        x = left + CELL * columns.index((point.warps, point.stages))
        y = GRID_TOP + CELL_HIGH * rows.index((point.block_m, point.block_n))
        parts.append(_cell(x, y, point, best, palette.css(palette.kernel(hue))))
    words = f"{of.rung} with {len(of.points)} settings of tile, warps and stages, on {of.words}"
    return svg.picture(right + 4, GRID_TOP + CELL_HIGH * len(rows) + 4, words, parts, "1100px")


def _stages(stages: int) -> str:
    return f"{stages} stage{'s' * (stages > 1)}"


def _cell(x: float, y: float, point: Setting, best: Setting | None, colour: str) -> str:
    inside, middle = (x + 2, y + 2, CELL - 4, CELL_HIGH - 4), x + CELL / 2
    mark = f" {SPILLED}" if point.spills else ""
    if point.trouble:
        box = svg.rect(
            *inside, palette.css("alarm"), opacity=0.06, stroke=palette.css("alarm"), dashed=True, title=setting(point)
        )
        words = TROUBLES[point.trouble][0]
        return box + svg.text(middle, y + 24, words, size=SMALL, anchor="middle", fill=palette.css_ink("alarm"))
    if point.seconds is None or best is None or best.seconds is None:
        hue = palette.css("warning" if point.spills else "slate")
        box = svg.rect(*inside, hue, opacity=0.35 if point.spills else 0.18, title=setting(point))
        lines = ["not compiled"]
        if point.registers:
            lines = [f"{point.registers} regs{mark}", numbers.capacity(point.shared_bytes or 0)]
        texts = (svg.text(middle, y + 17 + 14 * at, line, size=SMALL, anchor="middle") for at, line in enumerate(lines))
        return box + "".join(texts)
    fastest = point == best
    fill, stroke = 0.06 + 0.5 * (best.seconds / point.seconds) ** 2, "currentColor" if fastest else "none"
    box = svg.rect(*inside, colour, opacity=fill, stroke=stroke, title=setting(point))
    words = f"{numbers.duration(point.seconds)}{mark}"
    return box + svg.text(middle, y + 24, words, anchor="middle", bold=fastest)


def setting(point: Setting) -> str:
    """A setting and all that is known of it."""
    parts = [f"{point.block_m} × {point.block_n}, {point.warps} warps, {_stages(point.stages)}"]
    if point.seconds is not None:
        parts.append(numbers.duration(point.seconds))
    if point.trouble:
        parts.append(f"{TROUBLES[point.trouble][1]}{f': {point.why}' if point.why else ''}")
    if point.registers is not None:
        parts.append(f"{point.registers} registers per thread")
    if point.spills:
        parts.append(f"{4 * point.spills:,} B per thread spilled to local memory")
    if point.shared_bytes is not None:
        parts.append(f"{point.shared_bytes:,} B of shared memory per program")
    return "; ".join(parts)


def grid_told(of: Grid, gpu: Gpu | None) -> str:
    """The result of the grid in sentences; markdown."""
    many, timed = len(of.points), of.timed
    out = sum(point.trouble == "shared memory" for point in of.points)
    spilled = [point for point in of.points if point.spills]
    said = []
    if timed and timed[0].seconds and timed[-1].seconds:
        best, worst = timed[0], timed[-1]
        names = [f"{p.block_m} × {p.block_n} with {p.warps} warps and {_stages(p.stages)}" for p in (best, worst)]
        speed = numbers.si(of.work / timed[0].seconds, "FLOP/s")
        said.append(f"{len(timed)} of {many} settings have a time.")
        said.append(f"Fastest: **{names[0]}**, {numbers.duration(timed[0].seconds)} ({speed}).")
        slower = numbers.ratio(timed[-1].seconds / timed[0].seconds)
        said.append(f"Slowest: {names[1]}, **{slower}** that time for the same result.")
    if out:
        room = f" ({numbers.capacity(gpu.shared_bytes)} per program)" if gpu else ""
        said.append(f"{out} of {many} do not fit shared memory{room}: each stage holds a tile of K and a tile of V.")
    if spilled:
        warps = {point.warps for point in spilled}
        all_with = f", all with {warps.pop()} warps" if len(warps) == 1 else ""
        said.append(
            f"{len(spilled)} spill registers{all_with}: a tile's S, P̃ and Õ are spread over the registers of the "
            "program's threads, at most 255 each, so fewer warps need more registers per thread."
        )
    return " ".join(said)


# A first call

SHORTEST = 1e-6
"""Seconds at the left end of the bars."""


def first_call(compiled: float | None, first: float, later: float, gpu: str) -> str:
    """A first call beside the later ones, as bars on a log scale. Seconds; `compiled`: compilation alone, if known."""
    bars = [("compilation alone, on a CPU", compiled, "slate")] if compiled is not None else []
    bars += [("first call, with compilation", first, "series-2"), ("each later call", later, "series-1")]
    left, wide, high = labels.widest(words for words, *_ in bars) + 16, 420.0, 30.0
    foot, decades = 8 + high * len(bars), range(round(log10(SHORTEST)), 2)

    def at(seconds: float) -> float:
        return left + wide * (log10(max(seconds, SHORTEST)) - decades[0]) / (len(decades) - 1)

    parts = []
    for decade in decades:
        x, words = at(10.0**decade), numbers.duration(10.0**decade)
        parts.append(svg.line(x, 4, x, foot, opacity=0.15))
        parts.append(svg.text(x, foot + 16, words, size=SMALL, anchor="middle", faint=True))
    for row, (words, seconds, hue) in enumerate(bars):
        y = 8 + row * high
        parts.append(svg.text(left - 12, y + 16, words, anchor="end"))
        parts.append(svg.rect(left, y, at(seconds) - left, high - 8, palette.css(hue)))
        parts.append(svg.text(at(seconds) + 8, y + 16, numbers.duration(seconds), bold=True))
    return svg.picture(left + wide + 90, foot + 26, f"A first call on {gpu} beside the later ones", parts, "54rem")


# Other kernels

BAR_ROW, BARS_TOP, BARS_WIDE = 46.0, 24.0, 540.0


def bars(case: Case, limit: Limit | None, colour: Mapping[str, str]) -> str:
    """A bar per kernel, as long as its throughput, with its share of the roof and its error; or why it has no time."""
    variants = case.best
    longest = max([one.per_second or 0.0 for one in variants] + ([limit.per_second] if limit else []) + [1.0])
    parts = []
    for at, one in enumerate(variants):
        y = BARS_TOP + at * BAR_ROW
        parts.append(svg.text(0, y + 15, one.label, bold=one.ours))
        speed = numbers.si(one.per_second, case.unit) if one.per_second else ""
        speed += f" · {numbers.percent(one.per_second / limit.per_second)}" if one.per_second and limit else ""
        parts.append(svg.text(BARS_WIDE, y + 15, speed, anchor="end", bold=one.ours))
        about = ["ours"] * one.ours
        about += [f"error ÷ tolerance {numbers.number(one.error, 2)}"] if one.error is not None else []
        room = BARS_WIDE - labels.text_width(one.label, bold=one.ours) - labels.text_width(speed, bold=one.ours) - 24
        x = labels.text_width(one.label, bold=one.ours) + 12
        parts.append(svg.text(x, y + 15, labels.shortened(", ".join(about), room, SMALL), size=SMALL, faint=True))
        if one.per_second is None:
            first = (one.why.strip().splitlines() or ["the reason was not recorded"])[0]
            why = "the error exceeds the tolerance" if one.missed else first
            words = labels.shortened(f"{NO_TIME}: {why}", BARS_WIDE, SMALL)
            fill = palette.css_ink("alarm") if one.missed else ""
            parts.append(svg.text(0, y + 35, words, size=SMALL, fill=fill, faint=not one.missed))
            continue
        wide, hue = BARS_WIDE * one.per_second / longest, palette.css(colour[one.function])
        parts.append(svg.rect(0, y + 22, wide, 15, hue, title=f"{one.label} {one.options}".strip()))
    if limit:
        x = BARS_WIDE * limit.per_second / longest
        tops = (BARS_TOP + at * BAR_ROW + 20 for at in range(len(variants)))
        parts += [svg.rect(x - 1.5, top, 1.5, 19, "currentColor") for top in tops]
        words = f"roof: {limit.name}, {numbers.si(limit.per_second, case.unit)}"
        parts.append(svg.text(x, 14, f"{words} ▕", size=SMALL, anchor="end"))
    high = BARS_TOP + BAR_ROW * len(variants)
    return svg.picture(BARS_WIDE, high, f"Throughput of each kernel on {case.words}", parts, most="800px")


def bars_told(case: Case, limit: Limit | None) -> str:
    """The bars in a sentence; markdown."""
    ours = case.ours
    if ours is None or ours.per_second is None:
        return "None of our kernels has a time here."
    said = [f"{numbers.percent(ours.per_second / limit.per_second)} of the roof"] if limit else []
    said += [f"{numbers.ratio(ratio(ours, one))} {one.label}" for one in case.baselines]
    reached = f"**{ours.label}** reaches **{numbers.si(ours.per_second, case.unit)}**"
    return f"{reached}: {', '.join(said)}." if said else f"{reached}."


def settings(case: Case) -> str:
    """Which settings the bars show, where several were tried; empty otherwise."""
    several = [variant for variant in case.best if variant.settings > 1 and variant.seconds is not None]
    return "; ".join(f"{one.label} with {one.options}, the fastest of {one.settings} settings" for one in several)


def curve(cases: Sequence[Case], limits: Sequence[Limit | None]) -> go.Figure:
    """Each kernel's throughput over the length, and the roof dashed. `limits` are the cases' roofs."""
    unit, along, hues = cases[0].unit, TABLES[cases[0].table].along, colours(cases)
    functions = {one.function: one for case in cases for one in case.variants if not one.floor}
    lines = []
    for function in sorted(functions):
        own = [(case.along, one) for case in cases for one in case.best if one.function == function]
        points = [(x, one.per_second / 1e12) for x, one in own if one.per_second]
        lines.append(Line(points, functions[function].label, palette.mid(hues[function])))
    roofs = [(case.along, limit.per_second / 1e12) for case, limit in zip(cases, limits, strict=True) if limit]
    name = next((limit.name for limit in limits if limit), "")
    lines.append(Line(roofs, f"roof: {name}", palette.mid("slate"), dashed=True))
    titles = {"N": "N, queries and keys", "V": "V, elements in a row"}
    return chart("", lines, x=titles[along], y=f"T{unit}", unit=f" T{unit}", height=400)


def shapes_table(cases: Sequence[Case], limits: Sequence[Limit | None]) -> str:
    """Every shape as markdown: our fastest kernel, its share of the roof, its speedup over each library."""
    libraries = all_baselines(cases)
    columns: tables.Columns = (
        " "
        "× ".join(TABLES[cases[0].table].dimensions), "our fastest", "throughput",
        Column("of the roof", numbers.percent),
        *(Column(f"÷ {one.label}", numbers.ratio) for one in libraries),
    )  # fmt: skip
    rows: list[list[str | float | None]] = []
    for case, limit in zip(cases, limits, strict=True):
        ours = case.ours
        if ours is None or ours.per_second is None:
            rows.append([case.words, "none has a time", *[None] * (len(columns) - 2)])
            continue
        beside = {one.function: one for one in case.baselines}
        of_roof = ours.per_second / limit.per_second if limit else None
        ratios = [ratio(ours, beside[one.function]) if one.function in beside else None for one in libraries]
        rows.append([case.words, ours.label, f"**{numbers.si(ours.per_second, case.unit)}**", of_roof, *ratios])
    return tables.markdown(columns, rows)
