"""Two launches for the command line's tracer: a dot that a GPU rounds to TF32, and one that it does not."""

import torch
import triton
import triton.language as tl


@triton.jit
def square(x_ptr, y_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    n = tl.arange(0, N)
    x = tl.load(x_ptr + n[:, None] * N + n[None, :])
    tl.store(y_ptr + n[:, None] * N + n[None, :], tl.dot(x, x, input_precision=PRECISION))


def main():
    square[(1,)](torch.randn(16, 16), torch.empty(16, 16), N=16, PRECISION="tf32")


def exact():
    square[(1,)](torch.randn(16, 16), torch.empty(16, 16), N=16, PRECISION="ieee")
