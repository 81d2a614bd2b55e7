"""The backward pass of attention as autograd does it: five launches, and N² numbers kept from the forward pass.

The forward pass kept P, N² elements. From HBM come P twice, dP once and dS twice; dP and dS are written there:

    dV = Pᵀ dO      dP = dO Vᵀ      dS = P ∘ (dP − rowsum(P ∘ dP))      dQ = dS K · sm_scale      dK = dSᵀ Q · sm_scale

Four matmuls, no exponential, seven accesses per element of P. `backward.py` does the same work from lse alone.

q, k, v, the causal mask, grouped heads and a query without keys are as in `attention.py`; a NaN reaches only gradients
of pairs that see it, and so does an infinite Q or K.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention import _Call
from kernels.softmax_backward import softmax_backward_kernel


@triton.jit
def attention_backward_values_kernel(
    p_ptr, do_ptr, dv_ptr,
    group, seq_len, kv_len, diagonal,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 1 of 5: one program reads its columns of P from HBM and adds up dV of one key tile of one key head.
    kv_head = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for member in range(group):  # the query heads that share this key head
        first = (kv_head * group + member) * seq_len
        for start in range(0, seq_len, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
            inside_p = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]
            p = tl.load(p_ptr + (first + rows)[:, None] * kv_len + cols[None, :], mask=inside_p, other=0.0)
            inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
            do = tl.load(do_ptr + (first + rows)[:, None] * HEAD_DIM + dims[None, :], mask=inside_q, other=0.0)
            if CAUSAL:
                # A hidden pair has P = 0, but 0 · NaN is NaN: take NaNs out of dO, set them in the keys that are seen.
                last_nan = tl.max(tl.where(do == do, -2147483648, rows[:, None]), axis=0)
                dv = tl.where(cols[:, None] <= last_nan[None, :] + diagonal, float("nan"), dv)
                do = tl.where(do == do, do, 0.0)
            # dV = dV + Pᵀ dO_i                                                     (BLOCK_N, BLOCK_D)
            dv = dv + tl.dot(tl.trans(p), do, input_precision="ieee")
    inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(dv_ptr + (kv_head * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :], dv, mask=inside_kv)


@triton.jit
def attention_backward_weights_kernel(
    v_ptr, do_ptr, dp_ptr,
    group, seq_len, kv_len, diagonal,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 2 of 5: one program computes one tile of dP and stores it to HBM.
    head = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    do = tl.load(do_ptr + (head * seq_len + rows)[:, None] * HEAD_DIM + dims[None, :], mask=inside_q, other=0.0)
    inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    at_kv = (head // group * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
    v = tl.load(v_ptr + at_kv, mask=inside_kv, other=0.0)
    # dP = dO_i V_jᵀ                                                                (BLOCK_M, BLOCK_N)
    dp = tl.dot(do, tl.trans(v), input_precision="ieee")
    if CAUSAL:
        dp = tl.where(cols[None, :] <= rows[:, None] + diagonal, dp, 0.0)
    at = (head * seq_len + rows)[:, None] * kv_len + cols[None, :]
    tl.store(dp_ptr + at, dp, mask=(rows < seq_len)[:, None] & (cols < kv_len)[None, :])


@triton.jit
def attention_backward_queries_kernel(
    ds_ptr, k_ptr, dq_ptr,
    group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 4 of 5: one program reads its rows of dS from HBM and adds up dQ of one query tile of one head.
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, kv_len, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_p = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]
        ds = tl.load(ds_ptr + (head * seq_len + rows)[:, None] * kv_len + cols[None, :], mask=inside_p, other=0.0)
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        at_kv = (head // group * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
        k = tl.load(k_ptr + at_kv, mask=inside_kv, other=0.0)
        if CAUSAL:
            # A hidden key has dS = 0, but 0 · NaN is NaN: take NaNs out of K, set them in the rows that see them.
            ds = tl.where(cols[None, :] <= rows[:, None] + diagonal, ds, 0.0)
            first_nan = tl.min(tl.where(tl.abs(k) < float("inf"), 2147483647, cols[:, None]), axis=0)
            dq = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), dq)
            k = tl.where(tl.abs(k) < float("inf"), k, 0.0)
        # dQ = dQ + dS K_j                                                          (BLOCK_M, BLOCK_D)
        dq = dq + tl.dot(ds, k, input_precision="ieee")
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(dq_ptr + (head * seq_len + rows)[:, None] * HEAD_DIM + dims[None, :], dq * sm_scale, mask=inside_q)


@triton.jit
def attention_backward_keys_kernel(
    ds_ptr, q_ptr, dk_ptr,
    group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 5 of 5: one program reads its columns of dS again and adds up dK of one key tile of one key head.
    kv_head = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for member in range(group):  # the query heads that share this key head
        first = (kv_head * group + member) * seq_len
        for start in range(0, seq_len, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
            inside_p = (rows < seq_len)[:, None] & (cols < kv_len)[None, :]
            ds = tl.load(ds_ptr + (first + rows)[:, None] * kv_len + cols[None, :], mask=inside_p, other=0.0)
            inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
            q = tl.load(q_ptr + (first + rows)[:, None] * HEAD_DIM + dims[None, :], mask=inside_q, other=0.0)
            if CAUSAL:
                # A hidden pair has dS = 0, but 0 · NaN is NaN: take NaNs out of Q, set them in the keys that are seen.
                ds = tl.where(cols[None, :] <= rows[:, None] + diagonal, ds, 0.0)
                last_nan = tl.max(tl.where(tl.abs(q) < float("inf"), -2147483648, rows[:, None]), axis=0)
                dk = tl.where(cols[:, None] <= last_nan[None, :] + diagonal, float("nan"), dk)
                q = tl.where(tl.abs(q) < float("inf"), q, 0.0)
            # dK = dK + dSᵀ Q_i                                                     (BLOCK_N, BLOCK_D)
            dk = dk + tl.dot(tl.trans(ds), q, input_precision="ieee")
    inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(dk_ptr + (kv_head * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :], dk * sm_scale, mask=inside_kv)


def attention_backward_standard(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    p: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV in five launches, of the shapes and dtype of q, k and v; dP and dS have q's dtype.

    p is the softmax that the forward pass kept, (batch, heads, seq_len, kv_len) of q's dtype, 0 where a key is hidden.
    Tensors that are not contiguous are copied first. Raises ValueError, which names the argument.
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    if call.kv_len > 65536:
        raise ValueError(f"k has {call.kv_len} keys: at most 65536, since a row of dS stays on chip")
    if p.shape != (*q.shape[:3], call.kv_len) or p.dtype != q.dtype:
        raise ValueError(f"p is {tuple(p.shape)} {p.dtype}: must be {(*q.shape[:3], call.kv_len)} {q.dtype}")
    if do.shape != q.shape or do.dtype != q.dtype:
        raise ValueError(f"do is {tuple(do.shape)} {do.dtype}: must be as q, {tuple(q.shape)} {q.dtype}")
    q, k, v, do, p = (tensor.contiguous() for tensor in (q, k, v, do, p))
    dq, dk, dv, dp, ds = (torch.empty_like(tensor) for tensor in (q, k, v, p, p))
    heads, kv_heads = call.batch * call.heads, call.batch * call.kv_heads
    tiles_m, tiles_n = triton.cdiv(call.seq_len, block_m), triton.cdiv(call.kv_len, block_n)
    sizes = (call.group, call.seq_len, call.kv_len, call.diagonal)
    options = {**call.constants, "num_warps": 4, "num_stages": 2}
    attention_backward_values_kernel[(tiles_n, kv_heads)](p, do, dv, *sizes, **options)
    attention_backward_weights_kernel[(tiles_m, tiles_n, heads)](v, do, dp, *sizes, **options)
    whole_row = triton.next_power_of_2(call.kv_len)
    softmax_backward_kernel[(heads * call.seq_len,)](p, dp, ds, call.kv_len, BLOCK_N=whole_row)
    attention_backward_queries_kernel[(tiles_m, heads)](ds, k, dq, *sizes, call.sm_scale, **options)
    attention_backward_keys_kernel[(tiles_n, kv_heads)](ds, q, dk, *sizes, call.sm_scale, **options)
    return dq, dk, dv
