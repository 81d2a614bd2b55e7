"""The recorded times of the three backward kernels, where a GPU's record has all of them with the same parameters; and
of the kernels written for speed, where the speed benchmark has the same size on the same GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from explain.chapters.backward import memory
from explain.chapters.speed.results import Result, Variant
from explain.figures.numbers import count
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Point, Record


@dataclass(frozen=True)
class Case:
    """The points of all kernels of `memory.KERNELS`, in this order: time and memory, with the same inputs and tiles.

    `fast` are the kernels written for speed at this size, slowest first, with a source of their own. `bandwidth`: what
    HBM was measured to read, in bytes per second; 0 where it was not.
    """

    points: Sequence[Point]
    gpu: str
    source: str
    fast: Sequence[Variant] = ()
    fast_source: str = ""
    bandwidth: float = 0.0

    @property
    def name(self) -> str:
        """Its shape and tiles: “batch 4, 16 heads, N = 4,096, d = 64, bf16, tiles of 128 × 64”."""
        p = self.points[0].experiment.values
        causal = ", causal" * bool(p["causal"])
        return (
            f"batch {p['batch']}, {p['heads']} heads, N = {count(p['seq_len'])}, d = {p['head_dim']}, {p['dtype']}"
            f"{causal}, tiles of {p['block_m']} × {p['block_n']}"
        )


@kept
def cases(records: Iterable[Record], speed: Result | None = None) -> list[Case]:
    """What the first of these records that has such points has, first the cases that `speed` has too; empty if none."""
    found = next(filter(None, map(_cases, records)), [])
    return sorted((_beside(case, speed) for case in found), key=lambda case: not case.fast)


def _beside(case: Case, speed: Result | None) -> Case:
    """The case with the kernels that the speed benchmark measured at its size on its GPU."""
    p = case.points[0].experiment.values
    if speed is None or case.gpu != speed.provenance.gpu:
        return case
    if (p["kv_heads"], p["kv_len"]) != (p["heads"], p["seq_len"]):
        return case  # the benchmark's keys are as many as its queries, and each head has its own
    shape = tuple(p[name] for name in ("batch", "heads", "seq_len", "head_dim"))
    for one in speed.of("backward"):
        if (one.shape, one.dtype, one.causal) == (shape, p["dtype"], bool(p["causal"])):
            timed = [variant for variant in reversed(one.best) if variant.seconds is not None]
            return replace(case, fast=timed, fast_source=speed.source("backward"))
    return case


def _cases(record: Record) -> list[Case]:
    found = []
    for first in record.points.values():
        if first.experiment.kernel == memory.KERNELS[0]:
            points = [record.point(first.experiment.through(kernel)) for kernel in memory.KERNELS]
            timed = [point for point in points if point and point.timing and point.peak_bytes]
            if len(timed) == len(points):
                stale = " · the kernels have changed since" * any(map(is_stale, timed))
                where, roof = record.provenance_of(first).words + stale, record.roofs.get("hbm")
                found.append(Case(tuple(timed), record.gpu, where, bandwidth=roof.per_second if roof else 0.0))
    return found
