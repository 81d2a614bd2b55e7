"""Plots that a reader can save: as PNG or SVG by the camera in the corner, made in the browser, and as CSV."""

from __future__ import annotations

import re

import plotly.graph_objects as go
import streamlit as st

from explain.ui.controls import pick

FORMATS = ("PNG", "SVG")
NEEDLESS = ["zoom2d", "pan2d", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"]
"""Buttons that are removed from a plot's bar."""


LABELLED = 60
"""A margin at the right that has the lines' names has at least so many pixels."""


def image_format() -> None:
    """A control for the format that the plots' cameras save; once per page."""
    with st.popover("Save plots", icon=":material/photo_camera:"):
        words = "Hover over a plot: the camera in its corner saves it as a picture, without a network."
        pick("Save plots as", FORMATS, "image format", help=words)


_VERSIONS = re.compile(r", driver [^;·]*\d{4}-\d\d-\d\d")


def sourced(words: str) -> None:
    """A caption that says where numbers come from. A GPU's driver, versions and date open on hover or focus."""
    versions = dict.fromkeys(found.removeprefix(", ") for found in _VERSIONS.findall(words))
    st.caption(_VERSIONS.sub("", words), help="; ".join(versions) or None)


def _names(figure: go.Figure, key: str) -> str:
    """The title and the lines' names for a phone, as HTML; there the names at the lines' ends have no room, and `key`,
    the plot's container, cuts that side off. Empty for a plot without such names.
    """
    labels = [one.text for one in figure.layout.annotations if re.match("<span style=.color:", one.text)]
    if not labels or figure.layout.margin.r < LABELLED:
        return ""
    if figure.layout.showlegend is not False:
        labels += [f"┄ {one.name}" for one in figure.data if one.showlegend is not False]
    spans = " ".join(f"<span>{label}</span>" for label in labels)
    room = f"<style>.{key} {{ --room: {figure.layout.margin.r - 8:g}px }}</style>"
    return f'<div class="line-names">{room}<b>{figure.layout.title.text or ""}</b><p>{spans}</p></div>'


def chart(figure: go.Figure, name: str, csv: str = "", *, alt: str = "") -> None:
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
    key = f"chart {stem}"
    with st.container(key=key, gap=None):  # on a phone one without names scrolls
        if names := _names(figure, f"st-key-{key.replace(' ', '-')}"):
            st.markdown(names, unsafe_allow_html=True)
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
