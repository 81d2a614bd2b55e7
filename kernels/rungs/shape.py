"""What the rungs of 16-bit operands share: which calls they take, and how large a tile a GPU has room for."""

from __future__ import annotations

import torch
import triton

from kernels.attention import _Call
from kernels.gpu import shared_memory


def checked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    sm_scale: float | None,
    block_m: int | None,
    block_n: int | None,
    stages: int = 1,
) -> _Call:
    """The sizes of one call, its tile chosen where it is not given. Raises ValueError naming the argument that does not fit."""
    call = _Call.of(
        q, k, v, causal, sm_scale, None, 128 if block_m is None else block_m, 64 if block_n is None else block_n
    )
    if q.dtype == torch.float32:
        raise ValueError("q of dtype torch.float32: this kernel takes float16 and bfloat16")
    rows, keys = tile(q, stages)
    call.constants |= {"BLOCK_M": block_m or rows, "BLOCK_N": block_n or keys}
    return call


def tile(q: torch.Tensor, stages: int) -> tuple[int, int]:
    """Queries and keys of a tile: 128 and 64, or as much of that as leaves room in shared memory for Q and `stages` tiles of K and of V."""
    rows, keys = 128, 64
    row_bytes = triton.next_power_of_2(q.shape[3]) * q.element_size()
    while (rows + 2 * stages * keys) * row_bytes > shared_memory(q) - 4096:  # what a sum across warps takes
        rows, keys = (rows, keys // 2) if keys > 16 else (rows // 2, keys)
    return rows, keys


def unaligned(*tensors: torch.Tensor) -> str:
    """Which of q, k, v, o the copy engine cannot address, and why; "" where it can all."""
    for name, tensor in zip("qkvo", tensors, strict=True):
        if tensor.stride(3) != 1 or any(stride % 8 for stride in tensor.stride()[:3]) or tensor.data_ptr() % 16:
            return f"{name} of strides {tensor.stride()}: this kernel copies 16 aligned bytes at a time"
    return ""
