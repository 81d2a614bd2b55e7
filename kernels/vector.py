"""Vector addition, z[i] = x[i] + y[i]: the smallest kernel with every part of a kernel in it.

The same work is here twice, line by line: as a loop in PyTorch, and as a Triton kernel. Triton's launch is PyTorch's
loop: each program does one iteration, and the GPU runs many programs at once.

Loads and stores per element: 2 + 1.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from kernels.inputs import Arrays, representable
from kernels.parameters import Values
from kernels.verify import SMALLEST, UNIT, Expectation


def vector_add_in_pytorch(x: torch.Tensor, y: torch.Tensor, block_n: int) -> torch.Tensor:
    """x + y, one tile at a time: what the Triton kernel does, as a loop."""
    z = torch.empty_like(x)
    n = x.numel()
    for program in range(triton.cdiv(n, block_n)):
        offsets = program * block_n + torch.arange(block_n)
        mask = offsets < n
        x_tile = x[offsets[mask]]
        y_tile = y[offsets[mask]]
        z_tile = x_tile + y_tile
        z[offsets[mask]] = z_tile
    return z


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK_N: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    # z = x + y                                                                     (BLOCK_N,)
    z = x + y
    tl.store(z_ptr + offsets, z, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor, *, block_n: int) -> torch.Tensor:
    """x + y, for contiguous x and y of one shape (n,), dtype and device. Raises ValueError for others."""
    if x.ndim != 1 or (x.shape, x.dtype, x.device) != (y.shape, y.dtype, y.device):
        raise ValueError(
            f"x of shape {tuple(x.shape)}, {x.dtype}, on {x.device} and y of shape {tuple(y.shape)}, {y.dtype}, on "
            f"{y.device}: must be alike and have one axis"
        )
    if not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError(f"x and y with strides {x.stride()} and {y.stride()}: must be contiguous")
    z = torch.empty_like(x)
    n = x.numel()
    vector_add_kernel[(triton.cdiv(n, block_n),)](x, y, z, n, BLOCK_N=block_n)
    return z


def expected(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """x + y in float64, and the tolerance of each element: eager PyTorch's error twice, and one rounding."""
    with np.errstate(invalid="ignore"):
        exact = arrays["x"].astype(np.float64) + arrays["y"].astype(np.float64)
        rounded = representable(exact, p["dtype"])
        exact = np.where(np.isinf(rounded), rounded, exact)  # too large for the format: ∞ is right
        eager = (inputs["x"] + inputs["y"]).to("cpu", torch.float64).numpy()
        error = np.abs(np.nan_to_num(eager - exact, nan=0.0, posinf=0.0, neginf=0.0))
        allowed = 2 * error + UNIT[p["dtype"]] * np.abs(exact) + SMALLEST[p["dtype"]]
    return {"z": (exact, allowed)}
