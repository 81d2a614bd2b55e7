"""Micro-benchmarks: kernels that only move bytes, or only compute exponentials, as fast as the GPU can.

    read           reads a float32 region again and again: from HBM, L2 or L1, depending on its size
    write, copy    writes a float32 region; copies one region to another
    shared_read    reads float32 from shared memory, in Gluon, which controls where a value is
    exponentials   computes 2⁻ˣ in registers: the hardware instruction behind exp

Each wrapper returns what it computed, so it can be checked and the compiler cannot remove it. `*_count` is what one
call moves or computes. Loads and stores are 16 bytes per thread, the widest possible.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

TILE = 4096
"""Elements per load of a program: 16 per thread of 8 warps, so many bytes are in flight."""
COPY_TILE = 1024
"""For copy: the fastest on an H200 of 1024 to 8192 elements; one 16-byte load per thread."""
WARPS = 8
BUFFERS = gl.constexpr(8)
"""Tiles of shared memory that a program reads in turn: the compiler would keep a single one in registers."""
SHARED_TILE = 2048


@triton.jit
def read_kernel(x_ptr, sums_ptr, n_tiles, step, loads, TILE: tl.constexpr, THROUGH_L1: tl.constexpr):
    acc = tl.zeros((TILE,), tl.float32)
    tile = tl.program_id(0) % n_tiles
    for _ in range(loads):
        at = x_ptr + tile * TILE + tl.arange(0, TILE)
        acc += tl.load(at, cache_modifier="" if THROUGH_L1 else ".cg")  #        (TILE,)
        tile += step
        tile = tl.where(tile < n_tiles, tile, tile - n_tiles)  # wraps around at the end of the region
    tl.store(sums_ptr + tl.program_id(0), tl.sum(acc, axis=0))


@triton.jit
def write_kernel(y_ptr, TILE: tl.constexpr):
    lane = tl.arange(0, TILE)
    tl.store(y_ptr + tl.program_id(0) * TILE + lane, (lane ^ tl.program_id(0)).to(tl.float32))


@triton.jit
def copy_kernel(x_ptr, y_ptr, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@gluon.jit
def shared_read_kernel(x_ptr, sums_ptr, rounds, TILE: gl.constexpr, BUFFERS: gl.constexpr):
    registers: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 1, [0])
    tiles = gl.allocate_shared_memory(gl.float32, [BUFFERS, TILE], shared)
    lane = gl.arange(0, TILE, layout=registers)
    for buffer in range(BUFFERS):
        tiles.index(buffer).store(gl.load(x_ptr + buffer * TILE + lane))
    acc = tiles.index(0).load(registers)  # waits for all stores; the loop does not wait
    for i in range(1, rounds):
        acc += tiles.index(i % BUFFERS).load(registers)
    gl.store(sums_ptr + gl.program_id(0).to(gl.int64) * TILE + lane, acc)


@triton.jit
def exponentials_kernel(x_ptr, y_ptr, rounds, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + at)
    for _ in range(rounds):
        # x = 2⁻ˣ: stays between 0 and 1; each depends on the one before             (TILE,)
        x = tl.exp2(-x)
    tl.store(y_ptr + at, x)


def read(x: torch.Tensor, programs: int, loads: int, *, through_l1: bool = False) -> torch.Tensor:
    """Each program's sum of `loads` tiles of x (float32, whole tiles): (programs,) float32.

    Program p starts at tile p and steps by `programs` tiles.
    """
    sums = torch.empty(programs, device=x.device)
    n_tiles = _tiles(x)
    step = programs % n_tiles or 1
    read_kernel[(programs,)](x, sums, n_tiles, step, loads, TILE=TILE, THROUGH_L1=through_l1, num_warps=WARPS)
    return sums


def read_count(programs: int, loads: int) -> int:
    """Bytes that a call of `read` loads."""
    return programs * loads * TILE * 4


def write(y: torch.Tensor) -> torch.Tensor:
    """Fills y (float32, whole tiles) with a different number per element; returns it."""
    write_kernel[(_tiles(y),)](y, TILE=TILE, num_warps=WARPS)
    return y


def copy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Copies x to y (float32, equally long, whole tiles); returns y."""
    if y.numel() != x.numel():
        raise ValueError(f"y has {y.numel()} elements: it must have as many as x, {x.numel()}")
    copy_kernel[(_tiles(x, COPY_TILE),)](x, y, TILE=COPY_TILE, num_warps=WARPS)
    return y


def shared_read(x: torch.Tensor, programs: int, rounds: int) -> torch.Tensor:
    """Sums of `rounds` tiles of x in shared memory, element by element: (programs, SHARED_TILE) float32.

    x is float32 of BUFFERS × SHARED_TILE elements. Needs a GPU: Triton's interpreter does not run Gluon.
    """
    if x.numel() != BUFFERS.value * SHARED_TILE:
        raise ValueError(f"x has {x.numel()} elements: it must have {BUFFERS.value * SHARED_TILE}")
    sums = torch.empty(programs, SHARED_TILE, device=x.device)
    shared_read_kernel[(programs,)](x, sums, rounds, TILE=SHARED_TILE, BUFFERS=BUFFERS, num_warps=WARPS)
    return sums


def shared_read_count(programs: int, rounds: int) -> int:
    """Bytes that a call of `shared_read` loads from shared memory."""
    return programs * rounds * SHARED_TILE * 4


def exponentials(x: torch.Tensor, rounds: int) -> torch.Tensor:
    """x → 2⁻ˣ, `rounds` times, for each element of x (float32, whole tiles)."""
    y = torch.empty_like(x)
    exponentials_kernel[(_tiles(x),)](x, y, rounds, TILE=TILE, num_warps=WARPS)
    return y


def _tiles(x: torch.Tensor, tile: int = TILE) -> int:
    if x.numel() % TILE or x.numel() >= 2**31 or x.dtype != torch.float32 or not x.is_contiguous():
        allowed = f"it must be contiguous float32, whole tiles of {TILE}, fewer than 2³¹ elements"
        raise ValueError(f"a {x.dtype} tensor of {x.numel()} elements: {allowed}")
    return x.numel() // tile
