"""Attention of one or a few queries over a long cache of keys, in two launches (Flash-Decoding, Dao et al. 2023).

`flash_decoding_part_kernel`    one program attends to one part of the keys, and writes this part's O and lse to HBM
`flash_decoding_merge_kernel`   one program merges the parts of its rows

A part's pair is (lse, 1): its O is divided by its sum already. So the merge of `merge.py` becomes

    m = max_j lse_j,   ℓ = Σ_j exp(lse_j − m),   O = Σ_j exp(lse_j − m) O_j / ℓ,   lse = m + ln ℓ

The query heads that share a head of keys stand in one tile, head after head: row r is query r % seq_len of head
r // seq_len of the group. So their keys are read once for all of them (grouped-query attention, GQA; with one head of
keys in all, multi-query attention, MQA).

q is (batch, heads, seq_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim), any strides, float32, float16 or
bfloat16. Causal: query i sees keys j ≤ i + diagonal. `align` says which corner of S the diagonal meets: "bottom right",
the last query sees every key (FlashAttention since 2.1), or "top left", the first query sees the first key (PyTorch's
`is_causal`). A part without keys, and a row that sees none, has O = 0 and lse = −∞: it merges as nothing. A NaN reaches
only the rows that see it. Offsets are 64-bit.

`decode.py` is the kernel written for speed: one launch, base 2, and more keys in flight.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels import verify
from kernels.attention import _Call
from kernels.inputs import Arrays
from kernels.parameters import ALIGNMENTS, MOST_SPLITS, Values, diagonal_of


@triton.jit
def flash_decoding_part_kernel(
    q_ptr, k_ptr, v_ptr, part_o_ptr, part_lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    kv_heads, group, seq_len, kv_len, diagonal, sm_scale, splits,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # One program: a tile of the rows that share one head of keys, on part `split` of these keys.
    split = tl.program_id(1).to(tl.int64)
    batch = (tl.program_id(2) // kv_heads).to(tl.int64)
    kv_head = (tl.program_id(2) % kv_heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    # row = (head of the group, query)                                              (BLOCK_M,)
    heads = kv_head * group + rows // seq_len
    queries = rows % seq_len
    q_ptrs = q_ptr + batch * stride_qb + heads[:, None] * stride_qh + queries[:, None] * stride_qm
    k_ptr += batch * stride_kb + kv_head * stride_kh
    v_ptr += batch * stride_vb + kv_head * stride_vh
    # Q of all heads that share these keys                                          (BLOCK_M, BLOCK_D)
    inside_q = (rows < group * seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptrs + dims[None, :] * stride_qd, mask=inside_q, other=0.0)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # The tiles of keys are shared evenly. With more parts than tiles some parts have none.
    tiles = tl.cdiv(kv_len, BLOCK_N)
    first = split * tiles // splits
    last = (split + 1) * tiles // splits
    for tile in range(first, last):
        cols = tile * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)
        # S = Q Kᵀ · sm_scale                                                       (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
        visible = (cols < kv_len)[None, :]
        if CAUSAL:
            visible = visible & (cols[None, :] <= queries[:, None] + diagonal)
        s = tl.where(visible, s, -float("inf"))
        # m_new = max(m, rowmax S)                                                  (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no key seen yet: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1                                                    (BLOCK_M,)
        alpha = tl.exp(m_i - m_safe)
        # P̃ = exp(S − m_new)                                                        (BLOCK_M, BLOCK_N)
        p = tl.exp(s - m_safe[:, None])
        # l = α l + rowsum P̃                                                        (BLOCK_M,)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        # Õ = α Õ                                                                   (BLOCK_M, BLOCK_D)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)
        if CAUSAL:
            # A hidden key has P̃ = 0, but 0 · NaN is NaN: take NaNs out of V, set them in the rows that see them.
            first_nan = tl.min(tl.where(v == v, 2147483647, cols[:, None]), axis=0)
            acc = tl.where(first_nan[None, :] <= queries[:, None] + diagonal, float("nan"), acc)
            v = tl.where(v == v, v, 0.0)
        # Õ = Õ + P̃ V                                                               (BLOCK_M, BLOCK_D)
        acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
    # O of this part = Õ / l                                                        (BLOCK_M, BLOCK_D)
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    # lse of this part = m + ln l: −inf if the row saw none of its keys             (BLOCK_M,)
    lse = m_i + tl.log(l_i)
    own = (tl.program_id(2).to(tl.int64) * splits + split) * group * seq_len + rows
    tl.store(part_o_ptr + own[:, None] * HEAD_DIM + dims[None, :], o, mask=inside_q)
    tl.store(part_lse_ptr + own, lse, mask=rows < group * seq_len)


@triton.jit
def flash_decoding_merge_kernel(
    part_o_ptr, part_lse_ptr, o_ptr, lse_ptr,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    kv_heads, group, seq_len, splits,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    # One program: the same tile of rows, over all parts. A part is to it what a tile of keys is to attention.
    batch = (tl.program_id(1) // kv_heads).to(tl.int64)
    kv_head = (tl.program_id(1) % kv_heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    heads = kv_head * group + rows // seq_len
    queries = rows % seq_len
    inside = rows < group * seq_len
    inside_o = inside[:, None] & (dims < HEAD_DIM)[None, :]
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for split in range(splits):
        part = (tl.program_id(1).to(tl.int64) * splits + split) * group * seq_len + rows
        lse_j = tl.load(part_lse_ptr + part, mask=inside, other=-float("inf"))
        o_j = tl.load(part_o_ptr + part[:, None] * HEAD_DIM + dims[None, :], mask=inside_o, other=0.0)
        # m_new = max(m, lse_j)                                                     (BLOCK_M,)
        m_new = tl.maximum(m_i, lse_j)
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # only empty parts yet: −inf − −inf would be NaN
        # α = exp(m − m_new), β = exp(lse_j − m_new): one of them is 1              (BLOCK_M,)
        alpha = tl.exp(m_i - m_safe)
        beta = tl.exp(lse_j - m_safe)
        # l = α l + β · 1: a part's sum is 1, its lse has the rest                  (BLOCK_M,)
        l_i = l_i * alpha + beta
        # Õ = α Õ + β O_j                                                           (BLOCK_M, BLOCK_D)
        acc = acc * alpha[:, None] + o_j * beta[:, None]
        m_i = m_new
    # O = Õ / l                                                                     (BLOCK_M, BLOCK_D)
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    # lse = m + ln l                                                                (BLOCK_M,)
    lse = m_i + tl.log(l_i)
    o_ptrs = o_ptr + batch * stride_ob + heads[:, None] * stride_oh + queries[:, None] * stride_om
    lse_ptrs = lse_ptr + batch * stride_lb + heads * stride_lh + queries * stride_lm
    tl.store(o_ptrs + dims[None, :] * stride_od, o, mask=inside_o)
    tl.store(lse_ptrs, lse, mask=inside)


def flash_decoding(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    align: str = "bottom right",
    splits: int = 4,
    block_m: int = 16,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of a few queries, the keys of each head shared among `splits` programs.

    Returns O (batch, heads, seq_len, head_dim) in the dtype of q, and each row's logsumexp (natural logarithm),
    float32 (batch, heads, seq_len). Raises ValueError, which names the argument that does not fit.
    """
    if align not in ALIGNMENTS:
        raise ValueError(f"align={align!r}: must be one of {', '.join(ALIGNMENTS)}")
    if not 1 <= splits <= MOST_SPLITS:
        raise ValueError(f"splits={splits}: from 1 to {MOST_SPLITS}")
    call = _Call.of(q, k, v, causal, sm_scale, None, block_m, block_n)
    diagonal = diagonal_of(align, call.seq_len, call.kv_len)
    rows, pairs = call.group * call.seq_len, call.batch * call.kv_heads
    part_o = torch.empty((pairs, splits, rows, q.shape[3]), dtype=torch.float32, device=q.device)
    part_lse = torch.empty((pairs, splits, rows), dtype=torch.float32, device=q.device)
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    tiles_m = triton.cdiv(rows, block_m)
    flash_decoding_part_kernel[(tiles_m, splits, pairs)](
        q, k, v, part_o, part_lse,
        *q.stride(), *k.stride(), *v.stride(),
        call.kv_heads, call.group, call.seq_len, call.kv_len, diagonal, call.sm_scale, splits,
        **call.constants, num_warps=4, num_stages=2,
    )  # fmt: skip
    one_head = {name: call.constants[name] for name in ("HEAD_DIM", "BLOCK_D", "BLOCK_M")}
    flash_decoding_merge_kernel[(tiles_m, pairs)](
        part_o, part_lse, o, lse,
        *o.stride(), *lse.stride(),
        call.kv_heads, call.group, call.seq_len, splits,
        **one_head, num_warps=4,
    )  # fmt: skip
    return o, lse


def expected(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> verify.Expectation:
    """Attention under the mask that `align` names, and what the merge of the parts may round."""
    diagonal = diagonal_of(p["align"], p["seq_len"], p["kv_len"])
    return verify.attention(p, arrays, inputs, diagonal, parts=p["splits"])
