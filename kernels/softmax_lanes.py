"""Softmax of short rows by a few lanes each. `softmax_rows` in `softmax_fast.py` gives a row all 32 lanes of a warp.

A row of 35 elements has 29 idle lanes at its end there, and five exchanges between lanes for its maximum and five for
its sum. These cost more instructions than the elements do: 16-bit rows of 35 ran at 0.4 of the speed of a copy. Here a
tile has few columns, so a warp has several rows side by side, and a row is several such tiles:

- **Steps.** A lane takes every LANES-th vector of its row. It first finds the maximum and the sum of its own elements;
  then the few lanes of a row exchange theirs once.
- **Rows without gaps are one span.** A row of 59 elements of 16 bits starts at any multiple of 2 bytes, so a lane could
  load only 2 bytes at once. But BLOCK_M rows start at a whole vector again. So columns are counted from the vector that
  the row starts in, as in `softmax_fast.py`, and lanes load whole vectors. A vector at the end of one row and the start
  of the next belongs to both: it is stored once, by weights of both (`EDGES`).
- **Other rows** have the widest vector that each starts and ends with: 8 bytes for 52 elements of 16 bits.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from kernels.attention import LOG2_E
from kernels.kept import Kept, prepared
from kernels.softmax import check
from kernels.softmax_fast import Launch


@triton.jit
def softmax_lanes_kernel(
    x_ptr, y_ptr, stride_xm, stride_ym, n_rows, n_cols, log2_e,
    BLOCK_M: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr, STEPS: tl.constexpr, FULL: tl.constexpr,
    EDGES: tl.constexpr,
):  # fmt: skip
    # BLOCK_M rows per program, in STEPS tiles of LANES vectors a row, of which the first FULL end inside the row. The
    # divisions tell the compiler that pointers are at a vector.
    STEP: tl.constexpr = LANES * VECTOR
    first = tl.program_id(0).to(tl.int64) * BLOCK_M
    row = tl.arange(0, BLOCK_M)
    rows_left = n_rows - first
    x_ptr += first * stride_xm // VECTOR * VECTOR
    y_ptr += first * stride_ym // VECTOR * VECTOR
    # The row is lo ≤ column < hi                                                   (BLOCK_M, 1)
    x_start = row * stride_xm if EDGES else row.to(tl.int64) * stride_xm
    y_start = x_start if EDGES else row.to(tl.int64) * stride_ym
    lo = (x_start % VECTOR)[:, None] if EDGES else 0
    hi = tl.where(row[:, None] < rows_left, lo + n_cols, 0)
    cols = tl.arange(0, STEP)[None, :]
    vector = cols // VECTOR * VECTOR
    x_ptrs = x_ptr + (x_start // VECTOR * VECTOR)[:, None] + cols
    y_ptrs = y_ptr + (y_start // VECTOR * VECTOR)[:, None] + cols
    xs = ()
    for i in tl.static_range(STEPS):
        x = tl.load(x_ptrs + i * STEP, mask=vector + i * STEP < hi, other=-float("inf")).to(tl.float32)
        if EDGES and i == 0:
            x = tl.where(cols >= lo, x, -float("inf"))
        if EDGES and i >= FULL:
            x = tl.where(cols + i * STEP < hi, x, -float("inf"))
        xs += (x,)  # type: ignore[assignment]
    # m = rowmax x: each lane's own first                                           (BLOCK_M, STEP)
    m_lane = xs[0]  # type: ignore[misc]
    for i in tl.static_range(1, STEPS):
        m_lane = tl.maximum(m_lane, xs[i])
    m_i = tl.max(m_lane, axis=1)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    # p = exp(x − m),  l = rowsum p: each lane's own first. exp2 takes fewer instructions than exp   (BLOCK_M, STEP)
    ps = ()
    l_lane = tl.zeros((BLOCK_M, STEP), tl.float32)
    for i in tl.static_range(STEPS):
        p = tl.exp2((xs[i] - m_i[:, None]) * log2_e)
        l_lane += p
        ps += (p,)  # type: ignore[assignment]
    l_i = tl.sum(l_lane, axis=1)
    # y = p · (1 / l)                                                               (BLOCK_M, STEP)
    inverse = 1.0 / tl.where(l_i == 0.0, 1.0, l_i)
    for i in tl.static_range(STEPS):
        y = (ps[i] * inverse[:, None]).to(y_ptr.dtype.element_ty)
        own = vector + i * STEP + VECTOR <= hi
        if EDGES and i == 0:
            own = own & (vector >= lo)
        tl.store(y_ptrs + i * STEP, y, mask=own)
    if EDGES:  # the vectors that end one row and start the next: their first `mine` elements belong to the one
        end = x_start + n_cols
        mine = (end % VECTOR)[:, None]
        at = (end // VECTOR * VECTOR)[:, None] + tl.arange(0, VECTOR)[None, :]
        shared = (mine > 0) & (row[:, None] < rows_left)
        next_row = tl.minimum(row + 1, BLOCK_M - 1)
        upper = tl.arange(0, VECTOR)[None, :] < mine
        m = tl.where(upper, m_i[:, None], tl.gather(m_i, next_row, 0)[:, None])
        scale = tl.where(upper, inverse[:, None], tl.gather(inverse, next_row, 0)[:, None])
        x = tl.load(x_ptr + at, mask=shared, other=-float("inf")).to(tl.float32)
        y = (tl.exp2((x - m) * log2_e) * scale).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + at, y, mask=shared & (row[:, None] + 1 < rows_left))
        if rows_left <= BLOCK_M:  # the matrix ends within a vector
            tl.store(y_ptr + at, y, mask=shared & (row[:, None] + 1 == rows_left) & upper)


@Kept
def softmax_lanes(
    x: torch.Tensor, *, lanes: int | None = None, vector: int | None = None, warps: int | None = None
) -> Launch:
    """Softmax over the last axis of x (rows, cols), columns contiguous: `lanes` lanes a row, `vector` elements at once.

    Raises ValueError for columns that are not contiguous, and for vectors that x has not.
    """
    check(x)
    n_rows, n_cols = x.shape
    if x.stride(1) != 1:
        raise ValueError(f"x of strides {x.stride()}: this kernel takes contiguous columns")
    usual_lanes, usual_vector, usual_warps = _way(x)
    lanes, vector, warps = lanes or usual_lanes, vector or usual_vector, warps or usual_warps
    edges = n_cols % vector > 0
    block_m = 32 * warps // lanes
    if vector > vector_of(x) and not (_is_a_span(x) and vector <= n_cols and block_m % vector == 0):
        raise ValueError(f"vector={vector}: {block_m} rows of {n_cols} from this address are no whole vectors")
    steps = triton.cdiv(n_cols + edges * (vector - 1), lanes * vector)
    constants = {
        "BLOCK_M": block_m, "LANES": lanes, "VECTOR": vector, "STEPS": steps, "FULL": n_cols // (lanes * vector),
        "EDGES": edges,
    }  # fmt: skip
    numbers = (x.stride(0), torch.empty_like(x).stride(0), n_rows, n_cols, LOG2_E)
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


def _is_a_span(x: torch.Tensor) -> bool:
    """Whether rows follow each other without a gap, from a multiple of 16 bytes on."""
    return x.is_contiguous() and x.data_ptr() % 16 == 0


def _way(x: torch.Tensor) -> tuple[int, int, int]:
    """Lanes of a row, so that each has a few elements, and no more of them than the row has vectors; the vector; and
    the warps of a program.

    By size of a row, on an H200: up to so many columns of odd length, else up to so many bytes.
    """
    n_cols, size, vector = x.shape[1], x.element_size(), vector_of(x)
    if size == 2 and vector == 1 and n_cols >= SHORTEST_SPAN and _is_a_span(x):
        return next((lanes, vector, warps) for most, lanes, vector, warps in SPANS if n_cols <= most)
    limits = (24, 48, 128) if vector == 1 else (104 // size, 224 // size, 640 // size)
    fitting = next((lanes for lanes, most in zip((4, 8, 16), limits, strict=True) if n_cols <= most), 32)
    lanes = min(fitting, 2 ** (n_cols // vector).bit_length() // 2)
    can_halve = size == 2 and 4 <= vector < 4 * lanes
    if can_halve and _steps(x, lanes, vector) == 2 and _steps(x, lanes // 2, vector) == 3:
        lanes //= 2  # of 9 vectors by 8 lanes, 7 lanes would be idle in the second step: 20 columns 87 → 68 µs
    return lanes, vector, 4


def _steps(x: torch.Tensor, lanes: int, vector: int) -> int:
    """Vectors of a row that its busiest lane takes."""
    return triton.cdiv(x.shape[1], lanes * vector)


SHORTEST_SPAN = 5
SPANS = (
    (5, 1, 4, 4), (11, 1, 4, 2), (21, 1, 8, 1), (25, 2, 8, 2), (27, 4, 4, 4), (33, 2, 8, 2), (49, 2, 8, 1),
    (69, 4, 8, 2), (127, 4, 8, 1), (280, 8, 8, 2), (400, 16, 4, 2), (530, 16, 8, 4), (math.inf, 32, 4, 4),
)  # fmt: skip
"""Odd rows of 16 bits: up to so many columns, by so many lanes, vectors of so many elements, programs of so many warps.
Measured at 43 lengths on an H200. A program of few rows has few shared vectors to wait for: 81 columns took 82 µs by
four warps, and 73 by one.
"""


def longest(x: torch.Tensor) -> int:
    """Columns up to which this kernel is the fastest: a lane keeps its elements in registers, and loads each vector by
    an instruction.
    """
    if x.stride(1) != 1:
        return 0
    return 32 * (16 if x.element_size() == 4 else 12 if vector_of(x) == 1 and not _is_a_span(x) else 31)
