"""The records of a running recording, before `build` makes a Trace of them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explain.trace.instrument import Site
from explain.trace.memory import Memory
from explain.trace.model import KINDS, Flops, Source

LOAD, STORE, ATOMIC = (KINDS.index(kind) for kind in ("load", "store", "atomic"))


class AccessRecord(NamedTuple):
    """A load, store or atomic: its index in KINDS, the buffer, tagged pointers, active lanes (None: all), bytes.

    `stored` is what is stored, or what an atomic takes; None for a load.
    """

    kind: int
    buffer: int
    pointers: NDArray[np.uint64]
    mask: NDArray[np.bool_] | None
    bytes: int
    stored: Seen | None


class Seen(NamedTuple):
    """A tensor at one step: its array, which the interpreter does not change later, its scalar type and its kind."""

    data: NDArray[Any]
    dtype: Any
    is_block: bool

    @classmethod
    def of(cls, tensor: Any) -> Seen:
        """From a tl.tensor that holds an array."""
        return cls(tensor.handle.data, tensor.dtype, tensor.type.is_block())


class StepRecord(NamedTuple):
    """One step."""

    site: Site
    depth: int
    changes: tuple[tuple[str, object], ...]
    accesses: int
    matmul: int
    exp: int
    other: int


class LaunchRecord:
    """A launch, during and after its run."""

    def __init__(self, kernel: Any, source: Source) -> None:
        self.kernel = kernel
        self.source = source
        self.memory = Memory()
        self.began = time.thread_time()
        self.grid: tuple[int, int, int] = (0, 0, 0)
        self.program: tuple[int, int, int] | None = None
        self.arguments: dict[str, object] = {}
        self.read_bytes: dict[int, int] = {}
        self.written_bytes: dict[int, int] = {}
        self.flops = Flops()
        self.recorded: list[tuple[tuple[int, int, int], int]] = []  # each program and its first step
        self.steps = 0

    def spans(self) -> list[tuple[int, int]]:
        """The first step and the end of each recorded program."""
        firsts = [first for _, first in self.recorded]
        return list(zip(firsts, [*firsts[1:], self.steps], strict=False))  # none recorded: none
