"""The formulas of library kernels and of kernels written for speed, which are measured and not traced.

A formula here is a lower bound for the call's own steps: each step reads its operands once and writes its result once.
"""

from __future__ import annotations

from dataclasses import replace

from kernels import traffic
from kernels.parameters import ITEM_BYTES, Values
from kernels.traffic import Term, Traffic, Work


def softmax(p: Values) -> Traffic:
    return traffic.passes(
        p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=1, flops_a_row=traffic.one_tile(p["cols"])
    )


def softmax_topk(p: Values) -> Traffic:
    weights, rows, item = softmax(p), p["rows"], ITEM_BYTES[p["dtype"]]
    again = Term("y", False, rows * p["cols"], 1, item, "each weight again, at least once")
    return Traffic((*weights.terms, again, *traffic.kept_terms(p, "top")), weights.work)


def topk_in_one_read(p: Values) -> Traffic:
    rows, item = p["rows"], ITEM_BYTES[p["dtype"]]
    return Traffic(
        (
            Term("x", False, rows * p["cols"], 1, item, "each element once, those of K lanes again"),
            *traffic.kept_terms(p, "y"),
        ),
        (),
    )


def _tensors(call: Values, **times: tuple[int, int]) -> tuple[Term, ...]:
    """Terms of the tensors by name, each (times read, times written); s, p, dp and ds have N² elements per head."""
    heads, item = call["batch"] * call["heads"], ITEM_BYTES[call["dtype"]]
    rows, keys, d = call["seq_len"], call["kv_len"], call["head_dim"]
    sizes = {"q": rows * d, "o": rows * d, "k": keys * d, "v": keys * d, "s": rows * keys, "p": rows * keys}
    terms = []
    for name, (reads, writes) in times.items():
        elements = heads * sizes[name.removeprefix("d")]
        if reads:
            terms.append(Term(name, False, elements, reads, item, "at least once per step that reads it"))
        if writes:
            terms.append(Term(name, True, elements, writes, item, "by each step that writes it"))
    return tuple(terms)


def _matmuls(p: Values, count: int, what: str) -> Work:
    """`count` matmuls of 2 N² d FLOPs per head."""
    return Work(what, "matmul", count * 2 * p["batch"] * p["heads"] * p["seq_len"] * p["kv_len"] * p["head_dim"])


_FORWARD = "Q Kᵀ, P V"
_BACKWARD = "Pᵀ dO, dO Vᵀ, dS K, dSᵀ Q"


def attention(call: Values) -> Traffic:
    masked = 1 if call["causal"] else 0
    terms = _tensors(call, q=(1, 0), k=(1, 0), s=(1 + masked, 1 + masked), p=(1, 1), v=(1, 0), o=(0, 1))
    return Traffic(terms, (_matmuls(call, 2, _FORWARD),))


def attention_backward(call: Values) -> Traffic:
    forward, masked = attention(call), 1 if call["causal"] else 0
    backward = _tensors(
        call, do=(2, 0), p=(2, 0), v=(1, 0), dv=(0, 1), dp=(1, 1), ds=(2 + masked, 1 + masked), k=(1, 0), q=(1, 0),
        dq=(0, 1), dk=(0, 1),
    )  # fmt: skip
    return Traffic((*forward.terms, *backward), (*forward.work, _matmuls(call, 4, _BACKWARD)))


def _half(call: Values, work: Work) -> Work:
    """Half the work under a causal mask: a fused kernel skips the hidden half of S."""
    return replace(work, flops=work.flops // 2) if call["causal"] else work


def fused(call: Values) -> Traffic:
    return Traffic(_tensors(call, q=(1, 0), k=(1, 0), v=(1, 0), o=(0, 1)), (_half(call, _matmuls(call, 2, _FORWARD)),))


def fused_backward(call: Values) -> Traffic:
    forward = fused(call)
    backward = _tensors(call, do=(1, 0), o=(1, 0), q=(1, 0), k=(1, 0), v=(1, 0), dq=(0, 1), dk=(0, 1), dv=(0, 1))
    return Traffic(
        (*forward.terms, *backward), (*forward.work, _half(call, _matmuls(call, 5, f"Q Kᵀ again, {_BACKWARD}")))
    )


def _with_lse(traffic: Traffic, call: Values) -> Traffic:
    lse = Term("lse", True, call["batch"] * call["heads"] * call["seq_len"], 1, 4, "one float32 per row")
    return Traffic((*traffic.terms, lse), traffic.work)


def rung(call: Values) -> Traffic:
    return _with_lse(fused(call), call)


def rung_over_all_keys(call: Values) -> Traffic:
    everything = fused({**call, "causal": False})
    return _with_lse(everything, call)
