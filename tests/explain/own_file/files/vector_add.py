"""z = x + y with a mask: every byte once, so DRAM moves what the trace counts."""

import torch
import triton
import triton.language as tl

N = 2**25 - 5


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(z_ptr + at, x + y, mask=at < n)


def main():
    x, y = torch.rand(N, device="cuda"), torch.rand(N, device="cuda")
    z = torch.empty_like(x)
    for _ in range(2):
        add_kernel[(triton.cdiv(N, 1024),)](x, y, z, N, BLOCK=1024)
    torch.testing.assert_close(z, x + y)
