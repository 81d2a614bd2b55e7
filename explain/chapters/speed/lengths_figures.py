"""A first call beside the later ones."""

from __future__ import annotations

from math import log10

from explain.figures import labels, numbers, palette, svg

SHORTEST = 1e-6
"""Seconds at the left end of the bars."""


def first_call(
    compiled: tuple[str, float] | None, first: float, later: float, gpu: str, triton: str = ""
) -> str:  # fmt: skip
    """A first call beside the later ones, as bars on a log scale. Seconds.

    `compiled`: the compilation alone, if known, and the triton that compiled; `triton`: that of the calls.
    """
    by = f", triton {triton}" if triton else ""
    bars = [(f"compilation alone, triton {compiled[0]}", compiled[1], "slate")] if compiled else []
    bars += [(f"first call, compiling{by}", first, "series-2"), ("each later call", later, "series-1")]
    left, wide, high = labels.widest(words for words, *_ in bars) + 26, 420.0, 30.0
    foot, decades = 8 + high * len(bars), range(round(log10(SHORTEST)), 2)

    def at(seconds: float) -> float:
        return left + wide * (log10(max(seconds, SHORTEST)) - decades[0]) / (len(decades) - 1)

    parts = []
    for decade in decades:
        x, words = at(10.0**decade), numbers.duration(10.0**decade)
        parts.append(svg.line(x, 4, x, foot, opacity=0.15))
        parts.append(svg.text(x, foot + 16, words, size=svg.SMALL, anchor="middle", faint=True))
    for row, (words, seconds, hue) in enumerate(bars):
        y = 8 + row * high
        parts.append(svg.text(left - 12, y + 16, words, anchor="end"))
        parts.append(svg.rect(left, y, at(seconds) - left, high - 8, palette.css(hue)))
        parts.append(svg.text(at(seconds) + 8, y + 16, numbers.duration(seconds), bold=True))
    parts.append(svg.text(left + wide, foot + 34, "logarithmic scale", size=svg.SMALL, anchor="end", faint=True))
    return svg.picture(left + wide + 90, foot + 42, f"A first call on {gpu} beside the later ones", parts, "54rem")
