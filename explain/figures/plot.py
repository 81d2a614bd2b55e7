"""An empty plot to draw in. Plotly looks into pandas while somebody else may still be importing it."""

from __future__ import annotations

from importlib import import_module

import plotly.graph_objects as go

FONT = 12
"""Plotly's font size, in pixels, as Streamlit's theme sets it."""


def plot() -> go.Figure:
    """A figure.

    Safe beside other threads: pandas, which Streamlit imports with the first table, is complete by then.
    """
    import_module("pandas")  # here and not above: a page without a plot need not wait for it
    return go.Figure()
