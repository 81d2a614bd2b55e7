"""Small pieces of SVG for pictures drawn to scale.

Text has the page's own colour, light or dark; hues are the palette's.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

SMALL = 12
"""The font size of what stands beside a picture's main words."""
LEGIBLE = 0.7
"""The smallest scale of a picture: its words, 14 units high, are then ten pixels high."""


CORNERS = {
    "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
}
"""Where a marker's corners are, in radii."""


def picture(width: float, height: float, label: str, parts: Iterable[str], most: str = "100%") -> str:
    """An SVG as wide as its column, `most` at most; `label` says to a screen reader what it shows.

    A column too narrow for readable words scrolls instead of shrinking it further.
    """
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{html.escape(label)}" style="display:block;width:100%;min-width:{LEGIBLE * width:.0f}px;'
        f'max-width:{most};height:auto;font-variant-numeric:tabular-nums" fill="currentColor" font-size="14">'
        f"{body}</svg>"
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
    """A rectangle; `title` is its hover text.

    No side is drawn below a quarter of a pixel, where it would be invisible.
    """
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
    turned: float = 0,
) -> str:
    """One line of text with its baseline at y. It is rotated clockwise about (x, y) by `turned` degrees."""
    weight = ' font-weight="650"' if bold else ""
    opacity = ' fill-opacity="0.72"' if faint else ""
    colour = f' fill="{fill}"' if fill else ""
    turn = f' transform="rotate({turned:g} {x:.1f} {y:.1f})"' if turned else ""
    look = f'font-size="{size:g}" text-anchor="{anchor}"{weight}{opacity}{colour}{turn}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{html.escape(words)}</text>'


def line(
    x1: float, y1: float, x2: float, y2: float, *,
    stroke: str = "currentColor", opacity: float = 0.5, thick: float = 1, dash: str = "",
) -> str:  # fmt: skip
    """A line; `dash` is SVG's stroke-dasharray."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line {ends} stroke="{stroke}" stroke-width="{thick:g}" stroke-opacity="{opacity:g}"{dashes}/>'


def path(d: str, stroke: str, *, thick: float = 1.5, opacity: float = 1.0) -> str:
    """A line along a path, SVG's `d`, without a fill."""
    return (
        f'<path d="{d}" fill="none" stroke="{stroke}" stroke-width="{thick:g}" stroke-opacity="{opacity:.2f}" '
        'stroke-linecap="round"/>'
    )


def circle(
    x: float, y: float, radius: float, hue: str, *, title: str = "", hollow: bool = False, opacity: float = 1
) -> str:  # fmt: skip
    """A dot, or a `hollow` ring. A dot with an `opacity` under 1 has a ring around it. `title` is its hover text."""
    return marker("circle", x, y, radius, hue, title=title, hollow=hollow, opacity=opacity)


def marker(
    shape: str, x: float, y: float, radius: float, hue: str, *, title: str = "", hollow: bool = False,
    opacity: float = 1,
) -> str:  # fmt: skip
    """A circle, a diamond or a square, with a look as a `circle` has."""
    drawn = 'fill="transparent"' if hollow else f'fill="{hue}"'
    if opacity < 1 or hollow:
        drawn += f' stroke="{hue}" stroke-width="1.5"'
    drawn += f' fill-opacity="{opacity:g}"' * (opacity < 1)
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {drawn}>{_title(title)}</circle>'
    corners = " ".join(f"{x + radius * across:.1f},{y + radius * down:.1f}" for across, down in CORNERS[shape])
    return f'<polygon points="{corners}" {drawn}>{_title(title)}</polygon>'


def button(
    key: str,
    name: str,
    x: float,
    y: float,
    width: float,
    height: float,
    parts: Iterable[str],
    *,
    chosen: bool,
    title: str = "",
) -> str:
    """A part of a picture that can be pressed (`explain.ui.pictures.pressable`), with a frame around it.

    key: what a press chooses.  name: what a screen reader says; `title`, the hover text, is the name unless given.
    """
    edge = 1.25  # half of the thickest frame: none of it leaves the picture
    place = f'x="{x + edge:.1f}" y="{y + edge:.1f}" width="{width - 2 * edge:.1f}" height="{height - 2 * edge:.1f}"'
    frame = f'<rect class="frame" {place} rx="6" fill="transparent"/>'
    return (
        f'<g data-press="{html.escape(key)}" role="button" tabindex="0" aria-pressed="{str(chosen).lower()}" '
        f'aria-label="{html.escape(name)}">{_title(title or name)}{frame}{"".join(parts)}</g>'
    )  # fmt: skip


def _title(words: str) -> str:
    return f"<title>{html.escape(words)}</title>" if words else ""
