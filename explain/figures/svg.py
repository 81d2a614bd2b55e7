"""Small pieces of SVG that the pictures to scale are put together from. Text takes the page's own colour, light or dark."""

from __future__ import annotations

import html
from collections.abc import Iterable

HBM, SCORES, PROBABILITIES, ACCUMULATOR, RUNNING = "#E69F00", "#8073AC", "#56B4E9", "#CC79A7", "#0072B2"
"""The quantities' colours, as in the player."""
CHIP, ALARM = "#63788E", "#E81E85"
"""What is no quantity is slate; what does not fit is the alarm's colour."""
LEGIBLE = 0.7
"""The least that a picture is scaled to: its words, 14 units high, then have ten pixels."""


def picture(width: float, height: float, label: str, parts: Iterable[str], most: str = "100%") -> str:
    """An SVG as wide as its column, `most` at most; `label` says to a screen reader what it shows.

    In a column so narrow that its words could not be read it keeps its width, and scrolls.
    """
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(label)}" '
        f'style="display:block;width:100%;min-width:{LEGIBLE * width:.0f}px;max-width:{most};height:auto;font-variant-numeric:tabular-nums" '
        f'fill="currentColor" font-size="14">{body}</svg>'
    )


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    *,
    opacity: float = 1.0,
    stroke: str = "none",
    dashed: bool = False,
    title: str = "",
) -> str:
    """A rectangle; `title` is its hover text. A side below a quarter of a pixel would be invisible, and is drawn as one."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.25):.2f}" height="{max(height, 0.25):.2f}" fill="{fill}" '
        f'fill-opacity="{opacity:g}" stroke="{stroke}"{dash}>{_title(title)}</rect>'
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 14,
    anchor: str = "start",
    bold: bool = False,
    faint: bool = False,
    fill: str = "",
) -> str:
    """One line of text; its baseline is at y."""
    weight = ' font-weight="650"' if bold else ""
    opacity = ' fill-opacity="0.72"' if faint else ""
    colour = f' fill="{fill}"' if fill else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{weight}{opacity}{colour}>'
        f"{html.escape(words)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = "currentColor", opacity: float = 0.5) -> str:
    """A thin line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-opacity="{opacity:g}"/>'


def circle(x: float, y: float, radius: float, fill: str, *, title: str = "") -> str:
    """A dot; `title` is its hover text."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}">{_title(title)}</circle>'


def _title(words: str) -> str:
    return f"<title>{html.escape(words)}</title>" if words else ""


def size(count: float) -> str:
    """Bytes in words of at most four digits: "227 KiB", "40 MiB", "141 GB" (a GPU's memory is sold in powers of ten)."""
    if count >= 10**9:
        return f"{_short(count / 1e9)} GB"
    if count >= 2**20:
        return f"{_short(count / 2**20)} MiB"
    if count >= 2**10:
        return f"{_short(count / 2**10)} KiB"
    return f"{count:g} B"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def duration(seconds: float) -> str:
    """A time in everyday words: "1 s", "2 min 51 s", "1 h 4 min"."""
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
