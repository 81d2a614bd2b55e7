"""The ladder as a picture: each rung's passes over the row, and whether its result is right."""

from __future__ import annotations

from collections.abc import Sequence

from explain.chapters.triton_ladder.ladder import RUNGS, Outcome
from explain.figures.numbers import number
from explain.figures.palette import css, css_ink
from explain.figures.svg import line, picture, rect, text
from kernels.catalog import KERNELS


def ladder(outcomes: Sequence[Outcome], at: int) -> str:
    """The rungs that could run, the first at the bottom; the rung `at` is framed. An arrow is one pass over the row:
    filled for reading, hollow for writing.
    """
    high, left, strip = 64.0, 20.0, 150.0
    drawn = []
    for place, one in enumerate(reversed(outcomes)):
        y, index = high * place + 8, RUNGS.index(one.rung)
        if index == at:
            drawn.append(rect(left + 4, y - 4, 712, high - 8, css("slate"), opacity=0.16, stroke="currentColor"))
        drawn.append(text(left + 20, y + 20, f"{index + 1}. {one.rung.name}", bold=True))
        ink, words = ("right", "right on this row") if one.right else ("alarm", "wrong on this row")
        drawn.append(text(left + 20, y + 40, words, size=13, fill=css_ink(ink)))
        reads = round(one.accesses) - 1
        for i in range(reads + 1):
            x, middle, written = left + 210, y + 8 + i * 12, i == reads
            opacity, title = (0.0, "one pass that writes the row") if written else (1.0, "one pass that reads the row")
            drawn.append(rect(x, middle, strip, 7, css("hbm"), opacity=opacity, stroke=css("hbm"), title=title))
            tip = (x + strip, middle - 2), (x + strip + 12, middle + 3.5), (x + strip, middle + 9)
            points = " ".join(f"{px:.1f},{py:.1f}" for px, py in tip)
            fill = "none" if written else css("hbm")
            drawn.append(f'<polygon points="{points}" fill="{fill}" stroke="{css("hbm")}"/>')
        passes = f"{reads} read{'s' * (reads != 1)} + 1 write"
        drawn.append(text(left + 400, y + 20, f"{number(one.accesses)} per element", bold=True))
        drawn.append(text(left + 400, y + 40, passes, size=13, faint=True))
        limit = KERNELS[one.rung.kernel].wrong and ("wrong on other rows" if one.right else "wrong on purpose")
        drawn.append(text(left + 560, y + 20, limit, size=13, fill=css_ink("alarm")))
    bottom = high * len(outcomes) + 4
    drawn += [line(x, 0, x, bottom, opacity=0.8) for x in (left, left + 720)]
    return picture(left + 740, bottom, "The rungs of the ladder and their passes over the row", drawn, "54rem")
