"""An empty plot to draw in. Plotly looks into pandas while somebody else may still be importing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go

from explain.figures.labels import wrapped

FONT = 16
"""The size of every text in a plot, in pixels: it is read on a projector too."""
TITLE, TITLE_WIDE = 30, 620
"""A title's height, and how wide its lines are at most: the plot's buttons stand beside them."""
END = "end"
"""The name of an annotation that says what a line or a point is: on a phone the legend says it."""
PHONE = "phone"
"""The name of an annotation, not `visible` here, that a phone's plot has in place of one that the wide plot has."""
_TEXT = {"font": {"size": FONT}}
_AXIS = {"tickfont": {"size": FONT}, "title": _TEXT, "automargin": True}
_LAYOUT = {**_TEXT, "xaxis": _AXIS, "yaxis": _AXIS, "legend": _TEXT, "hoverlabel": _TEXT}


def plot(
    curves: Sequence[Mapping[str, Any]] = (), layout: Mapping[str, Any] = MappingProxyType({})
) -> go.Figure:  # fmt: skip
    """A figure; with curves and a layout it is whole, and made several times as fast as by adding them one by one.

    Safe beside other threads: pandas, which Streamlit imports with the first table, is complete by then. So curves are
    mappings: to make one of Plotly's own objects, Plotly would look into pandas before.
    """
    import_module("pandas")  # here and not above: a page without a plot does not wait for it
    return go.Figure(data=curves, layout=_joined(_LAYOUT, layout))


def _joined(all_have: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings as one, and the mappings in them too."""
    inner = {name: _joined(all_have[name], value) for name, value in own.items()
             if isinstance(value, Mapping) and name in all_have}  # fmt: skip
    return {**all_have, **own, **inner}


def logarithmic(title: str, marks: Mapping[float, str]) -> dict[str, Any]:
    """A logarithmic axis that says so, with a text at each mark."""
    return {
        "type": "log", "title": {"text": f"{title} (log scale)"}, "tickvals": list(marks),
        "ticktext": list(marks.values()), "tickangle": 0,
    }  # fmt: skip


def titled(figure: go.Figure, words: str) -> None:
    """Gives a figure its result as a title above it, in lines beside the plot's buttons, and the room for that."""
    size = FONT + 1
    lines = wrapped(words, TITLE_WIDE, size, bold=True)
    more = 1.3 * size * (len(lines) - 1)
    font, pad = {"size": size}, {"t": 8 + more / 2}  # Plotly moves lines up by half of what they add
    figure.update_layout(
        title={"text": "<br>".join(lines), "font": font, "x": 0.01, "y": 1, "yanchor": "top", "pad": pad},
        margin_t=figure.layout.margin.t + TITLE + more, height=figure.layout.height + TITLE + more,
    )  # fmt: skip


class _Kept(go.Figure):  # type: ignore[misc]  # Plotly has no types
    """A figure that is drawn again and again: what Streamlit asks of it is worked out once."""

    def to_dict(self) -> dict[str, Any]:
        if "_as_dict" not in self.__dict__:
            self.__dict__["_as_dict"] = super().to_dict()
        return self.__dict__["_as_dict"]


def kept(figure: go.Figure) -> go.Figure:
    """The figure for a cache: it may not change any more."""
    return _Kept(figure)
