"""The grid of experiments that every kernel must pass: shapes, dtypes, masks and presets that expose bugs.

Descending scores hide a forgotten rescale; ordinary scores hide a wrong "minus infinity". So each kernel runs every
preset at sizes of one element, of whole tiles and of partial tiles.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from explain.experiment import Experiment
from kernels.catalog import Kernel
from kernels.inputs import PRESETS
from kernels.parameters import ITEM_BYTES, ORDERS, WHOLE_ROW_TILE, ParameterError, Value, next_power_of_two

Shape = dict[str, Value]
MOST_REFUSED = 1000

SYNTHETIC = tuple(preset.name for preset in PRESETS.values() if not preset.sentence and preset.name != "notebook")
REAL = ("sentence", "sentence_short", "sentence_ragged", "notebook")

_COLUMNS = (1, 31, 32, 33, 64, 200, 781)
_TILE = 32
_KEPT = {1: 1, 31: 32, 32: 2, 33: 5, 64: 10, 200: 32, 781: 5}  # K; may exceed the number of elements in a row

_SMALL: Shape = {"block_m": 16, "block_n": 16}
_SHAPES: tuple[Shape, ...] = (
    {"seq_len": 64, "head_dim": 32, **_SMALL},
    {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 37, "head_dim": 24, "causal": True, **_SMALL},
    {"heads": 2, "seq_len": 97, "kv_len": 257, "head_dim": 64, "causal": True, "block_m": 32, "block_n": 64},
    # Causal with fewer keys than queries: the first 160 queries see no key.
    {"seq_len": 257, "kv_len": 97, "head_dim": 16, "causal": True, "block_m": 64, "block_n": 32},
    {"batch": 2, "seq_len": 1, "kv_len": 257, "head_dim": 80, "block_m": 16, "block_n": 32},
    {"seq_len": 1, "kv_len": 1, "head_dim": 16, "causal": True, **_SMALL},
    {"heads": 3, "kv_heads": 1, "seq_len": 64, "kv_len": 97, "head_dim": 128, "block_m": 32, "block_n": 32},
    {"seq_len": 48, "head_dim": 256, "causal": True, **_SMALL},
    # Many visits: shows an accumulator that is rounded to 16 bits at each of them.
    {"seq_len": 16, "kv_len": 4096, "head_dim": 16, **_SMALL},
)
_FEW_QUERIES: tuple[Shape, ...] = (
    {"batch": 2, "heads": 6, "kv_heads": 2, "seq_len": 3, "kv_len": 100, "causal": True, "splits": 3, **_SMALL},
    # More parts than tiles, so some have no keys, and rows in two tiles.
    {"heads": 8, "kv_heads": 1, "seq_len": 5, "kv_len": 70, "head_dim": 24, "splits": 9, **_SMALL},
    {"heads": 4, "kv_heads": 2, "seq_len": 3, "kv_len": 70, "causal": True, "align": "top left", **_SMALL},
)
_OWN_TILES: tuple[Shape, ...] = tuple(
    {"heads": 2, "seq_len": 97, "head_dim": d, "causal": causal} for d in (64, 128) for causal in (False, True)
)
"""For kernels that choose their tiles; they share no key heads, and under a mask have as many keys as queries."""

_LOSSES: tuple[Shape, ...] = (
    {"tokens": 16, "vocab": 64, "dim": 32},
    {"tokens": 1, "vocab": 1, "dim": 16},
    {"tokens": 5, "vocab": 33, "dim": 24, "ignored": 2, "block_n": 32},
    {"tokens": 37, "vocab": 201, "dim": 40, "ignored": 5, "block_n": 64},
    {"tokens": 20, "vocab": 97, "dim": 16, "ignored": 20},
    {"tokens": 17, "vocab": 97, "dim": 100, "block_m": 32, "block_n": 32},
    {"tokens": 3, "vocab": 781, "dim": 16, "ignored": 1},
)


def grid(kernel: Kernel, *, every: int = 1) -> Iterator[Experiment]:
    """The kernel's experiments; with `every` = n every nth of them, but all real sentences."""
    for preset in REAL:
        for dtype in ITEM_BYTES:
            yield Experiment.of(kernel.name, {"dtype": dtype}, preset)
    experiments = (
        Experiment.of(kernel.name, {**shape, "dtype": dtype}, preset, seed)
        for seed, shape in enumerate(_shapes(kernel))
        for dtype in ITEM_BYTES
        for preset in SYNTHETIC
    )
    # Not simply every nth: that would leave a preset out at every shape, or at none.
    yield from (e for number, e in enumerate(experiments) if sum(divmod(number, len(SYNTHETIC))) % every == 0)


