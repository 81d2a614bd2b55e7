"""Plots that a reader can save: as PNG or SVG by the camera in the corner, made in the browser, and as CSV."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from explain.figures.phone import narrowed
from explain.ui import layout
from explain.ui.controls import pick
from explain.ui.repeat import repeated

FORMATS = ("PNG", "SVG")
NEEDLESS = ["zoom2d", "pan2d", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"]
"""Buttons that are removed from a plot's bar."""


def image_format() -> None:
    """A control for the format that the plots' cameras save; once per page."""
    with st.popover("Save plots", icon=":material/photo_camera:"):
        words = "Hover over a plot: the camera in its corner saves it as a picture, without a network."
        pick("Save plots as", FORMATS, "image format", help=words)


_FOLDED = re.compile(r", (?:driver|torch) [^;·]*\d{4}-\d\d-\d\d|, read by [^;·]+| · medians?\b[^·;]*?(?= ·|;|$)")


@repeated
def sourced(words: str, *more: str) -> None:
    """A caption that says where numbers come from, in a short line.

    A GPU's driver, versions and date, how times were taken, and `more` open on hover or focus.
    """
    folded = dict.fromkeys(found.strip(" ,·") for found in _FOLDED.findall(words))
    st.caption(_FOLDED.sub("", words), help="; ".join([*folded, *more]) or None)


def chart(figure: go.Figure, name: str, csv: Callable[[], str] | None = None, *, alt: str = "") -> None:
    """Shows a plot that can be saved as a picture and, with `csv`, as numbers. `name` is unique on the page and names
    the files.

    `alt` describes the plot to a screen reader.
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
    with st.container(key=f"chart {stem}", gap=None):
        plotted(figure, name, config, alt or name)
        if csv:
            csv_download("CSV", csv, stem, key=f"csv: {name}", help="The numbers of this plot", type="tertiary")


def plotted(figure: go.Figure, name: str, config: dict[str, Any], alt: str) -> None:
    """Shows a plot; in a phone's window the narrow one, below its title."""
    _plotted(figure, name, config, alt, layout.narrow())


@repeated
def _plotted(figure: go.Figure, name: str, config: dict[str, Any], alt: str, narrow: bool) -> None:
    if narrow and (title := figure.layout.title.text):
        st.markdown(f"**{title.replace('<br>', ' ')}**")
    st.plotly_chart(narrowed(figure) if narrow else figure, key=f"plot: {name}", config=config, alt=alt)


def csv_download(label: str, csv: Callable[[], str], stem: str, **looks: Any) -> None:
    """A button that saves numbers as `stem`.csv; `looks` go to Streamlit's button.

    The numbers are written when it is pressed: no rerun pays for them, and no reader who comes back to the page at
    once is told that the file of the visit before is gone.
    """
    st.download_button(label, csv, f"{stem}.csv", "text/csv", icon=":material/download:", on_click="ignore", **looks)
