"""An empty plot to draw in. Plotly looks into pandas while somebody else may still be importing it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import plotly.graph_objects as go

FONT = 12
"""Plotly's font size, in pixels, as Streamlit's theme sets it."""


def plot() -> go.Figure:
    """A figure.

    Safe beside other threads: pandas, which Streamlit imports with the first table, is complete by then.
    """
    import_module("pandas")  # here and not above: a page without a plot need not wait for it
    return go.Figure()


class _Kept(go.Figure):  # type: ignore[misc]  # Plotly has no types
    """A figure that is drawn again and again: what Streamlit asks of it is worked out once."""

    def to_dict(self) -> dict[str, Any]:
        if "_as_dict" not in self.__dict__:
            self.__dict__["_as_dict"] = super().to_dict()
        return self.__dict__["_as_dict"]


def kept(figure: go.Figure) -> go.Figure:
    """The figure for a cache: it may not change any more."""
    return _Kept(figure)
