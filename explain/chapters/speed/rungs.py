"""The ladder of attention kernels, from online softmax in fp32 to as fast as the hardware: each rung's one idea, its source, its time.

Imports neither streamlit nor torch: sources are read from the files, times from what `benchmarks/speed.py` wrote. Not `ladder.py`, whose rungs are
the softmax kernels of the chapter on Triton.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explain import lessons
from explain.chapters.speed.results import RUNG, Case, Limit, Variant
from explain.chapters.sweeps.analysis import RooflinePoint, memory_roof
from explain.chapters.sweeps.model import formula
from explain.chapters.triton_ladder.ladder import ROOT, function_source, marked
from explain.experiment import Experiment
from explain.records import plans
from explain.records.model import Point, Record, Roof
from kernels.catalog import KERNELS

CONTEXT = 3
"""Lines of a diff around what changed."""
TOP = "persistent"
"""The name of the top rung, whose module is `kernels/attention_hopper.py`."""

IN_BASE_2 = lessons.SHORT.through("flash_attention_exp2")
CLIMB: dict[str, tuple[Experiment, Experiment]] = {
    "standard": (lessons.SHORT.through("attention_standard"), lessons.SHORT),
    "16 bits": (lessons.SHORT, lessons.SHORT.with_(dtype="bf16")),
    "base 2": (lessons.SHORT, IN_BASE_2),
    "masked": (IN_BASE_2, IN_BASE_2.with_(causal=True)),
}
"""What the rungs of attention do to the numbers, as pairs to step through side by side. From the mask on they change only who does what and when."""


@dataclass(frozen=True)
class Twin:
    """Two traced runs to step through side by side, one of `CLIMB`, and the link's words."""

    pair: str
    words: str

    @property
    def query(self) -> dict[str, str]:
        """The address of the pair on the page that shows two runs."""
        sides = zip(("a.", "b."), CLIMB[self.pair], strict=True)
        return {f"{side}{name}": value for side, run in sides for name, value in run.to_query().items()}


@dataclass(frozen=True)
class Rung:
    """One step of the climb. `name` is its module in `kernels/rungs/`, and in the page's address.

    `idea` and `why` are a sentence or two each, `takes` says what a call may be, `line` is the line of the source that does it, `gluon` whether it is
    written in Gluon and not in plain Triton.
    """

    name: str
    title: str
    idea: str
    why: str
    takes: str
    line: str
    twin: Twin
    gluon: bool = False

    @property
    def module(self) -> str:
        return KERNELS[self.kernel].module

    @property
    def wrapper(self) -> str:
        """The function that launches it."""
        return KERNELS[self.kernel].function

    @property
    def file(self) -> str:
        """The source's path in the project."""
        return f"{self.module.replace('.', '/')}.py"

    @property
    def kernel(self) -> str:
        """What an experiment calls it."""
        return "fast:flash_attention_hopper" if self.name == TOP else f"rung:{self.name}"

    @property
    def functions(self) -> tuple[str, ...]:
        """What runs on the GPU, in the file's order, and the function that launches it."""
        return (*_jitted(self.file), self.wrapper)

    @property
    def source(self) -> str:
        """Those functions, one after the other."""
        return "\n\n\n".join(function_source(self.module, name) for name in self.functions)

    @property
    def line_number(self) -> int:
        """Where the line of the idea stands in the file, from 1. Raises ValueError if it is not there."""
        lines = (ROOT / self.file).read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines].index(self.line) + 1


