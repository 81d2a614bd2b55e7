"""Softmax of each row of a matrix: y[r, c] = exp(x[r, c]) / Σ_c exp(x[r, c]). Six kernels, each with one new idea.

Loads and stores per element are as counted by Milakov & Gimelshein, "Online normalizer calculation for softmax" (arXiv
1805.02867, 2018). They write d for the running sum; here it is `l_i`, as in FlashAttention.

    kernel                  loads + stores   idea
    softmax_naive           2 + 1            the formula as written: overflows
    softmax_safe            3 + 1            subtract the row's maximum first: one more pass
    softmax_row             1 + 1            keep the whole row on chip
    softmax_blocked_wrong   1 + 1            normalise each tile by itself: fast, and wrong
    softmax_online          2 + 1            maximum and sum in one pass; rescale the sum when the maximum changes
    softmax_tiled           2 + 1            the same on tiles of rows and columns

Other files: `merge.py` (tiles in parallel, their (m, l) merged), `topk.py` (the K largest weights).

Every kernel computes in float32 and stores in the dtype of x. A row of nothing but −inf gives zeros. A NaN anywhere in
a row makes the whole row NaN. Offsets are 64-bit: a matrix may have more than 2³¹ elements.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_naive_kernel(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    y_ptr += row * stride_ym
    l_i = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # p = exp(x): inf for x > 88.7                                              (BLOCK_N,)
        p = tl.exp(x)
        # l = l + Σ p
        l_i = l_i + tl.sum(p, axis=0)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)  # every p is 0: write zeros, not 0/0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # y = exp(x) / l                                                            (BLOCK_N,)
        y = tl.exp(x) / l_i
        tl.store(y_ptr + cols * stride_yn, y, mask=cols < n_cols)


@triton.jit
def softmax_safe_kernel(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    y_ptr += row * stride_ym
    m_i = -float("inf")
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # m = max(m, max x)
        m_i = tl.maximum(m_i, tl.max(x, axis=0))
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    l_i = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # p = exp(x − m) ≤ 1: cannot overflow                                       (BLOCK_N,)
        p = tl.exp(x - m_i)
        # l = l + Σ p
        l_i = l_i + tl.sum(p, axis=0)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # y = exp(x − m) / l                                                        (BLOCK_N,)
        y = tl.exp(x - m_i) / l_i
        tl.store(y_ptr + cols * stride_yn, y, mask=cols < n_cols)


@triton.jit
def softmax_row_kernel(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_cols, BLOCK_N: tl.constexpr):
    # BLOCK_N ≥ n_cols: one tile holds the whole row, read once and kept on chip.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    y_ptr += row * stride_ym
    cols = tl.arange(0, BLOCK_N).to(tl.int64)
    x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    # m = max x
    m_i = tl.max(x, axis=0)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    # p = exp(x − m)                                                                (BLOCK_N,)
    p = tl.exp(x - m_i)
    # l = Σ p
    l_i = tl.sum(p, axis=0)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    # y = p / l                                                                     (BLOCK_N,)
    y = p / l_i
    tl.store(y_ptr + cols * stride_yn, y, mask=cols < n_cols)


@triton.jit
def softmax_blocked_wrong_kernel(
    x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_cols, BLOCK_N: tl.constexpr
):  # fmt: skip
    # WRONG on purpose: each tile is divided by its own sum, so a row sums to its number of tiles, not to 1.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    y_ptr += row * stride_ym
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # m = max x, of this tile only
        m_i = tl.max(x, axis=0)
        m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
        # p = exp(x − m)                                                            (BLOCK_N,)
        p = tl.exp(x - m_i)
        # l = Σ p, of this tile only
        l_i = tl.sum(p, axis=0)
        l_i = tl.where(l_i == 0.0, 1.0, l_i)
        # y = p / l                                                                 (BLOCK_N,)
        y = p / l_i
        tl.store(y_ptr + cols * stride_yn, y, mask=cols < n_cols)


@triton.jit
def softmax_online_kernel(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_cols, BLOCK_N: tl.constexpr):
    # Milakov & Gimelshein, algorithm 3, tile by tile. Of all x read so far: m_i = max x, l_i = Σ exp(x − m_i).
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    y_ptr += row * stride_ym
    m_i = -float("inf")
    l_i = 0.0
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
        # l = α l + Σ p: α rescales the old sum to the new maximum
        l_i = l_i * alpha + tl.sum(p, axis=0)
        m_i = m_new
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        # y = exp(x − m) / l                                                        (BLOCK_N,)
        y = tl.exp(x - m_i) / l_i
        tl.store(y_ptr + cols * stride_yn, y, mask=cols < n_cols)


@triton.jit
def softmax_tiled_kernel(
    x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_rows, n_cols,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # softmax_online on BLOCK_M rows at once: m, l and α become columns, one number per row.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn
        x = tl.load(x_ptrs, mask=inside, other=-float("inf")).to(tl.float32)
        # m_new = max(m, rowmax x)                                                  (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(x, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # only −inf so far: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1                                                    (BLOCK_M,)
        alpha = tl.exp(m_i - m_safe)
        # p = exp(x − m_new)                                                        (BLOCK_M, BLOCK_N)
        p = tl.exp(x - m_safe[:, None])
        # l = α l + rowsum p                                                        (BLOCK_M,)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        m_i = m_new
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn
        x = tl.load(x_ptrs, mask=inside, other=-float("inf")).to(tl.float32)
        # y = exp(x − m) / l                                                        (BLOCK_M, BLOCK_N)
        y = tl.exp(x - m_i[:, None]) / l_i[:, None]
        y_ptrs = y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn
        tl.store(y_ptrs, y, mask=inside)


def softmax_naive(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), any strides, without subtracting the maximum: NaN for x > 88.7."""
    return _one_program_a_row(softmax_naive_kernel, x, block_n)


