"""FlashAttention-2 backward (arXiv 2307.08691, algorithm 2): dQ by atomics, five matmuls per tile; dQ's last bits vary.

`backward.py` computes S and dP twice, since one order of loops cannot keep dQ, dK and dV on chip. Here the loop over
queries also computes dS K_j, this key tile's part of dQ_i, and adds it to a float32 sum in HBM. Programs of other key
tiles add to the same rows at the same time, so each addition must be atomic. The order of the programs is not fixed,
and float32 addition is not associative: another order rounds to other bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.backward import checked, launch_delta


@triton.jit
def zero_kernel(dq_sum_ptr, elements, BLOCK: tl.constexpr):
    # dQ is a sum of parts, so it starts at 0.
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dq_sum_ptr + at, tl.zeros((BLOCK,), tl.float32), mask=at < elements)


@triton.jit
def flash_attention_backward_atomic_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_sum_ptr, dk_ptr, dv_ptr,
    group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # One program holds one key tile of one key head. Queries pass; dK and dV stay on chip, parts of dQ leave it.
    kv_head = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    at_kv = (kv_head * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
    inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    k = tl.load(k_ptr + at_kv, mask=inside_kv, other=0.0)
    v = tl.load(v_ptr + at_kv, mask=inside_kv, other=0.0)
    k_finite = k
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    begin = 0
    if CAUSAL:
        # Queries before the first key's diagonal see no key of this tile: skip those tiles.
        begin = tl.maximum(0, tl.program_id(0) * BLOCK_N - diagonal) // BLOCK_M * BLOCK_M
        # A hidden pair has P = dS = 0, but 0 · NaN is NaN: take NaNs out, set them in the rows and keys that see them.
        first_nan = tl.min(tl.where(tl.abs(k) < float("inf"), 2147483647, cols[:, None]), axis=0)
        k_finite = tl.where(tl.abs(k) < float("inf"), k, 0.0)
    for member in range(group):  # the query heads that share this key head
        first = (kv_head * group + member) * seq_len
        for start in range(begin, seq_len, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
            at_q = (first + rows)[:, None] * HEAD_DIM + dims[None, :]
            inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
            q = tl.load(q_ptr + at_q, mask=inside_q, other=0.0)
            do = tl.load(do_ptr + at_q, mask=inside_q, other=0.0)
            lse = tl.load(lse_ptr + first + rows, mask=rows < seq_len, other=float("inf"))
            lse = tl.where(lse == -float("inf"), float("inf"), lse)  # a query without keys: P is 0
            delta = tl.load(delta_ptr + first + rows, mask=rows < seq_len, other=0.0)
            visible = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]
            if CAUSAL:
                visible = visible & (cols[None, :] <= rows[:, None] + diagonal)
                # A hidden pair has P = dS = 0, but 0 · NaN is NaN: take NaNs out, set them in the keys that are seen.
                last_do = tl.max(tl.where(do == do, -2147483648, rows[:, None]), axis=0)
                dv = tl.where(cols[:, None] <= last_do[None, :] + diagonal, float("nan"), dv)
                do = tl.where(do == do, do, 0.0)
                last_q = tl.max(tl.where(tl.abs(q) < float("inf"), -2147483648, rows[:, None]), axis=0)
                dk = tl.where(cols[:, None] <= last_q[None, :] + diagonal, float("nan"), dk)
                q = tl.where(tl.abs(q) < float("inf"), q, 0.0)
            # S_ij = Q_i K_jᵀ · sm_scale                                            (BLOCK_M, BLOCK_N)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
            # P = exp(S − lse)                                                      (BLOCK_M, BLOCK_N)
            p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)
            # dV = dV + Pᵀ dO_i                                                     (BLOCK_N, BLOCK_D)
            dv = dv + tl.dot(tl.trans(p.to(do.dtype)), do, input_precision="ieee")
            # dP = dO_i V_jᵀ                                                        (BLOCK_M, BLOCK_N)
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")
            # dS = P ∘ (dP − δ)                                                     (BLOCK_M, BLOCK_N)
            ds = tl.where(visible, p * (dp - delta[:, None]), 0.0)
            # dK = dK + dSᵀ Q_i                                                     (BLOCK_N, BLOCK_D)
            dk = dk + tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
            # this key tile's part of dQ_i: dS K_j                                  (BLOCK_M, BLOCK_D)
            dq = tl.dot(ds.to(k.dtype), k_finite, input_precision="ieee")
            if CAUSAL:
                dq = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), dq)
            # dQ_i = dQ_i + dS K_j, in HBM: programs of other key tiles add to these rows too
            tl.atomic_add(dq_sum_ptr + at_q, dq, mask=inside_q)
    tl.store(dk_ptr + at_kv, dk * sm_scale, mask=inside_kv)
    tl.store(dv_ptr + at_kv, dv, mask=inside_kv)


@triton.jit
def scale_kernel(dq_sum_ptr, dq_ptr, elements, sm_scale, BLOCK: tl.constexpr):
    # The finished sum, scaled once and rounded once to dQ's dtype.
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dq = tl.load(dq_sum_ptr + at, mask=at < elements, other=0.0) * sm_scale
    tl.store(dq_ptr + at, dq, mask=at < elements)


def flash_attention_backward_atomic(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    *,
    dlse: torch.Tensor | None = None,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV as `backward.flash_attention_backward` returns them; five matmuls per tile, dQ summed in HBM."""
    call, (q, k, v, do, o, lse) = checked(q, k, v, do, o, lse, causal, sm_scale, diagonal, block_m, block_n)
    dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
    dq_sum = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    launch_delta(call, o, do, None if dlse is None else dlse.contiguous(), delta)
    elements, block = q.numel(), call.constants["BLOCK_M"] * call.constants["BLOCK_D"]
    zero_kernel[(triton.cdiv(elements, block),)](dq_sum, elements, BLOCK=block)
    flash_attention_backward_atomic_kernel[(triton.cdiv(call.kv_len, block_n), call.batch * call.kv_heads)](
        q, k, v, do, lse, delta, dq_sum, dk, dv,
        call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale,
        **call.constants, num_warps=4, num_stages=1,
    )  # fmt: skip
    scale_kernel[(triton.cdiv(elements, block),)](dq_sum, dq, elements, call.sm_scale, BLOCK=block)
    return dq, dk, dv
