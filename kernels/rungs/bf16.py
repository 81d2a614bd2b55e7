"""Rung 2: 16-bit operands for both matmuls; sums and softmax stay in float32.

Tensor cores multiply float16 and bfloat16 and accumulate in float32. Q, K and V go to them unchanged. P̃ is rounded
to 16 bits before P̃ V, as in FlashAttention's code (arXiv 2205.14135). So each P̃ is rounded once and no sum is. A
16-bit tile takes half the space: tiles can be larger, and K and V are loaded less often. float16 or bfloat16;
head_dim up to 256.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.rungs.shape import checked


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    heads, group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # One program computes one query tile of one head.
    first_row = tl.program_id(0) * BLOCK_M
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    rows = first_row + tl.arange(0, BLOCK_M)
    keys = tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    q_ptrs = q_ptr + rows.to(tl.int64)[:, None] * stride_qm + dims[None, :] * stride_qd
    k_ptrs = k_ptr + keys.to(tl.int64)[:, None] * stride_kn + dims[None, :] * stride_kd
    v_ptrs = v_ptr + keys.to(tl.int64)[:, None] * stride_vn + dims[None, :] * stride_vd
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptrs, mask=inside_q, other=0.0)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, kv_len, BLOCK_N):
        cols = start + keys
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptrs + tl.cast(start, tl.int64) * stride_kn, mask=inside_kv, other=0.0)
        # S = Q Kᵀ · sm_scale                                                        (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        seen = (cols < kv_len)[None, :]
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None] + diagonal)
        s = tl.where(seen, s, -float("inf"))
        # m_new = max(m, rowmax S)                                                  (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no key seen yet: −inf − −inf would be NaN
        # α = exp(m − m_new),  P̃ = exp(S − m_new),  l = α l + rowsum P̃
        alpha = tl.exp(m_i - m_safe)
        p = tl.exp(s - m_safe[:, None])
        l_i = l_i * alpha + tl.sum(p, axis=1)
        m_i = m_new
        # Õ = α Õ + P̃ V                                                            (BLOCK_M, BLOCK_D)
        v = tl.load(v_ptrs + tl.cast(start, tl.int64) * stride_vn, mask=inside_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    # O = Õ / l, lse = m + ln l; a row that sees no key gets 0 and −inf
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    lse = m_i + tl.log(l_i)
    line = tl.program_id(1).to(tl.int64) * seq_len + rows
    tl.store(o_ptr + line[:, None] * HEAD_DIM + dims[None, :], o, mask=inside_q)
    tl.store(lse_ptr + line, lse, mask=rows < seq_len)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O in q's dtype, lse in float32. Raises ValueError, which names the argument that does not fit."""
    call = checked(q, k, v, causal, sm_scale, block_m, block_n)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    attention_kernel[(triton.cdiv(call.seq_len, call.constants["BLOCK_M"]), call.batch * call.heads)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale,
        **call.constants, num_warps=8, num_stages=1,
    )  # fmt: skip
    return o, lse