@functools.cache
def _jitted(file: str) -> tuple[str, ...]:
    """The functions of a file that are compiled for the GPU."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tuple(f.name for f in functions if any(ast.unparse(d).endswith(".jit") for d in f.decorator_list))


_CUT = Twin("masked", "Step through the same arithmetic, without a mask and with one →")
_ANY = "Any N, number of keys and head_dim up to 256, grouped heads, fp16 and bf16."
_HOPPER = "fp16 and bf16 with head_dim 64 or 128, on a Hopper GPU."

RUNGS: tuple[Rung, ...] = (
    Rung(
        "naive_fp32", "Online softmax, all in fp32",
        "Tile by tile, S is made, used and dropped, and every number on the way is fp32.",
        "S never goes to HBM, and still the tensor cores stand idle: they take no fp32, so both products run on the ordinary float units.",
        f"{_ANY} fp32 too.",
        "s = tl.dot(q, tl.trans(k), input_precision=\"ieee\") * sm_scale",
        Twin("standard", "Step through standard attention beside it →"),
    ),
    Rung(
        "bf16", "16-bit operands, fp32 sums",
        "Q, K, V and P̃ enter the products in 16 bits. Sums, maxima and exponentials stay in fp32.",
        "This is what tensor cores are made for: they multiply 16-bit numbers and add them up in fp32. Each weight is rounded once, no sum is. A tile "
        "also takes half the room, so it can be larger, and K and V are read less often.",
        _ANY,
        "acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])",
        Twin("16 bits", "Step through fp32 and bf16, side by side →"),
    ),
    Rung(
        "exp2", "Powers of two",
        "log2 e is folded into the scale of S, and every exp becomes exp2.",
        "The GPU's unit for exponentials computes powers of two. An exp is an exp2 and a multiplication, once for each element of S; the scale is "
        "multiplied anyway.",
        _ANY,
        "p = tl.exp2(s - m_safe[:, None])",
        Twin("base 2", "Step through exp and exp2, side by side →"),
    ),
    Rung(
        "causal", "Only what is seen",
        "Tiles above the diagonal are skipped, and only tiles that an edge cuts are masked, in a loop of their own.",
        "Under a causal mask nearly half of the tiles are hidden from every row. And most of the others are seen whole: there is nothing to compare.",
        _ANY,
        "for CUT in tl.static_range(2):  # first the full tiles, then those that the mask cuts",
        _CUT,
    ),
    Rung(
        "pipelined", "Loads in flight",
        "The next tiles of K and V are on their way while this one is computed.",
        "A load from HBM or L2 takes hundreds of cycles. Asked for early it keeps nobody waiting; the price is shared memory for what has arrived.",
        _ANY,
        "for start in tl.range(whole if CUT else 0, end if CUT else whole, BLOCK_N, num_stages=STAGES):",
        _CUT,
    ),
    Rung(
        "tma", "The copy engine",
        "A tile is fetched by its descriptor: one thread asks, and the copy engine (TMA) brings all of it.",
        "No thread computes addresses or masks of its own, and nothing passes through registers on the way to shared memory.",
        f"{_ANY} Features next to each other, strides and addresses in multiples of 16 bytes.",
        "k = k_desc.load([batch, head // group, start, 0]).reshape(BLOCK_N, BLOCK_D)",
        _CUT,
    ),
    Rung(
        "specialised", "A warp that only fetches",
        "One warp does nothing but fetch, and eight do nothing but compute.",
        "Who computes issues no load, and who fetches runs ahead as far as there is room: barriers in shared memory say full and empty. The registers that "
        "fetching does not need go to those who compute, and make room for a tile of 128 keys.",
        _HOPPER,
        "mbarrier.wait(k_empty.index(place), phase ^ 1)",
        _CUT,
        gluon=True,
    ),
    Rung(
        "two_groups", "Two groups take turns",
        "The eight warps are two groups of four, and pass a turn along: one multiplies while the other makes exponentials.",
        "While all eight do the same at the same time, the tensor cores stand still during every softmax, and the units for exponentials during every product. "
        "In turns both have work.",
        _HOPPER,
        "mbarrier.wait(turn.index(C), (j & 1) ^ C)",
        _CUT,
        gluon=True,
    ),
    Rung(
        "overlapped", "Two products at once",
        "QKᵀ of the next tile is started together with PV of this one, and the softmax waits for the first only.",
        "Neither product needs the other: O is not asked for before the next P̃ is there. So a group's softmax runs under a product of its own, at the price of registers "
        "for S and O at once.",
        _HOPPER,
        "s = warpgroup_mma_wait(1, deps=(s,))",
        _CUT,
        gluon=True,
    ),
    Rung(
        TOP, "As many programs as SMs",
        "A program for each SM has a list of tiles of rows, dealt on the host: the longest first, each to the program that will be done first.",
        "Under a mask, too, the last programs end together, and the next tile is fetched while this one's O is written. At d = 64, where a group's softmax is "
        "longer than its products, three groups share the work, and a row's sum is kept in parts by its threads until the row ends. The turns are gone: with "
        "two products in flight they changed nothing that could be measured.",
        _HOPPER,
        "for at in range(gl.load(starts_ptr + gl.program_id(0)), gl.load(starts_ptr + gl.program_id(0) + 1)):",
        _CUT,
        gluon=True,
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Rung] = {rung.name: rung for rung in RUNGS}


def below(rung: Rung) -> Rung | None:
    """The rung under it; None for the lowest."""
    at = RUNGS.index(rung)
    return RUNGS[at - 1] if at else None


def difference(rung: Rung) -> str:
    """What changed from the rung below, as a unified diff: the changed lines, some around them, and "@@" where others were left out."""
    lower = below(rung)
    if lower is None:
        return ""
    lines = marked(lower.source, rung.source).splitlines()
    changed = [at for at, line in enumerate(lines) if line[:1] in "+-"]
    near = {at for one in changed for at in range(one - CONTEXT, one + CONTEXT + 1)}
    shown: list[str] = []
    skipped = False
    for at, line in enumerate(lines):
        if at in near:
            shown += ["@@"] * (skipped and bool(shown)) + [line]
        skipped = at not in near
    return "\n".join(shown)


@dataclass(frozen=True)
class Step:
    """A rung on one shape. `variant` is what the benchmark says of it, None where the benchmark has not asked; `gain` is how many times as fast as the rung below it
    is, where both have a time."""

    rung: Rung
    variant: Variant | None
    gain: float | None

    @property
    def per_second(self) -> float | None:
        """FLOP/s, where it was timed."""
        return self.variant.per_second if self.variant else None

    @property
    def slower(self) -> bool:
        """Whether the rung below is faster, by more than half a hundredth."""
        return self.gain is not None and self.gain < 0.995


def climb(case: Case | None) -> tuple[Step, ...]:
    """Each rung on this case of the benchmark's table "attention"; none is timed where there is no case."""
    steps: list[Step] = []
    for rung in RUNGS:
        own = next((one for one in case.best if one.function in _names(rung)), None) if case else None
        under = steps[-1].per_second if steps else None
        speed = own.per_second if own else None
        steps.append(Step(rung, own, speed / under if speed and under else None))
    return tuple(steps)


