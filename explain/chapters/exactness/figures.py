"""Pictures of Exactness: the sizes of the errors, the elements with other bits, the error after each tile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from explain.figures import palette, svg
from explain.figures.labels import widest
from explain.figures.lines import Line, chart
from explain.figures.numbers import count, power, scientific
from explain.output import Floats, Output
from kernels.catalog import KERNELS

CELL, SHOWN, A_ROW = 5.0, 64, 2
"""Of the maps of changed elements: a cell's side, the most queries and features shown, the maps in a row."""


@dataclass(frozen=True)
class Way:
    """One row of the figure of errors: what was computed, by which kernel, and its output."""

    name: str
    kernel: str
    output: Output


def errors(groups: Mapping[str, Sequence[Way]]) -> str:
    """Median and largest |result − float64| of each output on one logarithmic axis, under the names of their groups.

    An error of 0 stands at the left end of the axis, NaN and ∞ at its right end.
    """
    every = [way.output.quantile(share) for ways in groups.values() for way in ways for share in (0.5, 1.0)]
    logs = [math.log10(error) for error in every if error > 0 and math.isfinite(error)] or [-8.0]
    low, high = math.floor(min(logs)), math.floor(max(logs)) + 1
    names = [way.name for ways in groups.values() for way in ways]
    left, width, y = widest(names, 15) + 28, 860.0, 44.0
    number = widest([scientific(1.2e-5)], 15) + 18
    first, last = left + number, width - number

    def place(error: float) -> float:
        log = math.log10(error) if 0 < error < math.inf else high if error else low
        return first + (last - first) * (log - low) / (high - low)

    parts: list[str] = []
    for heading, ways in groups.items():
        if heading:
            parts.append(svg.text(0, y + 12, heading, size=17, bold=True))
            y += 24
        for way in ways:
            hue = palette.css(palette.kernel(KERNELS[way.kernel].hue))
            error, x = way.output.quantile(0.5), place(way.output.quantile(0.5))
            most, end = way.output.largest(), place(way.output.largest())
            parts += [
                svg.text(12, y + 19, way.name, size=15),
                svg.rect(x, y + 12, max(end - x, 0), 4, hue, opacity=0.5),
                svg.circle(x, y + 14, 8, hue, title=f"{way.name}: median error {scientific(error)}"),
                svg.text(x - 14, y + 19, scientific(error), size=15, anchor="end"),
                svg.rect(end - 2.5, y + 4, 5, 20, hue, title=f"{way.name}: largest error {scientific(most)}"),
                svg.text(end + 10, y + 19, scientific(most), size=15),
            ]
            y += 31
        y += 8
    marks = [10.0**exponent for exponent in range(low, high + 1)]
    grid = [svg.line(place(mark), 36, place(mark), y, opacity=0.16) for mark in marks]
    ticks = [svg.text(place(m), y + 20, power(round(math.log10(m))), size=15, anchor="middle") for m in marks]
    legend = [
        svg.circle(first + 8, 14, 8, palette.css("slate")),
        svg.text(first + 22, 19, "median error", size=15),
        svg.rect(first + 140, 4, 5, 20, palette.css("slate")),
        svg.text(first + 154, 19, "largest error of any element", size=15),
    ]
    axis = svg.text((first + last) / 2, y + 44, "|result − float64|, log scale", size=15, anchor="middle", faint=True)
    label = "Errors: " + ", ".join(
        f"{heading} {way.name} median {scientific(way.output.quantile(0.5))}".strip()
        for heading, ways in groups.items()
        for way in ways
    )
    return svg.picture(width, y + 52, label, [*grid, *legend, *parts, *ticks, axis])


def changed(outputs: Mapping[str, Output]) -> str:
    """A map of head 0 for each way but the first: an element is coloured where its bits differ from the first way's.

    Queries run across, features down. Empty without outputs.
    """
    if not outputs:
        return ""
    (_, first), *others = outputs.items()
    queries, features = (min(SHOWN, size) for size in first.result.shape[-2:])
    wide, high = queries * CELL + 60, features * CELL + 84
    parts = []
    for at, (name, output) in enumerate(others):
        x, y = 24 + at % A_ROW * wide, 40 + at // A_ROW * high
        differs = (output.result != first.result)[0, 0][:queries, :features].T
        total = f"{count(output.changed_from(first))} of {count(first.error.size)} elements differ"
        dots = "".join(
            f"M{x + query * CELL:.1f} {y + feature * CELL:.1f}h{CELL:g}v{CELL:g}h-{CELL:g}z"
            for feature, query in np.argwhere(differs)
        )
        parts += [
            svg.text(x, y - 24, name, size=15, bold=True),
            svg.text(x, y - 7, total, size=14),
            svg.rect(x, y, queries * CELL, features * CELL, palette.css("slate"), opacity=0.12),
            f'<path d="{dots}" fill="{palette.css("acc")}"/>',
            svg.text(x, y + features * CELL + 17, f"query 0–{queries - 1} →", faint=True),
            f'<g transform="translate({x - 18:.1f} {y:.1f}) rotate(90)">'
            f"{svg.text(0, 0, f'feature 0–{features - 1} →', faint=True)}</g>",
        ]
    label = "Elements of O with other bits: " + ", ".join(
        f"{name} {count(output.changed_from(first))}" for name, output in others
    )
    return svg.picture(wide * A_ROW, high * math.ceil(len(others) / A_ROW), label, parts)


def after_each_tile(found: Floats) -> go.Figure:
    """The largest error of Õ / ℓ after each tile of keys, a line for each tile of queries; (query tiles, key tiles),
    NaN where a tile is never visited.
    """
    lines = [
        Line(
            [(tile, float(error)) for tile, error in enumerate(row, 1) if np.isfinite(error)],
            f"query tile {at}",
            palette.mid(f"series-{at % len(palette.SERIES) + 1}"),
        )
        for at, row in enumerate(found)
    ]
    figure = chart("", lines, x="tiles of keys read", y="largest |Õ / ℓ − float64|", log=False, height=400)
    every = list(range(1, found.shape[1] + 1))
    figure.update_xaxes(
        title="tiles of keys read", type="linear", tickvals=every, ticktext=[str(tile) for tile in every]
    )
    figure.update_yaxes(exponentformat="power", showexponent="all")
    figure.update_layout(title=None, margin_t=12)
    return figure


def grown(found: Floats) -> list[float]:
    """How often the error after the last tile is that after the first, of each query tile with more than one."""
    finite = [row[np.isfinite(row)] for row in found]
    return [float(row[-1] / row[0]) for row in finite if len(row) > 1 and row[0] > 0]
