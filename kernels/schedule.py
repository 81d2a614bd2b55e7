"""Which program takes which tiles of rows, where there are as many programs as SMs and tiles are not equally long.

Under a causal mask the last rows see all keys and the first almost none. A grid that deals tiles out one by one leaves most SMs idle at the end, while a
few still have a long one. So a list is made on the host, once for a shape: the longest tiles first, each to the program that will be done first (R. L.
Graham, Bounds on multiprocessing timing anomalies, 1969, section 5). The kernel reads its part of the list; any lengths of rows and keys are balanced alike.
"""

from __future__ import annotations

import functools
import heapq

import numpy as np
import torch

START = 1
"""What beginning and ending a tile of rows costs, in visits of a tile of keys."""
ROUNDS = 4
"""Tiles for each program in one set of heads: the fewer heads at once, the more of their K and V is still in L2; the more tiles, the better they fill up."""


def tile_visits(m_tiles: int, block_m: int, kv_len: int, block_n: int, diagonal: int | None) -> tuple[int, ...]:
    """How many tiles of `block_n` keys each tile of `block_m` rows visits. Row i sees keys up to i + diagonal; with None it sees all."""
    if diagonal is None:
        return (-(-kv_len // block_n),) * m_tiles
    keys = (min(kv_len, max((tile + 1) * block_m + diagonal, 1)) for tile in range(m_tiles))
    return tuple(-(-keys_seen // block_n) for keys_seen in keys)


def deal(heads: int, visits: tuple[int, ...], programs: int) -> list[list[int]]:
    """Each program's tiles, head · len(visits) + tile, for at most `programs` programs, none of them idle."""
    same = len(set(visits)) == 1
    at_once = 1 if same else -(-ROUNDS * programs // len(visits))
    longest_first = sorted(range(len(visits)), key=lambda tile: -visits[tile])
    lists: list[list[int]] = [[] for _ in range(min(programs, heads * len(visits)))]
    done = [(0, program) for program in range(len(lists))]  # when each will be done: a heap, the first at its top
    for first in range(0, heads, at_once):
        for tile in longest_first:
            for head in range(first, min(first + at_once, heads)):
                busy, program = done[0]
                lists[program].append(head * len(visits) + tile)
                heapq.heapreplace(done, (busy + visits[tile] + START, program))
    return lists


@functools.lru_cache(maxsize=1024)  # many, since a captured graph goes on reading what it was launched with
def lists(
    heads: int, m_tiles: int, block_m: int, kv_len: int, block_n: int, diagonal: int | None, programs: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The lists for a kernel, int32 on the device: where each program's begins, with the end behind (programs + 1), and all tiles, one list after another."""
    dealt = deal(heads, tile_visits(m_tiles, block_m, kv_len, block_n, diagonal), programs)
    starts = np.cumsum([0, *map(len, dealt)], dtype=np.int32)
    tiles = np.concatenate([np.array(one, dtype=np.int32) for one in dealt])
    return torch.from_numpy(starts).to(device), torch.from_numpy(tiles).to(device)
