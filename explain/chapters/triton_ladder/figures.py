"""The ladder as a picture: each rung's trips of the row to and from memory, its fault, whether its result is right."""

from __future__ import annotations

from collections.abc import Sequence

from explain.chapters.triton_ladder.ladder import RUNGS, Outcome
from explain.figures.labels import text_width
from explain.figures.palette import css, css_ink
from explain.figures.svg import button, line, picture, rect, text
from explain.kept import kept

LEFT, TOP, BETWEEN = 14.0, 22.0, 3.0
"""Where the left pole stands, where the rungs begin, and the room between two of them."""


@kept
def ladder(outcomes: Sequence[Outcome], at: int, *, narrow: bool = False) -> str:
    """The rungs that could run, the first at the bottom; the rung `at` is filled, and a press chooses one.

    An arrow is one trip of the row: to the right from memory to the chip, to the left back. `narrow` is for a phone:
    what is new and what limits it stand below a rung's name.
    """
    wide, arrows, strip, high = (340.0, 250.0, 80.0, 70.0) if narrow else (810.0, 250.0, 96.0, 30.0)
    bottom = TOP + (high + BETWEEN) * len(outcomes) - BETWEEN + 4
    columns = {"new": LEFT + arrows + strip + 68, "limit": LEFT + arrows + strip + 274}
    drawn = [line(x, TOP, x, bottom, opacity=0.8) for x in (LEFT, LEFT + wide)]
    drawn += [
        text(LEFT + arrows, 14, "memory", size=13, faint=True),
        text(LEFT + arrows + strip, 14, "chip", size=13, anchor="end", faint=True),
        *([] if narrow else [text(x, 14, head, size=13, faint=True) for head, x in columns.items()]),
    ]
    for place, one in enumerate(reversed(outcomes)):
        y, index = TOP + (high + BETWEEN) * place, RUNGS.index(one.rung)
        reads = round(one.accesses) - 1
        name, middle = f"{index + 1}. {one.rung.name}", y + high / 2 - (20 if narrow else 0)
        ink, mark = ("right", "✓") if one.right else ("alarm", "✗")
        apart = (high - 6) / (reads + 1)
        parts = [
            text(LEFT + 14, middle + 6, mark, size=17, bold=True, fill=css_ink(ink)),
            text(LEFT + 36, middle + 6, name, size=17, bold=True),
            *(_arrow(LEFT + arrows, y + 3 + (i + 0.5) * apart, strip, back=i == reads) for i in range(reads + 1)),
        ]
        if not one.right:
            told = LEFT + 44 + text_width(name, 17, bold=True)
            parts.append(text(told, middle + 5, "wrong", bold=True, fill=css_ink("alarm")))
        said_of = {"new": one.rung.new, "limit": one.rung.limit}
        if narrow:
            lines = [f"{head}: {words}" for head, words in said_of.items() if words]
            parts += [
                text(LEFT + 36, middle + 25 + 18 * i, words, size=13, faint=i > 0) for i, words in enumerate(lines)
            ]
        else:
            parts.append(text(LEFT + arrows + strip + 12, middle + 5, f"{reads + 1} trips", faint=True))
            parts += [text(columns[head], middle + 5, words, size=15, faint=head == "limit")
                      for head, words in said_of.items()]  # fmt: skip
        if index == at:
            parts.insert(0, rect(LEFT + 4, y, wide - 8, high, css("slate"), opacity=0.16))
        result = "right on this row" if one.right else "wrong on this row"
        trips = f"{reads} read{'s' * (reads != 1)} + 1 write"
        said = f"{one.rung.name}: {', '.join(filter(None, (result, one.rung.limit, trips)))}"
        drawn.append(button(one.rung.name, said, LEFT + 4, y, wide - 8, high, parts, chosen=index == at))
    label = "The rungs of the ladder, and each trip of the row between memory and chip"
    return picture(2 * LEFT + wide, bottom, label, drawn, "54rem")


def _arrow(x: float, y: float, long: float, *, back: bool) -> str:
    """One trip of the row: from memory at the left to the chip, or back."""
    hue, title = css("hbm"), "one trip: the row is written" if back else "one trip: the row is read"
    shaft, tip, base = (x + 10, x, x + 10) if back else (x, x + long, x + long - 10)
    points = f"{base:.1f},{y - 3:.1f} {tip:.1f},{y:.1f} {base:.1f},{y + 3:.1f}"
    return rect(shaft, y - 1.25, long - 10, 2.5, hue, title=title) + f'<polygon points="{points}" fill="{hue}"/>'
