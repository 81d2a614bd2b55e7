"""The backward passes that readers write: attention by FlashAttention-2's algorithm (arXiv 2307.08691).

One idea a kernel, to be read and written; `kernels/attention_backward.py` has those for speed. The forward pass left
L = m + ln ℓ of each query, so P = exp(S − L) is one exponential away, and no maximum is searched for.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
import triton.language as tl

from kernels.inputs import Arrays
from kernels.parameters import Values, next_power_of_two
from kernels.verify import SMALLEST, UNIT, Expectation


@triton.jit
def attention_backward_queries_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr,
    seq_len, kv_len, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program computes dQ of one query tile of one head. dQ is a sum over keys, so it stays on chip.
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    at_q = (head * seq_len + rows)[:, None] * HEAD_DIM + dims[None, :]
    q = tl.load(q_ptr + at_q, mask=inside_q, other=0.0)
    do = tl.load(do_ptr + at_q, mask=inside_q, other=0.0)
    lse = tl.load(lse_ptr + head * seq_len + rows, mask=rows < seq_len, other=float("inf"))
    delta = tl.load(delta_ptr + head * seq_len + rows, mask=rows < seq_len, other=0.0)
    dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, kv_len, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        at_kv = (head * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
        k = tl.load(k_ptr + at_kv, mask=inside_kv, other=0.0)
        v = tl.load(v_ptr + at_kv, mask=inside_kv, other=0.0)
        # S = Q_i K_jᵀ · sm_scale, −∞ past the last key                             (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
        s = tl.where((cols < kv_len)[None, :], s, -float("inf"))
        # P = exp(S − L)                                                            (BLOCK_M, BLOCK_N)
        p = tl.exp(s - lse[:, None])
        # dP = dO_i V_jᵀ                                                            (BLOCK_M, BLOCK_N)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        # dS = P ∘ (dP − δ)                                                         (BLOCK_M, BLOCK_N)
        ds = p * (dp - delta[:, None])
        # dQ = dQ + dS K_j                                                          (BLOCK_M, BLOCK_D)
        dq = dq + tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    tl.store(dq_ptr + at_q, dq * sm_scale, mask=inside_q)


@triton.jit
def attention_backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    seq_len, kv_len, sm_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program computes dK and dV of one key tile of one head. Both are sums over queries, so they stay on chip.
    head = tl.program_id(1)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    inside_kv = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    at_kv = (head * kv_len + cols)[:, None] * HEAD_DIM + dims[None, :]
    k = tl.load(k_ptr + at_kv, mask=inside_kv, other=0.0)
    v = tl.load(v_ptr + at_kv, mask=inside_kv, other=0.0)
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for start in range(0, seq_len, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        inside_q = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
        at_q = (head * seq_len + rows)[:, None] * HEAD_DIM + dims[None, :]
        q = tl.load(q_ptr + at_q, mask=inside_q, other=0.0)
        do = tl.load(do_ptr + at_q, mask=inside_q, other=0.0)
        # L = +∞ past the last query, so P is 0 there
        lse = tl.load(lse_ptr + head * seq_len + rows, mask=rows < seq_len, other=float("inf"))
        delta = tl.load(delta_ptr + head * seq_len + rows, mask=rows < seq_len, other=0.0)
        # S = Q_i K_jᵀ · sm_scale                                                   (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
        s = tl.where((cols < kv_len)[None, :], s, -float("inf"))
        # P = exp(S − L)                                                            (BLOCK_M, BLOCK_N)
        p = tl.exp(s - lse[:, None])
        # dV = dV + Pᵀ dO_i                                                         (BLOCK_N, BLOCK_D)
        dv = dv + tl.dot(tl.trans(p.to(do.dtype)), do, input_precision="ieee")
        # dP = dO_i V_jᵀ                                                            (BLOCK_M, BLOCK_N)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        # dS = P ∘ (dP − δ)                                                         (BLOCK_M, BLOCK_N)
        ds = p * (dp - delta[:, None])
        # dK = dK + dSᵀ Q_i                                                         (BLOCK_N, BLOCK_D)
        dk = dk + tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
    tl.store(dk_ptr + at_kv, dk * sm_scale, mask=inside_kv)
    tl.store(dv_ptr + at_kv, dv, mask=inside_kv)


def attention_backward_queries(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, *, block_m: int, block_n: int
) -> torch.Tensor:
    """dQ of attention without a mask: q and do (batch, heads, seq_len, head_dim), k and v (batch, heads, kv_len,
    head_dim), contiguous, of one dtype, which dQ has too.
    """
    dq, (lse, delta) = torch.empty_like(q), _left_by_the_forward_pass(q, k, v, do)
    grid = (triton.cdiv(q.shape[2], block_m), q.shape[0] * q.shape[1])
    attention_backward_queries_kernel[grid](
        q, k, v, do, lse, delta, dq, **_sizes(q, k), BLOCK_M=block_m, BLOCK_N=block_n
    )
    return dq


def attention_backward_keys(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, *, block_m: int, block_n: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """dK and dV of attention without a mask, of tensors as in `attention_backward_queries`."""
    dk, dv, (lse, delta) = torch.empty_like(k), torch.empty_like(v), _left_by_the_forward_pass(q, k, v, do)
    grid = (triton.cdiv(k.shape[2], block_n), q.shape[0] * q.shape[1])
    attention_backward_keys_kernel[grid](
        q, k, v, do, lse, delta, dk, dv, **_sizes(q, k), BLOCK_M=block_m, BLOCK_N=block_n
    )
    return dk, dv


def _sizes(q: torch.Tensor, k: torch.Tensor) -> dict[str, float]:
    width = q.shape[3]
    return {
        "seq_len": q.shape[2], "kv_len": k.shape[2], "sm_scale": width**-0.5,
        "HEAD_DIM": width, "BLOCK_D": max(16, next_power_of_two(width)),
    }  # fmt: skip


def _left_by_the_forward_pass(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """L and δ = rowsum(dO ∘ O) of each query, float32 (batch, heads, seq_len)."""
    q, k, v, do = (tensor.double() for tensor in (q, k, v, do))
    s = q @ k.mT * q.shape[3] ** -0.5
    delta = (do * (torch.softmax(s, dim=-1) @ v)).sum(-1)
    return torch.logsumexp(s, dim=-1).float().contiguous(), delta.float().contiguous()


# What is right


def softmax_gradient(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """dS in float64; its tolerance: one rounding of the result, and float32 rounding of δ, dP − δ and the product."""
    weights, dp = (arrays[name].astype(np.float64) for name in ("p", "dp"))
    exact = weights * (dp - (weights * dp).sum(-1, keepdims=True))
    terms = weights * (np.abs(dp) + (weights * np.abs(dp)).sum(-1, keepdims=True))
    in_float32 = UNIT["fp32"] * (8 + math.log2(p["block_n"]))  # a sum is a tree
    return {"ds": (exact, UNIT[p["dtype"]] * np.abs(exact) + in_float32 * terms + SMALLEST[p["dtype"]])}
