"""Questions of the memory hierarchy: standard attention's trips to HBM, and the size of S."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.memory_hierarchy import figures
from explain.exercises import Question, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, moved, percent
from explain.gpus import Gpu
from explain.trace.model import Trace
from kernels.parameters import ITEM_BYTES

LENGTHS = [2**k for k in range(7, 15)]
"""What the page's last slider offers as N."""
ITEM = ITEM_BYTES["fp16"]


@dataclass(frozen=True)
class Shown:
    """The chosen GPU, and a run of standard attention."""

    gpu: Gpu
    experiment: Experiment
    trace: Trace


def _wider(shown: Shown) -> Experiment:
    return shown.experiment.with_(block_m=2 * shown.experiment.values["block_m"])


def _reads_of_k(experiment: Experiment) -> int:
    terms = experiment.traffic.terms
    return sum(term.bytes for term in terms if term.buffer == "k" and not term.written)


def _why_reads_of_k(shown: Shown) -> Why:
    p, now, wide = shown.experiment.values, _reads_of_k(shown.experiment), _reads_of_k(_wider(shown))
    return Why(
        f"K is read once for each tile of queries. BLOCK_M = {p['block_m']} reads {count(now)} bytes, "
        f"BLOCK_M = {2 * p['block_m']} reads {count(wide)}. The bytes of S and P stay the same."
    )


def _of_scores(shown: Shown) -> tuple[int, int]:
    trips = list(figures.trips(shown.experiment, shown.trace))
    return sum(trip.traced for trip in trips if trip.term.buffer in ("s", "p")), sum(trip.traced for trip in trips)


def _why_share(shown: Shown) -> Why:
    own, every = _of_scores(shown)
    return Why(
        f"S and P: {count(own)} of {count(every)} bytes. {count(own)} ÷ {count(every)} = {percent(own / every, 1)}."
    )


def _first_write(shown: Shown) -> Sequence[int]:
    trace = shown.trace
    for step in range(trace.steps):
        if any(access.kind == "store" and access.buffer.name == "s_ptr" for access in trace.accesses(step)):
            return range(step, step + 1)
    return range(0)


def _why_first_write(shown: Shown) -> Why:
    step = _first_write(shown)[0]
    size = sum(access.bytes for access in shown.trace.accesses(step))
    return Why(f"Line {shown.trace.line(step)} stores a tile of S: {count(size)} bytes go to HBM.", step)


def _too_long(shown: Shown) -> str:
    return next((count(n) for n in LENGTHS if ITEM * n * n > shown.gpu.l2_bytes), NONE)


def _why_too_long(shown: Shown) -> Why:
    sizes = ", ".join(f"N = {count(n)}: {moved(ITEM * n * n)}" for n in LENGTHS[3:])
    return Why(f"S has N² elements of {ITEM} bytes. {sizes}. The L2 of the {shown.gpu.name} has "
               f"{moved(shown.gpu.l2_bytes)}.")  # fmt: skip


NONE = "none of these"
QUESTIONS = (
    Question[Shown](
        "first-write",
        "Go to the step that writes a tile of S to HBM for the first time.",
        "step",
        _first_write,
        _why_first_write,
        hint="The first launch computes S. Look for its first store.",
    ),
    Question[Shown](
        "share",
        "This run moves bytes to and from HBM. What percentage of them is S and P?",
        "number",
        lambda shown: 100 * _of_scores(shown)[0] / _of_scores(shown)[1],
        _why_share,
        unit="%",
        tolerance=0.02,
        hint="Add the bytes of S and P, read and written. Divide by the bytes of all buffers.",
    ),
    Question[Shown](
        "reads-of-k",
        lambda shown: (
            f"Make BLOCK_M twice as large, {2 * shown.experiment.values['block_m']}. How many bytes of K are read then?"
        ),
        "number",
        lambda shown: _reads_of_k(_wider(shown)),
        _why_reads_of_k,
        unit="bytes",
        asked=lambda shown: shown.experiment.values["block_m"] < 64,
        hint="Each tile of queries reads all of K. Larger tiles are fewer.",
    ),
    Question[Shown](
        "l2",
        lambda shown: f"From which N on does S of one head, in fp16, no longer fit in the L2 of the {shown.gpu.name}?",
        "choice",
        _too_long,
        _why_too_long,
        [*(count(n) for n in LENGTHS), NONE],
        hint="S has N × N numbers of 2 bytes. Compare that with L2.",
    ),
)
