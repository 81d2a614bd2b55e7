"""The schedule of a persistent kernel: which query tiles each program computes, with one program per SM.

Under a causal mask the last query tiles see all keys and the first almost none. A plain grid leaves most SMs idle at
the end while a few still have a long tile. So the host makes a list once per shape: longest tiles first, each given
to the program that will be free first (R. L. Graham, Bounds on multiprocessing timing anomalies, 1969, section 5).
The kernel reads its part of the list.
"""

from __future__ import annotations

import functools
import heapq

import numpy as np
import torch

START = 1
"""Cost of the prologue and epilogue of a query tile, in visits of a key tile."""
ROUNDS = 4
"""Tiles per program in one set of heads. Fewer heads at once keep more K and V in L2; more tiles balance better."""


def tile_visits(m_tiles: int, block_m: int, kv_len: int, block_n: int, diagonal: int | None) -> tuple[int, ...]:
    """How many tiles of `block_n` keys each tile of `block_m` queries visits.

    Query i sees keys up to i + diagonal; with diagonal None it sees all.
    """
    if diagonal is None:
        return (-(-kv_len // block_n),) * m_tiles
    keys = (min(kv_len, max((tile + 1) * block_m + diagonal, 1)) for tile in range(m_tiles))
    return tuple(-(-keys_seen // block_n) for keys_seen in keys)


@functools.lru_cache(maxsize=4)
def deal(heads: int, visits: tuple[int, ...], programs: int) -> list[list[int]]:
    """Each program's tiles, numbered head · len(visits) + tile, for at most `programs` programs, none idle."""
    same = len(set(visits)) == 1
    at_once = 1 if same else -(-ROUNDS * programs // len(visits))
    longest_first = sorted(range(len(visits)), key=lambda tile: -visits[tile])
    lists: list[list[int]] = [[] for _ in range(min(programs, heads * len(visits)))]
    done = [(0, program) for program in range(len(lists))]  # (when it is free, program): a heap
    for first in range(0, heads, at_once):
        for tile in longest_first:
            for head in range(first, min(first + at_once, heads)):
                busy, program = done[0]
                lists[program].append(head * len(visits) + tile)
                heapq.heapreplace(done, (busy + visits[tile] + START, program))
    return lists


def longest(heads: int, visits: tuple[int, ...], programs: int, start: float) -> float:
    """The work of the longest program, in visits of a key tile. A query tile costs `start` visits more."""
    if len(set(visits)) == 1:
        return -(-heads * len(visits) // programs) * (visits[0] + start)
    dealt = deal(heads, visits, programs)
    return max(sum(visits[tile % len(visits)] + start for tile in own) for own in dealt)


@functools.lru_cache(maxsize=1024)  # many: a captured CUDA graph keeps reading its lists
def lists(
    heads: int, visits: tuple[int, ...], programs: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """The lists for a kernel, int32 on the device: counts (programs,) and tiles (most tiles + 1, programs).

    Program i has tiles[: counts[i], i]. The first tile's place needs no count, so both are loaded at once; and a tile
    may be loaded before it is known that there is one.
    """
    dealt = deal(heads, visits, programs)
    counts = np.array([len(own) for own in dealt], dtype=np.int32)
    tiles = np.zeros((counts.max() + 1, len(dealt)), dtype=np.int32)
    for program, own in enumerate(dealt):
        tiles[: len(own), program] = own
    return torch.from_numpy(counts).to(device), torch.from_numpy(tiles).to(device)
