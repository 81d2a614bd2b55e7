"""What goes wrong on a GPU: an illegal address, a kernel without end, a full memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def astray_kernel(x_ptr):
    tl.store(x_ptr + (1 << 40), 1.0)


@triton.jit
def endless_kernel(x_ptr):
    value = tl.load(x_ptr)
    while value == 0:
        value = tl.load(x_ptr, volatile=True)
    tl.store(x_ptr, value)


def astray():
    astray_kernel[(1,)](torch.zeros(8, device="cuda"))  # launches


def endless():
    endless_kernel[(1,)](torch.zeros(8, device="cuda"))  # launches


def full():
    torch.empty(10**13, device="cuda")  # asks
