"""Questions about a compiled tile: what limits it, and its instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from explain.compile.cost import WARP, LaunchCost, Occupancy, occupancy
from explain.compile.listing import Listing, counts, loops
from explain.exercises import Question, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, number
from explain.gpus import Gpu

LIMITS = ("shared memory", "registers", "warps", "programs")
SPREAD = 256
"""Scores a warp from which on no two warps hold the same ones. 32 × 16 is 128 for each of four warps, but compiled for
a Hopper GPU a thread holds 8 scores, not 4.
"""


@dataclass(frozen=True)
class Shown:
    """A compiled launch of a kernel, for a GPU, and its listing where it was kept. `number` is that of the launch, from
    1; None for the only one.
    """

    experiment: Experiment
    gpu: Gpu
    launch: LaunchCost
    listing: Listing | None
    number: int | None

    @property
    def named(self) -> str:
        """The launch in words."""
        return f"launch {self.number}" if self.number else "this kernel"


def _halved(shown: Shown) -> Occupancy:
    """The occupancy if a thread needed half the registers."""
    return occupancy(replace(shown.launch, registers=-(-shown.launch.registers // 2)), shown.gpu)


def _limit_changes(shown: Shown) -> bool:
    """Whether half the registers would have one limit, and more programs: otherwise the picture names the answer."""
    now, halved = occupancy(shown.launch, shown.gpu).programs, _halved(shown)
    return 0 < now < halved.programs and [*halved.by_limit.values()].count(halved.programs) == 1


def _why_limit(shown: Shown) -> Why:
    fits = _halved(shown)
    each = ", ".join(f"{name} {programs}" for name, programs in fits.by_limit.items())
    return Why(f"Programs per SM that each limit would allow: {each}. The smallest is {fits.programs}.")


def _threads(shown: Shown) -> int:
    return occupancy(shown.launch, shown.gpu).programs * shown.launch.num_warps * WARP


def _why_threads(shown: Shown) -> Why:
    programs, own = occupancy(shown.launch, shown.gpu).programs, shown.launch.num_warps
    return Why(f"{programs} program{'s' * (programs != 1)} × {own} warps × {WARP} threads = {count(_threads(shown))}, "
               f"of {count(shown.gpu.warps_sm * WARP)} that an SM of the {shown.gpu.name} can hold.")  # fmt: skip


def _makes_scores(shown: Shown) -> bool:
    """Whether the launch makes a tile of S, and one thread alone holds each score."""
    entry, p = shown.experiment.entry, shown.experiment.values
    if entry.family != "attention" or p["block_m"] * p["block_n"] < SPREAD * shown.launch.num_warps:
        return False
    if shown.number is None:
        return True
    scores = entry.roles.get("scores", "")
    return bool(scores and shown.listing and re.search(rf"\b{scores} = tl\.dot\(", shown.listing.source))


def _scores_per_thread(shown: Shown) -> int:
    p = shown.experiment.values
    return int(p["block_m"] * p["block_n"] // (WARP * shown.launch.num_warps))


def _why_scores(shown: Shown) -> Why:
    p, threads = shown.experiment.values, WARP * shown.launch.num_warps
    more = ": they do not all fit at once" * (_scores_per_thread(shown) > shown.launch.registers)
    return Why(f"{p['block_m']} × {p['block_n']} scores ÷ {threads} threads = {_scores_per_thread(shown)}. "
               f"A thread uses {shown.launch.registers} registers in all{more}.")  # fmt: skip


def _kinds(shown: Shown) -> dict[str, int]:
    """The instructions in the launch's loop by kind; of several loops none."""
    bodies = loops(shown.listing) if shown.listing else []
    return counts(bodies[0]) if len(bodies) == 1 else {}


def _beside_matmul(shown: Shown) -> float:
    kinds = _kinds(shown)
    others, matmuls = sum(kinds.values()) - kinds["matmul"], kinds["matmul"]
    return others / matmuls if others % matmuls else others // matmuls  # a whole number has to be exact


def _why_beside_matmul(shown: Shown) -> Why:
    every, matmuls = sum(_kinds(shown).values()), _kinds(shown)["matmul"]
    return Why(f"({count(every)} − {count(matmuls)}) ÷ {count(matmuls)} = {number(_beside_matmul(shown))}. One matmul "
               "instruction multiplies small matrices; most others compute one number per thread.")  # fmt: skip


QUESTIONS = (
    Question[Shown](
        "limit",
        "Suppose a thread needed half the registers. What would then limit the programs per SM?",
        "choice",
        lambda shown: _halved(shown).limit,
        _why_limit,
        LIMITS,
        asked=_limit_changes,
        hint="Each resource allows a number of programs. The smallest number decides.",
    ),
    Question[Shown](
        "threads",
        lambda shown: f"How many threads of {shown.named} does an SM of the {shown.gpu.name} hold at once?",
        "number",
        _threads,
        _why_threads,
        asked=lambda shown: _threads(shown) > 0,
        hint="The picture shows the warps of an SM that are in use. A warp has 32 threads.",
    ),
    Question[Shown](
        "scores-per-thread",
        "How many scores of a tile of S = QKᵀ does each thread hold?",
        "number",
        _scores_per_thread,
        _why_scores,
        asked=_makes_scores,
        hint="Divide BLOCK_M × BLOCK_N by the threads of a program: its warps × the threads of a warp.",
    ),
    Question[Shown](
        "beside-matmul",
        "In the loop, how many other SASS instructions are there for each matmul instruction?",
        "number",
        _beside_matmul,
        _why_beside_matmul,
        asked=lambda shown: "matmul" in _kinds(shown),
        hint="Divide the loop's instructions of all other kinds by its matmuls.",
    ),
)
