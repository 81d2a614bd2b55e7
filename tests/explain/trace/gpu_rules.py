"""A kernel of the operations that `fidelity` fixes. `python -m tests.explain.trace.gpu_rules FILE` runs it
in the interpreter and saves its rows."""

import sys

import torch
import triton
import triton.language as tl

LANES = 256
BF16_ROWS, FP32_ROWS = 19, 15


@triton.jit
def rules(x_ptr, y_ptr, d_ptr, i_ptr, n_ptr, bf16_ptr, fp32_ptr, sum_ptr, LANES: tl.constexpr):
    o = tl.arange(0, LANES)
    x, y, d = tl.load(x_ptr + o), tl.load(y_ptr + o), tl.load(d_ptr + o)
    i, n = tl.load(i_ptr + o), tl.load(n_ptr + o)
    f, g = x.to(tl.float32), y.to(tl.float32)
    long = f * 1.2345678
    tl.store(bf16_ptr + 0 * LANES + o, x + y)
    tl.store(bf16_ptr + 1 * LANES + o, x - y)
    tl.store(bf16_ptr + 2 * LANES + o, x * y)
    tl.store(bf16_ptr + 3 * LANES + o, x * 2.3)
    tl.store(bf16_ptr + 4 * LANES + o, (x / y).to(tl.bfloat16))
    tl.store(bf16_ptr + 5 * LANES + o, tl.maximum(x, y))
    tl.store(bf16_ptr + 6 * LANES + o, tl.minimum(x, n.to(tl.bfloat16)))
    tl.store(bf16_ptr + 7 * LANES + o, tl.clamp(x, -0.5, 0.5))
    tl.store(bf16_ptr + 8 * LANES + o, -x)
    tl.store(bf16_ptr + 9 * LANES + o, d.to(tl.bfloat16))
    tl.store(bf16_ptr + 10 * LANES + o, i.to(tl.bfloat16))
    tl.store(bf16_ptr + 11 * LANES + o, long.to(tl.bfloat16))
    tl.store(bf16_ptr + 12 * LANES + o, tl.where(x < y, x, y))
    tl.store(bf16_ptr + 13 * LANES + o, tl.abs(x))
    tl.store(bf16_ptr + 14 * LANES + o, tl.max(x, axis=0).to(tl.bfloat16))
    tl.store(bf16_ptr + 15 * LANES + o, tl.sum((o % 2).to(tl.bfloat16), axis=0))
    tl.store(bf16_ptr + 16 * LANES + o, n.to(tl.bfloat16))
    tl.store(bf16_ptr + 17 * LANES + o, long.to(tl.bfloat16, fp_downcast_rounding="rtz"))
    tl.store(bf16_ptr + 18 * LANES + o, tl.atomic_add(sum_ptr + o, x))
    tl.store(fp32_ptr + 0 * LANES + o, tl.maximum(f, n))
    tl.store(fp32_ptr + 1 * LANES + o, tl.minimum(n, f))
    tl.store(fp32_ptr + 2 * LANES + o, tl.maximum(f, n, propagate_nan=tl.PropagateNan.ALL))
    tl.store(fp32_ptr + 3 * LANES + o, tl.clamp(n, -1.0, 1.0))
    tl.store(fp32_ptr + 4 * LANES + o, tl.clamp(-n, -1.0, 1.0))
    tl.store(fp32_ptr + 5 * LANES + o, tl.clamp(n, -1.0, 2.0))
    tl.store(fp32_ptr + 6 * LANES + o, tl.clamp(n, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(fp32_ptr + 7 * LANES + o, tl.max(n, axis=0) + f * 0)
    tl.store(fp32_ptr + 8 * LANES + o, tl.min(n, axis=0) + f * 0)
    tl.store(fp32_ptr + 9 * LANES + o, tl.fma(f, g, f))
    tl.store(fp32_ptr + 10 * LANES + o, (i > 0).to(tl.float32) - f)
    tl.store(fp32_ptr + 11 * LANES + o, n.to(tl.float16).to(tl.float32))
    tl.store(fp32_ptr + 12 * LANES + o, tl.load(sum_ptr + o).to(tl.float32))
    tl.store(fp32_ptr + 13 * LANES + o, tl.cumsum((o % 3).to(tl.bfloat16), axis=0).to(tl.float32))
    tl.store(fp32_ptr + 14 * LANES + o, tl.sum(tl.where(o % 2 == 0, n, 1.0), axis=0) + f * 0)


def rows(device):
    """What the kernel stores, as float32, (BF16_ROWS + FP32_ROWS, LANES), on the CPU."""
    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(LANES, generator=random).bfloat16() for _ in range(2))
    x[5:9] = torch.tensor([float("inf"), -float("inf"), -0.0, 2e-39])
    y[8] = 1e-39
    d = torch.randn(LANES, generator=random, dtype=torch.float64)
    d[:4] = torch.tensor([1 + 2**-8 + 2**-30, 1 + 2**-8, 3.4e38, 1e-40], dtype=torch.float64)
    i = torch.randint(-(2**31), 2**31 - 1, (LANES,), generator=random, dtype=torch.int32)
    i[0] = 2**24 + 2**16 + 1
    n = torch.randn(LANES, generator=random)
    n[::2] = float("nan")
    n[1] = torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32)[0]
    inputs = [tensor.to(device) for tensor in (x, y, d, i, n)]
    bf16 = torch.zeros(BF16_ROWS, LANES, dtype=torch.bfloat16, device=device)
    fp32 = torch.zeros(FP32_ROWS, LANES, device=device)
    rules[(1,)](*inputs, bf16, fp32, torch.ones_like(bf16[0]), LANES=LANES)
    return torch.cat([bf16.float(), fp32]).cpu()


if __name__ == "__main__":
    from explain.trace.fidelity import interpreter_fidelity

    with interpreter_fidelity():
        torch.save(rows("cpu"), sys.argv[1])
