"""A kernel's timeline as lanes: what the warp that fetches and each group that computes do, side by side in time. Values in, Plotly out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from explain.chapters.speed.timeline import SCOPES, Program, Span, Timeline
from explain.figures.palette import letters, mid
from explain.figures.plot import plot

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Q Kᵀ": (mid("scores"), ("QK",)),
    "softmax": (mid("p"), ("softmax",)),
    "P V": (mid("acc"), ("PV",)),
    "rescale O": (mid("alpha"), ("rescale",)),
    "load": (mid("hbm"), ("load Q", "load K", "load V")),
    "store O": (mid("series-3"), ("store O",)),
    "wait": (mid("slate"), ("wait Q", "wait K", "wait V", "turn", "place Q", "place K", "place V")),
}
"""What is told apart by colour: the quantity that is made, in its own colour, and the scopes that make it."""
ROWS = {"QK": "Q Kᵀ", "PV": "P V"}
"""Scopes of a group that run beside others, in rows of their own; all others share one."""
PLAIN: Mapping[str, str] = {kind: letters(KINDS[kind][0]) for kind in ("Q Kᵀ", "softmax", "P V")}
"""Kinds whose pieces say what they are where there is room, in letters of this colour."""
SHOWN = 4
"""Visits in sight at first."""
ROW = 34


def lanes(timeline: Timeline, program: Program) -> go.Figure:
    """The program's lanes over time in µs: all of it, with some visits in the middle in sight."""
    figure = plot()
    rows: list[str] = []
    for name, lane in program.named:
        groups = {} if lane.fetches else ROWS
        rows += [name] if lane.fetches else [*(f"{name} · {row}" for row in ROWS.values()), f"{name} · softmax, waits"]
        for kind, (colour, scopes) in KINDS.items():
            spans = [span for span in lane.spans if span.scope in scopes]
            if not spans:
                continue
            row = [f"{name} · {groups[span.scope]}" if span.scope in groups else rows[-1] for span in spans]
            figure.add_bar(
                name=kind, legendgroup=kind, y=row, orientation="h", width=0.72,
                base=[timeline.microseconds(span.start) for span in spans],
                x=[timeline.microseconds(span.cycles) for span in spans],
                marker={"color": colour, "opacity": 0.6 if kind == "wait" else 1.0, "line": {"width": 0.5, "color": "rgba(127,127,127,0.6)"}},
                customdata=[_said(timeline, span) for span in spans],
                text=kind if kind in PLAIN else "", textposition="inside", insidetextanchor="middle", textangle=0, textfont={"color": PLAIN.get(kind)},
                hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]}<extra>" + name + "</extra>",
                showlegend=not any(trace.name == kind for trace in figure.data),
            )  # fmt: skip
    start, end = window(program)
    figure.update_xaxes(
        title="time since the program began, µs", range=[timeline.microseconds(start), timeline.microseconds(end)],
        rangeslider={"visible": True, "thickness": 0.12}, zeroline=False, automargin=True,
    )  # fmt: skip
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], title="", fixedrange=True, showgrid=False)
    figure.update_layout(
        barmode="overlay", bargap=0.2, height=190 + ROW * len(rows), margin={"l": 8, "r": 8, "t": 8, "b": 48}, hovermode="closest",
        dragmode="pan", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )  # fmt: skip
    return figure


def window(program: Program) -> tuple[int, int]:
    """From where to where the picture opens, in cycles: SHOWN visits in the middle of the run."""
    group = next((lane for _, lane in program.named if not lane.fetches), program.lanes[0])
    starts = [span.start for span in group.spans if span.scope == "QK"]
    if len(starts) <= SHOWN + 1:
        return 0, program.cycles
    first = (len(starts) - SHOWN) // 2
    return starts[first], starts[first + SHOWN]


def _said(timeline: Timeline, span: Span) -> tuple[str, str]:
    micro = timeline.microseconds
    return (
        SCOPES[span.scope],
        f"{span.cycles:,} cycles, {micro(span.cycles):.3f} µs; from {span.start:,} to {span.end:,}, {micro(span.start):.2f} to {micro(span.end):.2f} µs",
    )


def compared(timelines: Sequence[Timeline]) -> str:
    """What each run comes to, the mean of its programs, as markdown: a line a run."""
    lines = [
        "| run | a product under way, at most | softmax under a product, at most | cycles a visit |",
        "|---|---:|---:|---:|",
    ]
    for one in timelines:
        programs = one.programs
        hidden = [program.hidden for program in programs if program.hidden is not None]
        cells = [
            one.title,
            f"**{statistics.fmean(program.products for program in programs):.0%}**",
            f"**{statistics.fmean(hidden):.0%}**" if hidden else "–",
            f"{statistics.fmean(program.cycles / max(program.visits(), 1) for program in programs):,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def told(timeline: Timeline, program: Program) -> str:
    """What the lanes come to, in words; markdown."""
    said = [
        f"A product is under way, or done and not yet waited for, in **{program.products:.0%}** of this program's {timeline.microseconds(program.cycles):.1f} µs"
    ]
    if program.hidden is not None:
        said.append(f"**{program.hidden:.0%}** of the softmax runs meanwhile")
    told = f"{', and '.join(said)}. Reading the clock is itself work: with it the longest program takes {timeline.marked_us:.1f} µs"
    if timeline.plain_us is None:
        return f"{told}; how long a launch takes without was not timed."
    return f"{told}; without it a whole launch, its beginning and its end included, takes {timeline.plain_us:.1f} µs."
