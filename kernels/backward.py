"""FlashAttention backward in two passes (formulas: arXiv 2307.08691, algorithm 2): the same bits in every run.

The forward pass left O and one number per query, lse = m + ln l. P is not kept: P = exp(S − lse) is one matmul and one
exponential away, and no maximum is searched for. With δ = rowsum(dO ∘ O):

    dV = Pᵀ dO        dP = dO Vᵀ        dS = P ∘ (dP − δ)        dQ = dS K · sm_scale        dK = dSᵀ Q · sm_scale

dK and dV are sums over queries; dQ is a sum over keys. One order of loops cannot keep all three on chip. So there are
three launches: δ; a loop that holds keys (dK, dV); a loop that holds queries (dQ). The last two both compute S and dP:
seven matmuls per tile, and each gradient has one program that writes it. The paper's five are `backward_atomic.py`.

q, k, v, the causal mask, grouped heads and a query without keys are as in `attention.py`; a NaN reaches only gradients
of pairs that see it, and so does an infinite Q or K. `attention_backward.py` has the kernels written for speed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention import _Call


@triton.jit
def attention_delta_kernel(
    o_ptr, do_ptr, dlse_ptr, delta_ptr, seq_len,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    # Launch 1 of 3: what all keys of a query share. One program computes one query tile of one head.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    first = tl.program_id(1).to(tl.int64) * seq_len
    at_q = (first + rows)[:, None] * HEAD_DIM + dims[None, :]
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    o = tl.load(o_ptr + at_q, mask=inside_q, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at_q, mask=inside_q, other=0.0).to(tl.float32)
    # δ = rowsum(dO ∘ O)                                                            (BLOCK_M,)
    delta = tl.sum(do * o, axis=1)
    if dlse_ptr is not None:
        # lse = ln Σ exp(S) has the gradient P, so dlse is one more term of dP − δ  (BLOCK_M,)
        delta = delta - tl.load(dlse_ptr + first + rows, mask=rows < seq_len, other=0.0)
    tl.store(delta_ptr + first + rows, delta, mask=rows < seq_len)


@triton.jit
def flash_attention_backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 2 of 3: one program holds one key tile of one key head. Queries pass; dK and dV stay on chip.
    kv_head = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    at_kv = (kv_head * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
    inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    k = tl.load(k_ptr + at_kv, mask=inside_kv, other=0.0)
    v = tl.load(v_ptr + at_kv, mask=inside_kv, other=0.0)
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    begin = 0
    if CAUSAL:
        # Queries before the first key's diagonal see no key of this tile: skip those tiles.
        begin = tl.maximum(0, tl.program_id(0) * BLOCK_N - diagonal) // BLOCK_M * BLOCK_M
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
    tl.store(dk_ptr + at_kv, dk * sm_scale, mask=inside_kv)
    tl.store(dv_ptr + at_kv, dv, mask=inside_kv)


@triton.jit
def flash_attention_backward_queries_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr,
    group, seq_len, kv_len, diagonal, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # Launch 3 of 3: one program holds one query tile of one head. Keys pass; dQ stays on chip.
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    at_q = (head * seq_len + rows)[:, None] * HEAD_DIM + dims[None, :]
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + at_q, mask=inside_q, other=0.0)
    do = tl.load(do_ptr + at_q, mask=inside_q, other=0.0)
    lse = tl.load(lse_ptr + head * seq_len + rows, mask=rows < seq_len, other=float("inf"))
    lse = tl.where(lse == -float("inf"), float("inf"), lse)  # a query without keys: P is 0
    delta = tl.load(delta_ptr + head * seq_len + rows, mask=rows < seq_len, other=0.0)
    dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    end = kv_len
    if CAUSAL:
        # Keys after the last query's diagonal are hidden from every row: skip those tiles.
        end = tl.minimum(kv_len, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, seq_len) + diagonal)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        at_kv = (head // group * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + at_kv, mask=inside_kv, other=0.0)
        v = tl.load(v_ptr + at_kv, mask=inside_kv, other=0.0)
        visible = (cols < kv_len)[None, :]
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None] + diagonal)
        # S_ij = Q_i K_jᵀ · sm_scale, a second time                                 (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
        # P = exp(S − lse)                                                          (BLOCK_M, BLOCK_N)
        p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)
        # dP = dO_i V_jᵀ, a second time                                             (BLOCK_M, BLOCK_N)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        # dS = P ∘ (dP − δ)                                                         (BLOCK_M, BLOCK_N)
        ds = tl.where(visible, p * (dp - delta[:, None]), 0.0)
        if CAUSAL:
            # A hidden key has dS = 0, but 0 · NaN is NaN: take NaNs out of K, set them in the rows that see them.
            first_nan = tl.min(tl.where(tl.abs(k) < float("inf"), 2147483647, cols[:, None]), axis=0)
            dq = tl.where(first_nan[None, :] <= rows[:, None] + diagonal, float("nan"), dq)
            k = tl.where(tl.abs(k) < float("inf"), k, 0.0)
        # dQ = dQ + dS K_j                                                          (BLOCK_M, BLOCK_D)
        dq = dq + tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    tl.store(dq_ptr + at_q, dq * sm_scale, mask=inside_q)


def flash_attention_backward(
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
    """dQ, dK and dV, of the shapes and dtype of q, k and v; seven matmuls per tile.

    o and lse are what `attention.flash_attention` returned. do has o's shape and dtype; dlse, the gradient of lse, has
    the shape of lse and is float32. Tensors that are not contiguous are copied first. Raises ValueError.
    """
    call, (q, k, v, do, o, lse) = checked(q, k, v, do, o, lse, causal, sm_scale, diagonal, block_m, block_n)
    dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
    heads, kv_heads = call.batch * call.heads, call.batch * call.kv_heads
    tiles_m, tiles_n = triton.cdiv(call.seq_len, block_m), triton.cdiv(call.kv_len, block_n)
    launch_delta(call, o, do, None if dlse is None else dlse.contiguous(), delta)
    sizes = (call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale)
    flash_attention_backward_keys_kernel[(tiles_n, kv_heads)](
        q, k, v, do, lse, delta, dk, dv, *sizes, **call.constants, num_warps=4, num_stages=1
    )
    flash_attention_backward_queries_kernel[(tiles_m, heads)](
        q, k, v, do, lse, delta, dq, *sizes, **call.constants, num_warps=4, num_stages=1
    )
    return dq, dk, dv


def launch_delta(
    call: _Call, o: torch.Tensor, do: torch.Tensor, dlse: torch.Tensor | None, delta: torch.Tensor
) -> None:
    """Launches the kernel that fills `delta`, float32 (batch, heads, seq_len)."""
    constants = {name: call.constants[name] for name in ("HEAD_DIM", "BLOCK_D", "BLOCK_M")}
    grid = (triton.cdiv(call.seq_len, call.constants["BLOCK_M"]), call.batch * call.heads)
    attention_delta_kernel[grid](o, do, dlse, delta, call.seq_len, **constants, num_warps=4)


def checked(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
    causal: bool, sm_scale: float | None, diagonal: int | None, block_m: int, block_n: int,
) -> tuple[_Call, list[torch.Tensor]]:  # fmt: skip
    """The call's sizes, and the tensors made contiguous. Raises ValueError, which names the argument."""
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    for name, tensor in (("do", do), ("o", o)):
        if tensor.shape != q.shape or tensor.dtype != q.dtype:
            raise ValueError(
                f"{name} is {tuple(tensor.shape)} {tensor.dtype}: must be as q, {tuple(q.shape)} {q.dtype}"
            )
    if lse.shape != q.shape[:3] or lse.dtype != torch.float32:
        raise ValueError(f"lse is {tuple(lse.shape)} {lse.dtype}: must be {tuple(q.shape[:3])} torch.float32")
    return call, [tensor.contiguous() for tensor in (q, k, v, do, o, lse)]
