"""The key of a picture's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explain.figures import labels, palette, svg


def legend(looks: Mapping[str, tuple[str, float]], width: float, dashed: Sequence[str] = ()) -> tuple[list[str], float]:
    """Names beside squares of their hue and opacity, in lines of this width, and where they end."""
    parts, x, y = [], 0.0, 4.0
    for name, (hue, opacity) in looks.items():
        wide = 36 + labels.text_width(name, svg.SMALL)
        if x and x + wide > width:
            x, y = 0.0, y + 20
        colour, is_dashed = palette.css(hue), name in dashed
        edge = colour if is_dashed else "none"
        parts.append(svg.rect(x, y, 11, 11, colour, opacity=opacity, stroke=edge, dashed=is_dashed))
        parts.append(svg.text(x + 17, y + 10.5, name, size=svg.SMALL))
        x += wide
    return parts, y + 22
