"""The last programs of a backward pass in pieces, so that no SM is idle while they run.

A GPU with 132 SMs runs 160 equal programs in two rounds, and 104 SMs are idle in the second one. So the queries of the
last 28 programs are split, as Stream-K splits a matmul's sums (arXiv 2301.03598). Each piece leaves its dK and dV in
float32, and a kernel of its own adds them. `split_of` says where this is faster.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.gpu import sms

MOST = 16
"""Pieces of a program: they are added one after the other."""


@triton.jit(do_not_specialize_on_alignment=("at_once", "columns", "whole", "pieces"))
def attention_pieces_kernel(
    pieces_ptr, dk_ptr, dv_ptr, at_once, columns, whole, pieces, kv_len, sm_scale,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_D: tl.constexpr, KEYS: tl.constexpr, BLOCK_N: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    # dK or dV of BLOCK_N keys of a program that was split: the sums of its pieces, always in the same order.
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()  # until the pieces are there
    of_values = tl.program_id(2) == 1
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    program = whole + tl.program_id(1)
    column = program % columns
    head = (program // columns * at_once + column % at_once).to(tl.int64)
    keys = column // at_once * KEYS + rows
    inside = (keys < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
    piece_ptrs = pieces_ptr + (tl.program_id(1) * pieces * 2 + tl.program_id(2)) * (KEYS * WIDTH)
    piece_ptrs += rows[:, None] * WIDTH + dims[None, :]
    sums = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for piece in range(pieces):
        sums += tl.load(piece_ptrs + piece * (2 * KEYS * WIDTH), mask=inside, other=0.0)
    grad_ptr = dv_ptr if of_values else dk_ptr
    grad = (sums * tl.where(of_values, 1.0, sm_scale)).to(grad_ptr.dtype.element_ty)
    tl.store(grad_ptr + (head * kv_len + keys)[:, None] * HEAD_DIM + dims[None, :], grad, mask=inside)


def split_of(q: torch.Tensor, programs: int, group: int, tiles: int, causal: bool) -> tuple[int, int]:
    """How many programs stay whole, and into how many pieces each other one is split: (programs, 1) where none is.

    A program goes over `group` heads of `tiles` tiles of queries. In the time of a tile: its first and last steps take
    1.5, a piece is written and added in 0.03, and the kernel that adds takes 1.5. 5×3072×256 with 2048 keys 300 → 206
    µs, 1×28×16384×128 15822 → 15409. Under a mask programs differ in length, and long ones start first: all are split,
    or none. 2×1536×64 41 → 24.
    """
    count = sms(q)
    whole = 0 if causal else programs // count * count
    left = programs - whole
    if left == 0 or (causal and programs >= 2 * count):
        return programs, 1
    mean = programs * group * tiles / 2 / count  # of an SM, under a mask

    def time(pieces: int) -> float:
        longest, rounds = group * triton.cdiv(tiles, pieces), triton.cdiv(left * pieces, count)
        busy = max(longest, mean) if causal else rounds * longest
        return busy + 1.5 * rounds + (1.5 + 0.03 * left * pieces if pieces > 1 else 0)

    before = whole / count * (group * tiles + 1.5)
    pieces = min(range(1, min(tiles, MOST) + 1), key=time)
    worth = before + time(pieces) < 0.985 * (before + time(1))
    return (whole, pieces) if worth else (programs, 1)
