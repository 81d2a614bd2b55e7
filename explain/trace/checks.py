"""What is wrong with a recorded run, and what it wastes: a function for each sort of finding.

A check reads recorded events: the accesses of the trace, and `evidence.Evidence`. It reads no source text.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from explain.trace import offsets
from explain.trace.evidence import Event, Evidence
from explain.trace.model import SORTS, Affine, Buffer, Finding, Scalar, Tile, Trace, numbers
from explain.trace.offsets import DID
from explain.trace.records import ATOMIC, LOAD, STORE

SECTOR_BYTES = 32
FEW_ELEMENTS = 8  # an access of fewer wastes sectors whatever it does
WASTEFUL = 0.5  # of the bytes of the sectors
MOST_PAIRS = 2000
MEETS = {LOAD: (STORE, ATOMIC), STORE: (LOAD, STORE, ATOMIC), ATOMIC: (LOAD, STORE)}
"""An access of each kind may meet later ones of these kinds in a race."""
LARGEST = {"fp16": "65,504", "bf16": "3.39e38", "fp32": "3.40e38"}
Elements = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Run:
    """A recorded run, and what its recorder saw."""

    trace: Trace
    evidence: Evidence

    @functools.cached_property
    def steps(self) -> NDArray[np.int64]:
        """The step of each access."""
        at = self.trace.columns.access_at
        return np.searchsorted(at, np.arange(at[-1]), side="right") - 1

    @functools.cached_property
    def places(self) -> NDArray[np.int64]:
        """The launch and the program (a number in the run) of each access, shape (accesses, 2)."""
        starts = np.array(self.trace._starts)
        span = np.searchsorted(starts, self.steps, side="right") - 1
        launches = np.array([launch for launch, _ in self.trace._spans])
        return np.stack([launches[span], span], axis=1) if len(span) else np.zeros((0, 2), np.int64)

    @functools.cache  # noqa: B019  # a run lives as long as its checks
    def lanes(self, value: int, mask: int) -> tuple[Elements, NDArray[np.bool_]]:
        """The elements of a tile of addresses and its active lanes, both of its shape."""
        elements = self.trace.values[value]
        assert isinstance(elements, Tile | Affine)
        active = np.ones(elements.shape, bool) if mask < 0 else numbers(self.trace.values[mask])
        return elements.numpy(), active

    def of(self, access: int) -> tuple[Elements, NDArray[np.bool_]]:
        c = self.trace.columns
        return self.lanes(int(c.access_value[access]), int(c.access_mask[access]))

    def buffer(self, access: int) -> Buffer:
        return self.trace.launches[self.places[access, 0]].buffers[self.trace.columns.access_buffer[access]]

    def finding(self, sort: str, step: int, words: str, buffer: Buffer | None = None, element: int = -1,
                **more: Any) -> Finding:  # fmt: skip
        """A finding at a step, of an element of a buffer if there is one."""
        step = min(step, self.trace.steps - 1)
        found: dict[str, Any] = (
            {} if buffer is None else {"buffer": buffer.name, "element": element, "index": index(buffer, element)}
        )
        kernel, program = self.trace.launch(step).kernel, self.trace.program(step).id
        line, error = self.trace.line(step), SORTS[sort].error
        return Finding(sort, error, step, line, kernel, program, words, **found, **more)

    def sites(self, accesses: Iterable[int]) -> Iterator[list[int]]:
        """Accesses by function, line and their place in the line: each group is one load or store of the source."""
        found: dict[tuple[int, ...], list[int]] = {}
        c = self.trace.columns
        for access in accesses:
            step = self.steps[access]
            place = access - c.access_at[step], c.access_kind[access], c.access_buffer[access]
            found.setdefault((int(c.source[step]), int(c.line[step]), *map(int, place)), []).append(access)
        yield from found.values()

    def lines(self, accesses: Iterable[int]) -> dict[tuple[int, int], list[int]]:
        """Accesses by function and line."""
        found: dict[tuple[int, int], list[int]] = {}
        c = self.trace.columns
        for access in accesses:
            step = self.steps[access]
            found.setdefault((int(c.source[step]), int(c.line[step])), []).append(access)
        return found


def checked(record: Callable[[Evidence], Trace]) -> Trace:
    """The trace that `record` makes, with its findings in its report.

    `record` runs everything again with the same inputs each time it is called. It is called again if a masked load has
    lanes without a value: with infinity in them the run must store the same.
    """

    def repeatable(evidence: Evidence) -> Trace:
        with _same_numbers():
            return record(evidence)

    evidence = Evidence()
    trace = repeatable(evidence)
    if evidence.undefined:
        evidence.reached = _reached(repeatable, trace, evidence)
    report = replace(trace.report, findings=check(trace, evidence))
    return replace(trace, report=report)


@contextmanager
def _same_numbers() -> Iterator[None]:
    """While open, random numbers are the same each time."""
    random.seed(0)
    np.random.seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _reached(record: Callable[[Evidence], Trace], trace: Trace, evidence: Evidence) -> list[int]:
    """The loads with undefined lanes that change what the run stores, or where it reads; one for each line."""

    def differs(loads: Collection[int]) -> bool:
        try:
            return effects(record(Evidence(garbage=frozenset(loads)))) != usual
        except Exception:  # foreign code may raise anything when it reads infinity
            return True

    usual = effects(trace)
    if not differs(evidence.undefined) or differs(()):  # not even the same run twice is the same
        return []
    run = Run(trace, evidence)
    lines = run.lines(access for access in evidence.undefined if access < len(run.steps)).values()
    return [loads[0] for loads in lines if len(lines) == 1 or differs(loads)]


def effects(trace: Trace) -> list[bytes]:
    """A digest of each access: its active elements, and what it stored there."""
    run = Run(trace, Evidence())
    c, found = trace.columns, []
    for access in range(len(run.steps)):
        elements, active = run.of(access)
        stored = stored_values(run, access, active).tobytes()
        parts = (bytes([c.access_kind[access]]), elements[active].tobytes(), stored)
        found.append(hashlib.blake2b(b"".join(parts), digest_size=16).digest())
    return found


def check(trace: Trace, evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of a run, in the order of their steps; one of each sort for a line and a buffer."""
    run = Run(trace, evidence)
    found: dict[tuple[object, ...], Finding] = {}
    for one in (finding for find in CHECKS.values() for finding in find(run)):
        key = one.sort, trace.columns.source[one.step], one.line, one.buffer
        found[key] = replace(found[key], times=found[key].times + one.times) if key in found else one
    return tuple(sorted(found.values(), key=lambda one: (one.step, not one.error)))


