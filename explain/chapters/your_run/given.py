"""What two runs were given: how their input tensors and parameters differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.equality import same
from explain.difference.replay import is_load, statements, value_of
from explain.experiment import Experiment
from explain.figures.labels import listed
from explain.figures.numbers import count, number
from explain.trace.model import Buffer, Launch, Tile, Trace

MOST_LANES = 1_000_000
"""So many loaded numbers of a run are compared, the first ones."""
FLOAT32 = 1e-5
SCHEDULE = ("splits", "order")
"""Parameters that say, like a tile's sizes, how a kernel computes and not what."""
AGAIN = "Costs and values cannot be compared. Record both with the same tensors and seed."
Differing = Iterator[tuple[str, str, str]]
"""What differs, what it is in the left run, and in the right."""


def difference(left: Trace, right: Trace) -> str:
    """How the inputs of two runs differ, and that their costs cannot be compared then; "" if they do not."""
    ours, theirs = _inputs(left), _inputs(right)
    shared = [name for name in ours if name in theirs]
    if not shared:
        return f"The runs have no input in common: no tensor of one name. {AGAIN}"
    parts = _told(_tensors({name: (ours[name], theirs[name]) for name in shared}))
    parts += [] if parts else _values(left, right, shared)
    what = "inputs" if parts else "parameters"
    parts += _told(_parameters(left, right, sizes=not parts))
    return f"The {what} differ: {'; '.join(parts)}. {AGAIN}" if parts else ""


def sizes(shape: tuple[int, ...]) -> str:
    """A tensor's sizes without leading ones: 32 × 16."""
    return "\u00a0×\u00a0".join(map(count, shape[_ones(shape) :])) or "1"


def _ones(shape: tuple[int, ...]) -> int:
    """How many leading axes of length 1 are not shown: of a tensor with one element, all but the last."""
    return next((axis for axis, size in enumerate(shape) if size != 1), max(0, len(shape) - 1))


def short(name: str) -> str:
    """A tensor's name as a reader says it."""
    return name.removesuffix("_ptr")


def _inputs(trace: Trace) -> dict[str, Buffer]:
    """The tensors that a run loads and no earlier launch stored, by name."""
    found: dict[str, Buffer] = {}
    for at, launch in enumerate(trace.launches):
        stored = _stored(trace.launches[:at])
        for buffer in launch.buffers:
            if launch.read_bytes.get(buffer.name) and buffer.name not in stored:
                found.setdefault(buffer.name, buffer)
    return found


def _stored(launches: Sequence[Launch]) -> set[str]:
    return {name for launch in launches for name, size in launch.written_bytes.items() if size}


def _tensors(pairs: dict[str, tuple[Buffer, Buffer]]) -> Differing:
    for name, (a, b) in pairs.items():
        if a.shape != b.shape:
            dtypes = ("", "") if a.dtype == b.dtype else (f" {a.dtype}", f" {b.dtype}")
            yield f"`{short(name)}`", sizes(a.shape) + dtypes[0], sizes(b.shape) + dtypes[1]
        elif a.dtype != b.dtype:
            yield f"`{short(name)}`", a.dtype, b.dtype


def _parameters(left: Trace, right: Trace, *, sizes: bool) -> Differing:
    """The parameters of two kernels of the catalog that differ; with `sizes` those that are sizes or a dtype too."""
    if left.experiment is None or right.experiment is None:
        return
    a, b = Experiment.from_json(left.experiment), Experiment.from_json(right.experiment)
    for one in a.entry.parameters:
        plain = one.kind == "tile" or one.name in SCHEDULE
        if plain or one.name not in b.values or (not sizes and (one.kind == "size" or one.name == "dtype")):
            continue
        if a.values[one.name] != b.values[one.name]:
            yield _said(one.name, a.values[one.name], b.values[one.name])


def _said(name: str, *values: object) -> tuple[str, str, str]:
    a, b = (("causal" if value else "not causal") if name == "causal" else str(value) for value in values)
    return "the mask" if name == "causal" else f"`{name}`", a, b


def _told(differing: Differing) -> list[str]:
    """What differs, those that differ alike together: "k and v are 32 × 16 on the left, 15 × 32 on the right"."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, a, b in differing:
        names.setdefault((a, b), []).append(name)
    return [
        f"{listed(alike)} {'are' if len(alike) > 1 else 'is'} {a} on the left, {b} on the right"
        for (a, b), alike in names.items()
    ]


def _values(left: Trace, right: Trace, names: list[str]) -> list[str]:
    """The tensors that are only loaded and have different numbers, with the first element that differs."""
    ours, theirs = _loaded(left), _loaded(right)
    found = {}
    stored = _stored(left.launches) | _stored(right.launches)
    for name in (name for name in names if name not in stored):
        (buffer, a), (_, b) = ours.get(name, (None, {})), theirs.get(name, (None, {}))
        both = sorted(a.keys() & b.keys())
        pair = np.array([[a[at], b[at]] for at in both]).reshape(-1, 2).T
        exact = buffer is None or buffer.dtype[0] not in "bf"
        unequal = np.flatnonzero(~same(pair[0], pair[1], 0.0 if exact else FLOAT32))
        if buffer is not None and unequal.size:
            at = int(unequal[0])
            place = f"`{short(name)}[{_place(buffer, both[at])}]`"
            found[f"`{short(name)}`"] = (
                f"{place} is {number(pair[0, at])} on the left, {number(pair[1, at])} on the right"
            )
    return [f"the values of {listed(list(found))}: {next(iter(found.values()))}"] if found else []


def _loaded(trace: Trace) -> dict[str, tuple[Buffer, dict[int, float]]]:
    """The numbers that a run loads, by the tensor's name and the element: of lines that only load."""
    found: dict[str, tuple[Buffer, dict[int, float]]] = {}
    parsed = [statements(source.first_line, source.text) for source in trace.sources]
    lanes = 0
    for step in np.flatnonzero(np.diff(trace.columns.access_at) == 1).tolist():
        (access,), changed = trace.accesses(step), list(trace.changes(step).values())
        expression = value_of(parsed[int(trace.columns.source[step])].get(trace.line(step)))
        if access.kind != "load" or len(changed) != 1 or expression is None or not is_load(expression):
            continue
        (tile,) = changed
        buffer, values = found.setdefault(access.buffer.name, (access.buffer, {}))
        if not isinstance(tile, Tile) or tile.shape != access.elements.shape or buffer.shape != access.buffer.shape:
            continue
        numbers = _active(tile.numpy(), access.mask)
        values.update(zip(access.indices().tolist(), numbers.tolist(), strict=True))
        lanes += numbers.size
        if lanes > MOST_LANES:
            break
    return found


def _active(numbers: NDArray[Any], mask: Tile | None) -> NDArray[np.float64]:
    return (numbers.reshape(-1) if mask is None else numbers[mask.numpy()]).astype(np.float64)


def _place(buffer: Buffer, element: int) -> str:
    """An element's index in its tensor, without leading axes of length 1; its number where the tensor has gaps or
    another order.
    """
    dense = tuple(math.prod(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape)))
    if dense != buffer.strides or element >= math.prod(buffer.shape):
        return str(element)
    return ", ".join(str(int(at)) for at in np.unravel_index(element, buffer.shape)[_ones(buffer.shape) :])
