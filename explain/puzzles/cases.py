"""The experiments that an answer must pass: few and small, for an answer within a second, chosen to expose errors.

Each preset meets two shapes: the first of its kernel, which has several tiles and a partial last one, and one of the
others in turn. The three dtypes take turns too. `kernels/` has a far larger grid for our own kernels
(`explain/verification.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from explain.experiment import Experiment
from explain.verification import SYNTHETIC
from kernels.catalog import Kernel
from kernels.parameters import ITEM_BYTES, ORDERS, WHOLE_ROW_TILE, next_power_of_two

Only = Literal["", "plain", "causal", "grouped"]
Shape = Mapping[str, Any]

_TILES = {"block_m": 16, "block_n": 16}
_PLAIN: tuple[Shape, ...] = (
    {"seq_len": 5, "kv_len": 37, "head_dim": 24, **_TILES},
    {"seq_len": 1, "kv_len": 1, "head_dim": 16, **_TILES},
    {"seq_len": 32, "kv_len": 32, "head_dim": 32, **_TILES},
    {"seq_len": 20, "kv_len": 48, "head_dim": 80, "block_m": 32, "block_n": 16},
    {"batch": 2, "heads": 2, "seq_len": 3, "kv_len": 17, "head_dim": 16, **_TILES},
)
_CAUSAL: tuple[Shape, ...] = (
    {"seq_len": 20, "kv_len": 33, "head_dim": 24, "causal": True, **_TILES},
    {"seq_len": 1, "kv_len": 1, "head_dim": 16, "causal": True, **_TILES},
    {"seq_len": 32, "kv_len": 32, "head_dim": 32, "causal": True, **_TILES},
    # More queries than keys: the first 17 see no key.
    {"seq_len": 37, "kv_len": 20, "head_dim": 16, "causal": True, "block_m": 16, "block_n": 32},
    {"batch": 2, "heads": 2, "seq_len": 3, "kv_len": 17, "head_dim": 16, "causal": True, **_TILES},
)
_GROUPED: tuple[Shape, ...] = (
    {"heads": 2, "kv_heads": 1, "seq_len": 5, "kv_len": 37, "head_dim": 24, "causal": True, **_TILES},
    {"heads": 2, "kv_heads": 1, "seq_len": 1, "kv_len": 1, "head_dim": 16, **_TILES},
    {"heads": 4, "kv_heads": 2, "seq_len": 3, "kv_len": 17, "head_dim": 16, **_TILES},
    {"heads": 3, "kv_heads": 1, "seq_len": 5, "kv_len": 32, "head_dim": 32, **_TILES},
    {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 3, "kv_len": 3, "head_dim": 16, "causal": True, **_TILES},
)
_ANY = (*_CAUSAL[:1], *_PLAIN[:2], *_CAUSAL[2:4], _PLAIN[4], _GROUPED[2])
_ATTENTION: Mapping[Only, tuple[Shape, ...]] = {"": _ANY, "plain": _PLAIN, "causal": _CAUSAL, "grouped": _GROUPED}
# Three launches, one of them with a program for each row: few rows.
_STANDARD: tuple[Shape, ...] = (
    {"seq_len": 2, "kv_len": 33, "head_dim": 24, **_TILES},
    {"seq_len": 1, "kv_len": 1, "head_dim": 16, **_TILES},
    {"seq_len": 17, "kv_len": 16, "head_dim": 16, **_TILES},
    {"seq_len": 3, "kv_len": 17, "head_dim": 80, "block_m": 16, "block_n": 32},
    {"batch": 2, "heads": 2, "seq_len": 1, "kv_len": 17, "head_dim": 16, **_TILES},
)
_STANDARD_MASKED: tuple[Shape, ...] = (
    {"seq_len": 3, "kv_len": 20, "head_dim": 24, "causal": True, **_TILES},
    *_STANDARD[1:],
    {"seq_len": 5, "kv_len": 3, "head_dim": 16, "causal": True, **_TILES},
    {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 1, "kv_len": 3, "head_dim": 16, "causal": True, **_TILES},
)
_NOTEBOOK: Mapping[Only, Shape] = {"causal": {"causal": True}, "grouped": {"heads": 2, "kv_heads": 1}}
_BACKWARD = tuple(
    {name: value for name, value in shape.items() if name != "causal"} for shape in (_CAUSAL[0], *_PLAIN[1:])
)
_WITHOUT_INFINITY = (
    "normal", "ascending", "descending", "constant", "one_hot", "large_magnitude", "made:offset=-200",
    "spike_last_tile", "edge",
)  # fmt: skip
"""For a kernel that multiplies K by weights of 0: 0 · ∞ would be NaN, in float64 too."""
_COLUMNS, _TILE = (70, 1, 31, 32, 33, 64), 32
_KEPT = {1: 1, 31: 32, 32: 2, 33: 5, 64: 10, 70: 5}  # K; may exceed the number of elements in a row


def cases(kernel: Kernel, only: Only) -> Iterator[Experiment]:
    """The experiments of a kernel; `only` restricts the shapes of attention."""
    shapes, dtypes = _shapes(kernel, only), tuple(ITEM_BYTES)
    yield Experiment.of(kernel.name, _NOTEBOOK.get(only, {}), "notebook")
    for turn, preset in enumerate(_WITHOUT_INFINITY if _multiplies_keys(kernel) else SYNTHETIC):
        for shape, dtype in ((shapes[0], turn), (shapes[1 + turn % (len(shapes) - 1)], turn + 2)):
            yield Experiment.of(kernel.name, {**shape, "dtype": dtypes[dtype % len(dtypes)]}, preset)


def _shapes(kernel: Kernel, only: Only) -> Sequence[Shape]:
    names = {parameter.name for parameter in kernel.parameters}
    if _multiplies_keys(kernel):
        return _BACKWARD
    if kernel.stores_scores:
        return _STANDARD if only else _STANDARD_MASKED
    if kernel.family == "attention":
        return _ATTENTION[only]
    if kernel.family == "vector":
        return [{"n": n, "block_n": _TILE} for n in _COLUMNS]
    if "order" in names:  # three or five tiles, no power of two, the last one partial, in each order
        merged = ((20, ORDERS[-1]), *product((1, 12, 36), ORDERS))
        return [{"rows": 2, "cols": cols, "block_n": 8, "order": order} for cols, order in merged]
    more = {"block_m": 2} if "block_m" in names else {}
    return [
        {"rows": 2 if "k" in names else 3, "cols": cols, **more, **({"k": _KEPT[cols]} if "k" in names else {}),
         "block_n": next_power_of_two(cols) if WHOLE_ROW_TILE in kernel.parameters else _TILE}
        for cols in _COLUMNS
    ]  # fmt: skip


def _multiplies_keys(kernel: Kernel) -> bool:
    return kernel.family == "attention" and "o" not in kernel.outputs
