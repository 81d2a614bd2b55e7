"""How m and ℓ of a row grow: after each tile of an online softmax, or with each merge of two tiles' pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explain.exercises import set_to
from explain.experiment import Experiment
from explain.kept import kept
from explain.trace.model import Trace, Value, numbers


@dataclass(frozen=True)
class Tile:
    """A tile of the first row: its elements x (cols,), and m, α and ℓ after it."""

    x: np.ndarray
    m: float
    alpha: float
    total: float


@kept
def tiles(experiment: Experiment, trace: Trace) -> list[Tile]:
    """The first row's tiles, in the order in which the kernel reads them."""
    roles = experiment.entry.roles
    sums = trace.history(roles["running_sum"])
    found: list[Tile] = []
    for (steps, alpha), (_, m) in zip(
        set_to((experiment, trace), "rescale"), set_to((experiment, trace), "new_max"), strict=True
    ):
        if trace.program(steps[0]) != trace.program(0):
            break
        total = next(numbers(value) for step, value in sums if step > steps[0])
        x = np.atleast_2d(numbers(trace.state(steps[0])[roles["scores"]]))[0]
        inside = x[: max(0, experiment.values["cols"] - sum(one.x.size for one in found))]
        found.append(Tile(inside, *(float(np.ravel(value)[0]) for value in (m, alpha, total))))
    return found


@dataclass(frozen=True)
class Merge:
    """Two pairs that become one: the tiles that they began with, and m and ℓ of the result."""

    own: int
    other: int
    m: float
    total: float


@kept
def merges(experiment: Experiment, trace: Trace) -> tuple[list[tuple[float, float]], list[Merge]]:
    """The pair (m, ℓ) of each tile of the first row, and its merges in the order in which they ran."""
    roles = experiment.entry.roles
    sums, count = trace.history(roles["running_sum"]), int(trace.launches[0].grid[1])
    maxima = trace.history(roles["running_max"])
    pairs: list[tuple[float, float]] = []
    found = []
    for (_, total), (_, m) in zip(sums[:count], _lasts(maxima, [step for step, _ in sums[:count]]), strict=True):
        pairs.append((float(numbers(m)), float(numbers(total))))
    for steps, _ in set_to((experiment, trace), "other_max"):
        state = trace.state(steps[0])
        own, other = (int(numbers(state[roles[role]])) for role in ("tile_at", "other_at"))
        end = next(step for step, _ in sums if step > steps[0])
        after = trace.state(end)
        larger = max(float(numbers(state[roles[role]])) for role in ("running_max", "other_max"))
        found.append(Merge(own, other, larger, float(numbers(after[roles["running_sum"]]))))
    return pairs, found


def _lasts(history: list[tuple[int, Value]], steps: list[int]) -> list[tuple[int, Value]]:
    """The last entry of a variable's history before each of these steps."""
    return [max((one for one in history if one[0] < step), key=lambda one: one[0]) for step in steps]
