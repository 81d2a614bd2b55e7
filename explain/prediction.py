"""A kernel's time on a GPU that was never measured, predicted from another GPU's record.

    seconds = overhead + max(bytes ÷ (bandwidth × e_bytes), FLOPs ÷ (peak × e_flops)) ÷ busy

`bytes` are those of every array once, `FLOPs` the formula's, bandwidth and peak the GPU's specification. `busy` is
the share of the SMs that have a program. Overhead and the two efficiencies are fitted to the kernel's own points in
the record: of each problem that with the fastest tile. Neither efficiency can be above 1. Often many choices of the
three explain the times equally well, some by bytes and some by FLOPs. On another GPU they predict different times;
the prediction is the geometric mean of all. The model assumes that overhead and efficiencies are the same on every
GPU. A point of the record keeps what the model misses: its recorded time is scaled by the model's ratio of the two
GPUs, so kernels differ as they do in the record. The model's error is measured on other GPUs that have a record, and
on its own: each recorded point is predicted without it.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.experiment import Experiment
from explain.figures.numbers import ratio
from explain.gpus import GPUS, Gpu, card, known_as
from explain.records.model import Record
from kernels.traffic import tiles

Floats = NDArray[np.float64]

NOT_PREDICTED = (
    "No prediction for the {}: Triton uses tensor cores from compute capability 8.0 on, and this GPU has an older one. "
    "The recorded 16-bit matmuls ran on tensor cores, so their times say nothing about it."
)
_OVERHEADS = np.geomspace(1e-6, 1e-2, 21)
_EFFICIENCIES = np.geomspace(0.005, 1.0, 36)
_AXES = np.meshgrid(_OVERHEADS, _EFFICIENCIES, _EFFICIENCIES, indexing="ij")
_GRID = np.stack(_AXES, -1).reshape(-1, 3)
"""The candidates of the fit, shape (choices, 3): overhead in seconds, e_bytes, e_flops."""
_WITHOUT = [axis.ravel() == bound for axis, bound in zip(_AXES, (_OVERHEADS[0], 1.0, 1.0), strict=True)]
"""For each of the three, the candidates where it costs least."""
_AS_GOOD = 0.01
"""Fits are equally good if their mean relative errors differ by less."""


@dataclass(frozen=True, eq=False)
class Fit:
    """What explains a kernel's times equally well: overheads in seconds and shares of bandwidth and peak, shape
    (choices, 3). `needed` says of each of the three whether the times need it: without it they are fitted worse.
    """

    choices: Floats
    needed: tuple[bool, ...]

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """The smallest and the largest overhead, share of bandwidth and share of peak."""
        ends = self.choices.min(axis=0), self.choices.max(axis=0)
        return [(float(low), float(high)) for low, high in zip(*ends, strict=True)]

    def seconds(self, memory: float, compute: float) -> float:
        """The geometric mean of the times that the choices predict. Both arguments are seconds at full rate."""
        overhead, e_bytes, e_flops = self.choices.T
        return _mean(overhead + np.maximum(memory / e_bytes, compute / e_flops))


@dataclass(frozen=True)
class Predicted:
    """One recorded point: its measured seconds, and those predicted without it."""

    experiment: Experiment
    measured: float
    seconds: float

    @property
    def factor(self) -> float:
        """The error as a factor ≥ 1: 1.1 is 10% too slow or too fast."""
        return max(self.seconds / self.measured, self.measured / self.seconds)


@dataclass(frozen=True)
class Parts:
    """What one fit makes a time of: the constant, in seconds; bytes and FLOPs; the GPU's two rates, and the shares of
    them that the kernel reaches; and the share of the SMs that have a program.
    """

    constant: float
    bytes: int
    bandwidth: float
    of_bandwidth: float
    flops: int
    peak: float
    of_peak: float
    busy: float

    @property
    def memory(self) -> float:
        """The seconds that the bytes take."""
        return self.bytes / (self.bandwidth * self.of_bandwidth)

    @property
    def compute(self) -> float:
        """The seconds that the FLOPs take."""
        return self.flops / (self.peak * self.of_peak)

    @property
    def seconds(self) -> float:
        """The time: the module's formula."""
        return self.constant + max(self.memory, self.compute) / self.busy


