"""What warps do over time: a lane for each, and the overlaps in numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from explain.chapters.speed.timeline import SCOPES, Program, Span, Timeline
from explain.figures import numbers, palette, tables
from explain.figures.plot import plot
from explain.figures.tables import Column

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
        own = [*(f"{name} · {row}" for row in MATMUL_ROWS.values()), f"{name} · softmax, waits"]
        rows += [name] if lane.produces else own
        for kind, (hue, scopes) in SPANS.items():
            spans = [span for span in lane.spans if span.scope in scopes]
            if not spans:
                continue
            figure.add_bar(
                name=kind, legendgroup=kind, orientation="h", width=0.72,
                y=[f"{name} · {own_rows[span.scope]}" if span.scope in own_rows else rows[-1] for span in spans],
                base=[timeline.microseconds(span.start) for span in spans],
                x=[timeline.microseconds(span.cycles) for span in spans],
                marker={"color": palette.mid(hue), "line": {"width": 0.5, "color": palette.mid("slate")}},
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
    shares = [Column(name, lambda part: f"**{'≤ ' if part else ''}{numbers.percent(part)}**") for name in names]
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
