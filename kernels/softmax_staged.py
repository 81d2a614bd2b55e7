"""Softmax of a row kept in shared memory, in Gluon: what `softmax_fast.py` keeps in registers, where it needs twice the room.

A 16-bit element takes 32 bits of a register as soon as it is computed with; a program that holds a row of 32768 of them fills the SM, and then nobody
fetches. In shared memory the row keeps its 16 bits: three programs stand on one SM, and while one computes the others' rows arrive.

- **Copied, not loaded**: the row goes from HBM to shared memory by asynchronous copies of 16 bytes, through no register.
- **Three visits, each on chip**: the maximum, the sum, the weights. The exponential is made twice, since to keep it would take the registers again.

The interpreter cannot run Gluon; `softmax_safe` in `softmax.py` does the same arithmetic with the row in HBM.
"""

from __future__ import annotations

import math

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from kernels.attention import LOG2_E
from kernels.softmax import check


@gluon.jit
def softmax_staged_kernel(
    x_ptr, y_ptr, stride_xm, stride_ym, n_cols, log2_e,
    BLOCK_N: gl.constexpr, TILE: gl.constexpr, VECTOR: gl.constexpr, WHOLE: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    # One row a program, in tiles of TILE. VECTOR elements are 16 bytes; a row's length and its way to the next are multiples of it.
    LAYOUT: gl.constexpr = gl.BlockedLayout([VECTOR], [32], [WARPS], [0])
    TILES: gl.constexpr = BLOCK_N // TILE
    n_cols = n_cols // VECTOR * VECTOR
    row = gl.program_id(0).to(gl.int64)
    x_ptr += row * (stride_xm // VECTOR * VECTOR)
    y_ptr += row * (stride_ym // VECTOR * VECTOR)
    lanes = gl.arange(0, TILE, layout=LAYOUT)
    x_s = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [TILES, TILE], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    for i in gl.static_range(TILES):
        cols = i * TILE + lanes
        if WHOLE:
            async_copy.async_copy_global_to_shared(x_s.index(i), x_ptr + cols)
        else:
            async_copy.async_copy_global_to_shared(x_s.index(i), x_ptr + cols, mask=cols < n_cols)
    async_copy.commit_group()
    async_copy.wait_group(0)
    # m = max x: each lane's own first                                              (TILE,)
    m_lane = gl.full([TILE], -float("inf"), gl.float32, LAYOUT)
    for i in range(TILES):
        m_lane = gl.maximum(m_lane, _tile(x_s, i, lanes, n_cols, TILE, WHOLE, LAYOUT))
    m_i = gl.max(m_lane, axis=0)
    m_i = gl.where(m_i == -float("inf"), 0.0, m_i) * log2_e  # every element is −inf: −inf − −inf would be NaN
    # l = Σ 2^((x − m) · log2 e)
    l_lane = gl.zeros([TILE], gl.float32, LAYOUT)
    for i in range(TILES):
        l_lane += gl.exp2(_tile(x_s, i, lanes, n_cols, TILE, WHOLE, LAYOUT) * log2_e - m_i)
    l_i = gl.sum(l_lane, axis=0)
    inverse = 1.0 / gl.where(l_i == 0.0, 1.0, l_i)
    # y = 2^((x − m) · log2 e) / l                                                  (TILE,)
    for i in range(TILES):
        cols = i * TILE + lanes
        y = gl.exp2(_tile(x_s, i, lanes, n_cols, TILE, WHOLE, LAYOUT) * log2_e - m_i) * inverse
        if WHOLE:
            gl.store(y_ptr + cols, y.to(y_ptr.dtype.element_ty))
        else:
            gl.store(y_ptr + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


@gluon.jit
def _tile(x_s, i, lanes, n_cols, TILE: gl.constexpr, WHOLE: gl.constexpr, LAYOUT: gl.constexpr):
    x = x_s.index(i).load(LAYOUT).to(gl.float32)
    if not WHOLE:
        x = gl.where(i * TILE + lanes < n_cols, x, -float("inf"))
    return x


def softmax_staged(x: torch.Tensor, *, warps: int | None = None) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols), a row a program, in shared memory: contiguous rows of at most 224 KiB, 16 bytes aligned.

    Raises ValueError naming what this kernel does not take.
    """
    check(x)
    n_rows, n_cols = x.shape
    if refused := refusal(x):
        raise ValueError(refused)
    vector = 16 // x.element_size()
    block_n = triton.next_power_of_2(n_cols)
    warps = warps or min(32, max(1, block_n // 4096))
    tile = min(block_n, warps * 32 * vector)
    y = torch.empty_like(x)
    softmax_staged_kernel[(n_rows,)](
        x, y, x.stride(0), y.stride(0), n_cols, LOG2_E,
        BLOCK_N=block_n, TILE=tile, VECTOR=vector, WHOLE=n_cols == block_n, WARPS=warps, num_warps=warps, maxnreg=40,
    )  # fmt: skip
    return y


def refusal(x: torch.Tensor) -> str:
    """Why this kernel does not take x; "" where it does."""
    n_cols, vector = x.shape[1], 16 // x.element_size()
    if x.stride(1) != 1 or math.gcd(n_cols, x.stride(0)) % vector or x.data_ptr() % 16:
        return f"x of {n_cols} columns, strides {x.stride()}: this kernel copies 16 aligned bytes at a time"
    if triton.next_power_of_2(n_cols) * x.element_size() > 224 * 1024:
        return f"x of {n_cols} columns: this kernel takes rows of at most 224 KiB"
    return ""
