"""The recorded times of the three backward kernels, where a GPU's record has all of them with the same parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from explain.chapters.backward import memory
from explain.figures.numbers import count
from explain.records.code import is_stale
from explain.records.model import Point, Record


@dataclass(frozen=True)
class Case:
    """The points of all kernels of `memory.KERNELS`, in this order: time and memory, with the same inputs and tiles."""

    points: Sequence[Point]
    source: str

    @property
    def name(self) -> str:
        """Its shape and tiles: “batch 4, 16 heads, N = 4,096, d = 64, bf16, tiles of 128 × 64”."""
        p = self.points[0].experiment.values
        causal = ", causal" * bool(p["causal"])
        return (
            f"batch {p['batch']}, {p['heads']} heads, N = {count(p['seq_len'])}, d = {p['head_dim']}, {p['dtype']}"
            f"{causal}, tiles of {p['block_m']} × {p['block_n']}"
        )


def cases(records: Iterable[Record]) -> list[Case]:
    """What the first of these records that has such points has; empty if none has."""
    return next(filter(None, map(_cases, records)), [])


def _cases(record: Record) -> list[Case]:
    found = []
    for first in record.points.values():
        if first.experiment.kernel == memory.KERNELS[0]:
            points = [record.point(first.experiment.through(kernel)) for kernel in memory.KERNELS]
            timed = [point for point in points if point and point.timing and point.peak_bytes]
            if len(timed) == len(points):
                stale = " · the kernels have changed since" * any(map(is_stale, timed))
                found.append(Case(tuple(timed), record.provenance_of(first).words + stale))
    return found
