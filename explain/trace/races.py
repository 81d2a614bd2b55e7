"""Races: two programs touch one element, at least one of them writes, and not both use atomics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.trace.accesses import Elements, Run, named, stored_values
from explain.trace.model import Finding
from explain.trace.offsets import DID
from explain.trace.records import ATOMIC, LOAD, STORE

MOST_PAIRS = 2000
MEETS = {LOAD: (STORE, ATOMIC), STORE: (LOAD, STORE, ATOMIC), ATOMIC: (LOAD, STORE)}
"""An access of each kind may meet later ones of these kinds in a race."""


def races(run: Run) -> Iterator[Finding]:
    """Programs run at the same time, in any order. If one writes an element, another needs atomics to touch it."""
    yield from _races(run, same=False)


def rewritten(run: Run) -> Iterator[Finding]:
    """The result is right; the second store is wasted."""
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


def _ordered(run: Run, earlier: int, later: int) -> bool:
    """Whether the programs met at an atomic in between: a lock, or a counter."""
    atomics = _atomics(run)
    after = {key for number, key in atomics.get(int(run.places[earlier, 1]), ()) if number > earlier}
    return any(number < later and key in after for number, key in atomics.get(int(run.places[later, 1]), ()))


@functools.cache
def _atomics(run: Run) -> dict[int, list[tuple[int, tuple[int, int]]]]:
    """The atomics of each program: the access's number, and (buffer, element)."""
    found: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    c = run.trace.columns
    for access in np.flatnonzero(c.access_kind == ATOMIC).tolist():
        elements, active = run.of(access)
        keys = [(access, (int(c.access_buffer[access]), int(e))) for e in np.unique(elements[active])]
        found.setdefault(int(run.places[access, 1]), []).extend(keys)
    return found
