"""The recorded times of a kernel's tiles: one call of the same sizes with each tile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from explain.chapters.flash_attention import tiles
from explain.chapters.measurements.points import sizes
from explain.counters.model import Counts
from explain.experiment import Experiment
from explain.figures.labels import listed
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.registry import Entry
from kernels.parameters import Value

Setting = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Times:
    """What was timed of each tile, by the compiled tile's key: the run and its seconds; of those that were counted, the
    counts with a cold L2; the sizes that all these runs share, their Triton and their record.
    """

    runs: Mapping[str, tuple[Experiment, float]]
    counts: Mapping[str, Counts]
    sizes: str
    triton: str
    source: str


@kept
def recorded_times(compiled: Collection[Experiment], one: Entry) -> Times | None:
    """The times that a record has of these tiles of a kernel, which differ in their sides only. All are of one problem,
    whichever tile is chosen: the one with times of most tiles, then the largest. None if none was timed.
    """
    any_tile = next(iter(compiled))
    kernel, sides = any_tile.kernel, tiles.sides_of(any_tile.kernel)
    same = tiles.settings(kernel).keys() - sides
    problems: dict[Setting, dict[Setting, tuple[Experiment, float]]] = defaultdict(dict)
    for point in one.record.points.values():
        run = point.experiment
        if run.kernel != kernel or not point.seconds or is_stale(point):
            continue
        if _setting(run, same) == _setting(any_tile, same):
            problems[_setting(run, run.values.keys() - sides)][_setting(run, sides)] = run, point.seconds
    wanted = {_setting(tile, sides): tile.key for tile in compiled}
    most = max(problems.values(), key=lambda own: (len(own.keys() & wanted), _flops(own)), default={})
    runs = {key: most[side] for side, key in wanted.items() if side in most}
    if not runs:
        return None
    first, *others = (sizes(run).split(", ") for run, _ in runs.values())
    shared = [words for words in first if not words.startswith("BLOCK_") and all(words in other for other in others)]
    points = {key: one.record.points[run.key] for key, (run, _) in runs.items()}
    counts = {key: point.counters.cold for key, point in points.items() if point.counters}
    tritons = {one.record.provenance_of(p).triton for p in points.values()}
    return Times(
        runs, counts, ", ".join(shared), listed(sorted(tritons)), one.source,
    )  # fmt: skip


def _flops(runs: Mapping[Setting, tuple[Experiment, float]]) -> int:
    return next(iter(runs.values()))[0].traffic.flops


def _setting(experiment: Experiment, names: Collection[str]) -> Setting:
    return tuple((name, value) for name, value in experiment.values.items() if name in names)