def _shapes(kernel: Kernel) -> Iterator[Shape]:
    names = {parameter.name for parameter in kernel.parameters}
    if kernel.family == "attention":
        if "block_m" not in names:
            yield from _OWN_TILES
            return
        yield from _SHAPES
        if "splits" in names:
            yield from _FEW_QUERIES
        return
    if kernel.family == "loss":
        yield from _LOSSES
        return
    if kernel.family == "vector":
        for n in _COLUMNS:
            yield {"n": n, "block_n": _TILE}
        return
    for cols in _COLUMNS:
        whole = next_power_of_two(cols)
        tile = whole if WHOLE_ROW_TILE in kernel.parameters else _TILE
        shape: Shape = {"rows": 5, "cols": cols, "block_n": tile}
        if "block_m" in names:
            yield {**shape, "block_m": 2}
        elif "k" in names:
            yield {**shape, "k": _KEPT[cols]}
        elif "order" in names:
            yield from ({**shape, "order": order} for order in (ORDERS if cols > 2 * _TILE else ORDERS[-1:]))
        else:
            yield shape


def shapes(kernel: Kernel) -> tuple[Shape, ...]:
    """The grid's shapes that fit this kernel. Each has only parameters of this kernel."""
    names = {parameter.name for parameter in kernel.parameters}
    found = [{name: value for name, value in shape.items() if name in names} for shape in _shapes(kernel)]
    return tuple(shape for shape in found if any(_fits(kernel, shape, dtype) for dtype in ITEM_BYTES))


def drawn(kernel: Kernel, shape: int, seed: int) -> Iterator[Experiment]:
    """Random experiments without end, at the tiles and the head_dim of one of `shapes`: what is compiled is shared.

    Raises ParameterError if the kernel refuses MOST_REFUSED sizes in turn.
    """
    like = shapes(kernel)[shape]
    rng = random.Random(seed)
    dtypes = [dtype for dtype in ITEM_BYTES if _fits(kernel, like, dtype)]
    refused = 0
    while True:
        parameters = {**like, **_sizes(like, rng), "dtype": rng.choice(dtypes)}
        try:
            experiment = Experiment.of(kernel.name, parameters, rng.choice(SYNTHETIC), rng.getrandbits(32))
        except ParameterError:
            if (refused := refused + 1) == MOST_REFUSED:
                raise
            continue
        refused = 0
        yield experiment


def _fits(kernel: Kernel, shape: Shape, dtype: str) -> bool:
    try:
        Experiment.of(kernel.name, {**shape, "dtype": dtype})
    except ParameterError:
        return False
    return True


def _sizes(like: Shape, rng: random.Random) -> Shape:
    """Random sizes for a shape. Most lengths are a whole number of tiles, or one more or less."""

    def near(tile: str = "") -> int:
        whole = int(like.get(tile, _TILE)) * rng.randint(1, 3)
        return max(1, rng.choice((whole - 1, whole, whole + 1, rng.randint(1, whole))))

    if "n" in like:
        return {"n": near("block_n")}
    if "cols" in like:
        return {"rows": rng.randint(1, 9), "cols": near("block_n")}
    if "vocab" in like:
        tokens = near("block_m")
        return {"tokens": tokens, "vocab": near("block_n"), "ignored": rng.choice((0, rng.randint(0, tokens)))}
    kv_heads = rng.randint(1, 2)
    if "block_m" not in like:
        seq_len = rng.choice((near(), 128 * rng.randint(1, 2) + rng.randint(-1, 1)))
        return {"batch": rng.randint(1, 2), "heads": kv_heads, "seq_len": seq_len}
    few = "splits" in like or like.get("seq_len") == 1
    return {
        "batch": rng.randint(1, 2),
        "heads": kv_heads * rng.randint(1, 2),
        "kv_heads": kv_heads,
        "seq_len": rng.randint(1, 9) if few else near("block_m"),
        "kv_len": near("block_n"),
    }


def must_pass(experiment: Experiment) -> bool:
    """Whether the result must be within its tolerance; kernels that are wrong on purpose may exceed it."""
    return not experiment.entry.wrong
