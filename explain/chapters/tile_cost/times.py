"""The recorded times of a kernel's tiles: one call of the same sizes with each tile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from explain.chapters.flash_attention import tiles
from explain.chapters.measurements.points import sizes
from explain.experiment import Experiment
from explain.records.code import is_stale
from explain.records.registry import Entry
from kernels.parameters import Value

Setting = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Times:
    """The seconds of one call by the compiled tile's key, the sizes that all these calls share, and their record."""

    seconds: Mapping[str, float]
    sizes: str
    source: str


def recorded_times(compiled: Sequence[Experiment], chosen: Experiment, one: Entry) -> Times | None:
    """The times that a record has of these tiles of a kernel, at the sizes at which it has the `chosen` one and most
    others; of several such sizes the largest. None if it has no time.
    """
    kernel, names = compiled[0].kernel, tiles.settings(compiled[0].kernel).keys()
    wanted = {_setting(tile, names): tile.key for tile in compiled}
    runs: dict[Setting, dict[str, tuple[Experiment, float]]] = defaultdict(dict)
    for point in one.record.points.values():
        run = point.experiment
        if run.kernel == kernel and point.seconds and not is_stale(point) and (key := wanted.get(_setting(run, names))):
            runs[_setting(run, run.values.keys() - names)][key] = run, point.seconds
    if not runs:
        return None
    most = max(runs.values(), key=lambda own: (chosen.key in own, len(own), next(iter(own.values()))[0].traffic.flops))
    first, *others = (sizes(run).split(", ") for run, _ in most.values())
    shared = [words for words in first if all(words in other for other in others)]
    return Times({key: seconds for key, (_, seconds) in most.items()}, ", ".join(shared), one.source)


def _setting(experiment: Experiment, names: Collection[str]) -> Setting:
    return tuple((name, value) for name, value in experiment.values.items() if name in names)
