"""How the time of Flash-Decoding changes with the number of splits, as a GPU's record has it.

`python -m explain measure --plan splits` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explain.chapters.decoding.programs import HEAD_DIM, HEADS, KV_HEADS, TILE
from explain.experiment import Experiment

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
CACHES: tuple[tuple[int, int], ...] = ((1, 8192), (1, 131072), (16, 8192), (64, 8192))
"""(sequences, keys of each): a short and a long chat, and two batches"""
_TILE: Mapping[str, object] = MappingProxyType(
    {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "dtype": "bf16", "block_m": 16, "block_n": TILE}
)


def experiments(batch: int, kv_len: int) -> tuple[Experiment, ...]:
    """One query per head over a cache, at each of SPLITS, all else as it is."""
    sizes = {"batch": batch, "seq_len": 1, "kv_len": kv_len}
    return tuple(Experiment.of("flash_decoding", {**sizes, **_TILE, "splits": splits}, "normal") for splits in SPLITS)


TIMED = tuple(experiment for cache in CACHES for experiment in experiments(*cache))
