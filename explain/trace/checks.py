"""What is wrong with a recorded run, and what it wastes: a function for each sort of finding.

A check reads recorded events: the accesses of the trace, and `evidence.Evidence`. It reads no source text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from explain.trace import offsets
from explain.trace.accesses import Elements, Run, named, stored_values
from explain.trace.evidence import Event, Evidence
from explain.trace.model import Affine, Buffer, Finding, Scalar, Tile, Trace
from explain.trace.offsets import DID
from explain.trace.races import races, rewritten
from explain.trace.records import LOAD, STORE
from explain.trace.repeat import CutError, Record, reached, same_numbers

SECTOR_BYTES = 32
FEW_ELEMENTS = 8  # an access of fewer wastes sectors whatever it does
WASTEFUL = 0.5  # of the bytes of the sectors
LARGEST = {"fp16": "65,504", "bf16": "3.39e38", "fp32": "3.40e38"}
NOT_TRIED = (
    "a limit ended the run before it was repeated with ∞ in the lanes that a mask leaves out: whether such lanes reach "
    "the result was not checked"
)


def checked(record: Record) -> Trace:
    """The trace that `record` makes, with its findings in its report.

    `record` runs everything again with the same inputs each time it is called. It is called again if a masked load has
    lanes without a value: with infinity in them the run must store the same. A note says if a limit ended such a run.
    """

    def repeatable(evidence: Evidence) -> Trace:
        with same_numbers():
            return record(evidence)

    evidence = Evidence()
    trace = repeatable(evidence)
    notes = trace.report.notes
    if evidence.undefined:
        try:
            evidence.reached = reached(repeatable, trace, evidence)
        except CutError:
            notes = (*notes, NOT_TRIED)
    return replace(trace, report=replace(trace.report, notes=notes, findings=check(trace, evidence)))


def check(trace: Trace, evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of a run, in the order of their steps; one of each sort for a line and a buffer."""
    run = Run(trace, evidence)
    found: dict[tuple[object, ...], Finding] = {}
    for one in (finding for find in CHECKS.values() for finding in find(run)):
        key = one.sort, trace.columns.source[one.step], one.line, one.buffer
        found[key] = replace(found[key], times=found[key].times + one.times) if key in found else one
    return tuple(sorted(found.values(), key=lambda one: (one.step, not one.error)))


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
