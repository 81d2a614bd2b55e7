"""What a row's state must be after any tiles: computed from run A's scores, for runs with other tiles or another order.

m = max S, ℓ = Σ exp(S − m) and Õ = Σ exp(S − m) V over the columns that run B has read so far, in float64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from explain.difference.replay import Event, Memory, Replay, Site
from explain.experiment import Experiment

Floats = NDArray[np.float64]
LOG2_E = 1.4426950408889634
_MAXIMA = ("new_max", "running_max")
_LAST_OF_A_ROUND = ("scores", "running_sum")  # set more than once in a tile, the last time whole


class Roles:
    """Which quantity (m, ℓ, α …) each variable of run B is, and the value that run A says it must have."""

    def __init__(self, a: Replay, b: Replay, pairs: Mapping[Site, Site]) -> None:
        self.a, self.b = a, b
        self.names = _declared(a)
        found = Counter((site[2], role) for site, its in pairs.items() for role, name in self.names.items()
                        if its[2] == name)  # fmt: skip
        by_form = {name: role for (name, role), _ in reversed(found.most_common())}
        there = {event.name for event in b.events}
        self.role_of = {name: role for role, name in _declared(b).items() if name in there} | by_form
        self.own = {role: name for name, role in self.role_of.items()}
        self.known = bool({"scores", "cols", "running_max"} <= self.names.keys()) and "new_sum" not in self.names

    def expected(self, event: Event) -> Floats | None:
        """What B's variable must hold, its shape and float64; None if it has no role, or A does not say."""
        role = self.role_of.get(event.name, "")
        if not self.known or event.value is None or not event.rounds or not event.inputs:
            return None
        if (
            role in _LAST_OF_A_ROUND
            and self.last[event.launch, event.program, event.rounds, event.name] != event.number
        ):
            return None
        rows, unit = self.places(event), self.unit(self.b, event)
        scores = [self.scores.get((unit, row)) for row in rows]
        read = self.read(event)
        if not read or any(one is None or not read <= one.keys() for one in scores):
            return None
        made = np.array([self.row(role, event, one, read) for one in scores if one is not None], dtype=object)
        if any(one is None for one in made.reshape(-1)):
            return None
        made = made.astype(np.float64)
        if role in ("scores", *_MAXIMA):
            made = made * self.factor
        return made.reshape(event.value.shape) if made.size == event.value.size else None

    def is_exact(self, event: Event) -> bool:
        """Whether a variable holds scores or one of them, so that nothing adds to their rounding."""
        return self.role_of.get(event.name) in ("scores", *_MAXIMA)

    def row(self, role: str, event: Event, scores: Mapping[int, float], read: frozenset[int]) -> object:
        """A role's value of one row, from its scores by column and the columns read so far."""
        highest = max(scores[col] for col in read)
        shift = 0.0 if highest == -np.inf else highest
        if role in ("scores", "exponentials"):
            here = [scores.get(col, -np.inf) for col in self.tile(self.b, event, self.own.get("cols", ""))]
            return here if role == "scores" else np.exp(np.array(here) - shift)
        if role in _MAXIMA:
            return highest
        if role == "running_sum":
            return sum(np.exp(scores[col] - shift) for col in read)
        before = next((self.b.events[k] for k in event.reads if self.role_of.get(self.b.events[k].name) in _MAXIMA
                       and self.b.events[k].name == self.own.get("running_max")), None)  # fmt: skip
        if role == "rescale" and before is not None:
            old = [scores[col] for col in self.columns(before.inputs, self.keys)]
            return np.exp(max(old, default=-np.inf) - shift)
        if role == "accumulator" and self.values is not None:
            memory, total = self.values, np.zeros(self.values.shape[-1])
            for element in _elements(event.inputs, memory):
                *_, col, feature = memory.place(element)
                total[feature] += np.exp(scores.get(col, -np.inf) - shift) * memory.values[element]
            return total
        return None

    def read(self, event: Event) -> frozenset[int]:
        """The columns that B has read for an event's rows: those that went into it, and those of the tiles before."""
        return self.columns(event.inputs, self.keys) | self.read_before(event)

    def read_before(self, event: Event) -> frozenset[int]:
        """The columns of the scores that B's program has had before an event, in the same pass."""
        found: frozenset[int] = frozenset()
        for number in self.b.by_program[event.launch, event.program]:
            one = self.b.events[number]
            if (
                number < event.number
                and one.rounds[:-1] == event.rounds[:-1]
                and self.role_of.get(one.name) == "scores"
            ):
                found |= self.columns(one.inputs, self.keys)
        return found

    # --- run A's scores ---

    @cached_property
    def scores(self) -> dict[tuple[tuple[int, ...], int], dict[int, float]]:
        """Run A's scores after its mask: by head and row, then by column."""
        found: dict[tuple[tuple[int, ...], int], dict[int, float]] = {}
        last = {
            (e.launch, e.program, e.rounds): e for e in self.a.events if e.name == self.names["scores"] and e.inputs
        }
        for event in last.values():
            rows = self.tile(self.a, event, self.names.get("rows", ""))
            cols = self.tile(self.a, event, self.names["cols"])
            if event.value is None or event.value.size != len(rows) * len(cols):
                continue
            values = event.value.astype(np.float64).reshape(len(rows), len(cols))
            unit = self.unit(self.a, event)
            for row, its in zip(rows, values, strict=True):
                found.setdefault((unit, row), {}).update(zip(cols, its.tolist(), strict=True))
        return found

    @cached_property
    def factor(self) -> float:
        """log2 e if B's scores are A's in base 2, else 1."""
        for event in self.b.events:
            if self.role_of.get(event.name) == "scores" and event.value is not None and event.inputs:
                rows, cols = self.places(event), self.tile(self.b, event, self.own.get("cols", ""))
                unit = self.unit(self.b, event)
                mine = [self.scores.get((unit, row), {}).get(col, np.nan) for row in rows for col in cols]
                if len(mine) == event.value.size:
                    with np.errstate(all="ignore"):
                        ratio = event.value.reshape(-1) / np.array(mine)
                    if np.nanmedian(ratio[np.isfinite(ratio)]) > 1.4 and self.ends_a_round(event):
                        return LOG2_E
        return 1.0

    def ends_a_round(self, event: Event) -> bool:
        return self.last[event.launch, event.program, event.rounds, event.name] == event.number

    @cached_property
    def last(self) -> dict[tuple[object, ...], int]:
        return {(e.launch, e.program, e.rounds, e.name): e.number for e in self.b.events}

    @cached_property
    def keys(self) -> Memory | None:
        return self.memory(self.names.get("keys", self.names["scores"]))

    @cached_property
    def values(self) -> Memory | None:
        return self.memory(self.names["values"]) if "values" in self.names else None

    def memory(self, name: str) -> Memory | None:
        return next((one for one in self.a.memories if one.name == f"{name}_ptr"), None)

    # --- places ---

    def places(self, event: Event) -> list[int]:
        """The rows of an event: those in the variable for rows. Without one, those that a matrix was loaded from."""
        if "rows" in self.own or "queries" in self.names or self.keys is None:
            return self.tile(self.b, event, self.own.get("rows", ""))
        return sorted({self.keys.place(element)[-2] for element in _elements(event.inputs, self.keys)})

    def tile(self, run: Replay, event: Event, name: str) -> list[int]:
        """The coordinates that a variable holds at an event."""
        number = run.frame(event).get(name)
        value = None if number is None else run.events[number].value
        return [] if value is None else [int(one) for one in np.reshape(value, -1)]

    def unit(self, run: Replay, event: Event) -> tuple[int, ...]:
        """The head, or nothing for a matrix: from the first element of the queries that went into an event."""
        memory = self.memory(self.names["queries"]) if "queries" in self.names else None
        if memory is None:
            return ()
        return memory.place(next(iter(_elements(event.inputs, memory)), 0))[:-2]

    def columns(self, inputs: int, memory: Memory | None) -> frozenset[int]:
        """The columns of S that went into a value, by the keys or the scores loaded."""
        if memory is None:
            return frozenset()
        axis = -2 if "keys" in self.names else -1
        return frozenset(memory.place(element)[axis] for element in _elements(inputs, memory))


def _elements(inputs: int, memory: Memory) -> list[int]:
    bits = (inputs >> memory.base) & ((1 << len(memory.known)) - 1)
    flags = np.unpackbits(
        np.frombuffer(bits.to_bytes(len(memory.known) // 8 + 1, "little"), np.uint8), bitorder="little"
    )
    return np.flatnonzero(flags).tolist()


def _declared(run: Replay) -> dict[str, str]:
    header = run.trace.experiment
    return dict(Experiment.from_json(header).entry.roles) if header else {}
