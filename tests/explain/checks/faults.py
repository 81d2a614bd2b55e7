"""A kernel of each sort of finding, and its right twin: docs/checks.md. Each function makes its inputs and launches."""
# ruff: noqa: SIM108  # as in the page

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        tl.store(y_ptr + cols, tl.load(x_ptr + cols, mask=cols < n), mask=cols < n)
    else:
        tl.store(y_ptr + cols, tl.load(x_ptr + cols))


def outside():
    copy_kernel[(4,)](torch.randn(60), torch.zeros(64), 60, MASKED=False, BLOCK=16)


def outside_right():
    copy_kernel[(4,)](torch.randn(60), torch.zeros(64), 60, MASKED=True, BLOCK=16)


def outside_a_view():
    packed = torch.randn(4, 32)
    copy_kernel[(1,)](packed[:, :16], torch.zeros(32), 32, MASKED=True, BLOCK=32)


def outside_a_view_right():
    packed = torch.randn(4, 32)
    copy_kernel[(1,)](packed[:, :16], torch.zeros(32), 16, MASKED=True, BLOCK=32)


@triton.jit
def accumulate_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + cols)
    tl.atomic_add(y_ptr + cols, x)


def unwritten():
    accumulate_kernel[(3,)](torch.randn(48), torch.empty(16), BLOCK=16)


def unwritten_right():
    accumulate_kernel[(3,)](torch.randn(48), torch.zeros(16), BLOCK=16)


def unwritten_then_filled():
    y = torch.empty(16)
    y.fill_(0.0)
    accumulate_kernel[(3,)](torch.randn(48), y, BLOCK=16)


def unwritten_then_filled_by_numpy():
    y, counts = torch.empty(16), torch.empty(16, dtype=torch.int32)
    y.numpy()[:] = np.nan
    counts.numpy()[:] = np.arange(16)
    accumulate_kernel[(1,)](torch.randn(16), y, BLOCK=16)
    accumulate_kernel[(1,)](torch.ones(16, dtype=torch.int32), counts, BLOCK=16)


def unwritten_then_filled_with_a_byte_of_poison():
    y = torch.empty(16)
    y.numpy().view(np.uint32)[:] = 0x3F8000FF
    accumulate_kernel[(1,)](torch.randn(16), y, BLOCK=16)


def unwritten_then_zeroed_by_numpy():
    counts = torch.empty(16, dtype=torch.int32)
    np.asarray(counts)[:] = 0
    accumulate_kernel[(1,)](torch.ones(16, dtype=torch.int32), counts, BLOCK=16)


def unwritten_counts():
    counts = torch.empty(16, dtype=torch.int32)
    accumulate_kernel[(1,)](torch.ones(16, dtype=torch.int32), counts, BLOCK=16)


def unwritten_but_half():
    y = torch.empty(16)
    y.numpy()[:8] = 0.0
    accumulate_kernel[(1,)](torch.randn(16), y, BLOCK=16)