def softmax_safe(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), any strides, in three passes."""
    return _one_program_a_row(softmax_safe_kernel, x, block_n)


def softmax_row(x: torch.Tensor, *, block_n: int | None = None) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), any strides. One tile of block_n ≥ cols elements holds a row.

    Raises ValueError when block_n is smaller than the row.
    """
    block_n = triton.next_power_of_2(x.shape[-1]) if block_n is None else block_n
    check(x, block_n=block_n)
    if block_n < x.shape[1]:
        raise ValueError(f"block_n={block_n}: a whole row must fit in one tile, so at least its {x.shape[1]} columns")
    return _one_program_a_row(softmax_row_kernel, x, block_n)


def softmax_blocked_wrong(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """WRONG on purpose: softmax of each tile of block_n columns by itself. Right only for rows of one tile."""
    return _one_program_a_row(softmax_blocked_wrong_kernel, x, block_n)


def softmax_online(x: torch.Tensor, *, block_n: int = 1024) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), any strides, in two passes (Milakov & Gimelshein, algorithm 3)."""
    return _one_program_a_row(softmax_online_kernel, x, block_n)


def softmax_tiled(x: torch.Tensor, *, block_m: int = 16, block_n: int = 256) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), any strides, in two passes over tiles of block_m × block_n."""
    check(x, block_m=block_m, block_n=block_n)
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.shape[0], block_m),)
    softmax_tiled_kernel[grid](x, y, *x.stride(), *y.stride(), *x.shape, BLOCK_M=block_m, BLOCK_N=block_n)
    return y


def _one_program_a_row(kernel, x: torch.Tensor, block_n: int) -> torch.Tensor:
    check(x, block_n=block_n)
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, *x.stride(), *y.stride(), x.shape[1], BLOCK_N=block_n)
    return y


def check(x: torch.Tensor, **tile: int) -> None:
    """Raises ValueError, which names the argument, unless x is a float matrix and a tile's sides are powers of two."""
    for name, side in tile.items():
        if side < 1 or side & (side - 1):
            raise ValueError(f"{name}={side}: a tile's side is a power of two")
    if x.dim() != 2 or 0 in x.shape:
        raise ValueError(f"x of shape {tuple(x.shape)}: softmax takes a matrix (rows, cols) with at least one of each")
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"x of dtype {x.dtype}: softmax takes float32, float16 or bfloat16")
