"""The climb: attention kernels from online softmax in fp32 to a persistent Hopper kernel, one idea per rung.

Imports neither streamlit nor torch: sources are read from the files, times from what `benchmarks/speed.py` wrote.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explain import data, lessons
from explain.chapters.speed.results import RUNG, Case, Limit, Variant
from explain.chapters.sweeps.analysis import RooflinePoint, memory_roof
from explain.chapters.sweeps.model import formula
from explain.counters.stalls import Stalls
from explain.experiment import Experiment
from explain.records.model import Point, Record, Roof
from explain.source import functions
from kernels.catalog import KERNELS, Kernel
from kernels.rungs import GLUON

TOP = "persistent"
"""The name of the top rung. Its module is `kernels/attention_hopper.py`."""

IN_BASE_2 = lessons.SHORT.through("flash_attention_exp2")
CLIMB: dict[str, tuple[Experiment, Experiment]] = {
    "standard": (lessons.STANDARD, lessons.OPENING),
    "16 bits": (lessons.SHORT, lessons.SHORT.with_(dtype="bf16")),
    "base 2": (lessons.SHORT, IN_BASE_2),
    "masked": (IN_BASE_2, IN_BASE_2.with_(causal=True)),
}
"""Pairs of runs to step through side by side: how a rung changes the numbers. Later rungs change only the schedule."""


@dataclass(frozen=True)
class Twin:
    """Traced runs with the same arithmetic: the page that steps through them, the link's words, the page's address."""

    page: str
    words: str
    query: Mapping[str, str] = field(hash=False)


def side_by_side(pair: str, words: str) -> Twin:
    """The link to one pair of CLIMB."""
    sides = zip(("a.", "b."), CLIMB[pair], strict=True)
    query = {f"{side}{name}": value for side, run in sides for name, value in run.to_query().items()}
    return Twin("side_by_side", words, query)


@dataclass(frozen=True)
class Rung:
    """One kernel of the climb. `name` is its module in `kernels/rungs/`, and its name in the page's address.

    `plain` is a phrase for its column, `idea` and `why` are a sentence or two each, `takes` says
    which calls it accepts, `line` is the idea's source line, `at_d` is why it gains more at a head_dim,
    `word` is the word that is new in the line and what it means.
    """

    name: str
    title: str
    plain: str
    idea: str
    why: str
    takes: str
    line: str
    twin: Twin | None = None
    at_d: Mapping[str, str] = field(default_factory=dict, hash=False)
    word: str = ""

    @property
    def kernel(self) -> str:
        """What an experiment calls it."""
        return "fast:flash_attention_hopper" if self.name == TOP else f"rung:{self.name}"

    @property
    def entry(self) -> Kernel:
        """The catalog's entry: module, short name, hue."""
        return KERNELS[self.kernel]

    @property
    def label(self) -> str:
        """Its short name on screen."""
        return self.entry.short

    @property
    def gluon(self) -> bool:
        """Whether it is written in Gluon, not in plain Triton."""
        return self.name == TOP or self.name in GLUON

    def empty_warps(self, stalls: Stalls) -> float:
        """The fraction of this kernel's warps that have no work.

        Under warp specialization one warp loads, and Triton rounds the warps of a program up to a multiple of four.
        One program fills an SM, so each of its four schedulers has a quarter of the program's warps.
        """
        return 3 / (4 * round(stalls.warps)) if "warp_specialize" in self.source else 0.0

    @property
    def file(self) -> str:
        """The source's path in the project."""
        return functions.file_of(self.entry.module)

    @property
    def source(self) -> str:
        """The functions that run on the GPU, in the file's order, and the function that launches them."""
        module = self.entry.module
        return functions.functions_source(module, (*functions.jitted(module), self.entry.function))

    @property
    def place(self) -> str:
        """The name of the first function on the GPU that has the idea's line."""
        module = self.entry.module
        return next(name for name in functions.jitted(module) if self.line in functions.body_source(module, name))

    @property
    def line_number(self) -> int:
        """The line number of the idea's line in the file, from 1. Raises ValueError if it is not there."""
        return functions.line_number(self.entry.module, self.line)


def _rung(pair: str = "", **said: Any) -> Rung:
    return Rung(**said, twin=side_by_side(pair, _DATA["words"][pair]) if pair else None)


_DATA = data(__file__)
RUNGS: tuple[Rung, ...] = tuple(_rung(**rung) for rung in _DATA["rung"])
BY_NAME: Mapping[str, Rung] = {rung.name: rung for rung in RUNGS}
COUNTED = tuple(
    Experiment.of(kernel, {"batch": 2, "heads": 16, "seq_len": 8192, "dtype": "bf16", **shape}, "normal")
    for shape in ({"head_dim": d, "causal": causal} for d in (128, 64) for causal in (False, True))
    for kernel in (*(rung.kernel for rung in RUNGS), "torch:flash", "torch:cudnn")
)
"""What a GPU counts of the climb, and of PyTorch's two fused kernels beside it."""


def below(rung: Rung) -> Rung | None:
    """The rung below; None for the lowest."""
    at = RUNGS.index(rung)
    return RUNGS[at - 1] if at else None


@functools.cache
def news(rung: Rung) -> str:
    """What changed from the rung below in the function that has the idea's line, without its parameters: an excerpt of
    the diff; empty for the lowest rung.
    """
    if (lower := below(rung)) is None:
        return ""
    old, new = lower.entry.module, rung.entry.module
    before = functions.body_source(old, rung.place) if rung.place in functions.jitted(old) else ""
    return functions.excerpt(functions.marked(before, functions.body_source(new, rung.place)))


