"""The same attention and the same softmax, computed in other orders of addition; the error over many tiles of keys.

Imports neither torch nor triton.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.experiment import Experiment
from explain.lessons import EXACT
from explain.output import Floats
from kernels.parameters import ITEM_BYTES, ORDERS, whole_number

ANOTHER_ORDER = (16, 32, 64)
"""BLOCK_N of the tiles to compare: each size adds the same terms in another order."""
TILES = (4, 16, 64, 256, 1024)
"""Numbers of key tiles after which a long row's errors are taken."""


@dataclass(frozen=True)
class Way:
    """One way to compute the same result: its name, and what to run."""

    name: str
    experiment: Experiment
    reverse_keys: bool = False


def flash(experiment: Experiment) -> Experiment:
    """The same experiment by FlashAttention-2."""
    return experiment.through("flash_attention")


def standard(experiment: Experiment) -> Experiment:
    """The same experiment by standard attention."""
    return experiment.through("attention_standard")


@functools.lru_cache(maxsize=128)
def ways(experiment: Experiment) -> Sequence[Way]:
    """FlashAttention-2 in several orders of addition, the experiment's own tiles first."""
    own = flash(experiment)
    block_n = whole_number(own.values["block_n"])
    found = [Way(f"FlashAttention-2, tiles of {block_n} keys", own)]
    found += [Way(f"tiles of {other} keys", own.with_(block_n=other)) for other in ANOTHER_ORDER if other != block_n]
    if not own.values["causal"]:
        found.append(Way("keys in reverse order", own, reverse_keys=True))
    return (*found, Way("exp2 instead of exp", experiment.through("flash_attention_exp2")))


@functools.lru_cache(maxsize=128)
def same_maximum(one: Way, other: Way) -> NDArray[np.bool_]:
    """(queries,) of head 0: whether both ways have the same running maximum m at every key."""
    left, right = _running_maximum(one), _running_maximum(other)
    same: NDArray[np.bool_] = (left == right).all(axis=1)
    return same


def _running_maximum(way: Way) -> Floats:
    """m of head 0 when each key is added, in float64 without sm_scale; (queries, keys in their own order)."""
    p = way.experiment.values
    arrays = way.experiment.make_inputs()
    scores = arrays["q"][0, 0].astype(np.float64) @ arrays["k"][0, 0].astype(np.float64).T
    if p["causal"]:
        keys, rows = np.arange(p["kv_len"]), np.arange(p["seq_len"])
        scores[keys > rows[:, None] + p["kv_len"] - p["seq_len"]] = -np.inf
    order = slice(None, None, -1 if way.reverse_keys else 1)
    seen = np.maximum.accumulate(scores[:, order], axis=1)
    ends = np.minimum((np.arange(p["kv_len"]) // p["block_n"] + 1) * p["block_n"], p["kv_len"]) - 1
    return seen[:, ends][:, order]


@functools.lru_cache(maxsize=128)
def merges(experiment: Experiment) -> Sequence[Way]:
    """The same softmax by parallel tiles, its pairs (m, ℓ) merged in each order."""
    split = experiment.through("softmax_split")
    return tuple(Way(order, split.with_(order=order)) for order in ORDERS)


@functools.lru_cache(maxsize=128)
def by_dtype(experiment: Experiment) -> Sequence[tuple[str, Experiment, Experiment]]:
    """(dtype, FlashAttention-2, standard attention) for each dtype; each has inputs of its own precision.

    Standard attention keeps the chapter's tile: a tile that a reader chooses is FlashAttention's.
    """
    tile = {name: EXACT.values[name] for name in ("block_m", "block_n")}
    each = [experiment.with_(dtype=dtype) for dtype in ITEM_BYTES]
    return tuple((one.values["dtype"], flash(one), standard(one.with_(**tile))) for one in each)


def shipped(experiment: Experiment, merged: Experiment) -> Iterator[Way]:
    """Every output that the page shows for this attention and this merged softmax, once."""
    seen: set[tuple[str, bool]] = set()
    every = [*ways(experiment), *merges(merged)]
    every += [Way("", one) for _, *pair in by_dtype(experiment) for one in pair]
    for way in every:
        if (place := (way.experiment.key, way.reverse_keys)) not in seen:
            seen.add(place)
            yield way


@functools.cache
def long_rows(dtype: str) -> tuple[tuple[int, float, float], ...]:
    """(tiles, error of ℓ, error of O) after each number of `TILES`, for P̃ and V rounded to `dtype`, fp32 or fp16.

    FlashAttention's recurrence in NumPy on normal scores; m, ℓ and Õ in float32. An error is a median |result −
    float64|, relative to ℓ itself and to the median |O|.
    """
    narrow = {"fp32": np.float32, "fp16": np.float16}[dtype]
    rows, keys, head_dim = 256, 16, 16
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((rows, keys * TILES[-1])).astype(np.float32)
    v = rng.standard_normal((keys * TILES[-1], head_dim)).astype(narrow).astype(np.float32)
    m = np.full((rows, 1), -np.inf, np.float32)
    total, acc = np.zeros((rows, 1), np.float32), np.zeros((rows, head_dim), np.float32)
    found = []
    for tile in range(TILES[-1]):
        at = slice(tile * keys, (tile + 1) * keys)
        new = np.maximum(m, scores[:, at].max(axis=1, keepdims=True))
        alpha, p = np.exp(m - new), np.exp(scores[:, at] - new)
        total = total * alpha + p.sum(axis=1, keepdims=True)
        acc, m = acc * alpha + p.astype(narrow).astype(np.float32) @ v[at], new
        if tile + 1 in TILES:
            exact = np.exp(scores[:, : at.stop].astype(np.float64) - m)
            expected = exact.sum(axis=1, keepdims=True)
            o = exact @ v[: at.stop].astype(np.float64) / expected
            found.append((
                tile + 1,
                float(np.median(np.abs(total - expected) / expected)),
                float(np.median(np.abs(acc / total - o)) / np.median(np.abs(o))),
            ))  # fmt: skip
    return tuple(found)
