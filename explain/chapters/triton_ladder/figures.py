"""The ladder as a picture: each rung's passes over the row, and whether its result is right."""

from __future__ import annotations

from collections.abc import Sequence

from explain.chapters.triton_ladder.ladder import RUNGS, Outcome
from explain.figures.numbers import number
from explain.figures.palette import css, css_ink
from explain.figures.svg import button, line, picture, rect, text

HIGH, LEFT, WIDE, STRIP = 56.0, 16.0, 680.0, 130.0


def ladder(outcomes: Sequence[Outcome], at: int) -> str:
    """The rungs that could run, the first at the bottom; the rung `at` is filled, and a press chooses one.

    An arrow is one pass over the row: filled for reading, hollow for writing.
    """
    bottom = HIGH * len(outcomes) + 4
    drawn = [line(x, 0, x, bottom, opacity=0.8) for x in (LEFT, LEFT + WIDE)]
    for place, one in enumerate(reversed(outcomes)):
        y, index = HIGH * place + 4, RUNGS.index(one.rung)
        reads = round(one.accesses) - 1
        passes = f"{reads} read{'s' * (reads != 1)} + 1 write"
        ink, result = ("right", "right on this row") if one.right else ("alarm", "wrong on this row")
        result = ", ".join(filter(None, (result, one.rung.limit)))
        parts = [
            text(LEFT + 16, y + 20, f"{index + 1}. {one.rung.name}", bold=True),
            text(LEFT + 16, y + 39, result, size=13, fill=css_ink(ink)),
            *(_arrow(LEFT + 300, y + 9 + i * 11, written=i == reads) for i in range(reads + 1)),
            text(LEFT + 458, y + 20, f"new: {one.rung.new}", size=13),
            text(LEFT + 458, y + 39, f"{number(one.accesses)} per element: {passes}", size=13, faint=True),
        ]
        if index == at:
            parts.insert(0, rect(LEFT + 4, y, WIDE - 8, HIGH - 4, css("slate"), opacity=0.16))
        name = f"{one.rung.name}: {result}, {passes}"
        drawn.append(button(one.rung.name, name, LEFT + 4, y, WIDE - 8, HIGH - 4, parts, chosen=index == at))
    return picture(2 * LEFT + WIDE, bottom, "The rungs of the ladder and their passes over the row", drawn, "54rem")


def _arrow(x: float, y: float, *, written: bool) -> str:
    """One pass over the row."""
    hue = css("hbm")
    opacity, title = (0.0, "one pass that writes the row") if written else (1.0, "one pass that reads the row")
    end = x + STRIP
    tip = f"{end},{y - 2} {end + 12},{y + 3.5} {end},{y + 9}"
    return (
        rect(x, y, STRIP, 7, hue, opacity=opacity, stroke=hue, title=title)
        + f'<polygon points="{tip}" fill="{"none" if written else hue}" stroke="{hue}"/>'
    )
