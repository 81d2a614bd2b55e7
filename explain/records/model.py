"""Point, Roof, Record: the measurements of one experiment, of a GPU's limits, of a whole GPU. No torch, no triton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from explain.counters.model import Counters
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from kernels.parameters import Value


@dataclass(frozen=True)
class Origin:
    """Where and when something was measured, the commit ("+": changed since), and the digest of the kernel's code."""

    provenance: Provenance
    commit: str = ""
    code: str = ""


@dataclass(frozen=True)
class Point:
    """One Experiment on one GPU: its counters, its time and its memory.

    A part is None if it was not asked for or could not be measured; `why` says what failed and why ("" if nothing).
    `peak_bytes` is the peak of torch's allocator during a run, beyond the inputs. Counted runs are never the timed
    ones.
    """

    experiment: Experiment
    counters: Counters | None = None
    timing: Timing | None = None
    peak_bytes: int | None = None
    why: str = ""
    origin: Origin | None = None

    @property
    def seconds(self) -> float | None:
        """The median time of a launch; None if it was not timed."""
        return self.timing.median_ms / 1e3 if self.timing else None

    def holds(self, counters: bool, timing: bool, stalls: bool = False) -> bool:
        """Whether this point has what is asked for."""
        counted = self.counters is not None and (self.counters.stalls is not None or not stalls)
        return (counted or not (counters or stalls)) and (self.timing is not None or not timing)


_ROOFS = {
    "shared": "shared memory", "l1": "L1", "l2": "L2", "hbm": "HBM, read", "hbm write": "HBM, written",
    "hbm copy": "HBM, copied", "host": "host to GPU", "host write": "GPU to host", "exp": "exponentials",
}  # fmt: skip


def roof_name(level: str) -> str:
    """A roof's level as readers see it: "HBM, read" for "hbm"."""
    return _ROOFS.get(level, level)


@dataclass(frozen=True)
class Roof:
    """The highest measured rate of one level of the memory hierarchy, or of one unit.

    `level` is "shared", "l2", "hbm", "host", "matmul bf16", "matmul fp16", "fp32 fma", "exp" or similar; `unit` is
    "B/s" or "FLOP/s".
    """

    level: str
    per_second: float
    unit: str
    method: str


@dataclass(frozen=True)
class Record:
    """All measurements of one GPU, in one file: `points` by Experiment.key, `roofs` by level.

    `commit` and `provenance` are those of the latest run. It can be hashed, so results made from it can be cached.
    """

    commit: str
    provenance: Provenance
    points: Mapping[str, Point] = field(default_factory=dict)
    roofs: Mapping[str, Roof] = field(default_factory=dict)

    def provenance_of(self, point: Point) -> Provenance:
        """That of the run that measured the point."""
        return point.origin.provenance if point.origin else self.provenance

    def __hash__(self) -> int:
        return hash((self.commit, self.provenance, len(self.points)))

    def point(self, experiment: Experiment) -> Point | None:
        """The measurements of this experiment, if there are any."""
        return self.points.get(experiment.key)

    @property
    def gpu(self) -> str:
        """The driver's name for the GPU."""
        return self.provenance.gpu

    @cached_property
    def dates(self) -> str:
        """The days of its measurements: "2026-11-21 to 2026-11-28"."""
        days = sorted({self.provenance_of(point).date for point in self.points.values()} or {self.provenance.date})
        return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"

    def with_(self, point: Point) -> Record:
        """This record with the point added or replaced."""
        return replace(self, points={**self.points, point.experiment.key: point})


def settings(experiment: Experiment) -> str:
    """The experiment's parameters that differ from its kernel's defaults, as a command takes them."""
    return " ".join(f"{name}={value}" for name, value in changed(experiment).items())


def changed(experiment: Experiment) -> dict[str, Value]:
    """The experiment's parameters that differ from its kernel's defaults, by name."""
    values, differing = experiment.values, {}
    for parameter in experiment.entry.parameters:
        default = parameter.default(values) if callable(parameter.default) else parameter.default
        if values[parameter.name] != default:
            differing[parameter.name] = values[parameter.name]
    return differing
