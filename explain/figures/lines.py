"""A chart of lines over a logarithmic axis, each with its name at its end instead of a legend."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from explain.figures import palette
from explain.figures.labels import spread, widest
from explain.figures.numbers import number, power
from explain.figures.plot import FONT, plot
from kernels.catalog import KERNELS

_LABEL = 0.075
"""A label's height in shares of the plot's."""


@dataclass(frozen=True)
class Line:
    """A line of a chart: its points, the label at its end, and its colour, a mid-tone of the palette.

    `dashed`, with hollow markers, is what this run did not measure: a paper's values, a roof.
    """

    points: Sequence[tuple[float, float]]
    label: str
    colour: str
    dashed: bool = False


def colour_of(kernel: str) -> str:
    """A kernel's colour for a line or a marker, to be seen in both themes."""
    return palette.mid(palette.kernel(KERNELS[kernel].hue))


def chart(
    title: str, lines: Iterable[Line], *, x: str, y: str, unit: str = "", log: bool = False, height: int = 380,
    start: float = 0.0,
) -> go.Figure:  # fmt: skip
    """Lines with labels at their ends, over a logarithmic x; y is logarithmic with `log`, else it begins at `start`."""
    figure = plot()
    drawn = [line for line in lines if line.points]
    for line in drawn:
        figure.add_scatter(
            x=[point[0] for point in line.points],
            y=[point[1] for point in line.points],
            name=line.label,
            mode="lines+markers",
            line={"color": line.colour, "width": 2, "dash": "dash" if line.dashed else "solid"},
            marker={"size": 7, "symbol": "circle-open" if line.dashed else "circle"},
            hovertemplate=f"{x.partition(',')[0]} %{{x:,}}: %{{y:.4~g}}{unit}<extra>{line.label}</extra>",
        )
    values = [point[1] for line in drawn for point in line.points]
    scaled = math.log10 if log else float
    top = max(values, default=10.0)
    low, high = (scaled(min(values, default=1.0)) if log else start), scaled(top)
    margin = 0.06 * ((high - low) or 1.0)
    low, high = (low - margin if log else start), high + margin
    figure.update_xaxes(title=x, type="log", **_ticks([point[0] for line in drawn for point in line.points], own=True))
    ticks = _ticks(values, own=False) if log else {}
    figure.update_yaxes(title=y, type="log" if log else "linear", range=[low, high], **ticks)
    ends = [(scaled(line.points[-1][1]) - low) / (high - low) for line in drawn]
    for line, end in zip(drawn, spread(ends, _LABEL, -_LABEL / 2, 1 + _LABEL / 2), strict=True):
        mark = "○" if line.dashed else "●"
        figure.add_annotation(
            x=1, xref="x domain", xshift=12, y=end, yref="y domain", xanchor="left", yanchor="middle", showarrow=False,
            align="left", text=f"<span style='color:{line.colour}'>{mark}</span> {line.label}", font={"size": FONT},
        )  # fmt: skip
    room = 28 + widest((f"● {line.label}" for line in drawn), FONT)
    figure.update_layout(
        title={"text": title, "font": {"size": 15}}, height=height, margin={"l": 8, "r": room, "t": 44, "b": 8},
        showlegend=False, hovermode="closest",
    )  # fmt: skip
    return figure


def as_csv(figure: go.Figure) -> str:
    """The numbers of a chart as CSV: one row a point, with the name of its curve."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("curve", figure.layout.xaxis.title.text or "", figure.layout.yaxis.title.text or ""))
    rows.writerows((line.name, x, y) for line in figure.data for x, y in zip(line.x, line.y, strict=True))
    return out.getvalue()


def _ticks(values: Sequence[float], *, own: bool) -> dict[str, object]:
    """Ticks of a logarithmic axis: powers of ten over three of them, else the values themselves or 1, 2, 5 a decade."""
    if not values or max(values) / min(values) > 1000:
        low, high = math.log10(min(values, default=1)), math.log10(max(values, default=1))
        powers = range(math.floor(low), math.ceil(high) + 1)
        words = [number(10.0**one, 1) if -4 < one < 6 else power(one) for one in powers]
        return {"tickvals": [10.0**one for one in powers], "ticktext": words}
    marks = sorted(set(values))
    if not own:
        decades = range(math.floor(math.log10(marks[0])), math.ceil(math.log10(marks[-1])) + 1)
        marks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    elif len(marks) > 6:
        marks = marks[::-2][::-1]
    return {"tickvals": marks, "ticktext": [number(value, 4) for value in marks], "tickangle": 0}