def beside(case: Case) -> tuple[Variant, ...]:
    """What else was timed on this case, fastest first: others' kernels, and ours that are no rung."""
    names = {name for rung in RUNGS for name in _names(rung)}
    return tuple(one for one in case.best if one.per_second and one.function not in names)


def without_rungs(case: Case) -> Case:
    """The case with its other variants only: ten rungs are too many lines for a chart."""
    return replace(case, variants=tuple(one for one in case.variants if not one.rung))


def share(step: Step, peak: Limit | None) -> float | None:
    """Of the peak, where both are known."""
    return step.per_second / peak.per_second if step.per_second and peak else None


def counted(record: Record | None, case: Case) -> dict[str, Point]:
    """What a GPU's record has of each rung, by its name, at the case's d and mask; the record's N and batch are its own."""
    asked = {rung.kernel: rung.name for rung in RUNGS}
    found: dict[str, Point] = {}
    for planned in plans.rungs() if record else ():
        alike = (planned.values["head_dim"], planned.values["causal"]) == (case.shape[3], case.causal)
        point = record.point(planned) if record and alike else None
        if point and point.counters and planned.kernel in asked:
            found[asked[planned.kernel]] = point
    return found


def experiment(rung: Rung, case: Case) -> Experiment:
    """The rung on the case's shape."""
    sizes = dict(zip(("batch", "heads", "seq_len", "head_dim"), case.shape, strict=True))
    return Experiment.of(rung.kernel, {**sizes, "dtype": case.dtype, "causal": case.causal}, "normal")


def under_roofs(steps: Sequence[Step], case: Case, roofs: Mapping[str, Roof]) -> list[RooflinePoint]:
    """Each timed rung under the roofs: the case's FLOPs over the bytes that must pass HBM, by formula, and over its time."""
    compute, bandwidth = roofs.get(f"matmul {case.dtype}"), memory_roof("hbm", roofs)
    points = []
    for step in steps:
        if step.per_second:
            reading = formula(experiment(step.rung, case))
            intensity = case.work / reading.bytes["asked"]
            memory = intensity * bandwidth if bandwidth else None
            points.append(RooflinePoint(reading, "hbm", intensity, step.per_second, memory, compute.per_second if compute else None))  # fmt: skip
    return points


def largest(steps: Sequence[Step]) -> Step | None:
    """The step that gained most over the one below."""
    return max((step for step in steps if step.gain), key=lambda step: step.gain or 0.0, default=None)


def _names(rung: Rung) -> tuple[str, ...]:
    """What the benchmark calls it. The dispatcher runs the top rung at every shape that this takes, and the table has no other."""
    return (rung.wrapper, "attention") if rung.name == TOP else (f"{RUNG}{rung.name}",)