@dataclass(frozen=True, eq=False)
class Test:
    """A model's predictions of one GPU's recorded times; `left_out`: the model learned from that GPU's other times."""

    gpu: str
    points: Sequence[Predicted]
    left_out: bool = False

    @property
    def median(self) -> float:
        """The median error, a factor ≥ 1."""
        return float(np.median([point.factor for point in self.points]))

    @property
    def worst(self) -> Predicted:
        """The point with the largest error."""
        return max(self.points, key=lambda point: point.factor)

    @property
    def told(self) -> str:
        """A sentence: which times were predicted, the median error and the worst."""
        times = f"the {self.gpu}'s {len(self.points)} recorded times"
        which = f"each of {times}, with that time left out" if self.left_out else times
        half = f"half are at most {ratio(self.median)} too long or too short"
        return f"Tested on {which}: {half}, the worst {ratio(self.worst.factor)}"


@dataclass(frozen=True)
class Model:
    """The fit of each kernel, on which GPU, the predicted points of its record, and the records of other GPUs."""

    gpu: str
    fitted: Mapping[str, Fit]
    points: Sequence[Predicted]
    others: Sequence[Record] = ()

    @functools.cached_property
    def tests(self) -> Sequence[Test]:
        """The model's tests: on each other GPU, of the sizes that both records have; last on its own record."""
        elsewhere = (Test(gpu.name, self._beside(record, gpu)) for record in self.others if (gpu := card(record.gpu)))
        return [*(one for one in elsewhere if one.points and one.gpu != self.gpu), Test(self.gpu, self.points, True)]

    def tested(self, experiment: Experiment) -> tuple[str, Predicted] | None:
        """A prediction of this experiment for another GPU that measured it, and which GPU that is; None without one."""
        found = ((test.gpu, one) for test in self.tests if not test.left_out for one in test.points)
        return next(((gpu, one) for gpu, one in found if one.experiment == experiment), None)

    def _beside(self, record: Record, gpu: Gpu) -> Sequence[Predicted]:
        """The recorded times of another GPU, each with its prediction; those without one are left out."""
        timed = ((point.experiment, point.seconds) for point in record.points.values())
        return [
            Predicted(one, measured, seconds)
            for one, measured in timed
            if measured and (seconds := self.seconds(one, gpu))
        ]

    def seconds(self, experiment: Experiment, gpu: Gpu) -> float | None:
        """The predicted time of one call; None where it is refused."""
        if self.refusal(experiment, gpu):
            return None
        own, recorded = self.modelled(experiment, gpu), self.recorded.get(experiment.key)
        return own if recorded is None else recorded * own / self.modelled(experiment, GPUS[self.gpu])

    def refusal(self, experiment: Experiment, gpu: Gpu) -> str:
        """Why it predicts no time, a sentence; "" where it predicts one."""
        if experiment.kernel not in self.fitted:
            return f"No prediction of {experiment.entry.title}: the {self.gpu}'s record has less than two of its times."
        both = _on_tensor_cores(experiment, gpu) == _on_tensor_cores(experiment, GPUS[self.gpu])
        return "" if both else NOT_PREDICTED.format(gpu.name)

    def modelled(self, experiment: Experiment, gpu: Gpu) -> float:
        """The formula's seconds, without what the kernel's own recorded time says."""
        return self.fitted[experiment.kernel].seconds(*_ideal(experiment, gpu))

    def parts(self, experiment: Experiment, gpu: Gpu) -> list[Parts]:
        """Of each fit that explains the kernel's times, what makes up its time. `modelled` is their geometric mean."""
        size, peak, busy = _needs(experiment, gpu)
        return [
            Parts(constant, size, gpu.hbm_bytes_per_second, of_bandwidth, experiment.traffic.flops, peak, of_peak, busy)
            for constant, of_bandwidth, of_peak in self.fitted[experiment.kernel].choices.tolist()
        ]

    @functools.cached_property
    def recorded(self) -> Mapping[str, float]:
        """The recorded seconds of each experiment that was timed, by its key."""
        return {point.experiment.key: point.measured for point in self.points}

    def test(self, experiments: Iterable[Experiment]) -> Test:
        """The test of predictions like these: on another GPU, if all of them are scaled from recorded times; else on
        the times left out.
        """
        return self.tests[0 if all(one.key in self.recorded for one in experiments) else -1]

    def told(self, experiments: Iterable[Experiment]) -> str:
        """Where these predicted times come from and how wrong they may be, for a caption."""
        tested = self.test(experiments).told
        return f"predicted · the {self.gpu}'s recorded times, scaled by a model of both GPUs. {tested}"


