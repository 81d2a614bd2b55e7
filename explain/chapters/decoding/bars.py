"""Groups of bars with a title each: side by side, on a phone one below the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from explain.figures.labels import text_width, widest, wrapped
from explain.figures.svg import picture, rect, text

PITCH = 27.0


class Bar(NamedTuple):
    """A bar: its name, its length on the scale of all groups, what is written at its end, and its colour."""

    name: str
    length: float
    told: str
    colour: str
    opacity: float = 0.9


def groups(cases: Sequence[tuple[str, Sequence[Bar]]], label: str, *, narrow: bool = False) -> str:
    """All groups as one picture; all bars begin at 0 and have one scale."""
    across, wide = (1, 376.0) if narrow else (2, 410.0)
    every = [bar for _, bars in cases for bar in bars]
    left = widest(bar.name for bar in every) + 16
    scale = min((wide - left - 8 - text_width(bar.told)) / bar.length for bar in every)
    lines = [wrapped(title, wide, bold=True) for title, _ in cases]
    head = 20.0 * max(map(len, lines))
    high = head + PITCH * max(len(bars) for _, bars in cases) + 20
    parts: list[str] = []
    for i, (_, bars) in enumerate(cases):
        x, y = i % across * (wide + 36), i // across * high
        parts += [text(x, y + 15 + 20 * n, words, bold=True) for n, words in enumerate(lines[i])]
        for n, bar in enumerate(bars):
            top, long = y + head + 4 + n * PITCH, scale * bar.length
            told = f"{bar.name}: {bar.told}"
            parts += [
                text(x + left - 8, top + 17, bar.name, anchor="end", faint=True),
                rect(
                    x + left, top + 1, long, PITCH - 5, bar.colour, opacity=bar.opacity, stroke=bar.colour, title=told
                ),
                text(x + left + long + 8, top + 17, bar.told),
            ]
    width, down = across * (wide + 36) - 36, math.ceil(len(cases) / across)
    return picture(width, down * high, label, parts, "30rem" if narrow else "54rem")
