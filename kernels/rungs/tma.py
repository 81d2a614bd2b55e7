"""Rung 6: the Tensor Memory Accelerator (TMA) copies whole tiles, given a descriptor instead of addresses.

Without it every thread computes its own addresses, keeps them in registers and issues its own loads. Hopper's TMA
takes one instruction from one thread: which tensor, which corner. It stores the tile in the layout that the tensor
cores read, fills in zeros past the end of the tensor, and does not write past the end of O. FlashAttention-3 (arXiv
2407.08608, section 3.1). float16 or bfloat16; head_dim up to 256; strides and addresses are multiples of 16 bytes,
features are contiguous. On a GPU without TMA Triton uses addresses.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.attention import LN_2, LOG2_E
from kernels.rungs.shape import checked, unaligned


@triton.jit
def attention_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr,
    heads, group, seq_len, kv_len, diagonal, scale_log2,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # One program computes one query tile of one head.
    first_row = tl.program_id(0) * BLOCK_M
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    rows = first_row + tl.arange(0, BLOCK_M)
    keys = tl.arange(0, BLOCK_N)
    q = q_desc.load([batch, head, first_row, 0]).reshape(BLOCK_M, BLOCK_D)
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
            k = k_desc.load([batch, head // group, start, 0]).reshape(BLOCK_N, BLOCK_D)
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
            v = v_desc.load([batch, head // group, start, 0]).reshape(BLOCK_N, BLOCK_D)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    # O = Õ / l, lse = (m + log2 l) ln 2; a row that sees no key gets 0 and −inf
    o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    lse = (m_i + tl.log2(l_i)) * LN_2
    line = tl.program_id(1).to(tl.int64) * seq_len + rows
    o_desc.store([batch, head, first_row, 0], o.to(o_desc.dtype).reshape(1, 1, BLOCK_M, BLOCK_D))
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
    if refused := unaligned(q, k, v, o):
        raise ValueError(refused)

    def descriptor(tensor: torch.Tensor, length: str) -> TensorDescriptor:
        return TensorDescriptor.from_tensor(tensor, [1, 1, call.constants[length], call.constants["BLOCK_D"]])

    attention_kernel[(triton.cdiv(call.seq_len, call.constants["BLOCK_M"]), call.batch * call.heads)](
        descriptor(q, "BLOCK_M"), descriptor(k, "BLOCK_N"), descriptor(v, "BLOCK_N"), descriptor(o, "BLOCK_M"), lse,
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale * LOG2_E,
        BLOCK_D=call.constants["BLOCK_D"], BLOCK_M=call.constants["BLOCK_M"], BLOCK_N=call.constants["BLOCK_N"],
        CAUSAL=causal, STAGES=stages, num_warps=warps, num_stages=1,
    )  # fmt: skip
    return o, lse
