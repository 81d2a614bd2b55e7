"""Softmax and its K largest weights: y[r, k] is the k-th largest softmax(x[r])[c], index[r, k] is its column c.

Four kernels of Milakov & Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867, 2018), section 4,
with their memory accesses per element of x. The 2 K results per row are not counted:

    softmax_safe_then_topk     5   safe softmax (3 loads, 1 store), then the K largest of its weights (1 load)
    softmax_online_then_topk   4   the same with online softmax, which loads twice
    softmax_safe_topk          2   fused: one pass for m, one for l and the K largest together
    softmax_topk               1   fused and online: algorithm 4, tile by tile

x is (rows, cols), any strides, float32, float16 or bfloat16; y is (rows, k) in x's dtype; index is (rows, k) int64.
Weights are sorted, largest first; of equal weights the one further left comes first. A NaN in a row makes its weights
NaN. Offsets are 64-bit. If a row has fewer than k elements, its list ends with weight 0, column −1.

The fused kernels rank elements of x: −inf is never listed; a row with a NaN lists the columns of its largest numbers.
`topk_kernel` ranks stored, rounded weights: unequal elements may have equal weights, and weights of 0 are listed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.softmax import check, softmax_online, softmax_safe

LARGEST_K = 32


@triton.jit
def softmax_topk_kernel(
    x_ptr, y_ptr, index_ptr, stride_xm, stride_xn, stride_ym, stride_yk, stride_im, stride_ik, n_cols,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # softmax_online without its second pass: it keeps m, l and the K largest elements, sorted, in BLOCK_K ≥ K places.
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
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # only −inf so far: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1
        alpha = tl.exp(m_i - m_safe)
        # p = exp(x − m_new)                                                        (BLOCK_N,)
        p = tl.exp(x - m_safe)
        # l = α l + Σ p
        l_i = l_i * alpha + tl.sum(p, axis=0)
        m_i = m_new
        left = tl.where(x == x, x, -float("inf"))  # NaN cannot be ordered
        for _ in range(K):
            # take the largest element left in the tile
            best, at = tl.max(left, axis=0, return_indices=True)
            left = tl.where(cols == start + at, -float("inf"), left)
            # its place in the list: after all that are at least as large
            place = tl.sum((top_x >= best).to(tl.int32), axis=0)
            # insert it there; those behind it move back by one                     (BLOCK_K,)
            moved_x = tl.where(places < place, top_x, tl.gather(top_x, above, axis=0))
            moved_i = tl.where(places < place, top_i, tl.gather(top_i, above, axis=0))
            top_x = tl.where(places == place, best, moved_x)
            top_i = tl.where(places == place, start + at, moved_i)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    # y = exp(x − m) / l, of the K kept elements only                               (BLOCK_K,)
    y = tl.exp(top_x - m_i) / l_i
    tl.store(y_ptr + row * stride_ym + places.to(tl.int64) * stride_yk, y, mask=places < K)
    tl.store(index_ptr + row * stride_im + places.to(tl.int64) * stride_ik, top_i, mask=places < K)


@triton.jit
def softmax_safe_topk_kernel(
    x_ptr, y_ptr, index_ptr, stride_xm, stride_xn, stride_ym, stride_yk, stride_im, stride_ik, n_cols,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # softmax_safe without its last pass: the second pass adds up l and keeps the K largest elements.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    m_i = -float("inf")
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # m = max(m, max x)
        m_i = tl.maximum(m_i, tl.max(x, axis=0))
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    l_i = 0.0
    places = tl.arange(0, BLOCK_K)
    above = tl.maximum(places - 1, 0)
    top_x = tl.full((BLOCK_K,), -float("inf"), tl.float32)
    top_i = tl.full((BLOCK_K,), -1, tl.int64)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # p = exp(x − m) ≤ 1: cannot overflow                                       (BLOCK_N,)
        p = tl.exp(x - m_i)
        # l = l + Σ p
        l_i = l_i + tl.sum(p, axis=0)
        left = tl.where(x == x, x, -float("inf"))  # NaN cannot be ordered
        for _ in range(K):
            # take the largest element left in the tile
            best, at = tl.max(left, axis=0, return_indices=True)
            left = tl.where(cols == start + at, -float("inf"), left)
            # its place in the list: after all that are at least as large
            place = tl.sum((top_x >= best).to(tl.int32), axis=0)
            # insert it there; those behind it move back by one                     (BLOCK_K,)
            moved_x = tl.where(places < place, top_x, tl.gather(top_x, above, axis=0))
            moved_i = tl.where(places < place, top_i, tl.gather(top_i, above, axis=0))
            top_x = tl.where(places == place, best, moved_x)
            top_i = tl.where(places == place, start + at, moved_i)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    # y = exp(x − m) / l, of the K kept elements only                               (BLOCK_K,)
    y = tl.exp(top_x - m_i) / l_i
    tl.store(y_ptr + row * stride_ym + places.to(tl.int64) * stride_yk, y, mask=places < K)
    tl.store(index_ptr + row * stride_im + places.to(tl.int64) * stride_ik, top_i, mask=places < K)


@triton.jit
def topk_kernel(
    y_ptr, top_ptr, index_ptr, stride_ym, stride_yn, stride_tm, stride_tk, stride_im, stride_ik, n_cols,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # The K largest weights of each row. Another launch has stored them: each is loaded once more.
    row = tl.program_id(0).to(tl.int64)
    y_ptr += row * stride_ym
    places = tl.arange(0, BLOCK_K)
    above = tl.maximum(places - 1, 0)
    top_y = tl.full((BLOCK_K,), -float("inf"), tl.float32)
    top_i = tl.full((BLOCK_K,), -1, tl.int64)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        y = tl.load(y_ptr + cols * stride_yn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        left = tl.where(y == y, y, float("inf"))  # NaN sorts first, so it is not lost
        for _ in range(K):
            # take the largest element left in the tile
            best, at = tl.max(left, axis=0, return_indices=True)
            left = tl.where(cols == start + at, -float("inf"), left)
            # its place in the list: after all that are at least as large
            place = tl.sum((top_y >= best).to(tl.int32), axis=0)
            # insert it there; those behind it move back by one                     (BLOCK_K,)
            moved_y = tl.where(places < place, top_y, tl.gather(top_y, above, axis=0))
            moved_i = tl.where(places < place, top_i, tl.gather(top_i, above, axis=0))
            top_y = tl.where(places == place, best, moved_y)
            top_i = tl.where(places == place, start + at, moved_i)
    top_y = tl.where(top_y == -float("inf"), 0.0, top_y)  # fewer than K elements: the place is empty
    top_y = tl.where(top_y == float("inf"), float("nan"), top_y)
    tl.store(top_ptr + row * stride_tm + places.to(tl.int64) * stride_tk, top_y, mask=places < K)
    tl.store(index_ptr + row * stride_im + places.to(tl.int64) * stride_ik, top_i, mask=places < K)


def softmax_topk(x: torch.Tensor, *, k: int = 5, block_n: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest weights (rows, k) of each row's softmax, and their columns (rows, k) int64. Reads x once.

    Raises ValueError if k is not 1 to 32, block_n not a power of two, or x not a float matrix; so do the others here.
    """
    return _keep(softmax_topk_kernel, x, k, block_n)


