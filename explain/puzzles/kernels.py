"""The kernels that only puzzles have: entries as in the catalog, for `backward.py`. Imports no torch and no triton."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kernels import inputs, parameters, reference
from kernels.catalog import Kernel
from kernels.inputs import Arrays, Preset
from kernels.parameters import ITEM_BYTES, Values, next_power_of_two
from kernels.traffic import Term, Traffic, Work, tiles

_GRADIENT = 2  # keeps the gradient's random numbers apart from the inputs'
_LEFT_OUT = ("kv_heads", "causal")


def _weights_and_gradient(preset: Preset, p: Values, seed: int) -> Arrays:
    """p, the softmax of the preset's rows, and dp: (rows, cols)."""
    weights = reference.softmax(inputs.softmax_inputs(preset, p, seed)["x"])
    dp = np.random.default_rng([seed, _GRADIENT]).standard_normal(weights.shape)
    return {"p": inputs.representable(weights, p["dtype"]), "dp": inputs.representable(dp, p["dtype"])}


def _queries_and_gradient(preset: Preset, p: Values, seed: int) -> Arrays:
    p = {**p, "kv_heads": p["heads"], "causal": False}
    return {**inputs.attention_inputs(preset, p, seed), "do": inputs.gradient(p, seed)}


def _softmax(p: Values) -> Traffic:
    elements, item, lanes = p["rows"] * p["cols"], ITEM_BYTES[p["dtype"]], p["rows"] * p["block_n"]
    terms = (
        Term("p", False, elements, 1, item, "each weight, once"),
        Term("dp", False, elements, 1, item, "as P"),
        Term("ds", True, elements, 1, item, "each result, once"),
    )
    work = (
        Work("Σ p dp", "other", 2 * lanes - p["rows"]),
        Work("dp − δ", "other", lanes),
        Work("p (dp − δ)", "other", lanes),
    )
    return Traffic(terms, work)


def _attention(p: Values, stays: str) -> Traffic:
    """One side's tiles stay on chip, those of the queries or of the keys; the other side's pass."""
    heads, item = p["batch"] * p["heads"], ITEM_BYTES[p["dtype"]]
    width = max(16, next_power_of_two(p["head_dim"]))
    count = {"queries": tiles(p["seq_len"], p["block_m"]), "keys": tiles(p["kv_len"], p["block_n"])}
    q, kv, rows = heads * p["seq_len"] * p["head_dim"], heads * p["kv_len"] * p["head_dim"], heads * p["seq_len"]
    again = {"queries": 1, "keys": count["queries"]} if stays == "queries" else {"queries": count["keys"], "keys": 1}
    pairs = heads * count["queries"] * count["keys"]
    tile = pairs * p["block_m"] * p["block_n"]
    sums, kept = (1, p["block_m"]) if stays == "queries" else (2, p["block_n"])
    why = f"once for each tile of the {stays}"
    terms = (
        Term("q", False, q, again["queries"], item, why if stays == "keys" else "once"),
        Term("do", False, q, again["queries"], item, "as Q"),
        Term("lse", False, rows, again["queries"], 4, "one float32 per row, as Q"),
        Term("delta", False, rows, again["queries"], 4, "as L"),
        Term("k", False, kv, again["keys"], item, why if stays == "queries" else "once"),
        Term("v", False, kv, again["keys"], item, "as K"),
        *(Term(name, True, q if name == "dq" else kv, 1, item, "once") for name in _RESULTS[stays]),
    )
    work = (
        Work("S = Q Kᵀ, dP = dO Vᵀ", "matmul", 2 * 2 * tile * width),
        Work("S · sm_scale", "other", tile),
        Work("S − L", "other", tile),
        Work("P = exp(S − L)", "exp", tile),
        Work("P ∘ (dP − δ)", "other", 2 * tile),
        Work("dQ" if sums == 1 else "dK, dV", "matmul", sums * 2 * tile * width),
        Work("+ of the tile's part", "other", sums * pairs * kept * width),
        Work("· sm_scale", "other", heads * count[stays] * kept * width),
    )
    return Traffic(terms, work)


_RESULTS = {"queries": ("dq",), "keys": ("dk", "dv")}
_backward = partial(
    Kernel, module="explain.puzzles.backward", family="attention", check=lambda p: None,
    parameters=tuple(one for one in parameters.ATTENTION if one.name not in _LEFT_OUT), make=_queries_and_gradient,
    expected="kernels.gradients:expected", hue=2,
    roles={"queries": "q", "keys": "k", "values": "v", "scores": "s", "exponentials": "p", "rows": "rows",
           "cols": "cols"},
)  # fmt: skip

KERNELS: Mapping[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            "softmax_backward", "Softmax, backward", "softmax backward",
            "Each element's gradient needs one sum over its row.",
            module="kernels.softmax_backward", family="softmax", formula=_softmax,
            parameters=(*parameters.SHORT_ROWS, parameters.WHOLE_ROW_TILE), check=parameters.check_whole_row,
            roles={}, outputs=("ds",), make=_weights_and_gradient, hue=3,
            expected="explain.puzzles.backward:softmax_gradient",
        ),
        _backward(
            "attention_backward_queries", "FlashAttention-2 backward: dQ", "backward, dQ",
            "Outer loop over queries: dQ is a sum over keys.", formula=partial(_attention, stays="queries"),
            outputs=_RESULTS["queries"],
        ),
        _backward(
            "attention_backward_keys", "FlashAttention-2 backward: dK and dV", "backward, dK and dV",
            "Outer loop over keys: dK and dV are sums over queries.", formula=partial(_attention, stays="keys"),
            outputs=_RESULTS["keys"],
        ),
    )
}  # fmt: skip
