"""The launches of a backward pass of five matmuls: of its rows, of its programs, of their pieces, of dQ.

`attention_backward_hopper.py` and `attention_backward_wide.py` have the kernels of the programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.attention import LOG2_E, _Call
from kernels.attention_backward import attention_dq_kernel, attention_rows_kernel, divisor, multiple
from kernels.attention_backward_pieces import attention_pieces_kernel, split_of
from kernels.gpu import l2, sms, starts_early
from kernels.kept import prepared

ROWS = 64
"""Queries of a tile, and keys of a group: the M of a warpgroup's matmul."""


def launches(
    kernel: Any, call: _Call, tensors: tuple[torch.Tensor, ...], causal: bool, keys: int, tile: dict[str, int],
    edge: bool, own: dict[str, Any], l2_share: float, registers: int, stored: bool | None,
    split: tuple[int, int] | None, persistent: bool = False,
) -> Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:  # fmt: skip
    """What launches a kernel of five matmuls, for so many keys a program, between those for the rows and for dQ.

    `tile` and `own` are its constants before CAUSAL and after LAUNCH. A row of dQ's sums is whole lines of 128 bytes.
    Where sums end with a head's last eight rows, no row past them is added to: 30×16×197×256 causal 301 → 280 µs. Of
    many rows that saves nothing, and with two parts the place of a tile takes registers: 1×16×16384×128 8262 → 8580.
    """
    q, k, v, o, do = tensors
    seq_len, kv_len, head_dim = call.seq_len, call.kv_len, q.shape[3]
    heads, kv_heads = call.batch * call.heads, call.batch * call.kv_heads
    padded = triton.cdiv(seq_len, ROWS) * ROWS
    width = triton.cdiv(head_dim, 32) * 32
    block_d = triton.next_power_of_2(width)
    inside = triton.cdiv(seq_len, 8) * 8
    ends = head_dim > 128 or inside < padded <= 1024
    sums_shape = (heads, padded, width) if ends else (heads * padded, width)
    early = starts_early(q)
    head = {"HEAD_DIM": head_dim, "WIDTH": width, "BLOCK_D": block_d, "BLOCK_M": ROWS}
    rows_grid = (padded // ROWS, heads)
    tiles = triton.cdiv(kv_len, keys)
    if stored is None:
        stored = not persistent and _is_worth_a_launch(q, kv_heads, call.group * padded // ROWS, tiles)
    stored &= not causal or call.diagonal > -ROWS  # the first keys see every tile of queries
    rows = prepared(
        attention_rows_kernel, rows_grid, (*o.stride(), *do.stride(), call.heads, seq_len, padded),
        {**head, "WIDTH": 0 if stored else head["WIDTH"], "MULTIPLE": multiple(o, do), "EARLY": early}, num_warps=4,
    )  # fmt: skip
    scaled = prepared(
        attention_dq_kernel, rows_grid, (seq_len, padded, call.sm_scale),
        {**head, "BACK": not stored or tiles == 1, "EARLY": early, "MIXED": tile["PARTS"] < 4}, num_warps=4,
        launch_pdl=early,
    )  # fmt: skip
    room = torch.empty(sums_shape, dtype=torch.float32, device=q.device)
    at_once = divisor(kv_heads, _heads_at_once(q, call, tiles, l2_share)) if causal else 1
    columns, programs = tiles * at_once, tiles * kv_heads
    if stored and tiles > 1:
        split = (programs, 1)
    uneven = causal and kv_len < 2 * seq_len
    whole, pieces = split or split_of(q, programs, call.group, padded // ROWS, uneven)
    left = max(0, programs - whole) * pieces
    room = room[:, :inside] if ends else room
    descriptors = dict(enumerate(_descriptors(q, k, v, do, room, heads * padded, tile["WIDTH"])))

    def main(number: int, own_tiles: int) -> Callable[..., None]:
        items = whole + left if left else own_tiles * kv_heads
        in_line = left > 0 or own.get("PERSISTENT", False)
        grid = (own_tiles * at_once, kv_heads // at_once)
        if in_line:
            grid = (min(items, sms(q)) if persistent else items, 1)
        constants = {**tile, "CAUSAL": causal, "EDGE": edge, "EARLY": early, "LAUNCH": number, "SPLIT": left > 0, **own}
        if "PERSISTENT" in own:
            constants["LATE"] = number == 2 and kv_heads > sms(q)
        # Numbers of 1 are constants for the compiler: where they are not needed, they take no registers.
        numbers = (own_tiles * at_once, *((whole, pieces) if left else (1, 1)), items) if in_line else (1, 1, 1, 1)
        return prepared(
            kernel, grid,
            (at_once, call.kv_heads, call.group, seq_len, padded, kv_len, call.diagonal, call.sm_scale,
             call.sm_scale * LOG2_E, *numbers),
            constants, descriptors, num_warps=4, maxnreg=registers, launch_pdl=early,
        )  # fmt: skip

    by_keys = [
        main(number, own_tiles)
        for number, own_tiles in enumerate((0, 1, tiles - 1) if stored else (tiles,)) if own_tiles
    ]  # fmt: skip
    kept = tile["PARTS"] * tile["WIDTH"]  # features of a piece
    added = prepared(
        attention_pieces_kernel, (keys // 16, left // pieces, 2),
        (at_once, columns, whole, pieces, kv_len, call.sm_scale),
        {"HEAD_DIM": head_dim, "WIDTH": kept, "BLOCK_D": triton.next_power_of_2(kept), "KEYS": keys, "BLOCK_N": 16,
         "EARLY": early}, num_warps=4, launch_pdl=early,
    )  # fmt: skip

    def launch(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lse2, delta = (torch.empty(heads * padded, dtype=torch.float32, device=q.device) for _ in range(2))
        sums = torch.empty(sums_shape, dtype=torch.float32, device=q.device)
        of_pieces = torch.empty((left, 2, keys, kept), dtype=torch.float32, device=q.device) if left else sums
        rows(o, do, lse.contiguous(), lse2, delta, sums)
        q_grad, k_grad, v_grad = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (q, k, v))
        for programs_of in by_keys:
            programs_of(q, k, v, do, k_grad, v_grad, sums, lse2, delta, of_pieces)
        if left:
            added(of_pieces, k_grad, v_grad)
        scaled(sums, q_grad)
        return q_grad, k_grad, v_grad

    return launch


def _is_worth_a_launch(q: torch.Tensor, programs: int, rows: int, tiles: int) -> bool:
    """Whether the programs of the first keys, each with so many tiles of queries, get a launch of their own. They store
    dQ, and no zeros are written and read for it; but SMs are idle when that launch ends.

    In the time of a tile of queries: zeros for it take 1/600 of that on all SMs, a launch 1.5, a program's first and
    last steps 1.5. 14×112×317×128 causal 652 → 613 µs; 2×16×8192×128 4783 → 5169.
    """
    idle = -programs % sms(q) / sms(q) * (rows + 1.5)
    return tiles == 1 or idle + 1.5 < programs * rows / 600


def _heads_at_once(q: torch.Tensor, call: _Call, tiles: int, l2_share: float) -> float:
    """How many heads start together under a mask, their longest tiles first: those whose Q and dO fit the share of L2.

    Of long rows that is one head, and the longest tiles of the last one would start late. So up to four then, as many
    as have two tiles for each SM: 1×6×13032×128 1346 → 1222 µs, 2×16×8192×128 2716 → 2608 (on an H100).
    """
    fits = l2(q) * l2_share / (2 * q.shape[3] * q.element_size() * call.group * call.seq_len)
    return max(fits, min(4, 2 * sms(q) / tiles))


def _descriptors(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, room: torch.Tensor, rows: int, width: int
) -> list[TensorDescriptor]:
    """Of the kernel's tensors, in its order. `room` stands for the sums of dQ, and a column of it for lse and D."""
    dtype = gl.float16 if q.dtype == torch.float16 else gl.bfloat16
    tile = [1, 1, ROWS, width]
    layout = gl.NVMMASharedLayout.get_default_for(tile, dtype)
    k_grad, v_grad = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (k, v))
    descriptors = [
        TensorDescriptor(one, list(one.shape), list(one.stride()), tile, layout)
        for one in (q, k, v, do, k_grad, v_grad)
    ]
    tile = [*(1,) * (room.dim() - 2), ROWS, width]
    sums = gl.NVMMASharedLayout.get_default_for(tile, gl.float32)
    descriptors.append(TensorDescriptor(room, list(room.shape), list(room.stride()), tile, sums))
    column = torch.empty(rows, dtype=torch.float32, device=q.device)
    of_rows = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    return [*descriptors, *[TensorDescriptor(column, [len(column)], [1], [ROWS], of_rows)] * 2]


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, most: int) -> str:
    """Which of these tensors a kernel for so many features does not take, and why; "" where it takes them all."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        return f"q of dtype {q.dtype}: this kernel takes float16 and bfloat16"
    if q.shape[3] % 8 or q.shape[3] > most:
        return f"q has head_dim {q.shape[3]}: this kernel takes multiples of 8 up to {most}"
    for name, tensor in (("q", q), ("k", k), ("v", v), ("do", do)):
        if tensor.stride(3) != 1 or any(stride % 8 for stride in tensor.stride()[:3]) or tensor.data_ptr() % 16:
            return f"{name} of strides {tensor.stride()}: this kernel copies 16 aligned bytes at a time"
    return ""
