"""The same attention and the same softmax, computed in other orders of addition, and the error after each tile of keys.

Imports neither torch nor triton.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.experiment import Experiment
from explain.output import Floats
from explain.trace.model import Trace, numbers
from kernels import reference
from kernels.parameters import ITEM_BYTES, ORDERS, whole_number

ANOTHER_ORDER = (16, 32, 64)
"""BLOCK_N of the tiles to compare: each size adds the same terms in another order."""


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


def ways(experiment: Experiment) -> Iterator[Way]:
    """FlashAttention-2 in several orders of addition, the experiment's own tiles first."""
    own = flash(experiment)
    block_n = whole_number(own.values["block_n"])
    yield Way(f"FlashAttention-2, tiles of {block_n} keys", own)
    for other in ANOTHER_ORDER:
        if other != block_n:
            yield Way(f"tiles of {other} keys", own.with_(block_n=other))
    if not own.values["causal"]:
        yield Way("keys in reverse order", own, reverse_keys=True)
    yield Way("exp2 instead of exp", experiment.through("flash_attention_exp2"))


def same_maximum(one: Way, other: Way) -> NDArray[np.bool_]:
    """(queries,) of head 0: whether both ways have the same running maximum m at every key."""
    left, right = _running_maximum(one), _running_maximum(other)
    same: NDArray[np.bool_] = (left == right).all(axis=1)
    return same


def _running_maximum(way: Way) -> Floats:
    """m of head 0 when each key is added, in float64 without sm_scale; (queries, keys in their own order)."""
    p = way.experiment.values
    arrays = way.experiment.entry.make_inputs(way.experiment.preset, p, way.experiment.seed)
    scores = arrays["q"][0, 0].astype(np.float64) @ arrays["k"][0, 0].astype(np.float64).T
    if p["causal"]:
        keys, rows = np.arange(p["kv_len"]), np.arange(p["seq_len"])
        scores[keys > rows[:, None] + p["kv_len"] - p["seq_len"]] = -np.inf
    order = slice(None, None, -1 if way.reverse_keys else 1)
    seen = np.maximum.accumulate(scores[:, order], axis=1)
    ends = np.minimum((np.arange(p["kv_len"]) // p["block_n"] + 1) * p["block_n"], p["kv_len"]) - 1
    return seen[:, ends][:, order]


def merges(experiment: Experiment) -> Iterator[Way]:
    """The same softmax by parallel tiles, its pairs (m, ℓ) merged in each order."""
    for order in ORDERS:
        yield Way(
            order,
            Experiment.of("softmax_split", {**experiment.values, "order": order}, experiment.inputs, experiment.seed),
        )


def by_dtype(experiment: Experiment) -> Iterator[tuple[str, Experiment, Experiment]]:
    """(dtype, FlashAttention-2, standard attention) for each dtype; each has inputs of its own precision."""
    for dtype in ITEM_BYTES:
        changed = experiment.with_(dtype=dtype)
        yield dtype, flash(changed), standard(changed)


def shipped(experiment: Experiment, merged: Experiment) -> Iterator[Way]:
    """Every output that the page shows for this attention and this merged softmax, once."""
    seen: set[tuple[str, bool]] = set()
    every = [*ways(experiment), *merges(merged)]
    every += [Way("", one) for _, *pair in by_dtype(experiment) for one in pair]
    for way in every:
        if (place := (way.experiment.key, way.reverse_keys)) not in seen:
            seen.add(place)
            yield way


def after_each_tile(trace: Trace, experiment: Experiment) -> Floats:
    """The largest error of Õ / ℓ after each tile of keys, against float64 on the keys seen so far; NaN for tiles that
    are never visited.

    (query tiles, key tiles) of the first head; `trace` is flash_attention's.
    """
    p = experiment.values
    arrays = experiment.entry.make_inputs(experiment.preset, p, experiment.seed)
    q, k, v = (arrays[name][:1, :1] for name in "qkv")
    tiles = (-(-p["seq_len"] // p["block_m"]), -(-p["kv_len"] // p["block_n"]))
    errors = np.full(tiles, np.nan)
    prefixes = [
        reference.attention(
            q, k[:, :, :end], v[:, :, :end], causal=p["causal"], diagonal=p["kv_len"] - p["seq_len"]
        )[0][0, 0]
        for end in range(p["block_n"], tiles[1] * p["block_n"] + 1, p["block_n"])
    ]  # fmt: skip
    for program in trace.launches[0].recorded:
        if program.id[1] == 0:
            _follow(trace, program.first_step, program.steps, p["block_n"], prefixes, errors[program.id[0]])
    return errors


def _follow(trace: Trace, first: int, steps: int, block_n: int, prefixes: list[Floats], errors: Floats) -> None:
    """Fills in one query tile's errors: a visit sets `m_i` last."""
    state: dict[str, Floats] = {}
    for step in range(first, first + steps):
        changes = trace.changes(step)
        for name in ("rows", "cols", "acc", "l_i"):
            if name in changes:
                state[name] = numbers(changes[name]).astype(np.float64)
        if "m_i" in changes and "cols" in state:
            tile, rows = int(state["cols"][0]) // block_n, state["rows"].astype(int)
            expected = prefixes[tile]
            inside = rows < len(expected)
            o = state["acc"] / np.where(state["l_i"] == 0.0, 1.0, state["l_i"])[:, None]
            errors[tile] = np.abs(o[inside, : expected.shape[1]] - expected[rows[inside]]).max()
