"""Pictures of Exactness: where O differs from float64, by element, by row and after each tile."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explain.figures import palette
from explain.figures.numbers import scientific
from explain.figures.plot import plot
from explain.output import Floats, Output
from kernels.catalog import KERNELS

SCALE = "Cividis"
PALE, INK = palette.RAMPS["output"][0][3:5], palette.LINES["dark-letters"][0]


def errors(flash: Output, standard: Output, block_m: int) -> go.Figure:
    """|O − float64| of both kernels by element, on one colour scale, and the largest of each row; lines separate query
    tiles.
    """
    figure = make_subplots(
        figure=plot(), rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.03, column_widths=[0.36, 0.36, 0.28],
        subplot_titles=("Flash", "Standard", "Largest in each row"),
    )  # fmt: skip
    for column, output in enumerate((flash, standard), 1):
        figure.add_heatmap(
            z=output.of_head(), coloraxis="coloraxis", row=1, col=column,
            hovertemplate="query %{y}, feature %{x}<br>error %{z:.3g}<extra></extra>",
        )  # fmt: skip
        figure.update_xaxes(title="feature", nticks=3, row=1, col=column)
    rows = np.arange(len(flash.of_rows()))
    for kernel, output, symbol in (
        ("flash_attention", flash, "circle"),
        ("attention_standard", standard, "diamond-open"),
    ):
        name, colour = KERNELS[kernel].short, palette.mid(palette.kernel(KERNELS[kernel].hue))
        figure.add_scatter(
            x=output.of_rows(), y=rows, name=name, mode="markers", row=1, col=3,
            marker={"color": colour, "symbol": symbol, "size": 6},
            hovertemplate="query %{y}: %{x:.3g}<extra>" + name + "</extra>",
        )  # fmt: skip
    figure.update_annotations(font_size=13)
    for edge in range(block_m, len(rows), block_m):
        figure.add_hline(y=edge - 0.5, line={"color": "gray", "width": 1, "dash": "dot"})
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5])
    figure.update_yaxes(title="query", row=1, col=1)
    largest = max(flash.largest(), standard.largest())
    figure.update_xaxes(
        title="|O − float64|", rangemode="tozero", tickvals=[0, largest], ticktext=["0", scientific(largest)],
        tickangle=0, row=1, col=3,
    )  # fmt: skip
    figure.update_layout(
        height=460, margin={"l": 8, "r": 8, "t": 48, "b": 8},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": -0.24},
        coloraxis={
            "colorscale": SCALE, "cmin": 0, "cmax": largest or 1,
            "colorbar": {"title": "error", "exponentformat": "power", "x": 1.0, "thickness": 12},
        },
    )  # fmt: skip
    return figure


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
