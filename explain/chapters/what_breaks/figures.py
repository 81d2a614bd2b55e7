"""An exhibit's changed line and the verdicts of both kernels, as HTML for `page.css`; and m and ℓ from tile to tile."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from html import escape

from explain.chapters.what_breaks.divergence import RunningState
from explain.chapters.what_breaks.exhibits import WORDS
from explain.figures.numbers import number
from explain.figures.palette import css, css_ink
from explain.figures.svg import picture, rect, text
from kernels.catalog import KERNELS
from kernels.edits import source_of
from kernels.museum import Exhibit

MOST_STATES = 3


def changed_line(exhibit: Exhibit) -> tuple[int, str]:
    """The number of the changed line in its module; and that line in the correct and in the broken kernel."""
    edit = exhibit.edit
    assert edit is not None
    source = source_of(KERNELS[exhibit.base].module)
    changed = edit.diff(source)
    place = changed[0][1]
    named = dict(zip("-+", zip(("correct", "broken"), sides(exhibit), strict=True), strict=True))
    lines = textwrap.dedent("\n".join(text for _, _, text in changed)).splitlines()
    rows = "".join(
        f'<b>{named[sign][1]}</b><code data-side="{named[sign][0]}">{escape(line)}</code>'
        for (sign, _, _), line in zip(changed, lines, strict=True)
    )
    return place, f'<div class="changed">{rows}</div>'


def titles(exhibit: Exhibit) -> tuple[str, str]:
    """The names of both kernels, for a side-by-side title."""
    return "Correct kernel", f"{sides(exhibit)[1]}: {WORDS[exhibit.name].title}"


def sides(exhibit: Exhibit) -> tuple[str, str]:
    """One word for each kernel."""
    return "Correct", "Changed" if exhibit.harmless else "Broken"


def states(exhibit: Exhibit, right: Sequence[RunningState], broken: Sequence[RunningState]) -> str:
    """m and ℓ of a row from tile to tile, the correct kernel's above the broken one's; what differs is marked.

    Of many states it has the MOST_STATES that end with the first difference. Of a harmless change it has none after
    that: whether the difference stays is what the reader is asked.
    """
    differ = [
        _apart(one.m, other.m) or _apart(one.total, other.total) for one, other in zip(right, broken, strict=True)
    ]
    end = max(1 if exhibit.harmless else MOST_STATES, (differ.index(True) if any(differ) else len(differ)) + 1)
    right, broken = (run[max(0, end - MOST_STATES) : end] for run in (right, broken))
    left, wide, high = 70.0, 104.0, 44.0
    drawn = [text(left + wide * i + 6, 14, one.after, size=14, faint=True) for i, one in enumerate(right)]
    drawn.append(text(0, 14, f"row {right[0].row}", size=14, faint=True))
    for row, (name, run) in enumerate(zip(sides(exhibit), (right, broken), strict=True)):
        y = 22 + row * (high + 6)
        drawn += [text(0, y + 18, name, bold=True), text(0, y + 36, "m, ℓ", size=14, faint=True)]
        for i, (one, other) in enumerate(zip(run, right, strict=True)):
            x = left + wide * i
            drawn.append(rect(x, y, wide - 8, high, css("slate"), opacity=0.1))
            for line, (symbol, hue, value, expected) in enumerate(
                (("m", "max", one.m, other.m), ("ℓ", "sum", one.total, other.total))
            ):
                same = not _apart(value, expected)
                bad = not same or math.isnan(value)
                words, ink = f"{symbol} = {number(value)}", css_ink("alarm" if bad else hue)
                drawn.append(text(x + 6, y + 18 + 18 * line, words, bold=not same, fill=ink))
    width = left + wide * max(MOST_STATES, len(right))  # every exhibit's has one height
    return picture(width, 22 + 2 * (high + 6), "m and ℓ after each tile", drawn, f"{width / 13:.0f}rem")


def _apart(one: float, other: float) -> bool:
    return one != other and not (math.isnan(one) and math.isnan(other))


def verdicts(both: tuple[tuple[str, str, bool], ...]) -> str:
    """Large verdicts beside each other: each kernel's name, its error, and whether it passes."""
    boxes = "".join(
        f'<div data-passes="{str(passes).lower()}"><span>{escape(name)}</span><b>{"passes" if passes else "fails"}</b>'
        f"<span>{escape(ratio)}</span></div>"
        for name, ratio, passes in both
    )
    return f'<div class="verdicts">{boxes}</div>'
