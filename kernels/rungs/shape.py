"""What the 16-bit rungs share: which calls they take, how large a tile fits, and descriptors for TMA."""

from __future__ import annotations

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.attention import _Call
from kernels.attention_hopper import refusal
from kernels.gpu import is_hopper, shared_memory


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
    """The sizes of one call; chooses a tile if none is given. Raises ValueError, which names the argument."""
    call = _Call.of(
        q, k, v, causal, sm_scale, None, 128 if block_m is None else block_m, 64 if block_n is None else block_n
    )
    if q.dtype == torch.float32:
        raise ValueError("q of dtype torch.float32: this kernel takes float16 and bfloat16")
    rows, keys = tile(q, stages)
    call.constants |= {"BLOCK_M": block_m or rows, "BLOCK_N": block_n or keys}
    return call


def tile(q: torch.Tensor, stages: int) -> tuple[int, int]:
    """Queries and keys of a tile: 128 and 64, or less, so that Q and `stages` tiles of K and V fit in shared memory."""
    rows, keys = 128, 64
    row_bytes = triton.next_power_of_2(q.shape[3]) * q.element_size()
    while (rows + 2 * stages * keys) * row_bytes > shared_memory(q) - 4096:  # a reduction across warps needs these
        rows, keys = (rows, keys // 2) if keys > 16 else (rows // 2, keys)
    return rows, keys


def unaligned(*tensors: torch.Tensor) -> str:
    """Which of q, k, v, o TMA cannot address, and why; "" if it can address all."""
    for name, tensor in zip("qkvo", tensors, strict=True):
        if tensor.stride(3) != 1 or any(stride % 8 for stride in tensor.stride()[:3]) or tensor.data_ptr() % 16:
            return f"{name} of strides {tensor.stride()}: this kernel copies 16 aligned bytes at a time"
    return ""


def hopper_refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float) -> str:
    """Which of these tensors the Gluon rungs do not take, and why; "" if they take all."""
    if refused := refusal(q, k, v, sm_scale):
        return refused
    if q.shape[3] not in (64, 128):
        return f"q has head_dim {q.shape[3]}: this kernel takes 64 and 128"
    return "" if is_hopper(q) else f"q is on {q.device}: this kernel is made of a Hopper GPU's own instructions (sm_90)"


def descriptor(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
    """The TMA descriptor of a tensor (batch, heads, length, head_dim), copied in tiles of `rows` rows of one head."""
    shape = [1, 1, rows, tensor.shape[3]]
    layout = gl.NVMMASharedLayout.get_default_for(shape, gl.float16 if tensor.dtype == torch.float16 else gl.bfloat16)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), shape, layout)