@triton.jit
def maximum_kernel(x_ptr, y_ptr, n, PADDED: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    if PADDED:
        x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
    else:
        x = tl.load(x_ptr + cols, mask=cols < n)
    tl.store(y_ptr, tl.max(x, axis=0))


def undefined():
    maximum_kernel[(1,)](-torch.ones(10), torch.zeros(1), 10, PADDED=False, BLOCK=16)


def undefined_right():
    maximum_kernel[(1,)](-torch.ones(10), torch.zeros(1), 10, PADDED=True, BLOCK=16)


@triton.jit
def sum_kernel(x_ptr, y_ptr, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if ATOMIC:
        tl.atomic_add(y_ptr, tl.sum(x))
    else:
        tl.store(y_ptr, tl.load(y_ptr) + tl.sum(x))


def race():
    sum_kernel[(4,)](torch.randn(64), torch.zeros(1), ATOMIC=False, BLOCK=16)


def race_right():
    sum_kernel[(4,)](torch.randn(64), torch.zeros(1), ATOMIC=True, BLOCK=16)


@triton.jit
def locked_sum_kernel(x_ptr, y_ptr, lock_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + tl.sum(x))
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def counted_sum_kernel(x_ptr, y_ptr, done_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(y_ptr, tl.load(y_ptr) + tl.sum(x))
    tl.atomic_add(done_ptr, 1)


def race_before_an_atomic():
    counted_sum_kernel[(4,)](torch.randn(64), torch.zeros(1), torch.zeros(1, dtype=torch.int32), BLOCK=16)


def race_with_a_lock():
    locked_sum_kernel[(4,)](torch.randn(64), torch.zeros(1), torch.zeros(1, dtype=torch.int32), BLOCK=16)


@triton.jit
def shift_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = tl.load(x_ptr + cols + 1, mask=cols + 1 < n, other=0.0)
    here = tl.load(x_ptr + cols, mask=cols < n)
    tl.store(y_ptr + cols, here + there, mask=cols < n)


@triton.jit
def shift_in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = tl.load(x_ptr + cols + 1, mask=cols + 1 < n, other=0.0)
    here = tl.load(x_ptr + cols, mask=cols < n)
    tl.store(x_ptr + cols, here + there, mask=cols < n)


def race_in_place():
    shift_in_place_kernel[(4,)](torch.randn(60), 60, BLOCK=16)


def race_in_place_right():
    x, y = torch.randn(60), torch.zeros(60)
    shift_kernel[(4,)](x, y, 60, BLOCK=16)
    shift_kernel[(4,)](y, x, 60, BLOCK=16)  # launches are in order


@triton.jit
def read_back_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + cols, tl.load(x_ptr + cols))
    tl.store(x_ptr + cols, tl.load(y_ptr + cols))
    tl.store(z_ptr + cols, tl.load(y_ptr + (cols + 1) % n))


def race_read_back():
    """Program 3 loads y[0], which program 0 stored and loaded."""
    read_back_kernel[(4,)](torch.randn(64), torch.zeros(64), torch.zeros(64), 64, BLOCK=16)


@triton.jit
def halve_kernel(x_ptr, y_ptr, TWICE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if TWICE:
        tl.store(y_ptr + lanes // 2, x)
    else:
        tl.store(y_ptr + lanes // 2, x, mask=lanes % 2 == 0)


def twice():
    halve_kernel[(1,)](torch.arange(16.0), torch.zeros(8), TWICE=True, BLOCK=16)


def twice_right():
    halve_kernel[(1,)](torch.arange(16.0), torch.zeros(8), TWICE=False, BLOCK=16)


@triton.jit
def row_kernel(x_ptr, y_ptr, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    inside = row * stride < 64
    x = tl.load(x_ptr + row * stride + tl.arange(0, BLOCK), mask=inside, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), x)


def wrapped():
    row_kernel[(5,)](torch.randn(64), torch.zeros(80), 1 << 30, WIDE=False, BLOCK=16)


def wrapped_right():
    row_kernel[(5,)](torch.randn(64), torch.zeros(80), 1 << 30, WIDE=True, BLOCK=16)


@triton.jit
def scale_kernel(x_ptr, y_ptr, factor, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes).to(tl.float32) * factor)


def overflow():
    scale_kernel[(1,)](torch.ones(16), torch.zeros(16, dtype=torch.float16), 70000.0, BLOCK=16)


def overflow_right():
    scale_kernel[(1,)](torch.ones(16), torch.zeros(16, dtype=torch.bfloat16), 70000.0, BLOCK=16)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    m = tl.max(x, axis=0)
    if SAFE:
        m = tl.where(m == -float("inf"), 0.0, m)
    p = tl.exp(x - m)
    tl.store(y_ptr + lanes, p / tl.maximum(tl.sum(p, axis=0), 1.0))


def nan():
    softmax_kernel[(1,)](torch.full((16,), -torch.inf), torch.zeros(16), SAFE=False, BLOCK=16)


def nan_right():
    softmax_kernel[(1,)](torch.full((16,), -torch.inf), torch.zeros(16), SAFE=True, BLOCK=16)


@triton.jit
def edge_kernel(x_ptr, y_ptr, n, step, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * step + tl.arange(0, BLOCK)
    tl.store(y_ptr + cols, tl.load(x_ptr + cols, mask=cols < n, other=0.0), mask=cols < n)


def rewritten():
    edge_kernel[(5,)](torch.randn(60), torch.zeros(60), 60, 12, BLOCK=16)


def rewritten_right():
    edge_kernel[(4,)](torch.randn(60), torch.zeros(60), 60, 16, BLOCK=16)


def mask():
    copy_kernel[(4,)](torch.randn(64), torch.zeros(64), 64, MASKED=True, BLOCK=16)


def mask_right():
    copy_kernel[(4,)](torch.randn(60), torch.zeros(64), 60, MASKED=True, BLOCK=16)


@triton.jit
def descriptor_kernel(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    y.store([0, tl.program_id(0) * BLOCK], x.load([0, tl.program_id(0) * BLOCK]))


def a_descriptor():
    descriptor_kernel[(2,)](torch.randn(4, 8), torch.zeros(4, 8), 4, 8, BLOCK=4)


def a_descriptor_over_the_edge():
    descriptor_kernel[(2,)](torch.randn(3, 12), torch.zeros(3, 12), 3, 12, BLOCK=8)


@triton.jit
def unused_kernel(x_ptr, y_ptr, w_ptr, USED: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    w = tl.load(w_ptr + lanes)
    if USED:
        x = x * w
    tl.store(y_ptr + lanes, x)


def unused():
    unused_kernel[(1,)](torch.randn(16), torch.zeros(16), torch.randn(16), USED=False, BLOCK=16)


def unused_right():
    unused_kernel[(1,)](torch.randn(16), torch.zeros(16), torch.randn(16), USED=True, BLOCK=16)


@triton.jit
def pair_kernel(x_ptr, y_ptr, w_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x, _w = tl.load(x_ptr + lanes), tl.load(w_ptr + lanes)
    tl.store(y_ptr + lanes, x)


def unused_beside_a_used_one():
    pair_kernel[(1,)](torch.randn(16), torch.zeros(16), torch.randn(16), BLOCK=16)


@triton.jit
def column_kernel(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes * stride))


def sectors():
    column_kernel[(1,)](torch.randn(16, 16), torch.zeros(16), 16, BLOCK=16)


def sectors_right():
    column_kernel[(1,)](torch.randn(16, 16), torch.zeros(16), 1, BLOCK=16)


def sectors_of_the_load_alone():
    """The load uses 12 of 32 bytes; with the store of the same line it is half of all."""
    column_kernel[(1,)](torch.randn(64, 3), torch.zeros(64), 3, BLOCK=64)


def sectors_of_few_bytes():
    copy_kernel[(1,)](torch.ones(13, dtype=torch.int8), torch.ones(13, dtype=torch.int8), 13, MASKED=True, BLOCK=16)
