"""An empty plot to draw in. Plotly looks into pandas as soon as somebody has begun to import it, and half of it is not enough."""

from __future__ import annotations

from importlib import import_module

import plotly.graph_objects as go


def plot() -> go.Figure:
    """A figure. Safe beside other threads: pandas, which Streamlit imports with the first table, is whole by then."""
    import_module("pandas")  # here and not above: a page without a plot need not wait for it
    return go.Figure()
