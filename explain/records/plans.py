"""What `python -m explain measure` measures: named plans, each a list of experiments and what to measure of them.

A list that one chapter shows is in its room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain.chapters.decoding import splits
from explain.chapters.flash_attention import tiles
from explain.chapters.papers import flashattention, milakov
from explain.chapters.speed import lengths, rungs
from explain.chapters.sweeps.model import PAIR, RECORDED
from explain.experiment import Experiment
from kernels.catalog import KERNELS, TAUGHT
from kernels.parameters import WHOLE_ROW_TILE, ParameterError


@dataclass(frozen=True)
class Plan:
    """Experiments, and what to measure: counters, times, why warps wait (`stalls`), the GPU's limits (`roofs`)."""

    name: str
    about: str
    experiments: tuple[Experiment, ...] = ()
    counters: bool = True
    timing: bool = True
    roofs: bool = False
    stalls: bool = False


SOFTMAX = ((4096, 8192), (2048, 32768), (4096, 32768))
"""(rows, cols) of float32: inputs beyond the L2 of any GPU here"""
ATTENTION = ((4, 16, 4096, 64), (4, 16, 8192, 64), (2, 16, 8192, 128))
"""(batch, heads, seq_len, head_dim) of bfloat16"""
LOSS = ((512, 200_019, 256), (1024, 128_256, 256), (2048, 128_256, 256))
"""(tokens, vocab, dim) of bfloat16: W is larger than an H200's L2; the taught backward kernel takes 256 dimensions"""
_SIZES = {
    "softmax": (("rows", "cols"), SOFTMAX),
    "attention": (("batch", "heads", "seq_len", "head_dim"), ATTENTION),
    "loss": (("tokens", "vocab", "dim"), LOSS),
}
Tiles = Mapping[str, Mapping[str, object]]
_TILES: Tiles = {"softmax_tiled": {"block_m": 4, "block_n": 1024}, "softmax_topk": {"block_n": 1024}}
_FAMILY_TILES: Tiles = {
    "softmax": {"block_n": 4096},
    "attention": {"dtype": "bf16", "block_m": 128, "block_n": 64},
    "loss": {"dtype": "bf16", "block_m": 64, "block_n": 64},
}
_DECODED = (("batch", "heads", "kv_heads", "seq_len", "kv_len", "head_dim"),
            ((16, 32, 8, 1, 8192, 128), (1, 32, 8, 1, 131072, 128), (16, 32, 8, 4, 8192, 128)))  # fmt: skip
"""A batch, one long sequence, and four queries to verify: caches of 537 MB in bfloat16."""
_SPLIT: Mapping[str, object] = {"dtype": "bf16", "block_m": 16, "block_n": 64, "splits": 16}
MEASURED = tuple(name for name, entry in TAUGHT.items() if entry.family in _FAMILY_TILES)
"""The kernels to learn from that have sizes to be measured at."""


def sizes(kernel: str) -> tuple[Experiment, ...]:
    """One of MEASURED at three sizes, inputs of 100 MB and more. Raises ParameterError for another name."""
    if kernel not in MEASURED:
        raise ParameterError("kernel", kernel, f"must be one of {', '.join(MEASURED)}")
    entry = KERNELS[kernel]
    few_queries = entry.shares_keys
    tile = dict(_SPLIT if few_queries else _TILES.get(kernel, _FAMILY_TILES[entry.family]))
    if WHOLE_ROW_TILE in entry.parameters:
        del tile["block_n"]  # its default is the row's
    names, all_sizes = _DECODED if few_queries else _SIZES[entry.family]
    return tuple(Experiment.of(kernel, {**dict(zip(names, size, strict=True)), **tile}, "normal") for size in all_sizes)


_TIMED_AT = {"softmax": 2, "attention": 0}
"""The size at which a family's tiles are timed."""


def _tiles(kernel: str) -> tuple[Experiment, ...]:
    """The tiles of a kernel that the tile-cost page compares, at one of its sizes. None where a tile is the row, and
    none of a loss: at the compiled tile's small d its few programs wait most of the time.
    """
    if WHOLE_ROW_TILE in KERNELS[kernel].parameters or KERNELS[kernel].family not in _TIMED_AT:
        return ()
    size = sizes(kernel)[_TIMED_AT[KERNELS[kernel].family]].values
    compiled = tiles.compared(tiles.compiled_as(kernel, tiles.opening(kernel)))
    own = [{name: one.values[name] for name in tiles.settings(kernel)} for one in compiled]
    return tuple(Experiment.of(kernel, {**size, **one}, "normal") for one in own)


PLANS: Mapping[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan(
            "times",  # the first, so that a first call is one: nothing else has compiled these kernels before
            "Attention as N grows, standard and Flash",
            tuple(experiment for pair in zip(*map(lengths.experiments, PAIR), strict=True) for experiment in pair),
            counters=False,
        ),
        Plan(
            "levels",
            "Teaching kernels, three large sizes",
            tuple(experiment for kernel in MEASURED for experiment in sizes(kernel)),
        ),
        Plan("sweeps", "Sweeps over N, d, tiles, dtype, mask and batch", RECORDED),
        Plan(
            "tiles",
            "Tiles: the tables of What does a tile cost?",
            tuple(one for kernel in MEASURED for one in _tiles(kernel)),
        ),
        Plan("splits", "Flash-Decoding: one query over a cache, 1 to 128 splits", splits.TIMED, counters=False),
        Plan("milakov-counters", "Milakov & Gimelshein, figure 1, bytes counted", milakov.COUNTED),
        Plan("milakov", "Milakov & Gimelshein, figures 1 to 4", milakov.TIMED, counters=False),
        Plan("flashattention", "FlashAttention, figure 2 and theorem 2", flashattention.COUNTED),
        Plan("flashattention-memory", "FlashAttention, tables 20 and 21: memory", flashattention.TIMED, counters=False),
        Plan("rungs", "Attention: the ladder, Hopper and PyTorch", rungs.COUNTED, stalls=True),
        Plan("roofs", "What the memories and the arithmetic units give at best", roofs=True),
    )
}
