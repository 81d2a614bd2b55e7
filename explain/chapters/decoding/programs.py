"""How many programs a launch of Flash-Decoding has, how they fill a GPU, and what splitting the keys costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from explain.experiment import Experiment
from explain.gpus import Gpu
from explain.kept import kept
from kernels.parameters import MOST_SPLITS
from kernels.traffic import tiles
from kernels.traffic_decoding import merge_bytes

MODEL = "Llama 3.1 8B"
HEADS, KV_HEADS, HEAD_DIM, TILE, DTYPE = 32, 8, 128, 64, "fp16"
"""The heads of this model; keys per tile; a 16-bit type that every GPU has."""
LAYERS, PARAMETERS = 32, 8_000_000_000
"""Of that model."""


@dataclass(frozen=True)
class Filled:
    """One query per head over `kv_len` keys of each of `batch` sequences, the keys in `splits` parts."""

    batch: int
    kv_len: int
    splits: int

    @property
    def experiment(self) -> Experiment:
        """The run, in 16 bits. It is never executed: only its formula is read."""
        sizes = {"batch": self.batch, "heads": HEADS, "kv_heads": KV_HEADS, "kv_len": self.kv_len}
        tile = {"head_dim": HEAD_DIM, "dtype": DTYPE, "block_n": TILE}
        return Experiment.of("flash_decoding", {**sizes, **tile, "splits": self.splits}, "normal")

    @property
    def unsplit(self) -> int:
        """Programs of the first launch per split: one per sequence and head of keys."""
        return self.batch * KV_HEADS

    @property
    def launched(self) -> int:
        """Programs of the first launch. One without keys writes O = 0 and lse = −∞, and the merge reads them."""
        return self.unsplit * self.splits

    @property
    def tiles(self) -> int:
        """Tiles of keys of one sequence and head."""
        return tiles(self.kv_len, TILE)

    @property
    def parts(self) -> int:
        """Parts of a head's keys that have keys: at most as many as the cache has tiles."""
        return min(self.splits, self.tiles)

    @property
    def programs(self) -> int:
        """Programs of the first launch that have keys."""
        return self.unsplit * self.parts

    @property
    def cache_bytes(self) -> int:
        """Bytes of K and V. They are read once, for any number of splits."""
        return sum(term.bytes for term in self.experiment.traffic.terms if term.buffer in ("k", "v"))

    @property
    def merge_bytes(self) -> int:
        """Bytes of all parts' O and lse, written and read again."""
        return merge_bytes(self.experiment.values)

    def most_at_once(self, gpu: Gpu) -> int:
        """The most splits at which all programs run at the same time."""
        return splits_at_once(self.unsplit, gpu)

    def cliff(self, gpu: Gpu) -> bool:
        """Whether an SM reads more keys with one split more than `most_at_once`."""
        most = self.most_at_once(gpu)
        now, more = (replace(self, splits=splits).keys_in_turn(gpu) for splits in (most, most + 1))
        return more > now

    def waiting(self, gpu: Gpu) -> int:
        """Programs that wait at first, where each SM runs one at a time."""
        return max(self.programs - gpu.sms, 0)

    @kept
    def keys_of_sms(self, gpu: Gpu) -> Mapping[int, int]:
        """How many SMs read how many keys one after the other. A cache has whole tiles.

        The programs begin in the order of the launch, each on the SM that is free first. No program that begins now
        ends before the shortest one would: all SMs that are free until then take the next programs in one step.
        """
        sizes = [len(part) for part in shares(self.tiles, self.splits) if part]
        waiting, free = np.tile(sizes, self.unsplit), np.zeros(gpu.sms, int)
        while len(waiting):
            free.sort()
            begin = min(int(np.searchsorted(free, free[0] + min(sizes), "right")), len(waiting))
            free[:begin] += waiting[:begin]
            waiting = waiting[begin:]
        return Counter((TILE * free).tolist())

    def keys_in_turn(self, gpu: Gpu) -> int:
        """Keys that one SM reads one after the other, at most: the time to read the cache, in keys."""
        return max(self.keys_of_sms(gpu))


def shares(many: int, splits: int) -> tuple[range, ...]:
    """The tiles of each part, as the kernel shares them; a part may have none."""
    return tuple(range(part * many // splits, (part + 1) * many // splits) for part in range(splits))


def splits_at_once(programs: int, gpu: Gpu) -> int:
    """The largest number of splits for which all programs run in one round; without splits there are `programs`."""
    return min(max(gpu.sms // programs, 1), MOST_SPLITS)
