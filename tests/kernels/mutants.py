"""Kernels broken on purpose by one edit each: the grid must find every one."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace

from kernels.catalog import KERNELS, Kernel
from kernels.edits import Edit, source_of


@dataclass(frozen=True)
class Mutant:
    """`kernel` with `old` replaced by `new` in the source of its module; `old` must be there."""

    name: str
    kernel: str
    old: str
    new: str
    dtype: str = "fp32"  # in which the grid must find it
    function: str = ""  # where to look, if several have `old`


ALPHA = "alpha = tl.exp(m_i - m_safe)"
MAX = "m_new = tl.maximum(m_i, tl.max(s, axis=1))"
HIDDEN = 's = tl.where(visible, s, -float("inf"))'
START = 'm_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)'

_DQ, _DK = "flash_attention_backward_queries_kernel", "flash_attention_backward_keys_kernel"
_ATOMIC = "flash_attention_backward_atomic_kernel"
_DS = "ds = tl.where(visible, p * (dp - delta[:, None]), 0.0)"
_DIAGONAL = "visible = visible & (cols[None, :] <= rows[:, None] + diagonal)"
_IN = {"flash_attention_backward": (_DQ, _DK), "flash_attention_backward_atomic": (_ATOMIC,)}
BACKWARD = (
    *(
        Mutant(what, kernel, old, new, function=function)
        for kernel, functions in _IN.items()
        for function in functions
        for what, old, new in (
            ("δ forgotten", _DS, _DS.replace(" - delta[:, None]", "")),
            ("lse without m: P̃ of no maximum", "tl.exp(s - lse[:, None])", "tl.exp(s)"),
            ("the mask left out of the backward pass", _DIAGONAL, "visible = visible"),
            ("the mask one key short", _DIAGONAL, _DIAGONAL.replace("+ diagonal", "+ diagonal - 1")),
            (
                "S not scaled",
                'tl.trans(k), input_precision="ieee") * sm_scale',
                'tl.trans(k), input_precision="ieee") * 1.0',
            ),
            ("a query without keys: −∞ − −∞", 'lse = tl.where(lse == -float("inf"), float("inf"), lse)', "lse = lse"),
            ("dP is dO Kᵀ", "dp = tl.dot(do, tl.trans(v)", "dp = tl.dot(do, tl.trans(k)"),
        )
    ),
    Mutant(
        "δ over the wrong axis",
        "flash_attention_backward",
        "tl.sum(do * o, axis=1)",
        "tl.sum(do * o, axis=1) * 0 + tl.sum(do * o)",
    ),
    Mutant("δ of O instead of dO", "flash_attention_backward", "tl.sum(do * o, axis=1)", "tl.sum(o * o, axis=1)"),
    Mutant("sm_scale missing on dQ", "flash_attention_backward", "dq * sm_scale", "dq"),
    Mutant("sm_scale missing on dK", "flash_attention_backward", "dk * sm_scale", "dk"),
    Mutant("sm_scale missing on dQ", "flash_attention_backward_atomic", "other=0.0) * sm_scale", "other=0.0)"),
    Mutant("dS transposed", "flash_attention_backward", "tl.trans(ds.to(q.dtype))", "ds.to(q.dtype)"),
    Mutant("dV of S", "flash_attention_backward", "tl.trans(p.to(do.dtype))", "tl.trans(s.to(do.dtype))"),
    Mutant("one head of the group", "flash_attention_backward", "range(group)", "range(1)"),
    Mutant("key head of the query head's number", "flash_attention_backward", "head // group", "head"),
    Mutant(
        "query tiles skipped that see the keys",
        "flash_attention_backward",
        "BLOCK_N - diagonal) // BLOCK_M",
        "BLOCK_N + BLOCK_N - diagonal) // BLOCK_M",
    ),
    Mutant(
        "a store, not an atomic addition",
        "flash_attention_backward_atomic",
        "tl.atomic_add(dq_sum_ptr + at_q, dq, mask=inside_q)",
        "tl.store(dq_sum_ptr + at_q, dq, mask=inside_q)",
    ),
    Mutant(
        "the sum does not begin at 0",
        "flash_attention_backward_atomic",
        "tl.zeros((BLOCK,), tl.float32)",
        "tl.full((BLOCK,), 1.0, tl.float32)",
    ),
    Mutant("sm_scale missing on dQ", "attention_backward_standard", "dq * sm_scale", "dq"),
    Mutant("P not transposed", "attention_backward_standard", "tl.dot(tl.trans(p), do", "tl.dot(p, do"),
    Mutant(
        "dP of the wrong head of V",
        "attention_backward_standard",
        "head // group * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]\n    v =",
        "0 * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]\n    v =",
    ),
    Mutant(
        "the last queries forgotten",
        "attention_backward_standard",
        "range(0, seq_len, BLOCK_M):\n            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)\n"
        "            inside_p = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]\n            ds",
        "range(0, seq_len - seq_len % BLOCK_M, BLOCK_M):\n"
        "            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)\n"
        "            inside_p = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]\n            ds",
    ),
)

MUTANTS = (
    Mutant("mask one element short", "vector_add", "mask = offsets < n\n    a =", "mask = offsets < n - 1\n    a ="),
    Mutant("every program takes the first tile", "vector_add", "program * BLOCK_N + tl", "0 * program + tl"),
    Mutant("tiles overlap", "vector_add", "program * BLOCK_N + tl", "program * (BLOCK_N - 1) + tl"),
    *(
        mutant
        for name in (
            "softmax_online", "softmax_tiled", "softmax_topk", "softmax_split", "flash_attention", "flash_attention_v1",
        )
        for mutant in (
            Mutant("no alpha", name, ALPHA, "alpha = tl.where(m_i == m_i, 1.0, 0.0)"),
            Mutant("alpha upside down", name, ALPHA, "alpha = tl.exp(m_safe - m_i)"),
        )
    ),
    Mutant("no running max", "softmax_online",
           "m_new = tl.maximum(m_i, tl.max(x, axis=0))", "m_new = tl.max(x, axis=0)"),
    Mutant("no running max", "softmax_tiled",
           "m_new = tl.maximum(m_i, tl.max(x, axis=1))", "m_new = tl.max(x, axis=1)"),
    Mutant("no running max", "flash_attention", MAX, "m_new = tl.max(s, axis=1)"),
    Mutant("no running max", "flash_attention_v1", MAX, "m_new = tl.max(s, axis=1)"),
    Mutant("no max at all", "flash_attention", MAX, "m_new = m_i * 0.0"),
    Mutant("wrong mask: the diagonal is hidden", "flash_attention", "cols[None, :] <= rows", "cols[None, :] < rows"),
    Mutant("wrong mask: one key of the future", "flash_attention",
           "<= rows[:, None] + diagonal)\n        s =", "<= rows[:, None] + diagonal + 1)\n        s ="),
    Mutant("wrong mask: keys past the last count", "flash_attention",
           "visible = (cols < kv_len)[None, :]", "visible = (cols < kv_len + BLOCK_N)[None, :]"),
    Mutant("wrong mask: top left diagonal", "flash_attention",
           "cols[None, :] <= rows[:, None] + diagonal", "cols[None, :] <= rows[:, None]"),
    Mutant("wrong mask", "softmax_online",
           'other=-float("inf")).to(tl.float32)\n        # m_new', "other=0.0).to(tl.float32)\n        # m_new"),
    Mutant("finite −inf: mask", "flash_attention", HIDDEN, "s = tl.where(visible, s, -1e4)"),
    Mutant("finite −inf: larger", "flash_attention", HIDDEN, "s = tl.where(visible, s, -5e4)"),
    Mutant("finite −inf: start", "flash_attention", START, START.replace('-float("inf")', "-1e6")),
    Mutant("finite −inf: start", "softmax_tiled", START, START.replace('-float("inf")', "-1e6")),
    Mutant("finite −inf: start", "softmax_online",
           'm_i = -float("inf")\n    l_i = 0.0\n', "m_i = -1e6\n    l_i = 0.0\n"),
    Mutant("−inf − −inf", "flash_attention", "tl.exp(s - m_safe[:, None])", "tl.exp(s - m_new[:, None])"),
    Mutant("−inf − −inf", "softmax_safe", 'm_i = tl.where(m_i == -float("inf"), 0.0, m_i)', "m_i = m_i"),
    Mutant("all zeros", "flash_attention", "o = acc / ", "o = 0.0 * "),
    Mutant("all zeros", "softmax_online", "y = tl.exp(x - m_i) / l_i", "y = tl.exp(x - m_i) * 0.0"),
    Mutant("acc not rescaled", "flash_attention", "acc = acc * alpha[:, None]", "acc = acc * 1.0"),
    Mutant("not divided by l", "flash_attention",
           "tl.where(l_i == 0.0, 1.0, l_i)[:, None]", "tl.where(l_i == 0.0, 1.0, 1.0)[:, None]"),
    Mutant("wrong head of K", "flash_attention", "head // group * stride_kh", "0 * stride_kh"),
    Mutant("lse in base 2", "flash_attention", "lse = m_i + tl.log(l_i)", "lse = m_i + tl.log2(l_i)"),
    Mutant("last tile forgotten", "flash_attention",
           "range(0, end, BLOCK_N)", "range(0, end - end % BLOCK_N, BLOCK_N)"),
    Mutant("sums in 16 bits", "flash_attention", 'acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")',
           'acc = (acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")).to(v.dtype).to(tl.float32)', "fp16"),
    Mutant("sums in 16 bits", "flash_attention_v1", "tl.store(o_hbm_ptrs, o_i, mask=inside_q)",
           "tl.store(o_hbm_ptrs, o_i.to(v.dtype).to(tl.float32), mask=inside_q)", "fp16"),
    Mutant("log2 e left out of alpha", "flash_attention_exp2",
           "alpha = tl.exp2(m_i - m_safe)", "alpha = tl.exp(m_i - m_safe)"),
    Mutant("log2 e left out of p", "flash_attention_exp2",
           "p = tl.exp2(s - m_safe[:, None])", "p = tl.exp(s - m_safe[:, None])"),
    Mutant("log2 e folded in twice", "flash_attention_exp2",
           "s = tl.where(visible, s, -float(\"inf\"))", "s = tl.where(visible, s * 1.44269504, -float(\"inf\"))"),
    Mutant("lse in base 2", "flash_attention_exp2",
           "lse = (m_i + tl.log2(l_i)) * LN_2", "lse = (m_i + tl.log2(l_i)) * 1.0"),
    Mutant("acc not rescaled", "flash_attention_exp2", "acc = acc * alpha[:, None]", "acc = acc * 1.0"),
    Mutant("scores not scaled", "attention_standard", "* sm_scale\n    if CAUSAL", "* 1.0\n    if CAUSAL"),
    Mutant("no running max", "softmax_topk",
           "m_new = tl.maximum(m_i, tl.max(x, axis=0))", "m_new = tl.max(x, axis=0)"),
    Mutant("the later of equals first", "softmax_topk", "top_x >= best", "top_x > best"),
    Mutant("a place in the tile, not in the row", "softmax_topk",
           "places == place, start + at", "places == place, at"),
    Mutant("the list does not move back", "softmax_topk", "tl.gather(top_x, above, axis=0)", "top_x"),
    Mutant("columns do not move along", "softmax_topk", "tl.gather(top_i, above, axis=0)", "top_i"),
    Mutant("the largest is taken again", "softmax_topk",
           "tl.where(cols == start + at, -float(\"inf\"), left)", "left"),
    Mutant("one too few from a tile", "softmax_topk", "range(K)", "range(K - 1 if K > 1 else 1)"),
    Mutant("−inf − −inf", "softmax_topk", "p = tl.exp(x - m_safe)", "p = tl.exp(x - m_new)"),
    Mutant("not divided by l", "softmax_topk", "y = tl.exp(top_x - m_i) / l_i", "y = tl.exp(top_x - m_i)"),
    Mutant("no running max", "softmax_safe_topk",
           "m_i = tl.maximum(m_i, tl.max(x, axis=0))", "m_i = tl.max(x, axis=0)"),
    Mutant("the sum of the last tile alone", "softmax_safe_topk",
           "l_i = l_i + tl.sum(p, axis=0)", "l_i = tl.sum(p, axis=0)"),
    Mutant("the later of equals first", "softmax_safe_topk", "top_x >= best", "top_x > best"),
    Mutant("the list does not move back", "softmax_safe_then_topk", "tl.gather(top_y, above, axis=0)", "top_y"),
    Mutant("a place in the tile, not in the row", "softmax_safe_then_topk",
           "places == place, start + at", "places == place, at"),
    Mutant("the largest is taken again", "softmax_online_then_topk",
           "tl.where(cols == start + at, -float(\"inf\"), left)", "left"),
    Mutant("no beta", "softmax_split", "beta = tl.exp(m_j - m_safe)", "beta = tl.exp(m_j - m_j)"),
    Mutant("the sums alone", "softmax_split", "l_i = l_i * alpha + l_j * beta", "l_i = l_i + l_j"),
    Mutant("the last pair forgotten", "softmax_split", "range(joins)", "range(joins - 1)"),
    Mutant("no maximum of both", "softmax_split", "m_new = tl.maximum(m_i, m_j)", "m_new = m_j"),
    Mutant("−inf − −inf in a tile", "softmax_split", "p = tl.exp(x - m_safe)", "p = tl.exp(x - m_i)"),
    Mutant("−inf − −inf in a join", "softmax_split", "beta = tl.exp(m_j - m_safe)", "beta = tl.exp(m_j - m_new)"),
    Mutant("another row's pair", "softmax_split", "l_ptr += row * n_tiles", "l_ptr += 0 * n_tiles"),
    *(
        Mutant(name, "flash_decoding", old, new)
        for name, old, new in (
            ("parts not rescaled", "beta = tl.exp(lse_j - m_safe)", "beta = tl.exp(lse_j - lse_j)"),
            ("parts so far not rescaled", "acc * alpha[:, None] + o_j", "acc + o_j"),
            ("l of the parts added without alpha", "l_i = l_i * alpha + beta", "l_i = l_i + beta"),
            ("an empty part counts", "l_i = l_i * alpha + beta",
             'l_i = l_i * alpha + tl.where(lse_j == -float("inf"), 1.0, beta)'),
            ("all parts weigh the same", "l_i = l_i * alpha + beta", "l_i = l_i * alpha + 1.0"),
            ("−inf − −inf in a merge", "beta = tl.exp(lse_j - m_safe)", "beta = tl.exp(lse_j - m_new)"),
            ("the last split's tail lost", "last = (split + 1) * tiles // splits",
             "last = (split + 1) * (tiles // splits)"),
            ("a part forgotten", "range(splits)", "range(splits - 1 if splits > 1 else splits)"),
            ("a tile in two parts", "last = (split + 1) * tiles // splits",
             "last = tl.minimum((split + 1) * tiles // splits + 1, tiles)"),
            ("wrong head of keys", "k_ptr += batch * stride_kb + kv_head * stride_kh", "k_ptr += batch * stride_kb"),
            ("wrong head of queries", "heads[:, None] * stride_qh", "(heads - kv_head)[:, None] * stride_qh"),
            ("the group's heads take turns", "queries = rows % seq_len\n    q_ptrs",
             "queries = rows // group % seq_len\n    q_ptrs"),
            ("the mask takes a row for a query", "<= queries[:, None] + diagonal)\n        s =",
             "<= rows[:, None] + diagonal)\n        s ="),
            ("top left where bottom right is asked", "<= queries[:, None] + diagonal)\n        s =",
             "<= queries[:, None])\n        s ="),
            ("lse of a part in base 2", "lse = m_i + tl.log(l_i)\n    own", "lse = m_i + tl.log2(l_i)\n    own"),
            ("lse of a part without l", "lse = m_i + tl.log(l_i)\n    own", "lse = m_i\n    own"),
            ("lse of the merge without l", "lse = m_i + tl.log(l_i)\n    o_ptrs", "lse = m_i\n    o_ptrs"),
            ("parts not divided by their l", "l_i)[:, None]\n    # lse of this part",
             "1.0)[:, None]\n    # lse of this part"),
        )
    ),
    Mutant("O not undone", "flash_attention_v1", "o_i * (l_i * alpha)[:, None]", "o_i * alpha[:, None]"),
    *BACKWARD,
)  # fmt: skip


def mutated(mutant: Mutant) -> Kernel:
    """The entry of the broken kernel."""
    entry = KERNELS[mutant.kernel]
    source = source_of(entry.module)
    for function in (mutant.function,) if mutant.function else kernel_functions(mutant.kernel):
        edit = Edit(hashlib.sha256(repr(mutant).encode()).hexdigest()[:12], function, mutant.old, mutant.new)
        with suppress(ValueError):
            edit.apply(source)
            return replace(entry, edit=edit)
    raise AssertionError(f"{mutant.name}: {mutant.kernel} has no {mutant.old!r}, or more than one")


def kernel_functions(kernel: str) -> tuple[str, ...]:
    """The jitted functions of a taught kernel."""
    if kernel == "attention_standard":
        return "attention_scores_kernel", "attention_values_kernel"
    if kernel == "softmax_split":
        return "softmax_partial_kernel", "softmax_merge_kernel", "softmax_write_kernel"
    if kernel == "attention_backward_standard":
        return tuple(f"attention_backward_{of}_kernel" for of in ("values", "weights", "queries", "keys"))
    if kernel == "flash_attention_backward":
        return _DQ, _DK, "attention_delta_kernel"
    if kernel == "flash_attention_backward_atomic":
        return _ATOMIC, "zero_kernel", "scale_kernel"
    if kernel == "flash_decoding":
        return "flash_decoding_part_kernel", "flash_decoding_merge_kernel"
    if kernel.endswith("_then_topk"):
        return ("topk_kernel",)
    return (f"{kernel}_kernel",)