def softmax_safe_topk(x: torch.Tensor, *, k: int = 5, block_n: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    """As softmax_topk, but reads x twice: once for its maximum, once for the sum and the k largest."""
    return _keep(softmax_safe_topk_kernel, x, k, block_n)


def softmax_safe_then_topk(x: torch.Tensor, *, k: int = 5, block_n: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    """As softmax_topk, in two launches: safe softmax stores all weights, then the k largest are found among them."""
    check(x, block_n=block_n)
    _check_k(k)
    return _keep(topk_kernel, softmax_safe(x, block_n=block_n), k, block_n)


def softmax_online_then_topk(x: torch.Tensor, *, k: int = 5, block_n: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    """As softmax_topk, in two launches: online softmax stores all weights, then the k largest are found among them."""
    check(x, block_n=block_n)
    _check_k(k)
    return _keep(topk_kernel, softmax_online(x, block_n=block_n), k, block_n)


def _keep(kernel, x: torch.Tensor, k: int, block_n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Launches a kernel, one program per row: (weights (rows, k), columns (rows, k))."""
    check(x, block_n=block_n)
    _check_k(k)
    y = torch.empty((x.shape[0], k), dtype=x.dtype, device=x.device)
    index = torch.empty((x.shape[0], k), dtype=torch.int64, device=x.device)
    kernel[(x.shape[0],)](
        x, y, index, *x.stride(), *y.stride(), *index.stride(), x.shape[1],
        K=k, BLOCK_K=triton.next_power_of_2(k), BLOCK_N=block_n,
    )  # fmt: skip
    return y, index


def _check_k(k: int) -> None:
    if not 1 <= k <= LARGEST_K:
        raise ValueError(f"k={k}: must be from 1 to {LARGEST_K}")
