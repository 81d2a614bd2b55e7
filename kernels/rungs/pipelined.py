"""Rung 5: software pipelining. The next tiles of K and V load while this tile is computed.

A load from HBM takes hundreds of cycles, and rung 4 waits for each. Here each iteration requests tiles for a later
one. They arrive in shared memory without passing through registers while the tensor cores work on earlier tiles.
Shared memory holds `num_stages` tiles of K and of V. Ampere introduced the instruction, cp.async; Triton's loop
schedules it. float16 or bfloat16; head_dim up to 256.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention import LN_2, LOG2_E
from kernels.rungs.shape import checked


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    heads, group, seq_len, kv_len, diagonal, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr,
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
    # Every row sees the keys before `whole`; no row sees the keys from `end` on.
    whole = kv_len
    end = kv_len
    if CAUSAL:
        whole = tl.minimum(kv_len, tl.maximum(first_row + diagonal + 1, 0))
        end = tl.minimum(kv_len, tl.minimum(first_row + BLOCK_M, seq_len) + diagonal)
    whole = whole // BLOCK_N * BLOCK_N
    for CUT in tl.static_range(2):  # first the full tiles, then those that the mask cuts
        for start in tl.range(whole if CUT else 0, end if CUT else whole, BLOCK_N, num_stages=STAGES):
            cols = start + keys
            inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
            k = tl.load(k_ptrs + tl.cast(start, tl.int64) * stride_kn, mask=inside_kv, other=0.0)
            # S = Q Kᵀ · sm_scale · log2 e                                           (BLOCK_M, BLOCK_N)
            s = tl.dot(q, tl.trans(k)) * scale_log2
            if CUT:
                seen = (cols < kv_len)[None, :]
                if CAUSAL:
                    seen = seen & (cols[None, :] <= rows[:, None] + diagonal)
                s = tl.where(seen, s, -float("inf"))
            # m_new = max(m, rowmax S)                                              (BLOCK_M,)
            m_new = tl.maximum(m_i, tl.max(s, axis=1))
            m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no key seen yet: −inf − −inf would be NaN
            # α = 2^(m − m_new),  P̃ = 2^(S − m_new),  l = α l + rowsum P̃
            alpha = tl.exp2(m_i - m_safe)
            p = tl.exp2(s - m_safe[:, None])
            l_i = l_i * alpha + tl.sum(p, axis=1)
            m_i = m_new
            # Õ = α Õ + P̃ V                                                        (BLOCK_M, BLOCK_D)
            v = tl.load(v_ptrs + tl.cast(start, tl.int64) * stride_vn, mask=inside_kv, other=0.0)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    # O = Õ / l, lse = (m + log2 l) ln 2; a row that sees no key gets 0 and −inf
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    lse = (m_i + tl.log2(l_i)) * LN_2
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
    warps: int = 8,
    stages: int = 3,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O in q's dtype, lse in float32. Raises ValueError, which names the argument that does not fit."""
    call = checked(q, k, v, causal, sm_scale, block_m, block_n, stages)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    attention_kernel[(triton.cdiv(call.seq_len, call.constants["BLOCK_M"]), call.batch * call.heads)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(),
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale * LOG2_E,
        **call.constants, STAGES=stages, num_warps=warps, num_stages=1,
    )  # fmt: skip
    return o, lse
