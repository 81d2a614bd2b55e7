"""Vector addition, c[i] = a[i] + b[i]: the smallest kernel with every part of a kernel in it.

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


def vector_add_in_pytorch(a: torch.Tensor, b: torch.Tensor, block_n: int) -> torch.Tensor:
    """a + b, one tile at a time: what the Triton kernel does, as a loop."""
    c = torch.empty_like(a)
    n = a.numel()
    for program in range(-(-n // block_n)):  # ⌈n / block_n⌉ tiles
        offsets = program * block_n + torch.arange(block_n)
        mask = offsets < n
        a_tile = a[offsets[mask]]
        b_tile = b[offsets[mask]]
        c_tile = a_tile + b_tile
        c[offsets[mask]] = c_tile
    return c


@triton.jit
def vector_add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK_N: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = offsets < n
    a = tl.load(a_ptr + offsets, mask=mask, other=0.0)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0)
    # c = a + b                                                                     (BLOCK_N,)
    c = a + b
    tl.store(c_ptr + offsets, c, mask=mask)


def vector_add(a: torch.Tensor, b: torch.Tensor, *, block_n: int) -> torch.Tensor:
    """a + b, for contiguous a and b of one shape (n,), dtype and device. Raises ValueError for others."""
    if a.ndim != 1 or (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
        raise ValueError(
            f"a of shape {tuple(a.shape)}, {a.dtype}, on {a.device} and b of shape {tuple(b.shape)}, {b.dtype}, on "
            f"{b.device}: must be alike and have one axis"
        )
    if not (a.is_contiguous() and b.is_contiguous()):
        raise ValueError(f"a and b with strides {a.stride()} and {b.stride()}: must be contiguous")
    c = torch.empty_like(a)
    n = a.numel()
    vector_add_kernel[(triton.cdiv(n, block_n),)](a, b, c, n, BLOCK_N=block_n)
    return c


def expected(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """a + b in float64, and the tolerance of each element: eager PyTorch's error twice, and one rounding."""
    with np.errstate(invalid="ignore"):
        exact = arrays["a"].astype(np.float64) + arrays["b"].astype(np.float64)
        rounded = representable(exact, p["dtype"])
        exact = np.where(np.isinf(rounded), rounded, exact)  # too large for the format: ∞ is right
        eager = (inputs["a"] + inputs["b"]).to("cpu", torch.float64).numpy()
        error = np.abs(np.nan_to_num(eager - exact, nan=0.0, posinf=0.0, neginf=0.0))
        allowed = 2 * error + UNIT[p["dtype"]] * np.abs(exact) + SMALLEST[p["dtype"]]
    return {"c": (exact, allowed)}
