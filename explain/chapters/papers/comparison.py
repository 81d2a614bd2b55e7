"""Ours beside a paper's: what the charts and sentences of both papers share."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from explain.figures import palette
from explain.figures.numbers import percent, ratio
from explain.records.model import Point, Record

PAPER = palette.mid("slate")  # a paper's values are slate, and dashed
Pair = tuple[go.Figure, go.Figure]
"""Two charts beside each other."""
HEIGHT = 340
NEAR = 1.1
"""A ratio is reproduced if it differs from the paper's by at most this factor."""
WITHIN = f"within {percent(NEAR - 1)}"


def reproduced(ours: float, low: float, high: float) -> bool:
    """Whether a ratio is the paper's, or within its range, up to NEAR."""
    return low / NEAR <= ours <= high * NEAR


def compared(what: str, ours: float, papers: float) -> str:
    """A ratio beside the paper's, and how they compare, as a line of a Markdown list."""
    close = reproduced(ours, papers, papers)
    return f"- {chip(close)} **{what}**: {ratio(ours)} here, {ratio(papers)} in the paper"


PARTLY = ":orange-badge[partly: the size is reproduced, the starting point is not]"
"""The verdict on a speedup that the paper has from a shorter row on."""


def chip(close: bool) -> str:
    """The verdict as a Markdown badge."""
    return f":green-badge[✓ {WITHIN}]" if close else ":orange-badge[✗ not reproduced]"


def short(record: Record) -> str:
    """The GPU's name without its maker's."""
    return record.gpu.removeprefix("NVIDIA ")


def seconds_of(point: Point | None) -> float | None:
    return point.seconds if point else None


def billions(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    return [(x, y / 1e9) for x, y in points]
