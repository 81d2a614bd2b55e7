"""Questions about two runs side by side: what the left one moves, keeps and computes that the right one does not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from explain.beats import beats
from explain.exercises import Question, Runs, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, number, ratio
from explain.kept import kept
from explain.trace.model import Access, Trace, numbers

Run = tuple[Experiment, Trace]


# Bytes

_EXACT = 0.005
"""The largest relative error of the ratio: two runs may differ by a few percent."""


@kept
def _moved(run: Run) -> tuple[int, int]:
    """The bytes that all programs read and write."""
    launches = run[1].launches
    return (
        sum(sum(launch.read_bytes.values()) for launch in launches),
        sum(sum(launch.written_bytes.values()) for launch in launches),
    )


def _times(runs: Runs) -> float:
    left, right = (sum(_moved(run)) for run in runs)
    return left / right


def _why_times(runs: Runs) -> Why:
    said = [f"{count(read)} + {count(written)} = {count(read + written)} bytes" for read, written in map(_moved, runs)]
    return Why(f"Read + written. Left: {said[0]}. Right: {said[1]}. Left ÷ right = {ratio(_times(runs))}.")


# Buffers that only the left run has


@kept
def _alone(runs: Runs) -> Mapping[int, Access]:
    """The left run's reads of a buffer in HBM that the right run does not have, by step; the first of each step."""
    left, right = (trace for _, trace in runs)
    known = {buffer.name for launch in right.launches for buffer in launch.buffers}
    alone: dict[int, Access] = {}
    for step in range(left.steps):
        for one in left.accesses(step):
            if one.kind == "load" and one.buffer.name not in known:
                alone.setdefault(step, one)
    return alone


def _why_alone(runs: Runs) -> Why:
    step, read = next(iter(_alone(runs).items()))
    name = read.buffer.name.removesuffix("_ptr")
    return Why(f"Line {runs[0][1].line(step)} of the left run reads {count(read.bytes)} bytes of `{name}`. The "
               f"right run has no such buffer: what it needs stays on chip.", step)  # fmt: skip


# Tiles of a row


@kept
def _tiles(run: Run) -> list[tuple[int, int]]:
    """First and last column of each tile that adds to ℓ of row 0, in order."""
    experiment, trace = run
    roles = experiment.entry.roles
    sums = {roles[role] for role in ("running_sum", "new_sum") if role in roles}
    found = {}
    for beat in beats(trace, roles):
        if beat.tile < 0 or sums.isdisjoint(beat.names):
            continue
        state = trace.state(beat.at)
        if not {roles["rows"], roles["cols"]} <= set(state):
            continue
        rows, cols = (np.atleast_1d(numbers(state[roles[role]])) for role in ("rows", "cols"))
        if 0 in rows:
            found[beat.program, beat.tile] = int(cols[0]), int(min(cols[-1], _width(experiment) - 1))
    return list(found.values())


def _width(experiment: Experiment) -> int:
    """How many columns a row has."""
    values = experiment.values
    return int(values.get("cols") or values["kv_len"])


def _rows_in_tiles(run: Run) -> bool:
    return {"rows", "cols", "running_sum"} <= set(run[0].entry.roles) and {"cols", "kv_len"} & set(
        run[0].values
    ) != set()


def _tiles_apart(runs: Runs) -> bool:
    if not all(map(_rows_in_tiles, runs)):
        return False
    left, right = (len(_tiles(run)) for run in runs)
    return left != right and min(left, right) > 0


def _why_tiles(runs: Runs) -> Why:
    said = [", ".join(f"{first}–{last}" for first, last in _tiles(run)) for run in runs]
    return Why(
        f"Left adds columns {said[0]}: {len(_tiles(runs[0]))} in all. Right adds {said[1]}: {len(_tiles(runs[1]))}."
    )


# The weights of a row


@kept
def _weights(run: Run) -> NDArray[np.float64]:
    """What a softmax kernel writes of row 0, by column."""
    experiment, trace = run
    roles = experiment.entry.roles
    out = np.zeros(_width(experiment))
    for step, value in trace.history(roles["output"]):
        state = trace.state(step)
        if np.atleast_1d(numbers(state[roles["rows"]]))[0] == 0:
            cols, own = numbers(state[roles["cols"]]), numbers(value).astype(np.float64).reshape(-1)
            inside = cols < len(out)
            out[cols[inside]] = own[: len(cols)][inside]
    return out


def _are_weights(runs: Runs) -> bool:
    roles = {"output", "rows", "cols"}
    return all(
        one.entry.family == "softmax" and roles <= set(one.entry.roles) and "cols" in one.values for one, _ in runs
    )


def _sum(runs: Runs) -> float:
    return float(_weights(runs[0]).sum())


def _why_sum(runs: Runs) -> Why:
    left, right = map(_weights, runs)
    terms = " + ".join(number(float(weight), 3) for weight in left)
    return Why(f"{terms} = {number(float(left.sum()), 4)}. The weights of a softmax sum to 1, as on the right: "
               f"{number(float(right.sum()), 4)}.")  # fmt: skip


def _nans(runs: Runs) -> int:
    return int(np.isnan(_weights(runs[0])).sum())


def _why_nans(runs: Runs) -> Why:
    left = _weights(runs[0])
    said = ", ".join(number(float(weight)) for weight in left)
    return Why(f"Left writes {said}: {_nans(runs)} of {len(left)} are not a number.")


def _sums_apart(runs: Runs) -> bool:
    if not _are_weights(runs) or not math.isfinite(_sum(runs)):
        return False
    return abs(_sum(runs) - 1) > 0.01 > abs(float(_weights(runs[1]).sum()) - 1)


QUESTIONS = (
    Question[Runs](
        "bytes",
        "Divide the bytes that the left run moves to and from HBM by those of the right run. "
        f"Your answer may be {_EXACT:.1%} off.",
        "number",
        _times,
        _why_times,
        tolerance=_EXACT,
        asked=lambda runs: sum(_moved(runs[0])) != sum(_moved(runs[1])),
        hint="In Idea, press ⏭ below the picture. Add what each run has read and written.",
    ),
    Question[Runs](
        "alone",
        "Find a step at which the left run reads something from HBM that the right run does not have there.",
        "step",
        lambda runs: list(_alone(runs)),
        _why_alone,
        asked=lambda runs: bool(_alone(runs)),
        hint="Compare the names of the buffers below both chips.",
    ),
    Question[Runs](
        "tiles",
        "In how many tiles does the left run add to ℓ of row 0?",
        "number",
        lambda runs: len(_tiles(runs[0])),
        _why_tiles,
        asked=_tiles_apart,
        hint="Follow row 0 and count the beats that change its ℓ.",
    ),
    Question[Runs](
        "sum",
        "The weights of a row should sum to 1. What do those that the left run writes for row 0 sum to?",
        "number",
        _sum,
        _why_sum,
        asked=_sums_apart,
        hint="Press ⏭ below the picture and add the numbers of y.",
    ),
    Question[Runs](
        "nan",
        "How many weights of row 0 are NaN in the left run?",
        "number",
        _nans,
        _why_nans,
        asked=lambda runs: _are_weights(runs) and _nans(runs) > 0,
        hint="Press ⏭ below the picture and count them in y.",
    ),
)
