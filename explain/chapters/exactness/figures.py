"""Pictures of Exactness: the sizes of the errors, the elements with other bits, the error after each tile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from explain.figures import palette, svg
from explain.figures.labels import wrapped
from explain.figures.lines import colour_of
from explain.figures.numbers import count, power, scientific
from explain.figures.plot import plot
from explain.output import Floats, Output
from kernels.catalog import KERNELS

PALE, INK = palette.RAMPS["output"][0][3:5], palette.LINES["dark-letters"][0]
BINS_PER_DECADE = 8
CELL, WIDE, SHOWN = 2.2, 165.0, 64
"""Of the map of changed elements: a cell's side, a map's room, the most queries and features shown."""


def errors(outputs: Mapping[str, Output]) -> go.Figure:
    """By kernel, one above the other: how many elements have which |O − float64|, on a logarithmic axis."""
    positive = {
        kernel: np.log10(one.error[(one.error > 0) & np.isfinite(one.error)]) for kernel, one in outputs.items()
    }
    every = np.concatenate([*positive.values(), [-8.0] if not sum(map(len, positive.values())) else []])
    low, high = np.floor(np.quantile(every, 0.005)), np.floor(every.max()) + 1
    edges = np.linspace(low, high, int(high - low) * BINS_PER_DECADE + 1)
    counts = {kernel: np.histogram(logs.clip(low), edges)[0] for kernel, logs in positive.items()}
    most = 1.4 * max(1, *(int(one.max()) for one in counts.values()))
    figure = plot()
    for row, (kernel, found) in enumerate(counts.items()):
        output, base = outputs[kernel], (len(counts) - 1 - row) * most
        figure.add_bar(
            x=edges[:-1], y=found, base=base, offset=0, width=1 / BINS_PER_DECADE, name=KERNELS[kernel].short,
            marker={"color": colour_of(kernel), "line": {"width": 0}}, showlegend=False,
            customdata=[scientific(10.0**edge, 1) for edge in edges[1:]],
            hovertemplate="%{y} elements, error up to %{customdata}<extra>" + KERNELS[kernel].short + "</extra>",
        )  # fmt: skip
        for name, error, anchor in (("median", output.quantile(0.5), "right"), ("largest", output.largest(), "left")):
            if error > 0 and np.isfinite(error):
                x = np.log10(error)
                figure.add_shape(
                    type="line", x0=x, x1=x, y0=base, y1=base + 0.9 * most,
                    line={"color": palette.mid("slate"), "width": 1},
                )  # fmt: skip
                figure.add_annotation(
                    x=x, y=base + 0.88 * most, text=f"{name} {scientific(error)}", showarrow=False, xanchor=anchor,
                    xshift=-4 if anchor == "right" else 4, font={"size": 13},
                )  # fmt: skip
        figure.add_annotation(
            x=0, xref="x domain", y=base + 0.55 * most, text=f"<b>{KERNELS[kernel].short}</b>", showarrow=False,
            xanchor="left", font={"size": 14},
        )  # fmt: skip
    marks = list(range(int(low), int(high) + 1))
    figure.update_xaxes(
        title="|O − float64| of an element", tickvals=marks, ticktext=[power(mark) for mark in marks], zeroline=False,
        range=[low, high + 0.9],
    )  # fmt: skip
    figure.update_yaxes(
        title="elements", showticklabels=False, showgrid=False, zeroline=False, range=[0, len(counts) * most]
    )
    figure.update_layout(height=400, margin={"l": 8, "r": 8, "t": 8, "b": 8}, bargap=0, barmode="overlay")
    return figure


def changed(outputs: Mapping[str, Output]) -> str:
    """A map of head 0 for each way but the first: an element is coloured where its bits differ from the first way's.

    Queries run across, features down. Empty without outputs.
    """
    if not outputs:
        return ""
    (_, first), *others = outputs.items()
    parts, high = [], 0.0
    for at, (name, output) in enumerate(others):
        x, differs = at * WIDE, (output.result != first.result)[0, 0][:SHOWN, :SHOWN].T
        features, queries = differs.shape
        lines = wrapped(name, WIDE - 14, 13)
        parts += [svg.text(x, 13 + 15 * row, line, size=13) for row, line in enumerate(lines)]
        top = 40.0
        parts.append(svg.rect(x, top, queries * CELL, features * CELL, palette.css("slate"), opacity=0.12))
        dots = "".join(
            f"M{x + query * CELL:.1f} {top + feature * CELL:.1f}h{CELL}v{CELL}h-{CELL}z"
            for feature, query in np.argwhere(differs)
        )
        parts.append(f'<path d="{dots}" fill="{palette.css("series-1")}"/>')
        total = f"{count(output.changed_from(first))} of {count(first.error.size)}"
        parts.append(svg.text(x, top + features * CELL + 18, total, size=13, bold=True))
        high = max(high, top + features * CELL + 24)
    label = "Elements of O with other bits: " + ", ".join(
        f"{name} {count(output.changed_from(first))}" for name, output in others
    )
    return svg.picture(WIDE * len(others), high, label, parts, most=f"{1.1 * WIDE * len(others):.0f}px")


def after_each_tile(found: Floats) -> go.Figure:
    """The largest error of Õ / ℓ after each tile of keys; blank where a tile is never visited."""
    text = [
        ["" if np.isnan(error) else scientific(float(error)) if error else "exact" for error in row] for row in found
    ]
    figure = plot()
    figure.add_heatmap(
        z=found, text=text, texttemplate="%{text}", textfont={"color": INK}, colorscale=list(PALE), zmin=0,
        zmax=np.nanmax(found) or 1, showscale=False, xgap=2, ygap=2, hoverongaps=False,
        hovertemplate="query tile %{y}, after key tile %{x}<br>largest error %{z:.3g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title="after key tile", dtick=1)
    figure.update_yaxes(title="query tile", dtick=1, autorange="reversed")
    figure.update_layout(height=120 + 34 * len(found), margin={"l": 8, "r": 8, "t": 8, "b": 8})
    return figure
