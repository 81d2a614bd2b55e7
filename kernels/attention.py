"""Attention O = softmax(Q Kᵀ · sm_scale) V, computed in four ways.

`attention_standard`   three launches; S = Q Kᵀ and P = softmax(S), N² elements each, go through HBM
`flash_attention_v1`   FlashAttention (arXiv 2205.14135), algorithm 1: outer loop over K, V; O re-read and rescaled
`flash_attention`      FlashAttention-2 (arXiv 2307.08691), algorithm 1: outer loop over Q, O stays on chip, written
once `flash_attention_exp2` the same with exp2, as in its authors' code: log2 e is folded into the scale

q is (batch, heads, seq_len, head_dim), k and v are (batch, kv_heads, kv_len, head_dim), heads a multiple of kv_heads
(grouped-query attention: consecutive query heads share one key head). Any strides; float32, float16, bfloat16; maxima,
sums, softmax are float32. Causal: query i sees keys j ≤ i + diagonal. By default diagonal = kv_len − seq_len: the last
query sees every key. A query that sees no key gives zeros and lse = −inf. A NaN reaches only the rows that see it. An
infinite V of a hidden key does not stay hidden: 0 · inf is NaN.
Offsets are 64-bit: a tensor may have more than 2³¹ elements.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.softmax import softmax_row_kernel

LOG2_E = 1.44269504088896340736
"""log2 e. exp(x) = 2^(x · log2 e), and a GPU computes powers of 2 in hardware."""
LN_2 = tl.constexpr(0.69314718055994530942)
"""ln 2 turns a base-2 logarithm into a natural one."""


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    heads, group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # One program computes one query tile of one head. Its accumulator Õ stays on chip until the end.
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    o_ptr += batch * stride_ob + head * stride_oh
    lse_ptr += batch * stride_lb + head * stride_lh
    # Q_i: read once                                                                (BLOCK_M, BLOCK_D)
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    end = kv_len
    if CAUSAL:
        # Keys after the last query's diagonal are hidden from every row: skip those tiles.
        end = tl.minimum(kv_len, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, seq_len) + diagonal)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)
        # S_ij = Q_i K_jᵀ · sm_scale                                                (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
        visible = (cols < kv_len)[None, :]
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None] + diagonal)
        s = tl.where(visible, s, -float("inf"))
        # m_new = max(m, rowmax S_ij)                                               (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no key seen yet: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1                                                    (BLOCK_M,)
        alpha = tl.exp(m_i - m_safe)
        # P̃ = exp(S_ij − m_new)                                                     (BLOCK_M, BLOCK_N)
        p = tl.exp(s - m_safe[:, None])
        # l = α l + rowsum P̃                                                        (BLOCK_M,)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        # Õ = α Õ: rescale the accumulator to the new maximum                       (BLOCK_M, BLOCK_D)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)
        if CAUSAL:
            # A hidden key has P̃ = 0, but 0 · NaN is NaN: take NaNs out of V, set them in the rows that see them.
            first_nan = tl.min(tl.where(v == v, 2147483647, cols[:, None]), axis=0)
            acc = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), acc)
            v = tl.where(v == v, v, 0.0)
        # Õ = Õ + P̃ V_j: add this tile's part                                       (BLOCK_M, BLOCK_D)
        acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
    # O = Õ / l, once, at the end                                                   (BLOCK_M, BLOCK_D)
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    # L = m + ln l: −inf where no key was seen                                      (BLOCK_M,)
    lse = m_i + tl.log(l_i)
    tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, o, mask=inside_q)
    tl.store(lse_ptr + rows * stride_lm, lse, mask=rows < seq_len)


@triton.jit
def flash_attention_exp2_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    heads, group, seq_len, kv_len, diagonal, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # flash_attention in base 2: scale_log2 = sm_scale · log2 e, so s and m_i are exponents of 2.
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    o_ptr += batch * stride_ob + head * stride_oh
    lse_ptr += batch * stride_lb + head * stride_lh
    # Q_i: read once                                                                (BLOCK_M, BLOCK_D)
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    end = kv_len
    if CAUSAL:
        # Keys after the last query's diagonal are hidden from every row: skip those tiles.
        end = tl.minimum(kv_len, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, seq_len) + diagonal)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)
        # S_ij = Q_i K_jᵀ · sm_scale · log2 e                                       (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
        visible = (cols < kv_len)[None, :]
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None] + diagonal)
        s = tl.where(visible, s, -float("inf"))
        # m_new = max(m, rowmax S_ij)                                               (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no key seen yet: −inf − −inf would be NaN
        # α = 2^(m − m_new) ≤ 1                                                     (BLOCK_M,)
        alpha = tl.exp2(m_i - m_safe)
        # P̃ = 2^(S_ij − m_new): the same values as with exp                         (BLOCK_M, BLOCK_N)
        p = tl.exp2(s - m_safe[:, None])
        # l = α l + rowsum P̃                                                        (BLOCK_M,)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        # Õ = α Õ: rescale the accumulator to the new maximum                       (BLOCK_M, BLOCK_D)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)
        if CAUSAL:
            # A hidden key has P̃ = 0, but 0 · NaN is NaN: take NaNs out of V, set them in the rows that see them.
            first_nan = tl.min(tl.where(v == v, 2147483647, cols[:, None]), axis=0)
            acc = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), acc)
            v = tl.where(v == v, v, 0.0)
        # Õ = Õ + P̃ V_j: add this tile's part                                       (BLOCK_M, BLOCK_D)
        acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
    # O = Õ / l, once, at the end                                                   (BLOCK_M, BLOCK_D)
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    # L = (m + log2 l) ln 2, a natural logarithm again
    lse = (m_i + tl.log2(l_i)) * LN_2
    tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, o, mask=inside_q)
    tl.store(lse_ptr + rows * stride_lm, lse, mask=rows < seq_len)


@triton.jit
def flash_attention_v1_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, o_hbm_ptr, m_hbm_ptr, l_hbm_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    heads, group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # One program computes one head. lse, m and l are contiguous (batch, heads, seq_len) float32; O adds head_dim.
    batch = (tl.program_id(0) // heads).to(tl.int64)
    head = (tl.program_id(0) % heads).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    o_ptr += batch * stride_ob + head * stride_oh
    first_row = tl.program_id(0).to(tl.int64) * seq_len
    lse_ptr += first_row
    m_hbm_ptr += first_row
    l_hbm_ptr += first_row
    o_hbm_ptr += first_row * HEAD_DIM
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    for start_n in range(0, kv_len, BLOCK_N):
        cols = start_n + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)
        v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)
        if CAUSAL:
            # A hidden key has P̃ = 0, but 0 · NaN is NaN: take NaNs out of V, set them in the rows that see them.
            first_nan = tl.min(tl.where(v == v, 2147483647, cols[:, None]), axis=0)
            v = tl.where(v == v, v, 0.0)
        for start_m in range(0, seq_len, BLOCK_M):
            rows = start_m + tl.arange(0, BLOCK_M).to(tl.int64)
            inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
            q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)
            # The running state is in HBM: every visit reads it back.
            o_hbm_ptrs = o_hbm_ptr + rows[:, None] * HEAD_DIM + dims[None, :]
            o_i = tl.load(o_hbm_ptrs, mask=inside_q, other=0.0)
            m_i = tl.load(m_hbm_ptr + rows, mask=rows < seq_len, other=-float("inf"))
            l_i = tl.load(l_hbm_ptr + rows, mask=rows < seq_len, other=0.0)
            # S_ij = Q_i K_jᵀ · sm_scale                                            (BLOCK_M, BLOCK_N)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
            visible = (cols < kv_len)[None, :]
            if CAUSAL:
                visible = visible & (cols[None, :] <= rows[:, None] + diagonal)
            s = tl.where(visible, s, -float("inf"))
            # m_new = max(m, rowmax S_ij)                                           (BLOCK_M,)
            m_new = tl.maximum(m_i, tl.max(s, axis=1))
            m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no key seen yet: −inf − −inf would be NaN
            # α = exp(m − m_new) ≤ 1                                                (BLOCK_M,)
            alpha = tl.exp(m_i - m_safe)
            # P̃ = exp(S_ij − m_new)                                                 (BLOCK_M, BLOCK_N)
            p = tl.exp(s - m_safe[:, None])
            # l_new = α l + rowsum P̃                                                (BLOCK_M,)
            l_new = l_i * alpha + tl.sum(p, axis=1)
            l_safe = tl.where(l_new == 0.0, 1.0, l_new)
            # O = (l α O + P̃ V_j) / l_new: undo the last division, rescale, add, divide  (BLOCK_M, BLOCK_D)
            o_i = o_i * (l_i * alpha)[:, None]
            o_i = (o_i + tl.dot(p.to(v.dtype), v, input_precision="ieee")) / l_safe[:, None]
            if CAUSAL:
                o_i = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), o_i)
            if start_n + BLOCK_N < kv_len:
                tl.store(o_hbm_ptrs, o_i, mask=inside_q)
                tl.store(m_hbm_ptr + rows, m_new, mask=rows < seq_len)
                tl.store(l_hbm_ptr + rows, l_new, mask=rows < seq_len)
            else:
                # L = m + ln l                                                      (BLOCK_M,)
                lse = m_new + tl.log(l_new)
                tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, o_i, mask=inside_q)
                tl.store(lse_ptr + rows, lse, mask=rows < seq_len)
        tl.debug_barrier()  # all stores are done before any thread reads the state back


@triton.jit
def attention_scores_kernel(
    q_ptr, k_ptr, s_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    heads, group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 1 of 3: one program writes one tile of S to HBM. S is contiguous (batch, heads, seq_len, kv_len).
    batch = (tl.program_id(2) // heads).to(tl.int64)
    head = (tl.program_id(2) % heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // group * stride_kh
    s_ptr += tl.program_id(2).to(tl.int64) * seq_len * kv_len
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)
    inside_k = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_k, other=0.0)
    # S_ij = Q_i K_jᵀ · sm_scale                                                    (BLOCK_M, BLOCK_N)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
    if CAUSAL:
        s = tl.where(cols[None, :] <= rows[:, None] + diagonal, s, -float("inf"))
    inside_s = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]
    tl.store(s_ptr + rows[:, None] * kv_len + cols[None, :], s, mask=inside_s)


@triton.jit
def attention_values_kernel(
    p_ptr, v_ptr, o_ptr,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    heads, group, seq_len, kv_len, diagonal,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 3 of 3: one program reads its rows of P back from HBM and multiplies them with V.
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    p_ptr += tl.program_id(1).to(tl.int64) * seq_len * kv_len
    v_ptr += batch * stride_vb + head // group * stride_vh
    o_ptr += batch * stride_ob + head * stride_oh
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, kv_len, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_p = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]
        p = tl.load(p_ptr + rows[:, None] * kv_len + cols[None, :], mask=inside_p, other=0.0)
        inside_v = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_v, other=0.0)
        if CAUSAL:
            # A hidden key has weight 0, but 0 · NaN is NaN: take NaNs out of V, set them in the rows that see them.
            first_nan = tl.min(tl.where(v == v, 2147483647, cols[:, None]), axis=0)
            acc = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), acc)
            v = tl.where(v == v, v, 0.0)
        # O_i = O_i + P_ij V_j                                                      (BLOCK_M, BLOCK_D)
        acc = acc + tl.dot(p, v, input_precision="ieee")
    inside_o = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, acc, mask=inside_o)


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """FlashAttention-2 forward (arXiv 2307.08691, algorithm 1).

    Returns O (batch, heads, seq_len, head_dim) in the dtype of q, and each row's logsumexp (natural logarithm),
    float32 (batch, heads, seq_len). Raises ValueError, which names the argument that does not fit.
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(call.seq_len, block_m), call.batch * call.heads)
    flash_attention_kernel[grid](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale,
        **call.constants, num_warps=4, num_stages=2,
    )  # fmt: skip
    return o, lse


