"""A chart of lines over a logarithmic axis, each with its name at its end instead of a legend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import plotly.graph_objects as go

from explain.figures import palette
from explain.figures.labels import spread, widest
from explain.figures.numbers import count, number, power
from explain.figures.plot import END, FONT, logarithmic, plot
from explain.figures.tables import csv_of
from kernels.catalog import KERNELS

_LABEL = FONT + 5.0
"""A label's height with its gap, and what the title and the axis take of a plot's, in pixels."""
_AROUND = 110


@dataclass(frozen=True)
class Line:
    """A line of a chart: its points, the label at its end, and its colour, a mid-tone of the palette.

    `dashed`, with hollow markers, is what this run did not measure: a paper's values, a roof. A closed line of five
    points is a filled area.
    """

    points: Sequence[tuple[float, float]]
    label: str
    colour: str
    dashed: bool = False
    width: float = 2


def colour_of(kernel: str) -> str:
    """A kernel's colour for a line or a marker, to be seen in both themes."""
    return palette.mid(palette.kernel(KERNELS[kernel].hue))


def chart(
    title: str, lines: Iterable[Line], *, x: str, y: str, unit: str = "", log: bool = False, height: int = 420,
    limits: Mapping[float, str] = MappingProxyType({}), marks: Sequence[float] = (), around: float | None = None,
    near: bool = False,
) -> go.Figure:  # fmt: skip
    """Lines with labels at their ends, over a logarithmic x; y is logarithmic with `log`, else it begins at 0, or if
    `near` at a round number below the least value, which its title names.

    A ratio is seen `around` 1, its own zero: y then begins near its values, and a thin line stands there.

    `limits` are values of x with their names, as vertical lines; `marks` are the values to name on the axis.
    """
    drawn = [line for line in lines if line.points]
    curves = [
        {
            "type": "scatter",
            "x": [point[0] for point in line.points],
            "y": [point[1] for point in line.points],
            "name": line.label,
            "mode": "lines+markers",
            "line": {"color": line.colour, "width": line.width, "dash": "dash" if line.dashed else "solid"},
            "fill": "toself" if len(line.points) > 1 and line.points[0] == line.points[-1] else None,
            "marker": {"size": max(8, line.width), "symbol": "circle-open" if line.dashed else "circle"},
            "hovertemplate": f"{x.partition(',')[0]} %{{x:,}}: %{{y:.4~g}}{unit}<extra>{line.label}</extra>",
        }
        for line in drawn
    ]
    values = [point[1] for line in drawn for point in line.points]
    scaled = math.log10 if log else float
    top = max(values, default=10.0)
    starts = log or around is not None
    low, high = (scaled(min([*values, around or top])) if starts else 0.0), scaled(max(top, around or top))
    margin = (0.06 if around is None else 0.2) * ((high - low) or 1.0)
    low, high = low - margin * starts, high + margin
    if near and (first := _below(min((y for line in drawn for _, y in line.points), default=0.0), top)):
        low, y = first, f"{y}, from {number(first)}"
    named = {v: count(int(v)) for v in marks} or _ticks([x for line in drawn for x, _ in line.points], own=True)
    slate = palette.mid("slate")
    across = {"type": "line", "x0": 0, "x1": 1, "xref": "x domain", "yref": "y"}
    up = {"type": "line", "y0": 0, "y1": 1, "xref": "x", "yref": "y domain"}
    rules = [{**across, "y0": around, "y1": around, "line": {"color": slate, "width": 1}}] if around is not None else []
    words = []
    for n, (at, name) in enumerate(sorted(limits.items())):
        rules.append({**up, "x0": at, "x1": at, "line": {"color": slate, "width": 1, "dash": "dot"}})
        side = "right" if n < len(limits) - 1 else "left"
        words.append({"x": math.log10(at), "y": 0.01, "text": name, "xanchor": side, "yanchor": "bottom"})
    label = _LABEL / (height - _AROUND)
    ends = [(scaled(line.points[-1][1]) - low) / (high - low) for line in drawn]
    at_end = {"x": 1, "xref": "x domain", "xshift": 12, "xanchor": "left", "yanchor": "middle", "name": END}
    for line, end in zip(drawn, spread(ends, label, -label / 2, 1 + label / 2), strict=True):
        text = f"<span style='color:{line.colour}'>{'○' if line.dashed else '●'}</span> {line.label}"
        words.append({**at_end, "y": end, "text": text})
    room = 28 + widest((f"● {line.label}" for line in drawn), FONT)
    common = {"yref": "y domain", "showarrow": False, "align": "left", "font": {"size": FONT}}
    vertical = logarithmic(y, _ticks(values, own=False)) if log else {"title": {"text": y}}
    layout = {
        "title": {"text": title, "font": {"size": FONT + 1}},
        "height": height,
        "margin": {"l": 8, "r": room, "t": 44, "b": 8},
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": logarithmic(x, named),
        "yaxis": {"range": [low, high], **vertical},
        "shapes": rules,
        "annotations": [common | one for one in words],
    }
    return plot(curves, layout)


def as_csv(figure: go.Figure) -> str:
    """The numbers of a chart as CSV: one row per point, with the name of its curve."""
    heading = "curve", figure.layout.xaxis.title.text, figure.layout.yaxis.title.text
    return csv_of([heading, *((line.name, x, y) for line in figure.data for x, y in zip(line.x, line.y, strict=True))])


def _below(least: float, top: float) -> float:
    """A round number somewhat below the least value; 0 for one that is far below the top."""
    step = 10.0 ** math.floor(math.log10(top / 2))
    return step * math.floor(0.9 * least / step)


def _ticks(values: Sequence[float], *, own: bool) -> dict[float, str]:
    """Ticks of a logarithmic axis: powers of ten over three of them, else the values themselves or 1, 2, 5 a decade."""
    if not values or max(values) / min(values) > 1000:
        low, high = math.log10(min(values, default=1)), math.log10(max(values, default=1))
        powers = range(math.floor(low), math.ceil(high) + 1)
        plain = powers[0] >= 0 and powers[-1] < 7  # one notation an axis
        return {10.0**one: count(10**one) if plain else power(one) for one in powers}
    marks = sorted(set(values))
    if not own:
        decades = range(math.floor(math.log10(marks[0])), math.ceil(math.log10(marks[-1])) + 1)
        marks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    elif len(marks) > 6:
        marks = marks[::-2][::-1]
    return {value: number(value, 4) for value in marks}
