"""Fast softmax of each row of a matrix. Each kernel adds one idea to `softmax_row` in `softmax.py`, which keeps a whole
row on chip.

Softmax has almost no arithmetic. The limit is a copy: one read and one write of every element.

    kernel               loads + stores   idea
    softmax_rows         1 + 1            as many short rows as fill a program: no idle lanes, no barrier between warps
    softmax_pipelined    1 + 1            a program takes row after row, and fetches the next while it computes this one
    softmax_two_reads    2 + 1            a row too long for the chip is read twice, the second time soon, out of L2
    softmax_shared_row   1 + 1            a row too long for one SM: programs hold a part each and exchange their (m, l)

Three more have modules of their own: a short row by a few lanes (`softmax_lanes.py`), the row in shared memory
(`softmax_staged.py`), a row that programs share, in shared memory (`softmax_parts.py`). `dispatch.py` chooses. Elements
that are read once have no L2 hint: "evict_first" cost 1–7% on an H200. Every kernel computes in float32 and stores in
the dtype of x. A row of −inf gives zeros. A NaN makes its row NaN. Offsets are 64-bit: a matrix may have more than 2³¹
elements.

**Unaligned rows.** A thread loads 16 bytes at once only from a multiple of 16 bytes. A row of 50257 elements rarely
starts at one. So a kernel counts columns from the last such boundary before the row, and the row is lo ≤ column < hi.
The kernel loads whole vectors of 16 bytes. These contain a few elements of the neighbouring rows, which it sets to
−inf. It stores the vectors inside the row as they are, and the row's two edges element by element (`EDGES`). Each mask
has one value per vector, and this keeps the loads and stores 16 bytes wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from kernels.gpu import sms
from kernels.kept import Kept, prepared
from kernels.softmax import check

Launch = Callable[[torch.Tensor], torch.Tensor]
"""x to y"""


@triton.jit
def _load(ptrs, cols, lo, hi, inside, VECTOR: tl.constexpr, EVICTION: tl.constexpr):
    """Columns of a row as float32, −inf outside lo ≤ column < hi. With `inside` every column is in the row."""
    if inside:
        x = tl.load(ptrs, eviction_policy=EVICTION).to(tl.float32)
    else:
        mask = cols // VECTOR * VECTOR < hi
        x = tl.load(ptrs, mask=mask, other=-float("inf"), eviction_policy=EVICTION).to(tl.float32)
        x = tl.where((cols >= lo) & (cols < hi), x, -float("inf"))
    return x


@triton.jit
def _in_whole_vector(cols, lo, hi, VECTOR: tl.constexpr):
    """True where all elements of the column's vector belong to the row."""
    vector = cols // VECTOR * VECTOR
    return (vector >= lo) & (vector + VECTOR <= hi)