def flash_attention_exp2(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """FlashAttention-2 forward with exp2: one multiplication on the host saves one per exponential.

    Returns and raises what `flash_attention` does; lse is the natural logarithm here too.
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(call.seq_len, block_m), call.batch * call.heads)
    flash_attention_exp2_kernel[grid](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale * LOG2_E,
        **call.constants, num_warps=4, num_stages=2,
    )  # fmt: skip
    return o, lse


def flash_attention_v1(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """FlashAttention forward (arXiv 2205.14135, algorithm 1). Every visit reads and writes O, m and l in HBM.

    Between visits O is float32, as in its authors' code. Returns and raises what `flash_attention` does.
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    o_hbm = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    m_hbm = torch.full(q.shape[:3], -float("inf"), dtype=torch.float32, device=q.device)
    l_hbm = torch.zeros(q.shape[:3], dtype=torch.float32, device=q.device)
    flash_attention_v1_kernel[(call.batch * call.heads,)](
        q, k, v, o, lse, o_hbm, m_hbm, l_hbm,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale,
        # One stage: a load issued early would read the state before the visit that writes it.
        **call.constants, num_warps=4, num_stages=1,
    )  # fmt: skip
    return o, lse


def attention_standard(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> torch.Tensor:
    """Attention in three launches: scores, softmax, values. S and P have q's dtype.

    S and P are (batch, heads, seq_len, kv_len). Returns O (batch, heads, seq_len, head_dim). Raises ValueError.
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    if call.kv_len > 65536:
        raise ValueError(f"k has {call.kv_len} keys: at most 65536, since softmax_row keeps a row of S on chip")
    s = torch.empty((call.batch, call.heads, call.seq_len, call.kv_len), dtype=q.dtype, device=q.device)
    p = torch.empty_like(s)
    o = torch.empty_like(q)
    tiles_m, tiles_n = triton.cdiv(call.seq_len, block_m), triton.cdiv(call.kv_len, block_n)
    attention_scores_kernel[(tiles_m, tiles_n, call.batch * call.heads)](
        q, k, s,
        *q.stride(), *k.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale,
        **call.constants, num_warps=4, num_stages=2,
    )  # fmt: skip
    softmax_row_kernel[(call.batch * call.heads * call.seq_len,)](
        s, p, call.kv_len, 1, call.kv_len, 1, call.kv_len, BLOCK_N=triton.next_power_of_2(call.kv_len)
    )
    attention_values_kernel[(tiles_m, call.batch * call.heads)](
        p, v, o,
        *v.stride(), *o.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal,
        **call.constants, num_warps=4, num_stages=2,
    )  # fmt: skip
    return o


class _Call:
    """The checked sizes of one call, shared by the wrappers."""

    def __init__(self, q, k, v, causal, sm_scale, diagonal, block_m, block_n) -> None:
        self.batch, self.heads, self.seq_len, head_dim = q.shape
        self.kv_heads, self.kv_len = k.shape[1:3]
        self.group = self.heads // self.kv_heads
        self.diagonal = self.kv_len - self.seq_len if diagonal is None else diagonal
        self.sm_scale = head_dim**-0.5 if sm_scale is None else sm_scale
        self.constants = {
            "HEAD_DIM": head_dim,
            "BLOCK_D": max(16, triton.next_power_of_2(head_dim)),  # tl.dot's sides are powers of two, 16 at least
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "CAUSAL": causal,
        }

    @classmethod
    def of(cls, q, k, v, causal, sm_scale, diagonal, block_m, block_n) -> _Call:
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            if tensor.dim() != 4 or 0 in tensor.shape:
                raise ValueError(
                    f"{name} of shape {tuple(tensor.shape)}: attention takes (batch, heads, length, head_dim), none 0"
                )
            if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
                raise ValueError(f"{name} of dtype {tensor.dtype}: attention takes float32, float16 or bfloat16")
            if tensor.dtype != q.dtype or tensor.device != q.device:
                raise ValueError(
                    f"{name} is {tensor.dtype} on {tensor.device}, q is {q.dtype} on {q.device}: they must be alike"
                )
        if k.shape != v.shape:
            raise ValueError(f"v of shape {tuple(v.shape)}: must be k's shape, {tuple(k.shape)}")
        if (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
            raise ValueError(f"k of shape {tuple(k.shape)}: batch and head_dim must be those of q, {tuple(q.shape)}")
        if q.shape[1] % k.shape[1]:
            raise ValueError(f"k has {k.shape[1]} heads: q's {q.shape[1]} heads must be a multiple of them")
        if q.shape[3] > 256:
            raise ValueError(f"q has head_dim {q.shape[3]}: at most 256")
        if q.shape[0] * q.shape[1] > 65535:
            raise ValueError(
                f"q has {q.shape[0]} × {q.shape[1]} heads: batch × heads is at most 65535, the grid's second axis"
            )
        for name, block in (("block_m", block_m), ("block_n", block_n)):
            if block < 1 or block & (block - 1):
                raise ValueError(f"{name}={block}: a tile's side is a power of two")
        return cls(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
