"""What S in HBM costs: a kernel that writes S to HBM beside one that computes the same without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from explain.chapters.measurements.points import span, work
from explain.experiment import Experiment
from explain.figures.numbers import percent
from explain.kept import kept
from explain.records.model import Point
from explain.records.registry import Entry
from kernels.catalog import KERNELS


@kept
def other(one: Entry, run: Experiment) -> Point | None:
    """The counted run of the same work by a kernel that handles S the other way: in HBM, or on chip. Of several kernels
    the one with the fewest loads; None where the record has none.
    """
    found = [
        point
        for point in one.record.points.values()
        if _read(point) and point.experiment.entry.steppable and _the_other_way(run, point.experiment)
    ]
    return min(found, key=lambda point: point.experiment.traffic.read_bytes, default=None)


def told(one: Entry, points: Sequence[Point]) -> str:
    """How many times the bytes a kernel with S in HBM gets from HBM, and how long it takes, beside one without; of
    several such kernels the one that gets most. Markdown; "" for other kernels.
    """
    counted = [point for point in points if _read(point) and point.experiment.entry.steppable]
    writers = [point for point in counted if point.experiment.entry.stores_scores]
    found: dict[tuple[str, str], list[tuple[Point, Point]]] = {}
    for point in writers or counted:
        if beside := other(one, point.experiment):
            stores, keeps = sorted((point, beside), key=lambda own: not own.experiment.entry.stores_scores)
            found.setdefault((stores.experiment.kernel, keeps.experiment.kernel), []).append((stores, keeps))
    if not found:
        return ""
    kernels, pairs = max(found.items(), key=lambda item: median(_reads(item[1])))
    writer, keeper = (KERNELS[kernel].title for kernel in kernels)
    times = [(slow.seconds, fast.seconds) for slow, fast in pairs]
    took = [slow / fast for slow, fast in times if slow and fast]
    long = ""
    if took:
        only = "only " * (max(took) < min(_reads(pairs)))
        long = f" It takes {only}{span(took)} as long{_why(one, keeper, [fast for _, fast in pairs]) if only else ''}."
    return f"**{writer} reads {span(_reads(pairs))} the bytes that {keeper} reads from HBM.**{long}"


def _why(one: Entry, keeper: str, runs: Sequence[Point]) -> str:
    """How much of a kernel's time HBM needs for its bytes, in words; "" if that is not known."""
    roof = one.record.roofs.get("hbm")
    if roof is None:
        return ""
    most = max((_read(run) or 0) / roof.per_second / run.seconds for run in runs if run.seconds)
    up = math.ceil(1000 * most) / 1000  # "at most" holds of what is shown
    return f": HBM needs at most {percent(up, 1)} of the time of {keeper} to read its bytes"


def _the_other_way(run: Experiment, candidate: Experiment) -> bool:
    """Whether both compute the same, and one of them alone has S in HBM."""
    own, its = run.entry, candidate.entry
    return (
        own.stores_scores != its.stores_scores
        and own.family == its.family
        and {*own.outputs} - {"lse"} == {*its.outputs} - {"lse"}
        and work(run) == work(candidate)
    )


def _read(point: Point) -> int | None:
    return point.counters.cold.dram_read_bytes if point.counters else None


def _reads(pairs: Sequence[tuple[Point, Point]]) -> list[float]:
    """Of each pair the first one's bytes from HBM ÷ the second one's."""
    return [(_read(first) or 0) / (_read(second) or 1) for first, second in pairs]
