"""Reductions and scans by functions of the kernel's own: the interpreter's results and counts, lane by lane."""

from __future__ import annotations

import pytest
import torch
import triton
from triton import language as tl

from explain.trace import combine
from explain.trace.patches import replaced
from explain.trace.recorder import record_call

ROWS, COLS = 4, 32


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta, n = mean_b - mean_a, n_a + n_b
    return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n


@triton.jit
def first_largest(a, i, b, j):
    takes = (a > b) | ((a == b) & (i < j))
    return tl.where(takes, a, b), tl.where(takes, i, j)


@triton.jit
def first_largest_with_a_branch(a, i, b, j):
    if a >= b:
        value, index = a, i
    else:
        value, index = b, j
    return value, index


@triton.jit
def linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def kernel(x_ptr, mean_ptr, at_ptr, scan_ptr, combine_fn: tl.constexpr, axis: tl.constexpr, reverse: tl.constexpr,
           ROWS: tl.constexpr, COLS: tl.constexpr):  # fmt: skip
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + rows * COLS + cols)
    mean, m2, n = tl.reduce((x, x * 0, x * 0 + 1), axis, welford, keep_dims=True)
    tl.store(mean_ptr + rows * COLS + cols, mean + m2 * n + x * 0)
    _, at = tl.reduce((x, tl.broadcast_to(rows * COLS + cols, (ROWS, COLS))), axis, combine_fn, keep_dims=True)
    tl.store(at_ptr + rows * COLS + cols, at + (x * 0).to(tl.int32))
    _, y = tl.associative_scan((x * 0 + 0.5, x), axis, linear, reverse=reverse)
    tl.store(scan_ptr + rows * COLS + cols, y)


def recorded(*choices):
    """The outputs and the counted operations."""
    x = torch.randint(-5, 5, (ROWS, COLS), generator=torch.Generator().manual_seed(0)).float()
    out = [torch.zeros(ROWS, COLS), torch.zeros(ROWS, COLS, dtype=torch.int32), torch.zeros(ROWS, COLS)]
    trace = record_call(lambda: kernel[(1,)](x, *out, *choices, ROWS=ROWS, COLS=COLS))
    return out, trace.launches[0].flops


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("function", [first_largest, first_largest_with_a_branch])
def test_many_lanes_at_a_time_are_as_one_by_one(axis, reverse, function):
    outputs, flops = recorded(function, axis, reverse)
    with replaced(combine, "_takes_tiles", lambda function: False):
        expected, counted = recorded(function, axis, reverse)
    torch.testing.assert_close(outputs, expected)
    assert flops == counted


def test_which_functions_take_tiles():
    takes = {one: combine._takes_tiles(one.fn) for one in (welford, first_largest, first_largest_with_a_branch, linear)}
    assert [*takes.values()] == [True, True, False, True]
