"""How the time of Flash-Decoding changes with the number of splits, as a GPU's record has it.

`python -m explain measure --plan splits` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from explain.chapters.decoding.programs import HEAD_DIM, HEADS, KV_HEADS, TILE, Filled
from explain.chapters.decoding.rates import bandwidth, rated
from explain.experiment import Experiment
from explain.figures.numbers import si
from explain.gpus import GPUS, Gpu, known_as
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Record

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
CACHES: tuple[tuple[int, int], ...] = ((1, 8192), (1, 131072), (16, 8192), (64, 8192))
"""(sequences, keys of each): a short and a long chat, and two batches"""
DTYPE = "bf16"
ROWS = 16
"""Rows of the tile of queries: the heads that share keys fill some of them, the others are masked."""
_TILE: Mapping[str, object] = MappingProxyType(
    {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "dtype": DTYPE, "block_m": ROWS, "block_n": TILE}
)


def experiments(batch: int, kv_len: int) -> tuple[Experiment, ...]:
    """One query per head over a cache, at each of SPLITS, all else as it is."""
    sizes = {"batch": batch, "seq_len": 1, "kv_len": kv_len}
    return tuple(Experiment.of("flash_decoding", {**sizes, **_TILE, "splits": splits}, "normal") for splits in SPLITS)


TIMED = tuple(experiment for cache in CACHES for experiment in experiments(*cache))


@dataclass(frozen=True)
class Curve:
    """The median seconds of one cache by number of splits; `floor`: the least, to read K and V once."""

    batch: int
    kv_len: int
    seconds: Mapping[int, float]
    floor: float

    @property
    def shape(self) -> tuple[int, ...]:
        """As the benchmark of the fast kernels has it: batch, heads, heads of keys, keys, d."""
        return self.batch, HEADS, KV_HEADS, self.kv_len, HEAD_DIM

    @property
    def cache_bytes(self) -> int:
        """Bytes of K and V."""
        return Filled(self.batch, self.kv_len, 1).cache_bytes

    def merge_bytes(self, splits: int) -> int:
        """Bytes of all parts' O and lse, written and read again."""
        return Filled(self.batch, self.kv_len, splits).merge_bytes

    @property
    def unsplit(self) -> int:
        """Programs of the first launch per split."""
        return self.batch * KV_HEADS

    @property
    def best(self) -> int:
        """The fastest number of splits."""
        return min(self.seconds, key=self.seconds.__getitem__)

    @property
    def programs(self) -> int:
        """Programs at the fastest number of splits."""
        return self.unsplit * self.best

    def best_at_once(self, gpu: Gpu) -> int | None:
        """The fastest number of splits with at most one program per SM; None if one split has more."""
        once = [splits for splits in self.seconds if self.unsplit * splits <= gpu.sms]
        return min(once, key=self.seconds.__getitem__, default=None)

    @property
    def over_floor(self) -> float:
        """The time of the fastest run, as a multiple of the time to read K and V."""
        return self.seconds[self.best] / self.floor

    def over_best(self, splits: int) -> float:
        """The time at that number of splits, as a multiple of the fastest."""
        return self.seconds[splits] / self.seconds[self.best]


@dataclass(frozen=True)
class Curves:
    """What a GPU's record has of all CACHES; `where` and when it was measured, and `how` it is drawn."""

    gpu: Gpu
    curves: Sequence[Curve]
    where: str
    how: str

    @property
    def source(self) -> str:
        return f"{self.where} · {self.how}"

    def of(self, filled: Filled, gpu: Gpu) -> Curve | None:
        """The curve of this cache, if it was measured on this GPU."""
        same = (one for one in self.curves if (one.batch, one.kv_len) == (filled.batch, filled.kv_len))
        return next(same, None) if gpu.name == self.gpu.name else None

    def nearest(self, batch: int, kv_len: int) -> Sequence[Curve]:
        """The caches with the most similar number of sequences, and of these with the most similar number of keys."""

        def distance(one: Curve) -> tuple[float, float]:
            return abs(math.log2(one.batch / batch)), abs(math.log2(one.kv_len / kv_len))

        least = min(map(distance, self.curves))
        return [one for one in self.curves if distance(one) == least]


@kept
def curves_of_some(records: Sequence[Record], gpu: Gpu) -> Curves | None:
    """The GPU's curves, or those of the first recorded GPU that has all caches."""
    others = (rated(GPUS[name], records) for one in records if (name := known_as(one.gpu)))
    return next(filter(None, (curves(records, one) for one in (gpu, *others))), None)


@kept
def curves(records: Sequence[Record], gpu: Gpu) -> Curves | None:
    """What the first of the GPU's records that has all caches has, beside the GPU's bandwidth."""
    return next(filter(None, (_curves(one, gpu) for one in records if known_as(one.gpu) == gpu.name)), None)


def _curves(record: Record, gpu: Gpu) -> Curves | None:
    points = {one: record.point(one) for one in TIMED}
    timed = {one.key: point for one, point in points.items() if point and point.seconds}
    if len(timed) < len(TIMED):
        return None
    rate = gpu.hbm_bytes_per_second
    found = []
    for batch, kv_len in CACHES:
        runs = experiments(batch, kv_len)
        cache = sum(term.bytes for term in runs[0].traffic.terms if term.buffer in ("k", "v"))
        seconds = {run.values["splits"]: point.seconds for run in runs if (point := points[run]) and point.seconds}
        found.append(Curve(batch, kv_len, seconds, cache / rate))
    where = replace(record.provenance, date=replace(record, points=timed).dates).words
    stale = " · the kernels have changed since" * any(map(is_stale, timed.values()))
    dashed = f"dashed: bytes of K and V ÷ {si(rate, 'B/s')}, {bandwidth(gpu)}"
    sizes = (
        f"one query per head, {HEADS} query heads, {KV_HEADS} heads of keys, d = {HEAD_DIM}, "
        f"{DTYPE}, tiles of {ROWS} × {TILE} · both launches, medians, L2 cleared before each run"
    )
    return Curves(gpu, tuple(found), f"recorded · {where}{stale}", f"{sizes} · both axes logarithmic · {dashed}")
