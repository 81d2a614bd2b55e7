"""The climb: attention kernels from online softmax in fp32 to a persistent Hopper kernel, one idea per rung.

Imports neither streamlit nor torch: sources are read from the files, times from what `benchmarks/speed.py` wrote.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explain import lessons
from explain.chapters.speed.results import RUNG, Case, Limit, Variant
from explain.chapters.sweeps.analysis import RooflinePoint, memory_roof
from explain.chapters.sweeps.model import formula
from explain.experiment import Experiment
from explain.records import plans
from explain.records.model import Point, Record, Roof
from explain.source import functions
from kernels.catalog import KERNELS, Kernel
from kernels.rungs import GLUON

TOP = "persistent"
"""The name of the top rung, whose module is `kernels/attention_hopper.py`."""

IN_BASE_2 = lessons.SHORT.through("flash_attention_exp2")
CLIMB: dict[str, tuple[Experiment, Experiment]] = {
    "standard": (lessons.SHORT.through("attention_standard"), lessons.SHORT),
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

    `idea` and `why` are a sentence or two each, `takes` says which calls it accepts, `line` is the idea's source line.
    """

    name: str
    title: str
    idea: str
    why: str
    takes: str
    line: str
    twin: Twin

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
    def line_number(self) -> int:
        """Where the line of the idea stands in the file, from 1. Raises ValueError if it is not there."""
        return functions.line_number(self.entry.module, self.line)


_CUT = side_by_side("masked", "Step through the same arithmetic, with and without a causal mask →")
_ANY = "Any N, any number of keys, head_dim up to 256, grouped heads; fp16 and bf16."
_HOPPER = "fp16 and bf16 with head_dim 64 or 128, on a Hopper GPU."

RUNGS: tuple[Rung, ...] = (
    Rung(
        "naive_fp32", "Online softmax, all in fp32",
        "S is computed, used and dropped tile by tile, and every number is fp32.",
        "S never goes to HBM, but the kernel is slow: both matmuls run on the ordinary fp32 units, because tensor "
        "cores take no fp32. An fp32 tile also takes twice the registers; where they do not suffice, they spill to "
        "memory.",
        f"{_ANY} fp32 too.",
        "s = tl.dot(q, tl.trans(k), input_precision=\"ieee\") * sm_scale",
        side_by_side("standard", "Step through standard attention beside it →"),
    ),
    Rung(
        "bf16", "16-bit operands, fp32 accumulation",
        "Q, K, V and P̃ enter the matmuls in 16 bits. Sums, maxima and exponentials stay in fp32.",
        "Tensor cores multiply 16-bit numbers and accumulate in fp32. P̃ is rounded once, the sums are not. A "
        "16-bit tile also takes half the space: it fits the registers, can be larger, and K and V are read less "
        "often.",
        _ANY,
        "acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])",
        side_by_side("16 bits", "Step through fp32 and bf16, side by side →"),
    ),
    Rung(
        "exp2", "exp2 instead of exp",
        "log2 e is folded into the scale of S, and every exp becomes exp2.",
        "The GPU's special function unit computes powers of two. An exp is an exp2 and one more multiplication for "
        "each element of S. The scale multiplies S anyway, so folding log2 e into it saves that multiplication.",
        _ANY,
        "p = tl.exp2(s - m_safe[:, None])",
        side_by_side("base 2", "Step through exp and exp2, side by side →"),
    ),
    Rung(
        "causal", "Skip the tiles that the mask hides",
        "Tiles above the diagonal are skipped. Only tiles that the mask or an edge cuts are masked, in a loop of "
        "their own.",
        "A causal mask hides nearly half of the tiles completely. Most of the others are not masked at all and need "
        "no comparison.",
        _ANY,
        "for CUT in tl.static_range(2):  # first the full tiles, then those that the mask cuts",
        _CUT,
    ),
    Rung(
        "pipelined", "Software pipelining",
        "The next tiles of K and V load while this one is computed.",
        "A load from HBM or L2 takes hundreds of cycles. If it is issued early, no warp waits for it. The price is "
        "shared memory for the tiles in flight.",
        _ANY,
        "for start in tl.range(whole if CUT else 0, end if CUT else whole, BLOCK_N, num_stages=STAGES):",
        _CUT,
    ),
    Rung(
        "tma", "TMA: the hardware copies whole tiles",
        "One thread asks the Tensor Memory Accelerator (TMA) for a tile by its descriptor, and the TMA copies all "
        "of it.",
        "No thread computes addresses or masks for the copy, and the data does not pass through registers on the "
        "way to shared memory.",
        f"{_ANY} Features next to each other; strides and addresses in multiples of 16 bytes.",
        "k = k_desc.load([batch, head // group, start, 0]).reshape(BLOCK_N, BLOCK_D)",
        _CUT,
    ),
    Rung(
        "specialised", "Warp specialization",
        "One producer warp only loads. Eight consumer warps only compute.",
        "Consumer warps issue no loads, and the producer runs ahead as far as shared memory allows; barriers say "
        "which buffer is full or empty. The producer needs few registers, so the consumers get more, enough for "
        "tiles of 128 keys.",
        _HOPPER,
        "mbarrier.wait(k_empty.index(place), phase ^ 1)",
        _CUT,
    ),
    Rung(
        "two_groups", "Ping-pong scheduling",
        "The eight consumer warps form two warpgroups that take turns: one runs its matmuls while the other runs "
        "its softmax.",
        "If all eight warps do the same thing at the same time, the tensor cores idle during every softmax and the "
        "special function units idle during every matmul. With turns, both have work.",
        _HOPPER,
        "mbarrier.wait(turn.index(C), (j & 1) ^ C)",
        _CUT,
    ),
    Rung(
        "overlapped", "Intra-warpgroup overlap",
        "A warpgroup starts QKᵀ of the next tile together with P̃V of this one, and its softmax waits only for QKᵀ.",
        "The two matmuls do not depend on each other, and O is not needed before the next P̃. So a warpgroup's "
        "softmax overlaps with its own matmul. The price is registers for S and O at the same time.",
        _HOPPER,
        "s = warpgroup_mma_wait(1, deps=(s,))",
        _CUT,
    ),
    Rung(
        TOP, "Persistent kernel",
        "One program per SM works through a list of query tiles. The host makes the lists: longest tiles first, "
        "each to the program that finishes first.",
        "All programs end at about the same time, with a mask too, and the next tile's loads overlap with this "
        "tile's epilogue, which writes O. At d = 64, where the softmax takes longer than the matmuls, three "
        "warpgroups share the work, and each thread keeps its own part of a row's sum until the row ends. Ping-pong "
        "is gone: with two matmuls in flight it made no measurable difference.",
        _HOPPER,
        "for at in range(gl.load(starts_ptr + gl.program_id(0)), gl.load(starts_ptr + gl.program_id(0) + 1)):",
        _CUT,
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Rung] = {rung.name: rung for rung in RUNGS}


def below(rung: Rung) -> Rung | None:
    """The rung below; None for the lowest."""
    at = RUNGS.index(rung)
    return RUNGS[at - 1] if at else None


@functools.cache
def difference(rung: Rung) -> str:
    """What changed from the rung below, as an excerpt of the diff; empty for the lowest rung."""
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
    asked = (one for one in plans.rungs() if one.kernel in by_kernel and alike <= one.values.items())
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
    whole = under.timing.median_ms / 1e3 if under.timing else None
    tensor = before.tensor_active_percent, now.tensor_active_percent
    return Spill(lower, before.spilled_bytes or 0, seconds, whole, bandwidth, tensor)


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
