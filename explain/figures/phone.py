"""A plot for a phone, made from the wide one: small text, few marks, a legend below in place of labels at the lines."""

from __future__ import annotations

import math
import re
from typing import Any

import plotly.graph_objects as go

from explain.figures.labels import widest, wrapped
from explain.figures.plot import END, PHONE, TITLE

WIDTH, SIZE, DOT = 350, 13, 9
"""The plot's width, the size of its text and of its largest points, in pixels."""


def narrowed(figure: go.Figure) -> go.Figure:
    """The figure for a phone: small text, few marks, a legend below. Its title stands above it on the page."""
    small = go.Figure(figure)
    layout = small.layout
    notes = [note for note in layout.annotations if note.name != END]
    if len(notes) < len(layout.annotations):
        layout.showlegend = True
        for line in small.data:
            line.showlegend = bool(line.name)
    for note in notes:
        if note.name == PHONE:
            note.update(visible=True, font_size=SIZE)
        else:
            note.update(text=_broken(note.text, 150), font_size=SIZE)
    layout.annotations = notes
    rows = 0
    for line in small.data:
        if line.type == "scatter" and isinstance(line.marker.size, int | float):
            line.marker.size = min(line.marker.size, DOT)
        if line.name and layout.showlegend is not False and line.showlegend is not False:
            line.name = _broken(line.name, WIDTH - 60)
            rows += line.name.count("<br>") + 1
    for axis, room in ((layout.xaxis, WIDTH - 80), (layout.yaxis, 300)):
        axis.update(title={"text": _broken(axis.title.text or "", room), "font_size": SIZE}, tickfont_size=SIZE)
    title = layout.xaxis.title.text
    axis_high = 32 + 1.4 * SIZE * (title.count("<br>") + 1 if title else 0)
    legend_high = 1.5 * SIZE * rows
    left = _broken_marks(small)
    _room_for_texts(small, WIDTH - left)
    _fewer_marks(layout.xaxis, WIDTH - max(left, 80))
    high = layout.height - layout.margin.t - max(layout.margin.b, 60)
    small.update_layout(  # an upright legend would take its room from the plot's side
        title=None, font_size=SIZE, height=TITLE + high + axis_high + legend_high,
        margin={"l": left, "r": 12, "t": TITLE, "b": axis_high + legend_high},
        legend={"orientation": "h", "entrywidth": WIDTH - 50, "font_size": SIZE, "xref": "container", "x": 0,
                "xanchor": "left", "yref": "container", "y": 0, "yanchor": "bottom"},
    )  # fmt: skip
    return small


def _broken(words: str, room: float) -> str:
    """The words in lines of a phone's text."""
    return "<br>".join(wrapped(words.replace("<br>", " "), room, SIZE))


def _wide(words: str) -> float:
    """How wide a phone's text is, in lines and with tags."""
    return widest((re.sub(r"<.*?>", "", line) for line in words.split("<br>")), SIZE, bold=True)


def _fewer_marks(axis: Any, room: float) -> None:
    """Leaves as many texts at an axis' marks as there is room for, the last one among them."""
    texts = [text for text in axis.ticktext or () if text]
    if len(texts) < 2:
        axis.nticks = 5
        return
    scaled = math.log10 if axis.type == "log" else float
    start, end = axis.range or (scaled(axis.tickvals[0]), scaled(axis.tickvals[-1]))
    share = (scaled(axis.tickvals[-1]) - scaled(axis.tickvals[0])) / (end - start)
    step = math.ceil((len(texts) - 1) * (max(map(_wide, texts)) + 8) / (share * room))
    axis.ticktext = [text if text in texts[::-step] else "" for text in axis.ticktext]


def _broken_marks(small: go.Figure) -> float:
    """Breaks the names at horizontal bars into lines; the room on their left."""
    names = list(dict.fromkeys(name for line in small.data if line.orientation == "h" for name in line.y))
    if not names:
        return 8
    texts = [text.replace("\u2002", "<br>") for text in small.layout.yaxis.ticktext or names]
    texts = [text if "<br>" in text else _broken(text, 110) for text in texts]
    small.layout.yaxis.update(tickvals=small.layout.yaxis.tickvals or names, ticktext=texts)
    return 16 + max(map(_wide, texts))


def _room_for_texts(small: go.Figure, room: float) -> None:
    """Ends the horizontal axis where the texts beside bars and points have room, and breaks those above bars."""
    axis = small.layout.xaxis
    for line in small.data:
        if line.type == "bar":
            line.constraintext = "none"
        if line.type == "bar" and line.orientation != "h":
            line.text = [text.replace(" ", "<br>") for text in line.text or ()]
        elif line.textposition in ("outside", "middle right") and line.text is not None and axis.range:
            if line.type == "scatter":
                line.text = [(text or "").replace("</b> ", "</b><br>\u2003") for text in line.text]
            start, end = axis.range
            for value, text in zip(line.x, line.text, strict=True):
                at = (math.log10(value) if axis.type == "log" else value) - start
                end = max(end, start + at * room / (room - _wide(text or "") - 8))
            axis.range = start, end