def index(buffer: Buffer, element: int) -> tuple[int, ...]:
    """The place of an element in its tensor, the first axis perhaps too large; () if strides lead to no place."""
    if element < 0 or not buffer.shape:
        return ()
    found, rest = [0] * len(buffer.shape), element
    for axis in sorted(range(len(buffer.shape)), key=lambda k: -buffer.strides[k]):
        stride = buffer.strides[axis]
        if (stride > 0 and buffer.shape[axis] > 1) or (stride > 0 and axis == 0):
            found[axis], rest = divmod(rest, stride)
    return () if rest else tuple(found)


def named(buffer: Buffer, element: int) -> str:
    """`x[3, 5]`; the element's number where it has no place."""
    place = index(buffer, element)
    return f"{buffer.name}[{', '.join(map(str, place))}]" if place else f"element {element} of {buffer.name}"


# Memory that may not be touched


def outside(run: Run) -> Iterator[Finding]:
    """On a GPU it reads garbage, overwrites another tensor, or ends the process."""
    for event in run.evidence.events:
        if event.sort == "outside":
            buffer = run.trace.launches[event.launch].buffers[event.buffer]
            assert event.elements is not None
            yield _outside(run, event.step, event.kind, buffer, event.elements, event.lanes, event.result)
    c = run.trace.columns
    seen: dict[tuple[int, ...], bool] = {}
    for access in range(len(run.steps)):
        key = run.places[access, 0], c.access_buffer[access], c.access_value[access], c.access_mask[access]
        elements, active = run.of(access)
        buffer = run.buffer(access)
        if key not in seen:
            seen[key] = bool((active & ~in_view(buffer, elements)).any())
        if seen[key]:
            bad = active & ~in_view(buffer, elements)
            yield _outside(run, int(run.steps[access]), int(c.access_kind[access]), buffer, elements, bad, active)


