"""A chart of lines over a logarithmic axis, each with its name where it ends: of more use than a legend, and readable without colours."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from explain.figures import palette
from explain.figures.plot import plot
from kernels.catalog import KERNELS


@dataclass(frozen=True)
class Line:
    """A line of a chart: its points, and the label at its end. What is the paper's, or another level's, is dashed and hollow."""

    points: Sequence[tuple[float, float]]
    label: str
    colour: str
    dashed: bool = False


def colour_of(kernel: str) -> str:
    """A kernel's colour for a line or a marker, to be seen in both themes."""
    return palette.mid(palette.kernel(KERNELS[kernel].hue))


def chart(
    title: str, lines: Iterable[Line], *, x: str, y: str, unit: str = "", log: bool = False, height: int = 380
) -> go.Figure:
    """Lines over a logarithmic x, y logarithmic too with `log`; each labelled where it ends, the labels pushed apart."""
    figure = plot()
    drawn = [line for line in lines if line.points]
    for line in drawn:
        figure.add_scatter(
            x=[point[0] for point in line.points], y=[point[1] for point in line.points], name=line.label, mode="lines+markers",
            line={"color": line.colour, "width": 2, "dash": "dash" if line.dashed else "solid"},
            marker={"size": 7, "symbol": "circle-open" if line.dashed else "circle"},
            hovertemplate=f"{x.partition(',')[0]} %{{x:,}}: %{{y:.4~g}}{unit}<extra>{line.label}</extra>",
        )  # fmt: skip
    values = [point[1] for line in drawn for point in line.points]
    low, high = (
        (math.log10(min(values)), math.log10(max(values))) if log and values else (0.0, max(values, default=1.0))
    )
    margin = 0.06 * ((high - low) or 1.0)
    low, high = (low - margin if log else 0.0), high + margin
    figure.update_xaxes(title=x, type="log", **_ticks([point[0] for line in drawn for point in line.points], own=True))
    figure.update_yaxes(
        title=y, type="log" if log else "linear", range=[low, high], **(_ticks(values, own=False) if log else {})
    )
    ends = [(math.log10(line.points[-1][1]) if log else line.points[-1][1]) for line in drawn]
    for line, end in zip(drawn, _apart([(end - low) / (high - low) for end in ends]), strict=True):
        figure.add_annotation(
            x=1.02, xref="x domain", y=end, yref="y domain", xanchor="left", yanchor="middle", showarrow=False, align="left",
            text=f"<span style='color:{line.colour}'>{'○' if line.dashed else '●'}</span> {line.label}",
        )  # fmt: skip
    longest = max((len(line.label) for line in drawn), default=0)
    figure.update_layout(
        title={"text": title, "font": {"size": 15}}, height=height, margin={"l": 8, "r": 28 + 7.2 * longest, "t": 44, "b": 8},
        showlegend=False, hovermode="closest",
    )  # fmt: skip
    return figure


def as_csv(figure: go.Figure) -> str:
    """The numbers of a chart: a line a point, with the name of its curve."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("curve", figure.layout.xaxis.title.text or "", figure.layout.yaxis.title.text or ""))
    rows.writerows((line.name, x, y) for line in figure.data for x, y in zip(line.x, line.y, strict=True))
    return out.getvalue()


def _apart(heights: Sequence[float], gap: float = 0.075) -> list[float]:
    """The same heights in their order, at least `gap` apart, within 0 to 1."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = [0.0] * len(heights)
    floor = 0.0
    for i in order:
        placed[i] = floor = max(heights[i], floor)
        floor += gap
    ceiling = 1.0
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def _ticks(values: Sequence[float], *, own: bool) -> dict[str, object]:
    """Of a logarithmic axis: powers of ten where it spans three of them, else some of the values themselves, or with `own` false 1, 2, 5, 10 …"""
    if not values or max(values) / min(values) > 1000:
        return {"dtick": 1, "exponentformat": "power"}
    marks = sorted(set(values))
    if not own:
        decades = range(math.floor(math.log10(marks[0])), math.ceil(math.log10(marks[-1])) + 1)
        marks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    elif len(marks) > 6:
        marks = marks[::-2][::-1]
    return {
        "tickvals": marks,
        "ticktext": [f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in marks],
        "tickangle": 0,
    }
