"""Softmax and its K largest weights, as fast as the row can be read: what `topk.py` computes, arranged so that
lanes exchange nothing while they read.

The tile's BLOCK_N lanes each run Milakov & Gimelshein's algorithm 3 (arXiv 1805.02867) on a column of their own:
elements c, c + BLOCK_N, c + 2 BLOCK_N … of the row. A lane keeps (m, l) and where its maximum was; no lane asks another
until the row has ended. Then the lanes' pairs are joined, as any pairs may be. And the K largest elements of the row
lie in at most K lanes: those with the K largest maxima, since each of these maxima is larger than anything in any other
lane. Only those K lanes are read again.

x, y, index, their order, ties, −inf and NaN are as in `topk.py`.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from kernels.softmax import check
from kernels.topk import LARGEST_K


@triton.jit
def _place(x, index):
    """A number's place in the order that the list is sorted by, as one int64: larger numbers first, of equal ones the
    smaller index. NaN and −inf have none: −2⁶³.

    A float's bits, read as an integer, are in the order of the floats from 0 up, and in reverse below.
    """
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)  # −0 is 0
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    place = (ordered << 32) + (0x7FFFFFFF - index)
    return tl.where(x > -float("inf"), place, -0x8000000000000000)


@triton.jit
def softmax_topk_lanes_kernel(
    x_ptr, y_ptr, index_ptr, stride_xm, stride_xn, stride_ym, stride_yk, stride_im, stride_ik, n_cols,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, UNROLL: tl.constexpr,
    MULTIPLE: tl.constexpr,
):  # fmt: skip
    # BLOCK_K ≥ K places; BLOCK_T ≥ tiles a row. MULTIPLE divides the row's length and its way to the next: said so that
    # it can be
    # seen, which lets a thread load that many elements at once.
    n_cols = n_cols // MULTIPLE * MULTIPLE
    stride_xm = stride_xm // MULTIPLE * MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    lanes = tl.arange(0, BLOCK_N)
    m_i = tl.full((BLOCK_N,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_N,), tl.float32)
    at = tl.zeros((BLOCK_N,), tl.int32)
    for start in tl.range(0, n_cols, BLOCK_N, loop_unroll_factor=UNROLL):
        cols = start + lanes
        x = tl.load(x_ptr + cols.to(tl.int64) * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # e = exp(−|x − m|): α if x is the new maximum, else p                       (BLOCK_N,)
        e = tl.exp(-tl.abs(x - tl.maximum(m_i, -3.4028234663852886e38)))  # −inf − −inf would be NaN
        larger = x > m_i
        # l = α l + 1 if x is the new maximum, else l + p                           (BLOCK_N,)
        l_i = tl.where(larger, l_i * e + 1.0, l_i + e)
        m_i = tl.where(larger, x, m_i)
        at = tl.where(larger, start, at)
    # the row's m = max m_i,  l = Σ l_i exp(m_i − m)
    m_row = tl.max(m_i, axis=0)
    m_row = tl.where(m_row == -float("inf"), 0.0, m_row)
    l_row = tl.sum(l_i * tl.exp(m_i - m_row), axis=0)
    l_row = tl.where(l_row == 0.0, 1.0, l_row)
    # the K lanes with the largest maxima
    places = tl.arange(0, BLOCK_K)
    kept = tl.zeros((BLOCK_K,), tl.int32)
    left = _place(m_i, at + lanes)
    for k in range(K):
        best = tl.max(left, axis=0)
        left = tl.where(left == best, -0x8000000000000000, left)
        lane = (0x7FFFFFFF - (best & 0x7FFFFFFF)).to(tl.int32) % BLOCK_N
        # a lane with nothing above −inf does not count
        kept = tl.where(places == k, tl.where(best == -0x8000000000000000, n_cols, lane), kept)
    # all that these lanes saw                                                      (BLOCK_K, BLOCK_T)
    cols = kept[:, None] + tl.arange(0, BLOCK_T)[None, :] * BLOCK_N
    inside = (places < K)[:, None] & (cols < n_cols)
    x = tl.load(x_ptr + cols.to(tl.int64) * stride_xn, mask=inside, other=-float("inf")).to(tl.float32)
    top_x = tl.full((BLOCK_K,), -float("inf"), tl.float32)
    top_i = tl.full((BLOCK_K,), -1, tl.int64)
    left = _place(x, cols)
    for k in range(K):
        best = tl.max(tl.max(left, axis=1), axis=0)
        left = tl.where(left == best, -0x8000000000000000, left)
        if best != -0x8000000000000000:
            ordered = (best >> 32).to(tl.int32)
            best_x = tl.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).to(tl.float32, bitcast=True)
            top_x = tl.where(places == k, best_x, top_x)
            top_i = tl.where(places == k, 0x7FFFFFFF - (best & 0x7FFFFFFF), top_i)
    # y = exp(x − m) / l, of the K kept alone                                       (BLOCK_K,)
    y = tl.exp(top_x - m_row) / l_row
    tl.store(y_ptr + row * stride_ym + places.to(tl.int64) * stride_yk, y, mask=places < K)
    tl.store(index_ptr + row * stride_im + places.to(tl.int64) * stride_ik, top_i, mask=places < K)


def softmax_topk_lanes(
    x: torch.Tensor, *, k: int = 5, block_n: int | None = None, warps: int | None = None, unroll: int = 2
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest weights (rows, k) of each row's softmax, and their columns (rows, k) int64, x (rows, cols) read
    once.

    Raises ValueError when k is not 1 to 32, block_n no power of two, or x no matrix of floats.
    """
    block_n = (512 if x.shape[-1] < 2**16 else 1024) if block_n is None else block_n
    check(x, block_n=block_n)
    if not 1 <= k <= LARGEST_K:
        raise ValueError(f"k={k}: must be from 1 to {LARGEST_K}")
    y = torch.empty((x.shape[0], k), dtype=x.dtype, device=x.device)
    index = torch.empty((x.shape[0], k), dtype=torch.int64, device=x.device)
    n_cols = x.shape[1]
    softmax_topk_lanes_kernel[(x.shape[0],)](
        x, y, index, *x.stride(), *y.stride(), *index.stride(), n_cols,
        K=k, BLOCK_K=triton.next_power_of_2(k), BLOCK_N=block_n,
        BLOCK_T=triton.next_power_of_2(triton.cdiv(n_cols, block_n)),
        UNROLL=unroll, MULTIPLE=math.gcd(n_cols, x.stride(0), 8),
        num_warps=warps or (2 if n_cols < 2**14 else block_n // 128),
    )  # fmt: skip
    return y, index
