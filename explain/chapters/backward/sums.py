"""dQ as a sum of parts, one for each key tile, in every order of the programs; from a trace of the atomic kernel."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from explain.beats import beats
from explain.experiment import Experiment
from explain.held import Held
from explain.trace.model import Tile, Trace, numbers

MOST_ORDERS = 120
Part = NDArray[np.float32]


@dataclass(frozen=True)
class Order:
    """dQ's sum in one order of the key tiles: how many elements differ from the first order, and the largest error.

    `error` is relative to float64's sum of the same parts, in units of the largest |dQ|.
    """

    tiles: tuple[int, ...]
    changed: int
    error: float


@functools.lru_cache(maxsize=64)
def parts(trace: Trace) -> Part:
    """What each key tile adds to dQ of the first head, unscaled: (key tiles, queries, features) float32, in order."""
    experiment = Experiment.from_json(trace.experiment)
    p, roles = experiment.values, experiment.entry.roles
    found = np.zeros((-(-p["kv_len"] // p["block_n"]), p["seq_len"], p["head_dim"]), np.float32)
    rows, gradients = (Held(trace, roles[role]) for role in ("rows", "queries_gradient"))
    for beat in beats(trace, roles):
        if beat.kind != "write" or "dq_sum" not in beat.names or beat.tile < 0:
            continue
        tile, head = trace.program(beat.at).id[:2]
        if head:
            continue
        of_rows, dq = rows.after(beat.at), gradients.after(beat.at)
        if of_rows is not None and isinstance(dq, Tile):
            own = numbers(of_rows)
            inside = own < p["seq_len"]
            found[tile, own[inside]] = dq.numpy()[inside, : p["head_dim"]]
    return found


def summed(of: Part, tiles: tuple[int, ...]) -> Part:
    """The parts added one after the other in float32, as memory adds them."""
    total = np.zeros(of.shape[1:], np.float32)
    for tile in tiles:
        total = total + of[tile]
    return total


@functools.lru_cache(maxsize=64)
def orders(trace: Trace) -> list[Order]:
    """The sum in the programs' first order, then in every other one, or in the first `MOST_ORDERS`."""
    of = parts(trace)
    first = summed(of, tuple(range(len(of))))
    exact = of.astype(np.float64).sum(axis=0)
    largest = float(np.abs(exact).max()) or 1.0
    found = []
    for tiles in islice(permutations(range(len(of))), MOST_ORDERS):
        total = summed(of, tiles)
        found.append(Order(tiles, int((total != first).sum()), float(np.abs(total - exact).max()) / largest))
    return found


def lost(trace: Trace) -> float:
    """The largest error if one addition is lost, in units of the largest |dQ|: two programs read the same old sum,
    both add to it, and the later store overwrites the earlier one.
    """
    of = parts(trace).astype(np.float64)
    return float(np.abs(of[0]).max() / (np.abs(of.sum(axis=0)).max() or 1.0))