@triton.jit
def _edges(lanes, lo, hi, VECTOR: tl.constexpr):
    """The columns of the row's first and last vector (2 · VECTOR,), and which of them the whole vectors leave out."""
    cols = tl.where(lanes < VECTOR, lanes, hi // VECTOR * VECTOR + lanes - VECTOR)
    return cols, (cols >= lo) & (cols < hi) & (_in_whole_vector(cols, lo, hi, VECTOR) == 0)


@triton.jit
def softmax_rows_kernel(
    x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_rows, n_cols,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, VECTOR: tl.constexpr, EDGES: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    # BLOCK_M whole rows per program. WHOLE: the tile has no element outside the matrix, so nothing needs a mask.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    # Columns are counted from the vector that the row starts in: the row is lo ≤ column < hi   (BLOCK_M, 1)
    lo = (rows * stride_xm % VECTOR).to(tl.int32) if EDGES else 0
    hi = tl.where(rows < n_rows, lo + n_cols, 0)
    x_row = x_ptr + rows * stride_xm // VECTOR * VECTOR
    y_row = y_ptr + rows * stride_ym // VECTOR * VECTOR
    x = _load(x_row + cols.to(tl.int64) * stride_xn, cols, lo, hi, WHOLE, VECTOR, "")
    # m = rowmax x                                                                  (BLOCK_M,)
    m_i = tl.max(x, axis=1)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
    # p = exp(x − m)                                                                (BLOCK_M, BLOCK_N)
    p = tl.exp(x - m_i[:, None])
    # l = rowsum p                                                                  (BLOCK_M,)
    l_i = tl.sum(p, axis=1)
    # y = p · (1 / l): one division a row                                           (BLOCK_M, BLOCK_N)
    inverse = 1.0 / tl.where(l_i == 0.0, 1.0, l_i)
    y = (p * inverse[:, None]).to(y_ptr.dtype.element_ty)
    y_ptrs = y_row + cols.to(tl.int64) * stride_yn
    if WHOLE:
        tl.store(y_ptrs, y)
    else:
        tl.store(y_ptrs, y, mask=_in_whole_vector(cols, lo, hi, VECTOR))
    if EDGES:  # the edges of all rows in one line, one element a thread                    (BLOCK_M · 2 · VECTOR,)
        lanes = tl.arange(0, BLOCK_M * 2 * VECTOR)
        rows = tl.program_id(0).to(tl.int64) * BLOCK_M + lanes // (2 * VECTOR)
        lo = (rows * stride_xm % VECTOR).to(tl.int32)
        at, own = _edges(lanes % (2 * VECTOR), lo, tl.where(rows < n_rows, lo + n_cols, 0), VECTOR)
        x = tl.load(x_ptr + rows * stride_xm // VECTOR * VECTOR + at, mask=own, other=0.0).to(tl.float32)
        own_row = lanes // (2 * VECTOR)
        y = tl.exp(x - tl.gather(m_i, own_row, 0)) * tl.gather(inverse, own_row, 0)
        tl.store(y_ptr + rows * stride_ym // VECTOR * VECTOR + at, y.to(y_ptr.dtype.element_ty), mask=own)


@triton.jit
def softmax_pipelined_kernel(
    x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_rows, n_cols,
    BLOCK_N: tl.constexpr, WHOLE: tl.constexpr, MULTIPLE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # A program takes every num_programs-th row. STAGES rows are on the chip at once: the one at work and those on their
    # way.
    n_cols = n_cols // MULTIPLE * MULTIPLE
    stride_xm = stride_xm // MULTIPLE * MULTIPLE
    stride_ym = stride_ym // MULTIPLE * MULTIPLE
    cols = tl.arange(0, BLOCK_N)
    inside = cols < n_cols
    x_ptrs = x_ptr + cols.to(tl.int64) * stride_xn
    y_ptrs = y_ptr + cols.to(tl.int64) * stride_yn
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        if WHOLE:
            x = tl.load(x_ptrs + row * tl.cast(stride_xm, tl.int64)).to(tl.float32)
        else:
            x = tl.load(x_ptrs + row * tl.cast(stride_xm, tl.int64), mask=inside, other=-float("inf")).to(tl.float32)
        # m = max x
        m_i = tl.max(x, axis=0)
        m_i = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
        # p = exp(x − m)                                                            (BLOCK_N,)
        p = tl.exp(x - m_i)
        # l = Σ p
        l_i = tl.sum(p, axis=0)
        l_i = tl.where(l_i == 0.0, 1.0, l_i)
        # y = p · (1 / l)                                                           (BLOCK_N,)
        y = (p * (1.0 / l_i)).to(y_ptr.dtype.element_ty)
        if WHOLE:
            tl.store(y_ptrs + row * tl.cast(stride_ym, tl.int64), y)
        else:
            tl.store(y_ptrs + row * tl.cast(stride_ym, tl.int64), y, mask=inside)


@triton.jit
def _packed(m_i, l_i):
    """(m, l) as one 64-bit word, seen whole or not at all. Never 0, "not yet": l = 0 only beside m = −inf."""
    high = m_i.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return high | (l_i.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF)


@triton.jit
def _joined(pairs_ptr, parts, n_parts):
    """Waits for every part of a row; the row's (m, l), with m = 0 and l = 1 for a row of −inf only."""
    words = tl.load(pairs_ptr + parts, mask=parts < n_parts, other=1, volatile=True)
    while tl.min(tl.where(words == 0, 0, 1), axis=0) == 0:
        words = tl.load(pairs_ptr + parts, mask=parts < n_parts, other=1, volatile=True)
    told = parts < n_parts
    m_j = tl.where(told, (words >> 32).to(tl.int32).to(tl.float32, bitcast=True), -float("inf"))
    l_j = tl.where(told, words.to(tl.int32).to(tl.float32, bitcast=True), 0.0)
    # m = max m_j,  l = Σ l_j exp(m_j − m)
    m_i = tl.max(m_j, axis=0)
    m_i = tl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = tl.sum(l_j * tl.exp(m_j - m_i), axis=0)
    return m_i, tl.where(l_i == 0.0, 1.0, l_i)


@triton.jit
def _store_edges(x_row, y_row, first, lo, hi, m_i, l_i, BLOCK_N: tl.constexpr, VECTOR: tl.constexpr):
    """Stores the elements of a part that the whole vectors leave out. They are read again."""
    cols, own = _edges(tl.arange(0, 2 * VECTOR), lo, hi, VECTOR)
    own = own & (cols >= first) & (cols < first + BLOCK_N)
    x = tl.load(x_row + cols, mask=own, other=0.0).to(tl.float32)
    tl.store(y_row + cols, (tl.exp(x - m_i) / l_i).to(y_row.dtype.element_ty), mask=own)


@triton.jit
def softmax_two_reads_kernel(
    x_ptr, y_ptr, pairs_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_rows, n_cols, n_parts, apart,
    BLOCK_N: tl.constexpr, PARTS: tl.constexpr, VECTOR: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    # Tiles are counted through the matrix, n_parts a row. A program reads its tile for the first time and tells its (m,
    # l), and reads
    # the tile `apart` before it for the second time, while L2 still has it. It waits only for programs that started
    # before it.
    tile = tl.program_id(0).to(tl.int64)
    n_tiles = tl.cast(n_rows, tl.int64) * n_parts
    if tile < n_tiles:
        row = tile // n_parts
        first = (tile % n_parts).to(tl.int32) * BLOCK_N
        cols = first + tl.arange(0, BLOCK_N)
        lo = (row * stride_xm % VECTOR).to(tl.int32) if EDGES else 0
        inside = (first >= lo) & (first + BLOCK_N <= lo + n_cols)
        x_ptrs = x_ptr + row * stride_xm // VECTOR * VECTOR + cols.to(tl.int64) * stride_xn
        x = _load(x_ptrs, cols, lo, lo + n_cols, inside, VECTOR, "evict_last")
        # m = max of this tile,  l = Σ exp(x − m) of this tile
        m_i = tl.max(x, axis=0)
        m_safe = tl.where(m_i == -float("inf"), 0.0, m_i)  # every element is −inf: −inf − −inf would be NaN
        l_i = tl.sum(tl.exp(x - m_safe), axis=0)
        tl.atomic_xchg(pairs_ptr + tile, _packed(m_i, l_i), sem="relaxed")
    tile -= apart
    if tile >= 0:
        row = tile // n_parts
        first = (tile % n_parts).to(tl.int32) * BLOCK_N
        cols = first + tl.arange(0, BLOCK_N)
        lo = (row * stride_xm % VECTOR).to(tl.int32) if EDGES else 0
        hi = lo + n_cols
        x_row = x_ptr + row * stride_xm // VECTOR * VECTOR
        y_row = y_ptr + row * stride_ym // VECTOR * VECTOR
        inside = (first >= lo) & (first + BLOCK_N <= hi)
        x = _load(x_row + cols.to(tl.int64) * stride_xn, cols, lo, hi, inside, VECTOR, "evict_first")
        m_i, l_i = _joined(pairs_ptr + row * n_parts, tl.arange(0, PARTS), n_parts)
        # y = exp(x − m) · (1 / l)                                                  (BLOCK_N,)
        y = (tl.exp(x - m_i) * (1.0 / l_i)).to(y_ptr.dtype.element_ty)
        y_ptrs = y_row + cols.to(tl.int64) * stride_yn
        if inside:
            tl.store(y_ptrs, y, eviction_policy="evict_first")
        else:
            tl.store(y_ptrs, y, mask=_in_whole_vector(cols, lo, hi, VECTOR), eviction_policy="evict_first")
            if EDGES:
                _store_edges(x_row, y_row, first, lo, hi, m_i, l_i, BLOCK_N, VECTOR)


@triton.jit
def softmax_shared_row_kernel(
    x_ptr, y_ptr, pairs_ptr, stride_xm, stride_xn, stride_ym, stride_yn, n_cols, n_parts,
    BLOCK_N: tl.constexpr, PARTS: tl.constexpr, VECTOR: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    # n_parts programs per row. Each reads its part once, keeps it, tells its (m, l) and waits for the row's others.
    row = (tl.program_id(0) // n_parts).to(tl.int64)
    part = tl.program_id(0) % n_parts
    first = part * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    lo = (row * stride_xm % VECTOR).to(tl.int32) if EDGES else 0
    hi = lo + n_cols
    x_row = x_ptr + row * stride_xm // VECTOR * VECTOR
    y_row = y_ptr + row * stride_ym // VECTOR * VECTOR
    inside = False if EDGES else first + BLOCK_N <= n_cols  # with edges, a second branch costs registers and time
    x = _load(x_row + cols.to(tl.int64) * stride_xn, cols, lo, hi, inside, VECTOR, "")
    # m_j = max of this part
    m_j = tl.max(x, axis=0)
    m_safe = tl.where(m_j == -float("inf"), 0.0, m_j)  # every element is −inf: −inf − −inf would be NaN
    # p = exp(x − m_j),  l_j = Σ p                                                  (BLOCK_N,)
    p = tl.exp(x - m_safe)
    l_j = tl.sum(p, axis=0)
    pairs_ptr += row * n_parts
    tl.atomic_xchg(pairs_ptr + part, _packed(m_j, l_j), sem="relaxed")
    m_i, l_i = _joined(pairs_ptr, tl.arange(0, PARTS), n_parts)
    # y = p · exp(m_j − m) / l                                                      (BLOCK_N,)
    y = (p * (tl.exp(m_safe - m_i) / l_i)).to(y_ptr.dtype.element_ty)
    y_ptrs = y_row + cols.to(tl.int64) * stride_yn
    if inside:
        tl.store(y_ptrs, y)
    else:
        tl.store(y_ptrs, y, mask=_in_whole_vector(cols, lo, hi, VECTOR))
        if EDGES:
            _store_edges(x_row, y_row, first, lo, hi, m_i, l_i, BLOCK_N, VECTOR)


@Kept
def softmax_rows(
    x: torch.Tensor, *, block_m: int | None = None, block_n: int | None = None, warps: int | None = None
) -> Launch:
    """Softmax over the last axis of x (rows, cols), any strides: block_m whole rows of at most block_n elements a
    program.

    Raises ValueError when block_n is smaller than the row.
    """
    check(x)
    n_rows, n_cols = x.shape
    vector, before = vectors(x)
    if before and n_cols < 256:  # edges would be most of the row: element by element
        vector, before = 1, 0
    block_n = _whole_row(x, block_n, before)
    short, whole = x.element_size() == 2, n_cols == block_n
    # Rows that need a mask are faster with few warps per program: 1, or 2 for 32-bit rows above 256
    elements, few = 1024, 1 if short else 2
    if whole and short:
        elements = 4096
    elif not whole and not short and block_n <= 256:
        elements, few = 512, 1
    block_m = max(1, elements // block_n) if block_m is None else block_m
    check(x, block_m=block_m, block_n=block_n)
    if warps is None:
        warps = 16 if block_m * block_n * x.element_size() >= 2**14 else 4 if whole or block_n > 1024 else few
    constants = {"BLOCK_M": block_m, "BLOCK_N": block_n, "VECTOR": vector, "EDGES": before > 0}
    constants["WHOLE"] = whole and n_rows % block_m == 0
    return _launch(softmax_rows_kernel, triton.cdiv(n_rows, block_m), x, (n_rows, n_cols), constants, warps)


@Kept
def softmax_pipelined(
    x: torch.Tensor, *, block_n: int | None = None, stages: int = 2, programs: int = 1, warps: int | None = None
) -> Launch:
    """Softmax over the last axis of x (rows, cols), any strides: `programs` programs on each SM go through the rows.

    Raises ValueError when block_n is smaller than the row.
    """
    block_n = _whole_row(x, block_n)
    n_rows, n_cols = x.shape
    multiple = _multiple(x, torch.empty_like(x))
    constants = {"BLOCK_N": block_n, "WHOLE": n_cols == block_n, "MULTIPLE": multiple, "STAGES": stages}
    grid = min(n_rows, programs * sms(x))
    return _launch(softmax_pipelined_kernel, grid, x, (n_rows, n_cols), constants, warps or _warps(block_n))


@Kept
def softmax_two_reads(
    x: torch.Tensor, *, block_n: int | None = None, apart: int = 2**21, warps: int | None = None
) -> Launch:
    """Softmax over the last axis of x (rows, cols), any strides, rows of any length in tiles of block_n.

    The second read of a tile comes about `apart` elements after the first: late enough not to wait, and soon enough
    for L2.
    """
    check(x)
    n_rows, n_cols = x.shape
    vector, before = vectors(x)
    block_n = (4096 if before else 8192) if block_n is None else block_n
    check(x, block_n=block_n)
    n_parts = triton.cdiv(before + n_cols, block_n)
    rows_apart = min(max(1, apart // n_cols), n_rows)
    numbers = (n_rows, n_cols, n_parts, rows_apart * n_parts)
    constants = _of_parts(block_n, n_parts, vector, before)
    grid = (n_rows + rows_apart) * n_parts
    return _launch(softmax_two_reads_kernel, grid, x, numbers, constants, warps or _warps(block_n), n_parts)


@Kept
def softmax_shared_row(x: torch.Tensor, *, block_n: int | None = None, warps: int = 4) -> Launch:
    """Softmax over the last axis of x (rows, cols), any strides: a program for each part of block_n elements of each
    row.

    The programs of a row wait for each other, so a GPU must hold all of them at once: it starts programs in their
    order, and holds hundreds. Raises ValueError for a row of more parts than that. Triton's interpreter runs programs
    one by one: there, one part a row.
    """
    check(x)
    n_rows, n_cols = x.shape
    vector, before = vectors(x)
    block_n = (4096 if before else 8192) if block_n is None else block_n
    check(x, block_n=block_n)
    n_parts = triton.cdiv(before + n_cols, block_n)
    most = sms(x) if x.is_cuda else 1
    if n_parts > most:
        raise ValueError(
            f"block_n={block_n}: a row of {n_cols} has {n_parts} parts, and at most {most} run at once here"
        )
    constants = _of_parts(block_n, n_parts, vector, before)
    return _launch(softmax_shared_row_kernel, n_rows * n_parts, x, (n_cols, n_parts), constants, warps, n_parts)


def _of_parts(block_n: int, n_parts: int, vector: int, before: int) -> dict[str, int]:
    return {"BLOCK_N": block_n, "PARTS": triton.next_power_of_2(n_parts), "VECTOR": vector, "EDGES": before > 0}


def _launch(
    kernel: object, grid: int, x: torch.Tensor, numbers: tuple[int, ...], constants: dict[str, int], warps: int,
    parts: int = 0,
) -> Launch:  # fmt: skip
    """x to y by this kernel; with `parts`, it also gets an empty pair (m, l) for each part of each row."""
    strides = (*x.stride(), *torch.empty_like(x).stride())
    kernel = prepared(kernel, (grid,), (*strides, *numbers), constants, num_warps=warps)
    pairs = (x.shape[0], parts)

    def launch(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        if parts:
            kernel(x, y, torch.zeros(pairs, dtype=torch.int64, device=x.device))
        else:
            kernel(x, y)
        return y

    return launch


def _whole_row(x: torch.Tensor, block_n: int | None, before: int = 0) -> int:
    block_n = triton.next_power_of_2(before + x.shape[-1]) if block_n is None else block_n
    check(x, block_n=block_n)
    if block_n < before + x.shape[1]:
        raise ValueError(f"block_n={block_n}: a whole row must fit in one tile, so at least its {x.shape[1]} columns")
    return block_n


def vectors(x: torch.Tensor) -> tuple[int, int]:
    """Elements in a vector of 16 bytes, and how many elements of the row before it a row's first vector can contain.

    A vector is smaller where rows of x and of the result y are aligned differently, and one element where columns are
    not contiguous.
    """
    y = torch.empty_like(x)
    if x.stride(1) != 1 or y.stride(1) != 1:
        return 1, 0
    alike = (16, x.data_ptr(), y.data_ptr(), (x.stride(0) - y.stride(0)) * x.element_size())
    vector = max(1, math.gcd(*alike) // x.element_size())
    return vector, 0 if math.gcd(x.shape[1], x.stride(0)) % vector == 0 else vector - 1


def _multiple(x: torch.Tensor, y: torch.Tensor) -> int:
    """The largest power of two up to 8 that divides the length of a row and the way to the next."""
    return math.gcd(x.shape[1], x.stride(0), y.stride(0), 8)


def _warps(elements: int) -> int:
    """Warps for a tile of so many elements: 32 of them a thread, from 1 warp to 32."""
    return min(32, max(1, elements // 1024))
