"""Plots to take home: each as PNG or SVG by the camera in its corner, made in the browser, and its numbers as CSV."""

from __future__ import annotations

import re

import plotly.graph_objects as go
import streamlit as st

FORMATS = ("PNG", "SVG")
NEEDLESS = ["zoom2d", "pan2d", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"]
"""What the bar of a plot can do without."""


def image_format() -> None:
    """Chooses what the camera of every plot of the page saves; once a page."""
    st.segmented_control(
        "A plot's camera saves",
        FORMATS,
        default=FORMATS[0],
        required=True,
        key="image format",
        bind="query-params",
        help="Hold the pointer over a plot: the camera in its corner saves it as a picture. It needs no connection.",
    )


def chart(figure: go.Figure, name: str, csv: str = "", *, alt: str = "") -> None:
    """A plot that can be saved as a picture, and, where its numbers are given, as CSV. `name` is unique on the page; files are called after it.

    `alt` says to a screen reader what it shows.
    """
    chosen = str(st.session_state.get("image format", FORMATS[0])).lower()
    stem = "tilescope-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    config = {
        "showSendToCloud": False,
        "displaylogo": False,
        "displayModeBar": True,
        "modeBarButtonsToRemove": NEEDLESS,
        "toImageButtonOptions": {"format": chosen, "filename": stem, "scale": 2 if chosen == "png" else 1},
    }
    with st.container(key=f"chart {stem}"):  # on a phone it keeps a width at which it can be read, and scrolls
        st.plotly_chart(figure, key=f"plot: {name}", config=config, alt=alt or name)
    if csv:
        st.download_button(
            "CSV",
            csv,
            f"{stem}.csv",
            "text/csv",
            key=f"csv: {name}",
            icon=":material/download:",
            type="tertiary",
            help="The numbers of this plot",
            on_click="ignore",
        )
