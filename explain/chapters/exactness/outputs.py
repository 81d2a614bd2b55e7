"""Is it exact? Outputs beside float64, element by element, and the same attention computed in other orders.

Imports neither torch nor triton: the runs are the trace worker's (`explain.run_experiment.run_output`), or were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from explain.experiment import Experiment
from explain.trace.model import Tile, Trace
from kernels import reference
from kernels.parameters import ITEM_BYTES, ORDERS, whole_number

Floats = NDArray[np.float64]

ANOTHER_ORDER = (16, 32, 64)
"""Tiles of keys to compare: each size adds up the same terms in another order."""


@dataclass(frozen=True, eq=False)
class Output:
    """A kernel's main output, its float64 reference, and the error allowed at each element; equal shapes, float64."""

    result: Floats
    expected: Floats
    allowed: Floats

    @classmethod
    def read(cls, path: Path) -> Output:
        """The output that a trace worker wrote."""
        with np.load(path) as arrays:
            return cls(*(arrays[name].astype(np.float64) for name in ("result", "expected", "allowed")))

    @property
    def error(self) -> Floats:
        """|result − float64| of every element; 0 where both are the same infinity or NaN."""
        with np.errstate(invalid="ignore"):
            same = (self.result == self.expected) | (np.isnan(self.result) & np.isnan(self.expected))
            return np.where(same, 0.0, np.abs(self.result - self.expected))

    @property
    def within_budget(self) -> bool:
        """Whether every element is as near to float64 as is allowed there."""
        return bool((self.error <= self.allowed).all())

    def quantile(self, share: float) -> float:
        """The error that this share of the elements stays within."""
        return float(np.quantile(self.error, share))

    def largest(self) -> float:
        """The largest error of any element."""
        return float(self.error.max())

    def of_rows(self) -> Floats:
        """The largest error of each row of the first head, (seq_len,)."""
        return self.of_head().max(axis=-1)

    def of_head(self) -> Floats:
        """The errors of the first head, (seq_len, head_dim)."""
        return self.error[0, 0]

    def other_bits(self, than: Output) -> int:
        """How many elements are not the very same number as in another run."""
        alike = (self.result == than.result) | (np.isnan(self.result) & np.isnan(than.result))
        return int((~alike).sum())


@dataclass(frozen=True)
class Way:
    """One way to compute the same thing: its name, and what to run."""

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
    """The same attention in several ways, FlashAttention-2 with the experiment's own tiles first."""
    own = flash(experiment)
    block_n = whole_number(own.values["block_n"])
    yield Way(f"FlashAttention-2, tiles of {block_n} keys", own)
    for other in ANOTHER_ORDER:
        if other != block_n:
            yield Way(f"tiles of {other} keys", own.with_(block_n=other))
    if not own.values["causal"]:
        yield Way("keys in the opposite order", own, reverse_keys=True)
    in_base_2 = experiment.through("flash_attention_exp2")
    yield Way("exp2 instead of exp", in_base_2)
    yield Way("standard attention", standard(experiment))


def merges(experiment: Experiment) -> Iterator[Way]:
    """The same softmax by parallel tiles, its pairs (m, ℓ) joined in each order."""
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
    """Every output that the page about this attention and this merged softmax shows, once."""
    seen: set[tuple[str, bool]] = set()
    every = [*ways(experiment), *merges(merged)]
    every += [Way("", one) for _, *pair in by_dtype(experiment) for one in pair]
    for way in every:
        if (place := (way.experiment.key, way.reverse_keys)) not in seen:
            seen.add(place)
            yield way


def after_each_tile(trace: Trace, experiment: Experiment) -> Floats:
    """The largest error of Õ / ℓ after each tile of keys, against float64 on the keys seen so far; NaN for tiles never visited.

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
    """Fills in one query tile's errors: `m_i` is what a visit sets last."""
    state: dict[str, Floats] = {}
    for step in range(first, first + steps):
        changes = trace.changes(step)
        for name in ("rows", "cols", "acc", "l_i"):
            if name in changes:
                value = changes[name]
                state[name] = value.numpy().astype(np.float64) if isinstance(value, Tile) else np.asarray(value.numpy())  # type: ignore[union-attr]
        if "m_i" in changes and "cols" in state:
            tile, rows = int(state["cols"][0]) // block_n, state["rows"].astype(int)
            expected = prefixes[tile]
            inside = rows < len(expected)
            o = state["acc"] / np.where(state["l_i"] == 0.0, 1.0, state["l_i"])[:, None]
            errors[tile] = np.abs(o[inside, : expected.shape[1]] - expected[rows[inside]]).max()
