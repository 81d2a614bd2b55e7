"""FLOPs are counted as docs/trace-format.md says, line by line."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

from explain.trace.model import Flops
from explain.trace.recorder import record_call
from tests.explain.trace import sample_kernels as kernels


def test_every_operation():
    x, lanes = torch.rand(4), 4
    trace = record_call(lambda: kernels.every_flop[(1,)](x, BLOCK=lanes))
    source = inspect.getsource(kernels.every_flop.fn).splitlines()[1:]
    found = {}
    for step in range(1, trace.steps):
        line = source[trace.line(step) - trace.source(step).first_line].strip()
        c = trace.columns
        found[line.partition(" = ")[2]] = (int(c.flops_exp[step]), int(c.flops_other[step]), int(c.flops_matmul[step]))
    counted = {line: (exp, other) for line, (exp, other, _) in found.items() if exp or other}
    assert counted == {
        "x + 1.0": (0, lanes),
        "x / y": (0, lanes),
        "tl.fma(x, y, x)": (0, 2 * lanes),
        "tl.exp(x)": (lanes, 0),
        "tl.exp2(x)": (lanes, 0),
        "tl.log(y)": (0, lanes),
        "tl.rsqrt(y)": (0, lanes),
        "tl.sqrt(y)": (0, lanes),
        "tl.erf(x)": (0, lanes),
        "tl.sin(x)": (0, lanes),
        "tl.maximum(x, y)": (0, lanes),
        "tl.clamp(x, 0.0, 1.0)": (0, 2 * lanes),
        "tl.cumsum(x, axis=0)": (0, lanes - 1),
        "tl.reduce(x, 0, product)": (0, lanes - 1),
        "tl.sum(x, axis=0)": (0, lanes - 1),
        "tl.max(x, axis=0)": (0, lanes - 1),
        "tl.argmax(x, axis=0)": (0, lanes - 1),
        "tl.argmin(x, axis=0, tie_break_left=False)": (0, lanes - 1),
    }
    for nothing in (
        "-x",
        "tl.abs(x)",
        "tl.where(x > y, x, y)",
        "tl.sum(offs, axis=0)",
        "offs * 2 + 1",
        "x.to(tl.float16)",
    ):
        assert found[nothing] == (0, 0, 0)


@triton.jit
def running_sums_kernel(x_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = x_ptr + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(at, tl.cumsum(tl.load(at), axis=1))


def test_a_running_sum_counts_along_its_axis():
    trace = record_call(lambda: running_sums_kernel[(1,)](torch.rand(4, 8), ROWS=4, COLS=8))
    assert trace.launches[0].flops == Flops(other=4 * 7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_matrix_product(dtype):
    a = torch.randn(16, 16).to(dtype)
    trace = record_call(lambda: kernels.matmul[(1,)](a, a, torch.empty(16, 16), N=16))
    assert trace.launches[0].flops == Flops(matmul=2 * 16**3)


def test_an_atomic_add_counts_its_active_lanes():
    trace = record_call(lambda: kernels.bf16_atomic[(1,)](torch.ones(4).bfloat16(), torch.zeros(1).bfloat16(), BLOCK=4))
    assert trace.launches[0].flops == Flops(other=3)


def test_flash_attention_adds_up():
    n, d, tile = 32, 16, 16
    q, k, v = (torch.randn(n, d) for _ in range(3))
    o = torch.empty(n, d)
    trace = record_call(
        lambda: kernels.flash_attention[(n // tile,)](q, k, v, o, d, n, 0.25, BLOCK_M=tile, BLOCK_N=tile, HEAD_DIM=d)
    )
    visits = (n // tile) ** 2
    # a visit: scale S; max; m_new; m_i − m_new; S − m; l·α + Σ; acc·α; acc + PV
    visit = tile * tile + tile * (tile - 1) + tile + tile + tile * tile + 2 * tile + tile * (tile - 1) + 2 * tile * d
    flops = trace.launches[0].flops
    assert flops.matmul == visits * 2 * (2 * tile * tile * d)
    assert flops.exp == visits * (tile * tile + tile)
    assert flops.other == visits * visit + n * d
    assert flops == trace.counters(trace.steps - 1).flops
