"""Where two runs of almost the same kernel diverge: the first step at which each variable differs, with both values.

Both runs must execute the same lines in the same order, so the kernels may differ in a line but not in their loops.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.beats import Beat, beats
from explain.experiment import Experiment
from explain.trace.model import Tile, Trace, Value, numbers
from kernels.museum import Exhibit


def compared(broken: Exhibit) -> tuple[Experiment, Experiment]:
    """The correct kernel and the broken one, on the input that shows the bug."""
    right, wrong = (Experiment.of(n, broken.sizes, broken.shown_by) for n in (broken.base, broken.kernel))
    return right, wrong


@dataclass(frozen=True)
class Divergence:
    """A variable's first difference, at `step` (from 0) and `line`: its element at `place` is `right` in one run,
    `broken` in the other.

    If several elements differ at that step, it is the first with a difference of at least half the largest; a NaN
    counts as the largest. `elements` is the number of elements that differ.
    """

    step: int
    line: int
    variable: str
    place: str
    right: float
    broken: float
    elements: int


@functools.lru_cache(maxsize=16)
def divergences(right: Trace, broken: Trace) -> list[Divergence]:
    """The first difference of each variable that differs, in order of steps; empty for runs that are equal to the bit.

    Raises ValueError if the runs did not execute the same lines.
    """
    if not np.array_equal(right.columns.line, broken.columns.line):
        raise ValueError("the runs execute different lines, so their steps cannot be compared one by one")
    found: dict[str, Divergence] = {}
    for step in range(right.steps):
        ours, theirs = right.changes(step), broken.changes(step)
        for name in ours.keys() & theirs.keys() - found.keys():
            a, b = _floats(ours[name]), _floats(theirs[name])
            if a is None or b is None or np.array_equal(a, b, equal_nan=True):
                continue
            index, count = _most_different(a, b)
            place = _place(right, step, name, index)
            found[name] = Divergence(step, right.line(step), name, place, float(a[index]), float(b[index]), count)
    return sorted(found.values(), key=lambda one: one.step)


@dataclass(frozen=True)
class RunningState:
    """The running max and sum of `row` before a run's first tile, after each tile, and after the loop over them."""

    row: int
    after: str
    m: float
    total: float


_KEPT = {"setup": "start", "drop": "tile", "finish": "after the loop"}


@functools.lru_cache(maxsize=16)
def running_states(right: Trace, broken: Trace) -> tuple[list[RunningState], list[RunningState]]:
    """Both runs' states of the first row in which m or ℓ differs; of the first row if none does.

    Both runs must execute the same lines.
    """
    roles = Experiment.from_json(right.experiment).entry.roles
    kept = [beat for beat in beats(right, roles) if beat.kind in _KEPT]
    ours, theirs = (np.stack([_running(trace, roles, beat.end - 1) for beat in kept]) for trace in (right, broken))
    differs = ~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
    first, _, row = next(iter(np.argwhere(differs).tolist()), (0, 0, 0))
    of_row = [at for at, beat in enumerate(kept) if beat.program == kept[first].program]
    number = _coordinate(roles, right.state(kept[first].end - 1), "rows", row)

    def states(values: NDArray[np.float64]) -> list[RunningState]:
        return [RunningState(number, _after(kept[at]), *values[at, :, row].tolist()) for at in of_row]

    return states(ours), states(theirs)


def _after(beat: Beat) -> str:
    return f"tile {beat.tile + 1}" if beat.kind == "drop" else _KEPT[beat.kind]


def _running(trace: Trace, roles: Mapping[str, str], step: int) -> NDArray[np.float64]:
    """m and ℓ of a tile's rows after a step: 2 × rows."""
    state = trace.state(step)
    return np.stack([numbers(state[roles[role]]).reshape(-1) for role in ("running_max", "running_sum")]).astype(float)


def _floats(value: Value) -> NDArray[np.float64] | None:
    """The numbers of a tile or scalar in float64; None for pointers and for values without numbers."""
    if isinstance(value, Tile):
        return value.numpy().astype(np.float64)
    try:
        return numbers(value).astype(np.float64)
    except TypeError:
        return None


def _most_different(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[tuple[int, ...], int]:
    with np.errstate(invalid="ignore"):
        a, b = np.broadcast_arrays(a, b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        size = np.where(same, -1.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.finfo(np.float64).max))
    first = int(np.argmax(size >= size.max() / 2))
    return tuple(int(i) for i in np.unravel_index(first, size.shape)), int((~same).sum())


def _place(trace: Trace, step: int, name: str, index: tuple[int, ...]) -> str:
    """An element of a variable in words, by the kernel's own coordinates: "query 3, key 17"."""
    if not index:
        return ""
    experiment = Experiment.from_json(trace.experiment)
    roles, state = experiment.entry.roles, trace.state(step)
    over_keys = {roles.get("scores"), roles.get("exponentials")}
    if experiment.entry.family == "softmax":
        axes = [("row", "rows"), ("element", "cols")][-len(index) :]
    else:
        axes = [("query", "rows"), ("key", "cols") if name in over_keys else ("feature", "")]
    return ", ".join(
        f"{word} {_coordinate(roles, state, role, at)}" for (word, role), at in zip(axes, index, strict=False)
    )


def _coordinate(roles: Mapping[str, str], state: Mapping[str, Value], role: str, at: int) -> int:
    coordinates = state.get(roles.get(role, ""))
    if coordinates is None:
        return at
    values = numbers(coordinates)
    return int(values[at]) if values.ndim == 1 and at < len(values) else at
