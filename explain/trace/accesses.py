"""The accesses of a recorded run, each with its step, its program and its lanes, and how a finding names them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.trace.evidence import Evidence
from explain.trace.model import SORTS, Affine, Buffer, Finding, Tile, Trace, numbers

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


def index(buffer: Buffer, element: int) -> tuple[int, ...]:
    """The indices of an element in its tensor; () if there are none. Outside the tensor the first one is too large."""
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


def stored_values(run: Run, access: int, active: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The values that a store wrote, of its active lanes, shape (lanes,); NaN for a load or an atomic."""
    number = run.trace.columns.access_stored[access]
    value = run.trace.values[number] if number >= 0 else None
    if not isinstance(value, Tile | Affine):
        return np.full(int(np.count_nonzero(active)), np.nan)
    return np.broadcast_to(value.numpy(), active.shape)[active].astype(np.float64)
