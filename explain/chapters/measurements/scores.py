"""What S in HBM costs: a kernel that writes S to HBM beside one that computes the same without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from explain.chapters.measurements.points import work
from explain.experiment import Experiment
from explain.figures.numbers import duration, moved
from explain.kept import kept
from explain.records.model import Point
from explain.records.registry import Entry


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


def told(one: Entry, points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """How many bytes a kernel with S in HBM and one without get from HBM, and how long they take: at the largest of the
    runs, of several such kernels for the one that gets most. `own`: the runs' sizes in words. Markdown; "" for others.
    """
    counted = [point for point in points if _read(point) and point.experiment.entry.steppable]
    writers = [point for point in counted if point.experiment.entry.stores_scores]
    found: dict[tuple[str, str], list[tuple[Point, Point]]] = {}
    for point in writers or counted:
        if beside := other(one, point.experiment):
            stores, keeps = sorted((point, beside), key=lambda run: not run.experiment.entry.stores_scores)
            found.setdefault((stores.experiment.kernel, keeps.experiment.kernel), []).append((stores, keeps))
    if not found:
        return ""
    pairs = max(found.values(), key=lambda pairs: median(_reads(pairs)))
    stores, keeps = max(pairs, key=lambda pair: pair[0].experiment.traffic.flops)
    both = (stores, keeps) if writers or len({point.experiment.kernel for point in counted}) > 1 else (keeps, stores)
    first, second = (point.experiment.entry.title for point in both)
    of = own.get(stores.experiment) or own[keeps.experiment]
    at = ", ".join(size for size in of.split(", ") if not size.startswith("BLOCK")) or of  # each has its own tiles
    times = [duration(point.seconds) for point in both if point.seconds]
    took = f" They take {' and '.join(times)}." * (len(times) == 2)
    its, other_one = (moved(_read(point) or 0) for point in both)
    return f"**{first} (our Triton teaching kernel) reads {its} from HBM, {second} {other_one}**, at {at}.{took}"


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