def in_view(buffer: Buffer, elements: Elements) -> NDArray[np.bool_]:
    """Which elements are the tensor's own: a view of a larger storage may have gaps. Same shape."""
    reach = [(size - 1) * stride for size, stride in zip(buffer.shape, buffer.strides, strict=True)]
    if 0 in buffer.shape:
        return np.zeros(elements.shape, bool)
    last = sum(reach)
    inside = (elements >= 0) & (elements <= last)
    if (table := _own(buffer.shape, buffer.strides)) is not None:
        inside &= table[np.clip(elements, 0, last)]
    return inside


@functools.lru_cache(64)
def _own(shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """For each element from the first to the last, whether it is in the view; None if all are."""
    kept = [(size, stride) for size, stride in zip(shape, strides, strict=True) if stride and size > 1]
    last = sum((size - 1) * stride for size, stride in kept)
    if np.prod([size for size, _ in kept], initial=1) == last + 1:
        return None
    own = np.zeros(1, np.int64)
    for size, stride in kept:
        own = np.unique(own[:, None] + np.arange(size) * stride)
    table = np.zeros(last + 1, bool)
    table[own] = True
    return table


def _outside(run: Run, step: int, kind: int, buffer: Buffer, elements: Elements, bad: NDArray[np.bool_],
             active: NDArray[np.bool_]) -> Finding:  # fmt: skip
    element = int(elements[bad].flat[0])
    count = int(np.count_nonzero(bad))
    words = (
        f"{DID[kind]} {named(buffer, element)}, which is outside: {buffer.name} has shape {list(buffer.shape)} and "
        f"strides {list(buffer.strides)}. {count} of {int(np.count_nonzero(active))} active lanes are outside"
    )
    found = mask_for(run.trace, step, bad, active)
    return run.finding("outside", step, words, buffer, element, remedy=found and f"a mask: {found}", times=count)


def mask_for(trace: Trace, step: int, bad: NDArray[np.bool_], active: NDArray[np.bool_]) -> str:
    """The comparison that keeps the good lanes and no bad one, from the variables at this step; "" if none does."""
    state = trace.state(min(step, trace.steps - 1))
    wholes = {name: value.value for name, value in state.items() if isinstance(value, Scalar) and value.kind == "int"}
    wholes |= {
        name: int(value.numpy().reshape(())) for name, value in state.items()
        if isinstance(value, Tile | Affine) and value.shape == () and value.dtype[0] in "iu" and value.dtype != "i1"
    }  # fmt: skip
    good = active & ~bad
    tiles = [
        (name, value.numpy()) for name, value in state.items()
        if isinstance(value, Tile | Affine) and value.shape and value.dtype[0] in "iu" and value.dtype != "i1"
    ]  # fmt: skip
    for name, tile in reversed(tiles):
        for shown, lanes in _aligned(name, tile, bad.shape):
            low, high = lanes[bad].min(), lanes[bad].max()
            if not good.any():
                continue
            if lanes[good].max() < low:
                return f"{shown} < {_bound(wholes, int(lanes[good].max()), int(low))}"
            if high < lanes[good].min() and high < 0 <= lanes[good].min():
                return f"{shown} >= 0"
    return ""


def _bound(wholes: Mapping[str, object], good: int, bad: int) -> str:
    """What stands on the right of `<`: a variable that separates them, else the number."""
    names = [name for name, value in wholes.items() if type(value) is int and good < value <= bad]
    return names[0] if names else str(good + 1)


def _aligned(name: str, tile: Elements, shape: tuple[int, ...]) -> Iterator[tuple[str, Elements]]:
    """A variable over the lanes of an access: as it is, or along one axis; first how a mask would write it."""
    if tile.shape == shape:
        yield name, tile
    elif tile.ndim == 1 < len(shape):
        for axis, size in enumerate(shape):
            if size == len(tile):
                parts = [":" if k == axis else "None" for k in range(len(shape))]
                along = tile.reshape([-1 if k == axis else 1 for k in range(len(shape))])
                yield f"{name}[{', '.join(parts)}]", np.broadcast_to(along, shape)
    elif tile.ndim == len(shape) and all(a in (1, b) for a, b in zip(tile.shape, shape, strict=True)):
        yield name, np.broadcast_to(tile, shape)


def unwritten(run: Run) -> Iterator[Finding]:
    """Memory from torch.empty holds whatever was there before."""
    for event in run.evidence.events:
        if event.sort == "unwritten" and event.access < len(run.steps):
            elements, _ = run.of(event.access)
            element = int(elements.reshape(-1)[np.flatnonzero(event.lanes)[0]])
            buffer, count = run.buffer(event.access), int(np.count_nonzero(event.lanes))
            words = f"{DID[event.kind]} {named(buffer, element)}, which nobody has written: it comes from torch.empty"
            yield run.finding("unwritten", event.step, words, buffer, element, times=count,
                              remedy="torch.zeros, or write it first")  # fmt: skip


def undefined(run: Run) -> Iterator[Finding]:
    """A load without `other` gives no value to the lanes that its mask keeps out, and the result depends on them."""
    for access in run.evidence.reached:
        elements, active = run.of(access)
        buffer, element = run.buffer(access), int(elements[~active].flat[0])
        count = int(np.count_nonzero(~active))
        words = (
            f"Loads {buffer.name} with {count} masked lanes and no `other`: these lanes are undefined, and what the "
            "kernel stores depends on them"
        )
        yield run.finding("undefined", int(run.steps[access]), words, buffer, element, times=count,
                          remedy="other=…, or padding_option: the neutral element of what follows")  # fmt: skip


# Elements that two lanes or two programs touch


def races(run: Run) -> Iterator[Finding]:
    """Programs run in any order and at once: what one writes, another may touch by atomics alone."""
    yield from _races(run, same=False)


def rewritten(run: Run) -> Iterator[Finding]:
    """The result is right, the second store is wasted."""
    yield from _races(run, same=True)


def _races(run: Run, same: bool) -> Iterator[Finding]:
    c = run.trace.columns
    for launch in range(len(run.trace.launches)):
        lanes = run_lanes(run, launch)
        if lanes is None:
            continue
        for earlier, later, one in lanes.conflicts(functools.partial(_ordered, run)):
            if lanes.equal(earlier, later) != same:
                continue
            step, before = int(run.steps[later]), int(run.steps[earlier])
            buffer, element = run.buffer(later), int(lanes.element[one])
            did, other = (DID[c.access_kind[k]] for k in (later, earlier))
            place = list(run.trace.program(before).id)
            if same:
                words = (
                    f"Stores to {named(buffer, element)} what program {place} has stored there, at line "
                    f"{run.trace.line(before)}: the same value"
                )
                yield run.finding("rewritten", step, words, buffer, element)
            else:
                words = (
                    f"{did} {named(buffer, element)}, and program {place} {other.lower()} it, at line "
                    f"{run.trace.line(before)}, without atomics: the result depends on which is first"
                )
                yield run.finding("race", step, words, buffer, element, remedy="atomics, a lock, or two launches")


@dataclass(frozen=True, eq=False)
class Lanes:
    """Every active lane of a launch's accesses, sorted by address and time."""

    run: Run
    address: Elements
    access: Elements
    value: NDArray[np.float64]  # what a store stores; NaN else
    element: Elements

    def conflicts(self, excused: Callable[[int, int], bool]) -> Iterator[tuple[int, int, int]]:
        """Accesses of two programs to one address, one a write and not both atomic: (earlier, later, the lane).

        Of the earlier accesses of each kind, it is the last that `excused(earlier, later)` does not excuse.
        """
        columns = self.run.trace.columns
        kind, program = columns.access_kind[self.access], self.run.places[self.access, 1]
        new = np.r_[True, self.address[1:] != self.address[:-1]]
        start = np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
        judged: dict[tuple[int, int], int] = {}
        for one, others in MEETS.items():
            own = np.flatnonzero(kind == one)
            other = np.diff(program[own], prepend=-1) != 0
            # Of each of `own`: the number of the last one before it that is another program's.
            skip = np.maximum.accumulate(np.where(other, np.arange(len(own)), 0)) - 1
            lanes = np.flatnonzero(np.isin(kind, others))
            before = np.searchsorted(own, lanes) - 1
            while True:
                for _ in range(2):  # the second time after a skip
                    there = before >= 0
                    there[there] = own[before[there]] >= start[lanes[there]]
                    lanes, before = lanes[there], before[there]
                    before = np.where(program[own[before]] == program[lanes], skip[before], before)
                if not lanes.size:
                    break
                together = self.access[own[before]] * len(self.run.steps) + self.access[lanes]
                pairs, first, number = np.unique(together, return_index=True, return_inverse=True)
                again = np.zeros(len(pairs), bool)
                for k, pair in enumerate(pairs.tolist()):
                    earlier, later = divmod(pair, len(self.run.steps))
                    line = int(columns.line[self.run.steps[earlier]]), int(columns.line[self.run.steps[later]])
                    judged[line] = judged.get(line, 0) + 1
                    if judged[line] > MOST_PAIRS:
                        continue
                    if excused(earlier, later):
                        again[k] = True
                    else:
                        yield earlier, later, int(lanes[first[k]])
                more = again[number]
                lanes, before = lanes[more], skip[before[more]]

    def equal(self, earlier: int, later: int) -> bool:
        """Whether both stored the same values at all addresses that they share."""
        kinds = self.run.trace.columns.access_kind
        if kinds[earlier] != STORE or kinds[later] != STORE:
            return False
        stored = [self._stored(access) for access in (earlier, later)]
        _, one, two = np.intersect1d(stored[0][0], stored[1][0], return_indices=True)
        return bool(np.array_equal(stored[0][1][one], stored[1][1][two], equal_nan=True))

    def _stored(self, access: int) -> tuple[Elements, NDArray[np.float64]]:
        mine = self.access == access
        return self.address[mine], self.value[mine]


@functools.cache
def run_lanes(run: Run, launch: int) -> Lanes | None:
    """None if no address has two programs."""
    c = run.trace.columns
    parts: list[tuple[NDArray[Any], ...]] = []
    for access in np.flatnonzero(run.places[:, 0] == launch).tolist():
        elements, active = run.of(access)
        storage, offset = run.evidence.shared[launch][c.access_buffer[access]]
        own = elements[active].reshape(-1)
        address = (storage << 44) + offset + own * run.buffer(access).item_bytes
        parts.append((address, np.full(own.size, access), stored_values(run, access, active), own))
    if len({run.places[int(part[1][0]), 1] for part in parts if part[1].size}) < 2:
        return None
    address, access_, value, element = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((access_, address))
    return Lanes(run, address[order], access_[order], value[order], element[order])


def stored_values(run: Run, access: int, active: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What the active lanes of a store stored, shape (lanes,); NaN for anything else."""
    number = run.trace.columns.access_stored[access]
    value = run.trace.values[number] if number >= 0 else None
    if not isinstance(value, Tile | Affine):
        return np.full(int(np.count_nonzero(active)), np.nan)
    return np.broadcast_to(value.numpy(), active.shape)[active].astype(np.float64)


def _ordered(run: Run, earlier: int, later: int) -> bool:
    """Whether the programs met at an atomic in between: a lock, or a counter."""
    atomics = _atomics(run)
    after = {key for number, key in atomics.get(int(run.places[earlier, 1]), ()) if number > earlier}
    return any(number < later and key in after for number, key in atomics.get(int(run.places[later, 1]), ()))


@functools.cache
def _atomics(run: Run) -> dict[int, list[tuple[int, tuple[int, int]]]]:
    """Of each program, its atomics: the access's number, and the buffer and element."""
    found: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    c = run.trace.columns
    for access in np.flatnonzero(c.access_kind == ATOMIC).tolist():
        elements, active = run.of(access)
        keys = [(access, (int(c.access_buffer[access]), int(e))) for e in np.unique(elements[active])]
        found.setdefault(int(run.places[access, 1]), []).extend(keys)
    return found


def twice(run: Run) -> Iterator[Finding]:
    """Which of the lanes wins is not defined."""
    c = run.trace.columns
    for access in np.flatnonzero(c.access_kind == STORE).tolist():
        elements, active = run.of(access)
        own = elements[active].reshape(-1)
        if own.size < 2:
            continue
        order = np.argsort(own, kind="stable")
        value = stored_values(run, access, active)[order]
        again = (own[order][1:] == own[order][:-1]) & ~((value[1:] == value[:-1]) | np.isnan(value[1:] + value[:-1]))
        if again.any():
            buffer, element = run.buffer(access), int(own[order][1:][again][0])
            words = (
                f"Stores two values to {named(buffer, element)} in one store: {value[:-1][again][0]:g} and "
                f"{value[1:][again][0]:g}"
            )
            yield run.finding("twice", int(run.steps[access]), words, buffer, element, times=int(again.sum()),
                              remedy="give each element one lane, or tl.atomic_add")  # fmt: skip


# Numbers that do not fit


def wrapped(run: Run) -> Iterator[Finding]:
    """The address is another one, perhaps inside the tensor: nothing fails, the data is wrong."""
    for event in run.evidence.events:
        if event.sort == "wrapped":
            assert event.elements is not None
            true = int(event.elements[event.lanes].flat[0])
            buffers = run.trace.launches[event.launch].buffers
            name = buffers[event.buffer].name if event.buffer >= 0 else "a pointer"
            yield run.finding("wrapped", event.step, offsets.words(event.kind, name, true),
                              times=int(np.count_nonzero(event.lanes)), remedy=offsets.REMEDY)  # fmt: skip


def overflow(run: Run) -> Iterator[Finding]:
    """A finite input gives an infinite or a NaN result."""
    for event in run.evidence.events:
        if event.sort == "overflow" and _spoils(run, event):
            target = event.words.rpartition(" as ")[2]
            largest = f": the largest {target} is {LARGEST[target]}" if target in LARGEST else ""
            words = f"{event.words} = ∞{largest}. The program then stores ∞ or NaN"
            yield run.finding("overflow", event.step, words, times=int(np.count_nonzero(event.lanes)))
        elif event.sort == "narrowed" and any(stored is event.result for stored in run.evidence.stored):
            words = f"{event.words} loses its high bits, and is stored"
            yield run.finding("overflow", event.step, words, times=int(np.count_nonzero(event.lanes)))


def nan(run: Run) -> Iterator[Finding]:
    """A finite input gives NaN: no comparison and no sum after it is right."""
    for event in run.evidence.events:
        if event.sort == "nan" and _spoils(run, event):
            words = f"{event.words} = NaN, and the program then stores NaN or ∞"
            yield run.finding("nan", event.step, words, times=int(np.count_nonzero(event.lanes)))


def _spoils(run: Run, event: Event) -> bool:
    """Whether the program stores ∞ or NaN from here on, and loaded no NaN and no +∞.

    A mask may be of −∞, and so may a maximum that has seen nothing.
    """
    spoilt, clean = _stores(run)
    program = run.trace._span(min(event.step, run.trace.steps - 1))
    return clean.get(program, True) and spoilt.get(program, -1) >= event.step


@functools.cache
def _stores(run: Run) -> tuple[dict[int, int], dict[int, bool]]:
    """Of each program: the last step that stores ∞ or NaN, and whether all that it loads is finite."""
    spoilt: dict[int, int] = {}
    clean: dict[int, bool] = {}
    c = run.trace.columns
    for access in range(len(run.steps)):
        program = int(run.places[access, 1])
        _, active = run.of(access)
        if c.access_kind[access] == LOAD:
            loaded = run.evidence.loads.get(access)
            values = None if loaded is None else loaded.floats()
            if values is not None and values.shape == active.shape:
                clean[program] = clean.get(program, True) and not (np.isnan(values) | np.isposinf(values))[active].any()
        elif c.access_stored[access] >= 0:
            value = run.trace.values[c.access_stored[access]]
            if isinstance(value, Tile) and (
                value.dtype == "bf16" or (value.dtype[:1] == "f" and value.bits.dtype.kind == "f")
            ):
                stored = np.broadcast_to(value.numpy(), active.shape)[active]
                if not np.isfinite(stored).all():
                    spoilt[program] = int(run.steps[access])
    return spoilt, clean


# Hints


def mask_never_false(run: Run) -> Iterator[Finding]:
    """A mask that keeps no lane out is not tested, or not needed."""
    for accesses in run.lines(range(len(run.steps))).values():
        full = [access in run.evidence.masked and run.trace.columns.access_mask[access] < 0 for access in accesses]
        if all(full):
            access = accesses[0]
            words = f"The mask of {run.buffer(access).name} keeps no lane out, {len(accesses)} of {len(accesses)} times"
            yield run.finding("mask", int(run.steps[access]), words, times=len(accesses),
                              remedy="test a size that no tile divides, or leave the mask out")  # fmt: skip


def unused(run: Run) -> Iterator[Finding]:
    """The compiler drops a load that nothing reads; the kernel perhaps meant to read it."""
    loads = run.evidence.loads
    for accesses in run.sites(access for access in loads if access < len(run.steps)):
        if not any(loads[access].read for access in accesses):
            access = accesses[0]
            words = f"Loads {run.buffer(access).name} and nothing uses it"
            yield run.finding("unused", int(run.steps[access]), words, times=len(accesses),
                              remedy="use it, or leave it out")  # fmt: skip


def wasted(run: Run) -> Iterator[Finding]:
    """Memory moves in sectors of 32 bytes, used or not."""
    shared = run.evidence.shared
    for accesses in run.sites(range(len(run.steps))):
        asked = moved = least = 0
        for access in accesses:
            elements, active = run.of(access)
            own = np.unique(elements[active])
            if own.size < FEW_ELEMENTS:
                continue
            buffer = run.buffer(access)
            offset = shared[run.places[access, 0]][run.trace.columns.access_buffer[access]][1]
            first = offset + own * buffer.item_bytes
            sectors, together = np.unique(first // SECTOR_BYTES).size, own[-1] - own[0] == own.size - 1
            asked += own.size * buffer.item_bytes
            moved += SECTOR_BYTES * sectors
            least += sectors if together else -(-own.size * buffer.item_bytes // SECTOR_BYTES)
        if SECTOR_BYTES * least < moved and asked < WASTEFUL * moved:
            access, kind = accesses[0], run.trace.columns.access_kind[accesses[0]]
            words = (
                f"{DID[kind]} {asked:,} bytes of {run.buffer(access).name} in sectors of {moved:,} bytes: "
                f"{100 * asked / moved:.0f}% of them are used"
            )
            yield run.finding("sectors", int(run.steps[access]), words, times=len(accesses),
                              remedy="let neighbouring lanes touch neighbouring elements")  # fmt: skip


CHECKS: Mapping[str, Callable[[Run], Iterator[Finding]]] = {
    "outside": outside,
    "unwritten": unwritten,
    "undefined": undefined,
    "race": races,
    "twice": twice,
    "wrapped": wrapped,
    "overflow": overflow,
    "nan": nan,
    "rewritten": rewritten,
    "mask": mask_never_false,
    "unused": unused,
    "sectors": wasted,
}
"""What finds each sort."""
