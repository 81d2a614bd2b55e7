"""Softmax of short rows by a few lanes each. `softmax_rows` in `softmax_fast.py` gives a row all 32 lanes of a warp.

A row of 35 elements has 29 idle lanes at its end there, and five exchanges between lanes for its maximum and five for
its sum. These cost more instructions than the elements do: 16-bit rows of 35 ran at 0.4 of the speed of a copy. Here a
tile has few columns, so a warp has several rows side by side, and a row is several such tiles:

- **Steps.** A lane takes every LANES-th vector of its row. It first finds the maximum and the sum of its own elements;
  then the few lanes of a row exchange theirs once. At most one step has idle lanes.
- **The widest vector that a row allows.** A row of 52 elements of 16 bits is a multiple of 8 bytes: a lane loads 4
  elements at once. No neighbour's elements are loaded, so rows have no edges to store apart.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from kernels.kept import Kept, prepared
from kernels.softmax import check
from kernels.softmax_fast import Launch


@triton.jit
def softmax_lanes_kernel(
    x_ptr, y_ptr, stride_xm, stride_ym, n_rows, n_cols,
    BLOCK_M: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    # BLOCK_M rows per program, in STEPS tiles of LANES vectors a row. The division tells the compiler that rows start
    # at a vector.
    STEP: tl.constexpr = LANES * VECTOR
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, STEP)[None, :]
    inside = rows < n_rows
    last = inside & ((STEPS - 1) * STEP + cols // VECTOR * VECTOR < n_cols)
    x_ptrs = x_ptr + rows * stride_xm // VECTOR * VECTOR + cols
    y_ptrs = y_ptr + rows * stride_ym // VECTOR * VECTOR + cols
    xs = ()
    for i in tl.static_range(STEPS):
        x = tl.load(x_ptrs + i * STEP, mask=inside if i < STEPS - 1 else last, other=-float("inf"))
        xs += (x.to(tl.float32),)  # type: ignore[assignment]
    # m = rowmax x: each lane's own first                                           (BLOCK_M, STEP)
    m_lane = xs[0]  # type: ignore[misc]
    for i in tl.static_range(1, STEPS):
        m_lane = tl.maximum(m_lane, xs[i])
    m_i = tl.max(m_lane, axis=1)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    # p = exp(x − m),  l = rowsum p: each lane's own first                          (BLOCK_M, STEP)
    ps = ()
    l_lane = tl.zeros((BLOCK_M, STEP), tl.float32)
    for i in tl.static_range(STEPS):
        p = tl.exp(xs[i] - m_i[:, None])
        l_lane += p
        ps += (p,)  # type: ignore[assignment]
    l_i = tl.sum(l_lane, axis=1)
    # y = p · (1 / l)                                                               (BLOCK_M, STEP)
    inverse = 1.0 / tl.where(l_i == 0.0, 1.0, l_i)
    for i in tl.static_range(STEPS):
        y = (ps[i] * inverse[:, None]).to(y_ptr.dtype.element_ty)
        tl.store(y_ptrs + i * STEP, y, mask=inside if i < STEPS - 1 else last)


@Kept
def softmax_lanes(x: torch.Tensor, *, lanes: int | None = None, block_m: int | None = None, warps: int = 4) -> Launch:
    """Softmax over the last axis of x (rows, cols), columns contiguous: block_m rows a program, `lanes` lanes a row.

    Raises ValueError for columns that are not contiguous.
    """
    check(x)
    n_rows, n_cols = x.shape
    if x.stride(1) != 1:
        raise ValueError(f"x of strides {x.stride()}: this kernel takes contiguous columns")
    vector = vector_of(x)
    lanes = lanes or _lanes(n_cols, vector)
    block_m = block_m or 32 * warps // lanes
    steps = triton.cdiv(n_cols, lanes * vector)
    constants = {"BLOCK_M": block_m, "LANES": lanes, "VECTOR": vector, "STEPS": steps}
    numbers = (x.stride(0), torch.empty_like(x).stride(0), n_rows, n_cols)
    kernel = prepared(softmax_lanes_kernel, (triton.cdiv(n_rows, block_m),), numbers, constants, num_warps=warps)

    def launch(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernel(x, y)
        return y

    return launch


def vector_of(x: torch.Tensor) -> int:
    """Elements that a lane loads at once: every row starts and ends at a multiple of so many, at most 16 bytes."""
    y = torch.empty_like(x)
    size = x.element_size()
    return math.gcd(16, x.data_ptr(), y.data_ptr(), x.shape[1] * size, x.stride(0) * size) // size


def _lanes(n_cols: int, vector: int) -> int:
    """Lanes of a row, so that each has a few elements, and no more of them than the row has vectors."""
    fitting = next((lanes for lanes, most in ((4, 24), (8, 48), (16, 128)) if n_cols <= most), 32)
    vectors = triton.cdiv(n_cols, vector)
    return min(fitting, 2 ** int(vectors).bit_length() // 2)


def longest(x: torch.Tensor) -> int:
    """Columns up to which this kernel is the fastest: a lane keeps its elements in registers, and loads each vector by
    an instruction.
    """
    if x.stride(1) != 1:
        return 0
    return 32 * (16 if x.element_size() == 4 else 12 if vector_of(x) == 1 else 31)
