"""Two runs side by side: the experiment that each kernel opens on, and the ready pairs."""

from __future__ import annotations

from dataclasses import dataclass

from explain import lessons
from explain.experiment import Experiment, ParameterError
from kernels.catalog import KERNELS

_OPENINGS = {"vector": lessons.VECTORS, "softmax": lessons.ONLINE, "loss": lessons.LOSS}


def opening(kernel: str, attention: Experiment = lessons.OPENING) -> Experiment:
    """The experiment that a kernel opens on: its family's, so any two of a family fit. `attention` is that family's."""
    like = _OPENINGS.get(KERNELS[kernel].family, attention)
    own = {parameter.name for parameter in KERNELS[kernel].parameters}
    given = {name: value for name, value in like.values.items() if name in own}
    try:
        return Experiment.of(kernel, given, like.inputs)
    except ParameterError:  # a tile of its own kind, such as one that must hold the whole row
        return Experiment.of(kernel, {n: v for n, v in given.items() if not n.startswith("block_")}, like.inputs)


def controls_of(kernel: str) -> list[str]:
    """The parameters that the reader can choose, in order."""
    wanted = ("seq_len", "kv_len", "cols", "n", "tokens", "vocab", "block_m", "block_n", "dtype", "causal")
    own = {parameter.name for parameter in KERNELS[kernel].parameters}
    return ["inputs", *(name for name in wanted if name in own)]


@dataclass(frozen=True)
class Pair:
    """Two experiments to compare, and what to look for."""

    name: str
    left: Experiment
    right: Experiment
    look: str


_LARGE_ROW = {"rows": 1, "cols": 8, "block_n": 4}
PAIRS = (
    Pair(
        "Standard and flash",
        lessons.STANDARD,
        lessons.OPENING,
        "Count the trips to HBM. Left: S and P go there and back. Right: each tile of S is used on chip and dropped.",
    ),
    Pair(
        "Loop order",
        lessons.first_order(lessons.SHORT),
        lessons.SHORT,
        "Left: column by column, and O goes to HBM at every visit. Right: row by row, and O is written once.",
    ),
    Pair(
        "Wrong and right",
        lessons.wrong_twin(lessons.ONLINE),
        lessons.ONLINE,
        "Left: each tile is divided by its own sum. Right: one sum for all tiles. Which weights of a row sum to 1?",
    ),
    Pair(
        "Two tile sizes",
        lessons.SHORT.with_(block_n=4),
        lessons.SHORT,
        "Left: tiles of 4 keys. Right: tiles of 8 keys. After the same keys, m and ℓ are equal up to rounding.",
    ),
    Pair(
        "Naive and safe",
        Experiment.of("softmax_naive", _LARGE_ROW, "large_magnitude"),
        Experiment.of("softmax_safe", _LARGE_ROW, "large_magnitude"),
        "Elements in the thousands. Left: exp overflows, and ∞ / ∞ is NaN. Right: the maximum is subtracted first.",
    ),
)
