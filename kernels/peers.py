"""Peers: what is measured beside the catalog's kernels and never traced: PyTorch's own calls (`torch:…`), kernels of ours that are arranged for
speed and not to be read line by line (`fast:…`), and the rungs of the ladder between them and the catalog's (`rung:…`).

Entries as the catalog's; PyTorch's calls are in `library.py`. Imports neither torch nor triton. A formula here is the least that a peer's own steps can
move: each of their operands read once and each result written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernels import parameters, traffic
from kernels.catalog import Kernel
from kernels.parameters import ITEM_BYTES, Parameter, ParameterError, Values
from kernels.rungs import GLUON, ORDER
from kernels.traffic import Term, Traffic, Work

_SIZES = tuple(parameter for parameter in parameters.ATTENTION if parameter.kind != "tile")
_HALF = ("fp16", "bf16")
_FUSED_SIZES = tuple(
    Parameter("dtype", "choice", "fp16", "of Q, K, V and O", choices=_HALF) if parameter.name == "dtype" else parameter
    for parameter in _SIZES
)


def _check(p: Values) -> None:
    parameters.check_heads(p)
    if p["kv_heads"] != p["heads"]:
        raise ParameterError("kv_heads", p["kv_heads"], f"must be heads={p['heads']}: these calls share no key heads")
    if p["causal"] and p["kv_len"] != p["seq_len"]:
        raise ParameterError(
            "kv_len", p["kv_len"], f"must be seq_len={p['seq_len']} where causal: PyTorch aligns its mask elsewhere"
        )


def _softmax(p: Values) -> Traffic:
    return traffic.passes(
        p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=1, flops_a_row=traffic.one_tile(p["cols"])
    )


def _softmax_topk(p: Values) -> Traffic:
    softmax, rows, item = _softmax(p), p["rows"], ITEM_BYTES[p["dtype"]]
    again = Term("y", False, rows * p["cols"], 1, item, "each weight again, at least once")
    kept = (
        Term("top", True, rows * p["k"], 1, item, "K weights a row"),
        Term("index", True, rows * p["k"], 1, 8, "their columns, int64"),
    )
    return Traffic((*softmax.terms, again, *kept), softmax.work)


def _one_read(p: Values) -> Traffic:
    rows, item = p["rows"], ITEM_BYTES[p["dtype"]]
    kept = (
        Term("y", True, rows * p["k"], 1, item, "K weights a row"),
        Term("index", True, rows * p["k"], 1, 8, "their columns, int64"),
    )
    return Traffic(
        (Term("x", False, rows * p["cols"], 1, item, "each element once, those of K lanes again"), *kept), ()
    )


def _tensors(call: Values, **times: tuple[int, int]) -> tuple[Term, ...]:
    """A term for each tensor that is read and for each that is written: how often, by name. `s`, `p`, `dp` and `ds` have N² elements a head."""
    heads, item = call["batch"] * call["heads"], ITEM_BYTES[call["dtype"]]
    rows, keys, d = call["seq_len"], call["kv_len"], call["head_dim"]
    sizes = {"q": rows * d, "o": rows * d, "k": keys * d, "v": keys * d, "s": rows * keys, "p": rows * keys}
    terms = []
    for name, (reads, writes) in times.items():
        elements = heads * sizes[name.removeprefix("d")]
        if reads:
            terms.append(Term(name, False, elements, reads, item, "once for each step that takes it, at least"))
        if writes:
            terms.append(Term(name, True, elements, writes, item, "by each step that makes it"))
    return tuple(terms)


def _products(p: Values, count: int, what: str) -> Work:
    """That many matrix products of 2 N² d FLOPs a head."""
    return Work(what, "matmul", count * 2 * p["batch"] * p["heads"] * p["seq_len"] * p["kv_len"] * p["head_dim"])


_FORWARD = "Q Kᵀ, P V"
_BACKWARD = "Pᵀ dO, dO Vᵀ, dS K, dSᵀ Q"


def _attention(call: Values) -> Traffic:
    masked = 1 if call["causal"] else 0
    terms = _tensors(call, q=(1, 0), k=(1, 0), s=(1 + masked, 1 + masked), p=(1, 1), v=(1, 0), o=(0, 1))
    return Traffic(terms, (_products(call, 2, _FORWARD),))


def _attention_backward(call: Values) -> Traffic:
    forward, masked = _attention(call), 1 if call["causal"] else 0
    backward = _tensors(
        call, do=(2, 0), p=(2, 0), v=(1, 0), dv=(0, 1), dp=(1, 1), ds=(2 + masked, 1 + masked), k=(1, 0), q=(1, 0), dq=(0, 1), dk=(0, 1)
    )  # fmt: skip
    return Traffic((*forward.terms, *backward), (*forward.work, _products(call, 4, _BACKWARD)))


def _half(call: Values, work: Work) -> Work:
    """A causal mask hides half of S from a fused kernel, which skips it."""
    return replace(work, flops=work.flops // 2) if call["causal"] else work


def _fused(call: Values) -> Traffic:
    return Traffic(_tensors(call, q=(1, 0), k=(1, 0), v=(1, 0), o=(0, 1)), (_half(call, _products(call, 2, _FORWARD)),))


def _fused_backward(call: Values) -> Traffic:
    forward = _fused(call)
    backward = _tensors(call, do=(1, 0), o=(1, 0), q=(1, 0), k=(1, 0), v=(1, 0), dq=(0, 1), dk=(0, 1), dv=(0, 1))
    return Traffic(
        (*forward.terms, *backward), (*forward.work, _half(call, _products(call, 5, f"Q Kᵀ again, {_BACKWARD}")))
    )


_RUNG_SIZES = tuple(replace(size, default=64) if size.name == "head_dim" else size for size in _FUSED_SIZES)


def _check_gluon(p: Values) -> None:
    _check(p)
    if p["head_dim"] not in (64, 128):
        raise ParameterError(
            "head_dim", p["head_dim"], "must be 64 or 128: warps with different jobs are arranged for these"
        )


def _with_lse(traffic: Traffic, call: Values) -> Traffic:
    lse = Term("lse", True, call["batch"] * call["heads"] * call["seq_len"], 1, 4, "a float32 a row")
    return Traffic((*traffic.terms, lse), traffic.work)


def _rung(call: Values) -> Traffic:
    return _with_lse(_fused(call), call)


def _rung_over_all_keys(call: Values) -> Traffic:
    everything = _fused({**call, "causal": False})
    return _with_lse(everything, call)


_IDEAS = {
    "naive_fp32": "Online softmax tile by tile, all of it in float32.",
    "bf16": "16-bit operands for both products, sums and softmax in float32.",
    "exp2": "Powers of 2: log2 e is folded into the scale.",
    "causal": "Tiles that the causal mask hides are skipped, and only those that it cuts are masked.",
    "pipelined": "The next tiles are on their way while this one is computed.",
    "tma": "The copy engine fetches tiles, told by a descriptor.",
    "specialised": "One warp fetches, eight compute.",
    "two_groups": "Two groups of warps take turns at products and exponentials.",
    "overlapped": "S of the next tile is made while this one's part of O is added.",
}


def _rung_entry(number: int, name: str) -> Kernel:
    formula = _rung if number > ORDER.index("causal") else _rung_over_all_keys
    return Kernel(
        f"rung:{name}", f"Rung {number}: {name}", _IDEAS[name], f"kernels.rungs.{name}", "attention", _RUNG_SIZES, formula, {},
        _check_gluon if name in GLUON else _check, outputs=("o", "lse"), call="attention",
    )  # fmt: skip


_GRADIENTS = ("o", "dq", "dk", "dv")

PEERS: Mapping[str, Kernel] = {
    peer.name: peer
    for peer in (
        Kernel(
            "torch:softmax", "torch.softmax", "PyTorch's own softmax.", "kernels.library", "softmax",
            parameters.SOFTMAX, _softmax, {}, parameters.check_rows,
        ),
        Kernel(
            "torch:softmax_topk", "torch.softmax, then torch.topk", "PyTorch's own softmax, and its own top-k of the weights.",
            "kernels.library", "softmax", (*parameters.SOFTMAX, parameters.TOPK), _softmax_topk, {}, parameters.check_topk,
            outputs=("y", "index"), expected="kernels.verify:kept_of_weights",
        ),
        Kernel(
            "fast:softmax_topk_lanes", "Softmax with top-k, a list a lane", "Each lane has a maximum and a sum of its own; lists are joined once, at the row's end.",
            "kernels.topk_fast", "softmax", (*parameters.SOFTMAX, parameters.TOPK), _one_read, {}, parameters.check_rows,
            outputs=("y", "index"), expected="kernels.verify:kept",
        ),
        *(_rung_entry(number, name) for number, name in enumerate(ORDER, 1)),
        Kernel(
            "fast:flash_attention_hopper", "FlashAttention for Hopper", "What the ladder led to, with as many programs as SMs, each with a list of tiles.",
            "kernels.attention_hopper", "attention", _RUNG_SIZES, _rung, {}, _check_gluon, outputs=("o", "lse"),
        ),
        Kernel(
            "torch:attention", "PyTorch: matmul, softmax, matmul", "Attention as one writes it: S and P go through HBM.",
            "kernels.library", "attention", _SIZES, _attention, {}, _check, outputs=("o",), stores_scores=True,
        ),
        Kernel(
            "torch:attention_backward", "PyTorch: matmul, softmax, matmul, and back", "The same and its gradients, P kept from the forward pass.",
            "kernels.library", "attention", _SIZES, _attention_backward, {}, _check, outputs=_GRADIENTS, stores_scores=True, gradient=True,
        ),
        Kernel(
            "torch:flash", "PyTorch: FlashAttention-2", "scaled_dot_product_attention, held to its FlashAttention-2.",
            "kernels.library", "attention", _FUSED_SIZES, _fused, {}, _check, outputs=("o",),
        ),
        Kernel(
            "torch:flash_backward", "PyTorch: FlashAttention-2, and back", "The same and its gradients, S computed again tile by tile.",
            "kernels.library", "attention", _FUSED_SIZES, _fused_backward, {}, _check, outputs=_GRADIENTS, gradient=True,
        ),
        Kernel(
            "torch:cudnn", "PyTorch: cuDNN's attention", "scaled_dot_product_attention, held to cuDNN.",
            "kernels.library", "attention", _FUSED_SIZES, _fused, {}, _check, outputs=("o",),
        ),
        Kernel(
            "torch:cudnn_backward", "PyTorch: cuDNN's attention, and back", "The same and its gradients.",
            "kernels.library", "attention", _FUSED_SIZES, _fused_backward, {}, _check, outputs=_GRADIENTS, gradient=True,
        ),
    )
}  # fmt: skip
"""By name."""
