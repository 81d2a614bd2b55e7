"""The gradient of a softmax, a whole row on chip: dS = P ∘ (dP − δ), with δ = rowsum(P ∘ dP)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_backward_kernel(p_ptr, dp_ptr, ds_ptr, n_cols, BLOCK_N: tl.constexpr):
    # One program computes one row; BLOCK_N ≥ n_cols, and rows are contiguous.
    cols = tl.arange(0, BLOCK_N)
    inside = cols < n_cols
    at = tl.program_id(0).to(tl.int64) * n_cols + cols
    p = tl.load(p_ptr + at, mask=inside, other=0.0).to(tl.float32)
    dp = tl.load(dp_ptr + at, mask=inside, other=0.0).to(tl.float32)
    # δ = Σ p dp: what every element of the row shares
    delta = tl.sum(p * dp, axis=0)
    # ds = p ∘ (dp − δ)                                                             (BLOCK_N,)
    ds = p * (dp - delta)
    tl.store(ds_ptr + at, ds, mask=inside)


def softmax_backward(p: torch.Tensor, dp: torch.Tensor, *, block_n: int) -> torch.Tensor:
    """dS = P ∘ (dP − rowsum(P ∘ dP)) of contiguous weights and their gradient, both (rows, cols); in their dtype."""
    ds = torch.empty_like(p)
    softmax_backward_kernel[(p.shape[0],)](p, dp, ds, p.shape[1], BLOCK_N=block_n)
    return ds
