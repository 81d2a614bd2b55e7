"""Softmax of a row kept in shared memory, in Gluon. `softmax_fast.py` keeps the row in registers, where it needs twice
the room.

A 16-bit element takes 32 bits of a register as soon as it is computed with. A program that holds a row of 32768 of them
fills the SM, and then no other program can fetch. In shared memory the row keeps its 16 bits: three programs fit an SM,
and while one computes, the rows of the others arrive.

- **Copied, not loaded**: asynchronous copies of 16 bytes bring the row from HBM to shared memory, past the registers.
- **Three passes, all on chip**: maximum, sum, weights. The exponential is computed twice: keeping it would take the
  registers again.
- **Unaligned rows**: as in `softmax_fast.py`. The tiles hold the row and no more, so two rows of 50257 fit an SM.

The interpreter cannot run Gluon; `softmax_safe` in `softmax.py` does the same arithmetic with the row in HBM.
"""

from __future__ import annotations

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from kernels.attention import LOG2_E
from kernels.gpu import sms
from kernels.kept import Kept, prepared
from kernels.softmax import check
from kernels.softmax_fast import Launch, vectors

LONGEST = 224 * 1024  # bytes of a row that one program has room for
WARPS = ((5600, 1), (11_000, 2), (23_000, 4), (65_600, 8), (LONGEST, 16))
"""Rows of up to so many bytes, by so many warps: the fastest on an H200 at 21 lengths."""


@gluon.jit
def softmax_staged_kernel(
    x_ptr, y_ptr, stride_xm, stride_ym, n_cols, log2_e,
    TILES: gl.constexpr, TILE: gl.constexpr, VECTOR: gl.constexpr, EDGES: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    # One row per program, in tiles of TILE. VECTOR elements are 16 bytes. Columns are counted from the vector that the
    # row starts in: the row is lo ≤ column < hi, as in `softmax_fast.py`.
    LAYOUT: gl.constexpr = gl.BlockedLayout([VECTOR], [32], [WARPS], [0])
    ONE: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    row = gl.program_id(0).to(gl.int64)
    x_ptr += row * stride_xm // VECTOR * VECTOR
    y_ptr += row * stride_ym // VECTOR * VECTOR
    lo = 0
    if EDGES:
        lo = (row * stride_xm % VECTOR).to(gl.int32)
    hi = lo + n_cols
    lanes = gl.arange(0, TILE, layout=LAYOUT)
    x_s = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [TILES, TILE], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    for i in gl.static_range(TILES):
        vector = (i * TILE + lanes) // VECTOR * VECTOR
        async_copy.async_copy_global_to_shared(x_s.index(i), x_ptr + i * TILE + lanes, mask=vector < hi)
    async_copy.commit_group()
    if EDGES:  # the elements that the whole vectors leave out, stored one by one at the end
        edge = gl.arange(0, 2 * VECTOR, layout=ONE)
        at = gl.where(edge < VECTOR, edge, hi // VECTOR * VECTOR + edge - VECTOR)
        own = (at >= lo) & (at < hi) & (_in_whole_vector(at, lo, hi, VECTOR) == 0)
        x_edge = gl.load(x_ptr + at, mask=own, other=0.0).to(gl.float32)
    async_copy.wait_group(0)
    # Outside the row is −inf. The row ends in the last tile or, with a small lo, in the one before
    for i in gl.static_range(TILES):
        if i == 0 or i >= TILES - 2:
            cols = i * TILE + lanes
            x_s.index(i).store(gl.where((cols >= lo) & (cols < hi), x_s.index(i).load(LAYOUT), -float("inf")))
    # m = max x: each lane's own first                                              (TILE,)
    m_lane = gl.full([TILE], -float("inf"), gl.float32, LAYOUT)
    for i in range(TILES):
        m_lane = gl.maximum(m_lane, x_s.index(i).load(LAYOUT).to(gl.float32))
    m_i = gl.max(m_lane, axis=0)
    m_i = gl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    # The product of the largest numbers and log2 e overflows. Two different ones are 2¹⁰⁰ apart: any scale tells them.
    scale = gl.where(gl.maximum(m_i, -m_i) < 1e38, log2_e, 1.0)
    m_i *= scale
    # l = Σ 2^((x − m) · log2 e)
    l_lane = gl.zeros([TILE], gl.float32, LAYOUT)
    for i in range(TILES):
        l_lane += gl.exp2(x_s.index(i).load(LAYOUT).to(gl.float32) * scale - m_i)
    l_i = gl.sum(l_lane, axis=0)
    inverse = 1.0 / gl.where(l_i == 0.0, 1.0, l_i)
    # y = 2^((x − m) · log2 e) / l                                                  (TILE,)
    for i in range(TILES):
        y = gl.exp2(x_s.index(i).load(LAYOUT).to(gl.float32) * scale - m_i) * inverse
        own_vector = _in_whole_vector(i * TILE + lanes, lo, hi, VECTOR)
        gl.store(y_ptr + i * TILE + lanes, y.to(y_ptr.dtype.element_ty), mask=own_vector)
    if EDGES:
        gl.store(y_ptr + at, (gl.exp2(x_edge * scale - m_i) * inverse).to(y_ptr.dtype.element_ty), mask=own)


@gluon.jit
def _in_whole_vector(cols, lo, hi, VECTOR: gl.constexpr):
    vector = cols // VECTOR * VECTOR
    return (vector >= lo) & (vector + VECTOR <= hi)


@Kept
def softmax_staged(x: torch.Tensor, *, warps: int | None = None) -> Launch:
    """Softmax over the last axis of x (rows, cols), one row per program: contiguous rows of at most 224 KiB, x 16-byte
    aligned.

    Raises ValueError naming what this kernel does not take.
    """
    check(x)
    n_rows, n_cols = x.shape
    if refused := refusal(x):
        raise ValueError(refused)
    vector, before = vectors(x)
    few = 2 if n_rows <= 2 * sms(x) else 1  # an SM has few rows: more warps for each
    usual = next(warps for most, warps in WARPS if n_cols * x.element_size() <= most)
    warps = warps or min(16, few * usual)
    tile = min(triton.next_power_of_2(before + n_cols), warps * 32 * vector)
    tiles = triton.cdiv(before + n_cols, tile)
    constants = {"TILES": tiles, "TILE": tile, "VECTOR": vector, "EDGES": before > 0, "WARPS": warps}
    numbers = (x.stride(0), torch.empty_like(x).stride(0), n_cols, LOG2_E)
    registers = 64 if warps < 16 else 40  # of unaligned rows a thread needs over 40: 10985 columns 112 → 98 µs
    kernel = prepared(softmax_staged_kernel, (n_rows,), numbers, constants, num_warps=warps, maxnreg=registers)

    def launch(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernel(x, y)
        return y

    return launch


def refusal(x: torch.Tensor, at_once: int = 1) -> str:
    """Why this kernel does not take x, so many rows at once on an SM; "" where it does."""
    size, longest = x.element_size(), LONGEST // at_once
    if x.stride(1) != 1 or (x.stride(0) - x.shape[1]) * size % 16 or x.data_ptr() % 16:
        return f"x of {x.shape[1]} columns, strides {x.stride()}: this kernel copies 16 aligned bytes at a time"
    if x.shape[1] * size + 32 > longest:
        return f"x of {x.shape[1]} columns: this kernel takes rows of at most {longest // 1024} KiB"
    return ""