@functools.cache
def difference(rung: Rung) -> str:
    """All that changed from the rung below, parameters and launch too, as an excerpt of the diff; empty for the lowest
    rung.
    """
    lower = below(rung)
    return functions.excerpt(functions.marked(lower.source, rung.source)) if lower else ""


@dataclass(frozen=True)
class Step:
    """A rung on one shape.

    `variant` is its benchmark result, None if it was not benchmarked; `gain` its speedup over the rung below.
    """

    rung: Rung
    variant: Variant | None
    gain: float | None

    @property
    def per_second(self) -> float | None:
        """FLOP/s, if it was timed."""
        return self.variant.per_second if self.variant else None

    @property
    def slower(self) -> bool:
        """Whether it is slower than the rung below, by more than 0.5%."""
        return self.gain is not None and self.gain < 0.995


@functools.lru_cache(maxsize=64)
def climb(case: Case | None) -> tuple[Step, ...]:
    """Each rung on this case of the benchmark's table "attention"; without a case none is timed."""
    steps: list[Step] = []
    for rung in RUNGS:
        own = next((one for one in case.best if one.function in _names(rung)), None) if case else None
        under = steps[-1].per_second if steps else None
        speed = own.per_second if own else None
        steps.append(Step(rung, own, speed / under if speed and under else None))
    return tuple(steps)


def beside(case: Case) -> tuple[Variant, ...]:
    """The library kernels timed on this case, fastest first."""
    names = {name for rung in RUNGS for name in _names(rung)}
    return tuple(one for one in case.best if one.per_second and one.function not in names)


def share(step: Step, peak: Limit | None) -> float | None:
    """Throughput ÷ peak, where both are known."""
    return step.per_second / peak.per_second if step.per_second and peak else None


def counted(record: Record | None, case: Case) -> dict[str, Point]:
    """What a GPU's record has counted of each rung, by its name, at the case's d and mask.

    N, batch and heads are the record's.
    """
    points = {name: record.point(one) for name, one in _asked(case.shape[3], case.causal).items()} if record else {}
    return {name: point for name, point in points.items() if point and point.counters}


@functools.lru_cache(maxsize=16)
def _asked(head_dim: int, causal: bool) -> dict[str, Experiment]:
    """The experiment that counts each rung, by the rung's name."""
    by_kernel = {rung.kernel: rung.name for rung in RUNGS}
    alike = {"head_dim": head_dim, "causal": causal}.items()
    asked = (one for one in COUNTED if one.kernel in by_kernel and alike <= one.values.items())
    return {by_kernel[one.kernel]: one for one in asked}


@dataclass(frozen=True)
class Spill:
    """The registers that the rung below spills and a rung does not: bytes, and their time at the measured L2 bandwidth.

    `seconds` is that time, `of` the whole time of the rung below; `bandwidth` is in bytes per second. `tensor` is how
    busy the tensor cores are in the rung below and in the rung, in percent of their peak.
    """

    rung: Rung
    size: int
    seconds: float | None
    of: float | None
    bandwidth: float | None
    tensor: tuple[float | None, float | None]

    @property
    def starts_cores(self) -> bool:
        """Whether the rung uses the tensor cores and the one below does not."""
        before, now = self.tensor
        return before is not None and now is not None and before < 1 <= now


def spilled(points: Mapping[str, Point], rung: Rung, roofs: Mapping[str, Roof]) -> Spill | None:
    """The spills that `rung` removes from the rung below; None if they are not counted or nothing is removed."""
    lower = below(rung)
    own, under = points.get(rung.name), points.get(lower.name) if lower else None
    if not (lower and own and under and own.counters and under.counters):
        return None
    now, before = own.counters.cold, under.counters.cold
    if (before.spilled_bytes or 0) <= (now.spilled_bytes or 0):
        return None
    bandwidth = memory_roof("l2", roofs)
    passed = (before.sm_bytes or 0) - (now.sm_bytes or 0)
    seconds = passed / bandwidth if bandwidth and passed > 0 else None
    tensor = before.tensor_active_percent, now.tensor_active_percent
    return Spill(lower, before.spilled_bytes or 0, seconds, under.seconds, bandwidth, tensor)


def experiment(rung: Rung, case: Case) -> Experiment:
    """The rung on the case's shape."""
    sizes = dict(zip(("batch", "heads", "seq_len", "head_dim"), case.shape, strict=True))
    return Experiment.of(rung.kernel, {**sizes, "dtype": case.dtype, "causal": case.causal}, "normal")


def under_roofs(steps: Sequence[Step], case: Case, roofs: Mapping[str, Roof]) -> list[RooflinePoint]:
    """Each timed rung under the roofs: the case's FLOPs ÷ the bytes that must pass HBM (formula), and ÷ its time."""
    compute, bandwidth = roofs.get(f"matmul {case.dtype}"), memory_roof("hbm", roofs)
    points = []
    for step in steps:
        if step.per_second:
            reading = formula(experiment(step.rung, case))
            intensity = case.work / reading.bytes["asked"]
            memory = intensity * bandwidth if bandwidth else None
            peak = compute.per_second if compute else None
            points.append(RooflinePoint(reading, "hbm", intensity, step.per_second, memory, peak))
    return points


def largest(steps: Sequence[Step]) -> Step | None:
    """The step with the largest speedup over the rung below."""
    return max((step for step in steps if step.gain), key=lambda step: step.gain or 0.0, default=None)


def _names(rung: Rung) -> tuple[str, ...]:
    """The benchmark's names of it.

    The dispatcher runs the top rung at every shape that it takes, and the table has no other time of it.
    """
    return (rung.entry.function, "attention") if rung.name == TOP else (f"{RUNG}{rung.name}",)
