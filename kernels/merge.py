"""Softmax of long rows by many programs: each tile computes its (m, l), and the pairs are merged into the row's.

    (m_1, l_1) ⊕ (m_2, l_2) = (m, l_1 exp(m_1 − m) + l_2 exp(m_2 − m)),   m = max(m_1, m_2)

⊕ is associative and commutative (Milakov & Gimelshein, arXiv 1805.02867, 2018, section 3.1). So any order of merging
gives the same result, apart from rounding. Three kernels, launched one after the other:

    softmax_partial   writes (m, l) of each tile of each row to HBM
    softmax_merge     merges pairs: one launch from left or right, or one launch per level of a tree
    softmax_write     reads each tile again: y = exp(x − m) / l

x is (rows, cols), any strides; y has its dtype; the pairs are float32 (rows, tiles). A row of only −inf gives zeros, a
NaN makes its row NaN. Offsets are 64-bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.parameters import ORDERS
from kernels.softmax import check

MOST_TILES = 65535  # limit of a grid's second axis


@triton.jit
def softmax_partial_kernel(
    x_ptr, m_tile_ptr, l_tile_ptr, stride_xm, stride_xn, n_cols, n_tiles, BLOCK_N: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1).to(tl.int64)
    cols = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    # m = max x, of this tile only
    m_i = tl.max(x, axis=0)
    m_safe = tl.where(m_i == -float("inf"), 0.0, m_i)  # a tile of only −inf: −inf − −inf would be NaN
    # p = exp(x − m)                                                                (BLOCK_N,)
    p = tl.exp(x - m_safe)
    # l = Σ p, of this tile only
    l_i = tl.sum(p, axis=0)
    tl.store(m_tile_ptr + row * n_tiles + tile, m_i)
    tl.store(l_tile_ptr + row * n_tiles + tile, l_i)


@triton.jit
def softmax_merge_kernel(m_ptr, l_ptr, n_tiles, first, spacing, step, joins):
    # One program starts with one tile's pair and merges `joins` more pairs into it, each `step` tiles further.
    row = tl.program_id(0).to(tl.int64)
    m_ptr += row * n_tiles
    l_ptr += row * n_tiles
    own = first + tl.program_id(1) * spacing
    m_i = tl.load(m_ptr + own)
    l_i = tl.load(l_ptr + own)
    for n in range(joins):
        other = own + (n + 1) * step
        m_j = tl.load(m_ptr + other)
        l_j = tl.load(l_ptr + other)
        # m_new = max(m_i, m_j)
        m_new = tl.maximum(m_i, m_j)
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # only −inf so far: −inf − −inf would be NaN
        # α = exp(m_i − m_new), β = exp(m_j − m_new): one of them is 1
        alpha = tl.exp(m_i - m_safe)
        beta = tl.exp(m_j - m_safe)
        # l = α l_i + β l_j: rescale both sums to the new maximum
        l_i = l_i * alpha + l_j * beta
        m_i = m_new
    tl.store(m_ptr + own, m_i)
    tl.store(l_ptr + own, l_i)


@triton.jit
def softmax_merge_wrong_kernel(m_ptr, l_ptr, n_tiles, first, spacing, step, joins):
    # WRONG on purpose: adds two sums that are relative to different maxima.
    row = tl.program_id(0).to(tl.int64)
    m_ptr += row * n_tiles
    l_ptr += row * n_tiles
    own = first + tl.program_id(1) * spacing
    m_i = tl.load(m_ptr + own)
    l_i = tl.load(l_ptr + own)
    for n in range(joins):
        other = own + (n + 1) * step
        m_j = tl.load(m_ptr + other)
        l_j = tl.load(l_ptr + other)
        # m_new = max(m_i, m_j)
        m_new = tl.maximum(m_i, m_j)
        # l = l_i + l_j
        l_i = l_i + l_j
        m_i = m_new
    tl.store(m_ptr + own, m_i)
    tl.store(l_ptr + own, l_i)


@triton.jit
def softmax_write_kernel(
    x_ptr, y_ptr, m_row_ptr, l_row_ptr, stride_xm, stride_xn, stride_ym, stride_yn, stride_row, n_cols,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    m_i = tl.load(m_row_ptr + row * stride_row)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = tl.load(l_row_ptr + row * stride_row)
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    x = tl.load(x_ptr + row * stride_xm + cols * stride_xn, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    # y = exp(x − m) / l                                                            (BLOCK_N,)
    y = tl.exp(x - m_i) / l_i
    tl.store(y_ptr + row * stride_ym + cols * stride_yn, y, mask=cols < n_cols)


def softmax_split(x: torch.Tensor, *, order: str = "tree", block_n: int = 1024) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), tiles in parallel, their (m, l) merged in `order`.

    `order` is "left to right", "right to left" or "tree". Raises ValueError for any other and above 65535 tiles.
    """
    return _split(softmax_merge_kernel, x, order, block_n)


def softmax_split_wrong(x: torch.Tensor, *, order: str = "tree", block_n: int = 1024) -> torch.Tensor:
    """WRONG on purpose: softmax_split with l = l_1 + l_2, right only if all tiles have the same maximum."""
    return _split(softmax_merge_wrong_kernel, x, order, block_n)


def _split(merge: Any, x: torch.Tensor, order: str, block_n: int) -> torch.Tensor:
    check(x, block_n=block_n)
    if order not in ORDERS:
        raise ValueError(f"order={order!r}: must be one of {', '.join(ORDERS)}")
    rows, cols = x.shape
    n_tiles = triton.cdiv(cols, block_n)
    if n_tiles > MOST_TILES:
        raise ValueError(f"block_n={block_n}: makes {n_tiles} tiles a row; at most {MOST_TILES} fit a grid")
    y = torch.empty_like(x)
    m_pairs, l_pairs = (torch.empty((rows, n_tiles), dtype=torch.float32, device=x.device) for _ in range(2))
    softmax_partial_kernel[(rows, n_tiles)](x, m_pairs, l_pairs, *x.stride(), cols, n_tiles, BLOCK_N=block_n)
    for programs, *pairs in _launches(order, n_tiles):
        merge[(rows, programs)](m_pairs, l_pairs, n_tiles, *pairs)
    at = n_tiles - 1 if order == "right to left" else 0  # the tile that holds the whole row's pair
    m_row, l_row = m_pairs[:, at], l_pairs[:, at]
    softmax_write_kernel[(rows, n_tiles)](
        x, y, m_row, l_row, *x.stride(), *y.stride(), n_tiles, cols, BLOCK_N=block_n
    )  # fmt: skip
    return y


def _launches(order: str, n_tiles: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(programs per row, first, spacing, step, joins) of each launch that merges pairs; none for a row of one tile."""
    if order == "tree":
        span = 1
        while span < n_tiles:
            yield triton.cdiv(n_tiles - span, 2 * span), 0, 2 * span, span, 1
            span *= 2
    elif n_tiles > 1:
        yield 1, *((0, 0, 1) if order == "left to right" else (n_tiles - 1, 0, -1)), n_tiles - 1
