"""Reads an SVG as text."""

from __future__ import annotations

import re

from explain.figures.labels import text_width


def width_around_words(svg: str) -> float:
    """The width of a picture, whose words all stand within it."""
    (found,) = re.findall(r'viewBox="0 0 ([\d.]+)', svg)
    width = float(found)
    placed = re.findall(r'<text x="([\d.]+)"[^>]*font-size="(\d+)" text-anchor="(\w+)"([^>]*)>([^<]*)<', svg)
    assert placed
    for x, size, anchor, look, words in placed:
        long = text_width(words, float(size), "weight" in look)
        begin = float(x) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * long
        assert begin >= -1, words
        assert begin + long <= width + 1, words
    return width