@functools.lru_cache(maxsize=8)
def fitted(*records: Record) -> Model | None:
    """The model of the first record, tested on the others; None without a record, if its GPU's specification is
    unknown, or if no kernel was timed twice.
    """
    if not records:
        return None
    record, *others = records
    name = known_as(record.gpu)
    timed = defaultdict(list)
    for point in record.points.values():
        if point.timing is not None:
            timed[point.experiment.kernel].append((point.experiment, point.timing.median_ms / 1e3))
    if name is None or all(len(own) < 2 for own in timed.values()):
        return None
    best: dict[str, Fit] = {}
    points: list[Predicted] = []
    for kernel, own in timed.items():
        if len(own) < 2:
            continue
        ideal = np.array([_ideal(experiment, GPUS[name]) for experiment, _ in own])
        measured = np.array([seconds for _, seconds in own])
        overhead, e_bytes, e_flops = (_GRID[:, [at]] for at in range(3))
        tried: Floats = overhead + np.maximum(ideal[:, 0] / e_bytes, ideal[:, 1] / e_flops)  # (choices, points)
        errors = np.abs(np.log(tried / measured)) * fastest(own)
        total = errors.sum(axis=1)
        enough = total.min() + _AS_GOOD * len(own)
        needed = tuple(bool(total[without].min() > enough) for without in _WITHOUT)
        best[kernel] = Fit(_GRID[_as_good(total, len(own))], needed)
        for at, (experiment, seconds) in enumerate(own):
            without = _as_good(total - errors[:, at], len(own) - 1)
            points.append(Predicted(experiment, seconds, _mean(tried[without, at])))
    return Model(name, best, points, others)


def fastest(timed: Sequence[tuple[Experiment, float]]) -> NDArray[np.bool_]:
    """Which of these times are of the fastest tile of their problem. The model knows of a tile only its programs: the
    others, such as those that spill, would say nothing about the kernel.
    """
    least: dict[tuple[object, ...], float] = {}
    problems = []
    for experiment, seconds in timed:
        tile = {parameter.name for parameter in experiment.entry.parameters if parameter.kind == "tile"}
        problem = tuple(value for name, value in experiment.values.items() if name not in tile)
        problems.append(problem)
        least[problem] = min(seconds, least.get(problem, math.inf))
    return np.array([seconds == least[problem] for problem, (_, seconds) in zip(problems, timed, strict=True)])


def _as_good(total: Floats, times: int) -> NDArray[np.bool_]:
    """Which candidates fit as well as the best one, given the `total` of their errors over a number of `times`."""
    good: NDArray[np.bool_] = total <= total.min() + _AS_GOOD * times
    return good


def _mean(seconds: Floats) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(seconds).mean()))


def _ideal(experiment: Experiment, gpu: Gpu) -> tuple[float, float]:
    """Seconds of the bytes and of the FLOPs at full bandwidth and peak, on the SMs that have a program."""
    size, peak, busy = _needs(experiment, gpu)
    return size / gpu.hbm_bytes_per_second / busy, experiment.traffic.flops / peak / busy


def _needs(experiment: Experiment, gpu: Gpu) -> tuple[int, float, float]:
    """The bytes of every array once, the peak of the units that the matmuls run on, the share of the SMs that have a
    program.
    """
    size = sum(term.once for term in experiment.whole_terms)
    peak = gpu.tensor_flops_per_second if _on_tensor_cores(experiment, gpu) else gpu.fp32_flops_per_second
    return size, peak, min(1.0, programs(experiment) / gpu.sms)


def _on_tensor_cores(experiment: Experiment, gpu: Gpu) -> bool:
    """Whether the matmuls run on tensor cores; Triton uses none before Ampere."""
    compiled_for = gpu.compute_capability >= 80 or experiment.entry.kind == "library"
    return experiment.entry.family in ("attention", "loss") and experiment.values["dtype"] != "fp32" and compiled_for


def programs(experiment: Experiment) -> float:
    """The number of programs in the largest launch; ∞ if the kernel's tiles are unknown."""
    p = experiment.values
    if experiment.entry.family == "softmax":
        return tiles(p["rows"], p.get("block_m", 1))
    if "block_m" not in p:
        return math.inf
    if experiment.entry.family == "loss":
        return tiles(p["tokens"], p["block_m"])
    if experiment.entry.shares_keys:
        rows = p["seq_len"] * p["heads"] // p["kv_heads"]
        return p["batch"] * p["kv_heads"] * p["splits"] * tiles(rows, p["block_m"])
    heads: int = p["batch"] * p["heads"]
    return heads if experiment.entry.outer == "block_n" else heads * tiles(p["seq_len"], p["block_m"])
