"""How much room words take, how they wrap, and where labels go that would overlap.

Widths are measured from the app's font (`scripts/write_widths.py`). Kerning is left out: it makes words narrower by
about 1%.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

MONO = 0.6
"""Of the code font: each character's width in font sizes."""
_UNKNOWN = 1000
"""Of a character that the font lacks and a fallback font draws: an em, which is more than most take."""


def begun(words: str) -> str:
    """The words with a capital at their beginning."""
    return words[:1].upper() + words[1:]


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence: "dK", "dK and dV", "S, P and O". At least one."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def text_width(words: str, size: float = 14, bold: bool = False, mono: bool = False) -> float:
    """How wide one line of text is, in the unit of its font size."""
    chars = [char for char in words if not unicodedata.combining(char)]
    if mono:
        return MONO * size * len(chars)
    widths = _widths()["bold" if bold else "regular"]
    return size / 1000 * sum(widths.get(char, _UNKNOWN) for char in chars)


def widest(texts: Iterable[str], size: float = 14, bold: bool = False) -> float:
    """The width of the widest of them; 0 of none."""
    return max((text_width(words, size, bold) for words in texts), default=0.0)


def wrapped(words: str, width: float, size: float = 14, bold: bool = False) -> list[str]:
    """The text in lines at most `width` wide, broken at spaces, not at no-break spaces. A single word that is wider has
    a line of its own.
    """
    lines: list[str] = []
    for word in filter(None, re.split(r"[ \n]", words)):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


_OPERATOR = re.compile(r" ([=×+−÷/<>≤≥]|(?<=\) )·) ")
_PAIR = re.compile(r"(?<=\d) (?=(?:[kMGT]?B|[mµn]?s)\b)|(?<=\bbatch) (?=\d)|(?<=\bBLOCK_[A-Z]) (?=\d)")
_IN_BRACKETS = re.compile(r"\([^()]*[−+=×][^()]*\)")


def unbroken(words: str) -> str:
    """The text with no-break spaces around the operators of its equations, within their brackets, before a unit, and
    between a size and its number.
    """
    joined = _PAIR.sub("\u00a0", _OPERATOR.sub("\u00a0\\1\u00a0", words))
    return _IN_BRACKETS.sub(lambda found: found[0].replace(" ", "\u00a0"), joined)


def shortened(words: str, width: float, size: float = 14, bold: bool = False) -> str:
    """The text, or as much of its beginning as fits with "…" after it."""
    if text_width(words, size, bold) <= width:
        return words
    kept = words
    while kept and text_width(kept + "…", size, bold) > width:
        kept = kept[:-1].rstrip()
    return kept + "…"


def spread(
    wanted: Sequence[float], extents: float | Sequence[float], low: float = -math.inf, high: float = math.inf
) -> list[float]:
    """Places for labels along a line, in the given order: as near as possible to where each is wanted, without overlap.

    wanted: the middle that each label would have.  extents: how much each takes along the line, gap included.
    The labels that crowd share their middle. All lie between `low` and `high`; where these have no room for all, the
    labels are squeezed evenly and overlap by as little as possible.
    """
    sizes = [extents] * len(wanted) if isinstance(extents, int | float) else list(extents)
    room = high - low
    if sum(sizes) > room:
        sizes = [one * room / sum(sizes) for one in sizes]
    groups: list[list[int]] = []

    def ends(group: list[int]) -> tuple[float, float]:
        half = sum(sizes[i] for i in group) / 2
        # Each member would put the group's middle where its own place is the wanted one.
        offset, middles = -half, []
        for i in group:
            middles.append(wanted[i] - offset - sizes[i] / 2)
            offset += sizes[i]
        middle = min(max(sum(middles) / len(group), low + half), high - half)
        return middle - half, middle + half

    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        groups.append([i])
        while len(groups) > 1 and ends(groups[-1])[0] < ends(groups[-2])[1] - 1e-9:
            groups[-2:] = [groups[-2] + groups[-1]]
    places = [0.0] * len(sizes)
    for group in groups:
        at = ends(group)[0]
        for i in group:
            places[i] = at + sizes[i] / 2
            at += sizes[i]
    return places


@lru_cache(maxsize=1)
def _widths() -> dict[str, dict[str, int]]:
    """By weight and character, in thousandths of an em."""
    table: dict[str, dict[str, int]] = json.loads(Path(__file__).with_name("widths.json").read_text(encoding="utf-8"))
    return table
