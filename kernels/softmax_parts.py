"""Softmax of a long row that several programs share, each with its part in shared memory, in Gluon.

`softmax_shared_row` in `softmax_fast.py` keeps a part in registers, as float32: an SM holds few parts, and while they
wait for the other parts of their rows, nothing is on its way. In shared memory a part keeps its 16 bits, as a whole row
does in `softmax_staged.py`: an SM holds a dozen parts, so some arrive while others wait.

Each thread has an m and an l of its own and brings them up to date with each tile that is there, while the next ones
arrive (online softmax, Milakov & Gimelshein 2018, algorithm 3). So little is left to do when the last one has come.

Each program tells the others its part's (m, l) and waits for theirs. Pairs need not be cleared before a call: a call
turns one bit of each, the phase. A program sees its own pair of the call before, so it knows what theirs will be.

The interpreter cannot run Gluon; `softmax_shared_row` does the same arithmetic.
"""

from __future__ import annotations

import math

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from kernels.attention import LOG2_E
from kernels.gpu import CAPTURING, sms, stream
from kernels.kept import Kept, prepared
from kernels.softmax import check
from kernels.softmax_fast import Launch, vectors
from kernels.softmax_staged import _in_whole_vector

LARGEST = 2**15  # bytes of a part
SIX_FIT = (2**15, 17 * 2**11, 9 * 2**12)
"""Bytes of a part of 32 bits, whole tiles, of which an SM has room for six."""
FEW = 2**27
"""Bytes of a matrix up to which rows of 40 KB are faster in parts than by a program each."""


