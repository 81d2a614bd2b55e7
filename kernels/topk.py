"""Softmax and its K largest weights in one pass: y[r, k] = the k-th largest softmax(x[r])[c], and index[r, k] its column c.

Milakov & Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867, 2018), algorithm 4, a tile at a time: one load
per element of x, and only K weights and K columns stored, where a softmax followed by a top-k takes 5 accesses per element.

x (rows, cols), any strides, float32, float16 or bfloat16; y (rows, k) in the dtype of x; index (rows, k) int64. The weights
are sorted, largest first; of equal ones the column further left comes first. −inf has no place in the list: where fewer than k
elements are above it (or cols < k) the rest of the list is weight 0, column −1. A NaN anywhere in a row makes its weights NaN; its
columns are those of the largest numbers. Offsets are 64-bit.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.softmax import check

LARGEST_K = 32


@triton.jit
def softmax_topk_kernel(
    x_ptr, y_ptr, index_ptr, stride_xm, stride_xn, stride_ym, stride_yk, stride_im, stride_ik, n_cols,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # softmax_online without its second pass: beside m and l it keeps the K largest elements, sorted. BLOCK_K ≥ K places.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    m_i = -float("inf")
    l_i = 0.0
    places = tl.arange(0, BLOCK_K)
    above = tl.maximum(places - 1, 0)
    top_x = tl.full((BLOCK_K,), -float("inf"), tl.float32)
    top_i = tl.full((BLOCK_K,), -1, tl.int64)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # m_new = max(m, max x)
        m_new = tl.maximum(m_i, tl.max(x, axis=0))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # nothing but −inf yet: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1
        alpha = tl.exp(m_i - m_safe)
        # p = exp(x − m_new)                                                        (BLOCK_N,)
        p = tl.exp(x - m_safe)
        # l = α l + Σ p
        l_i = l_i * alpha + tl.sum(p, axis=0)
        m_i = m_new
        left = tl.where(x == x, x, -float("inf"))  # NaN has no place in an order
        for _ in range(K):
            # the largest that is left in the tile leaves it
            best, at = tl.max(left, axis=0, return_indices=True)
            left = tl.where(cols == start + at, -float("inf"), left)
            # its place: after all in the list that are at least as large
            place = tl.sum((top_x >= best).to(tl.int32), axis=0)
            # those behind that place move back by one, and there it is             (BLOCK_K,)
            moved_x = tl.where(places < place, top_x, tl.gather(top_x, above, axis=0))
            moved_i = tl.where(places < place, top_i, tl.gather(top_i, above, axis=0))
            top_x = tl.where(places == place, best, moved_x)
            top_i = tl.where(places == place, start + at, moved_i)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    # y = exp(x − m) / l, of the K kept alone                                       (BLOCK_K,)
    y = tl.exp(top_x - m_i) / l_i
    tl.store(y_ptr + row * stride_ym + places.to(tl.int64) * stride_yk, y, mask=places < K)
    tl.store(index_ptr + row * stride_im + places.to(tl.int64) * stride_ik, top_i, mask=places < K)


def softmax_topk(x: torch.Tensor, *, k: int = 5, block_n: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest weights (rows, k) of each row's softmax, and their columns (rows, k) int64, x (rows, cols) read once.

    Raises ValueError when k is not 1 to 32, block_n no power of two, or x no matrix of floats.
    """
    check(x, block_n=block_n)
    if not 1 <= k <= LARGEST_K:
        raise ValueError(f"k={k}: must be from 1 to {LARGEST_K}")
    y = torch.empty((x.shape[0], k), dtype=x.dtype, device=x.device)
    index = torch.empty((x.shape[0], k), dtype=torch.int64, device=x.device)
    softmax_topk_kernel[(x.shape[0],)](
        x, y, index, *x.stride(), *y.stride(), *index.stride(), x.shape[1],
        K=k, BLOCK_K=triton.next_power_of_2(k), BLOCK_N=block_n,
    )  # fmt: skip
    return y, index