@gluon.jit
def softmax_parts_kernel(
    x_ptr, y_ptr, pairs_ptr, stride_xm, stride_ym, n_cols, n_parts, log2_e,
    TILES: gl.constexpr, TILE: gl.constexpr, PARTS: gl.constexpr, VECTOR: gl.constexpr, EDGES: gl.constexpr,
    WARPS: gl.constexpr,
):  # fmt: skip
    # n_parts programs per row, each with TILES tiles of TILE columns. Columns are counted from the vector that the row
    # starts in: the row is lo ≤ column < hi, as in `softmax_fast.py`.
    LAYOUT: gl.constexpr = gl.BlockedLayout([VECTOR], [32], [WARPS], [0])
    ONE: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    BY_THREAD: gl.constexpr = gl.BlockedLayout([1, VECTOR], [32, 1], [WARPS, 1], [1, 0])  # a row: a thread's vector
    EACH_WARP: gl.constexpr = gl.BlockedLayout([max(1, PARTS // 32)], [32], [WARPS], [0])  # all pairs in each warp
    row = (gl.program_id(0) // n_parts).to(gl.int64)
    part = gl.program_id(0) % n_parts
    first = part * (TILES * TILE)
    x_ptr += row * stride_xm // VECTOR * VECTOR
    y_ptr += row * stride_ym // VECTOR * VECTOR
    lo = 0
    if EDGES:
        lo = (row * stride_xm % VECTOR).to(gl.int32)
    hi = lo + n_cols
    lanes = gl.arange(0, TILE, layout=LAYOUT)
    x_s = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [TILES, TILE], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    for i in gl.static_range(TILES):
        cols = first + i * TILE + lanes
        async_copy.async_copy_global_to_shared(x_s.index(i), x_ptr + cols, mask=cols // VECTOR * VECTOR < hi)
        async_copy.commit_group()
    pairs_ptr += row * n_parts
    before = gl.load(pairs_ptr + part, volatile=True)
    if EDGES:  # the elements that the whole vectors leave out, stored one by one at the end
        edge = gl.arange(0, 2 * VECTOR, layout=ONE)
        at = gl.where(edge < VECTOR, edge, hi // VECTOR * VECTOR + edge - VECTOR)
        own = (at >= lo) & (at < hi) & (_in_whole_vector(at, lo, hi, VECTOR) == 0)
        own = own & (at >= first) & (at < first + TILES * TILE)
        x_edge = gl.load(x_ptr + at, mask=own, other=0.0).to(gl.float32)
    # each thread's (m, l) of what has arrived                                      (TILE // VECTOR,)
    m_own = gl.full([TILE // VECTOR], -float("inf"), gl.float32, gl.SliceLayout(1, BY_THREAD))
    l_own = gl.zeros([TILE // VECTOR], gl.float32, gl.SliceLayout(1, BY_THREAD))
    for i in gl.static_range(TILES):
        async_copy.wait_group(TILES - 1 - i)
        start = first + i * TILE
        if (start < lo) | (start + TILE > hi):  # outside the row is −inf
            cols = start + lanes
            x_s.index(i).store(gl.where((cols >= lo) & (cols < hi), x_s.index(i).load(LAYOUT), -float("inf")))
        x = gl.reshape(x_s.index(i).load(LAYOUT).to(gl.float32), [TILE // VECTOR, VECTOR])
        x = gl.convert_layout(x, BY_THREAD)
        # m_new = max(m, max x),  l = l · 2^((m − m_new) · log2 e) + Σ 2^((x − m_new) · log2 e)
        m_new = gl.maximum(m_own, gl.max(x, axis=1))
        m_safe = gl.where(m_new == -float("inf"), 0.0, m_new)  # every element is −inf: −inf − −inf would be NaN
        p = gl.exp2((x - gl.expand_dims(m_safe, 1)) * log2_e)  # x · log2 e alone could overflow
        l_own = l_own * gl.exp2((m_own - m_safe) * log2_e) + gl.sum(p, axis=1)
        m_own = m_new
    # m_j = max m,  l_j = Σ l · 2^((m − m_j) · log2 e)
    m_j = gl.max(m_own, axis=0)
    m_safe = gl.where(m_j == -float("inf"), 0.0, m_j)
    l_j = gl.sum(l_own * gl.exp2((m_own - m_safe) * log2_e), axis=0)
    phase = 1 - (before >> 31 & 1)
    gl.atomic_xchg(pairs_ptr + part, _packed(m_j, l_j, phase), sem="relaxed")
    m_i, l_i = _joined(pairs_ptr, gl.arange(0, PARTS, layout=EACH_WARP), n_parts, phase, log2_e)
    # y = 2^((x − m) · log2 e) / l                                                  (TILE,)
    inverse = 1.0 / l_i
    for i in range(TILES):
        cols = first + i * TILE + lanes
        y = gl.exp2((x_s.index(i).load(LAYOUT).to(gl.float32) - m_i) * log2_e) * inverse
        gl.store(y_ptr + cols, y.to(y_ptr.dtype.element_ty), mask=_in_whole_vector(cols, lo, hi, VECTOR))
    if EDGES:
        gl.store(y_ptr + at, (gl.exp2((x_edge - m_i) * log2_e) * inverse).to(y_ptr.dtype.element_ty), mask=own)


@gluon.jit
def _packed(m_i, l_i, phase):
    """(m, l) as one 64-bit word, seen whole or not at all. l ≥ 0, so its sign, bit 31, is free for the phase."""
    high = m_i.to(gl.int32, bitcast=True).to(gl.int64) << 32
    return high | (l_i.to(gl.int32, bitcast=True).to(gl.int64) & 0x7FFFFFFF) | phase << 31


@gluon.jit
def _joined(pairs_ptr, parts, n_parts, phase, log2_e):
    """Waits for every part of a row; the row's (m, l), with m = 0 and l = 1 for a row of −inf only."""
    told = parts < n_parts
    words = gl.load(pairs_ptr + parts, mask=told, other=phase << 31, volatile=True)
    while gl.max(words >> 31 & 1 ^ phase, axis=0) != 0:
        words = gl.load(pairs_ptr + parts, mask=told, other=phase << 31, volatile=True)
    m_j = gl.where(told, (words >> 32).to(gl.int32).to(gl.float32, bitcast=True), -float("inf"))
    l_j = gl.where(told, (words & 0x7FFFFFFF).to(gl.int32).to(gl.float32, bitcast=True), 0.0)
    # m = max m_j,  l = Σ l_j exp(m_j − m)
    m_i = gl.max(m_j, axis=0)
    m_i = gl.where(m_i == -float("inf"), 0.0, m_i)
    l_i = gl.sum(l_j * gl.exp2((m_j - m_i) * log2_e), axis=0)
    return m_i, gl.where(l_i == 0.0, 1.0, l_i)


@Kept
def softmax_parts(x: torch.Tensor, *, part: int | None = None, warps: int = 4) -> Launch:
    """Softmax over the last axis of x (rows, cols), columns contiguous: a program for each `part` bytes of each row.

    The programs of a row wait for each other, so a GPU must hold all of them at once: it starts programs in their
    order, and holds hundreds. Raises ValueError for a row of more parts than that, and naming what this kernel does not
    take.
    """
    check(x)
    if refused := refusal(x):
        raise ValueError(refused)
    n_rows, n_cols = x.shape
    vector, before = vectors(x)
    size = x.element_size()
    part = part or _part(x)
    tile = warps * 32 * vector
    tiles = triton.cdiv(triton.cdiv(before + n_cols, triton.cdiv((before + n_cols) * size, part)), tile)  # even parts
    n_parts = triton.cdiv(before + n_cols, tiles * tile)
    if n_parts > sms(x):
        raise ValueError(f"part={part}: a row of {n_cols} has {n_parts} parts, and at most {sms(x)} run at once here")
    constants = {
        "TILES": tiles, "TILE": tile, "PARTS": triton.next_power_of_2(n_parts), "VECTOR": vector, "EDGES": before > 0,
        "WARPS": warps,
    }  # fmt: skip
    numbers = (x.stride(0), torch.empty_like(x).stride(0), n_cols, n_parts, LOG2_E)
    n_pairs = n_rows * n_parts
    kernel = prepared(softmax_parts_kernel, (n_pairs,), numbers, constants, num_warps=warps, maxnreg=64)
    pairs: dict[int, torch.Tensor] = {}  # of each stream: its calls follow each other

    def launch(x: torch.Tensor) -> torch.Tensor:
        y, on = torch.empty_like(x), stream(x)
        own = pairs.get(on)
        if own is None:
            own = torch.zeros(n_pairs, dtype=torch.int64, device=x.device)
            if on != CAPTURING:  # a graph has its own, and clears them when it runs
                pairs[on] = own
        kernel(x, y, own)
        return y

    return launch


def refusal(x: torch.Tensor) -> str:
    """Why this kernel does not take x; "" where it does."""
    size, longest = x.element_size(), sms(x) * LARGEST - 16
    if x.stride(1) != 1 or vectors(x)[0] * size != 16:
        return f"x of {x.shape[1]} columns, strides {x.stride()}: this kernel copies 16 aligned bytes at a time"
    if x.shape[1] * size > longest:
        return f"x of {x.shape[1]} columns: this kernel takes rows of at most {longest // 1024} KiB"
    return ""


def _part(x: torch.Tensor) -> int:
    """Bytes of a part: 16 KiB where the SMs hold the whole matrix at once, by 8 programs each. Otherwise a larger part
    waits for fewer others: 700×50257 bf16 43.1 µs by 24 KiB, 45.6 by 16; 153×129226 fp32 46.3 by 32 KiB, 48.1 by 24.
    Of 32 bits, rows of whole vectors have those parts of which an SM has room for six that leave the busiest SM the
    fewest bytes: 27×250880 21.1 µs by 32 KiB, 20.0 by 34.
    """
    row, matrix = (n * x.element_size() for n in (x.shape[1], x.numel()))
    usual = 3 * 2**13 if x.element_size() == 2 else LARGEST
    if x.element_size() == 4 and row % 16 == 0:
        usual = min(SIX_FIT, key=lambda part: triton.cdiv(len(x) * triton.cdiv(row, part), sms(x)) * part)
    small = 8 * sms(x) * 2**14 if row <= 2**19 else 0  # 64 parts of a row wait for each other too long
    ways = ((small, 2**14), (math.inf, usual), (math.inf, LARGEST))
    return next(part for most, part in ways if matrix <= most and row + 16 <= sms(x) * part)
