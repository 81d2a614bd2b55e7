"""The compiled kernels on a real GPU: the whole grid, offsets past 2³¹ elements, the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explain.experiment import Experiment
from explain.run_experiment import verdict_of
from explain.verification import grid, must_pass
from kernels import reference
from kernels.attention import attention_standard, flash_attention, flash_attention_exp2, flash_attention_v1
from kernels.catalog import TAUGHT
from kernels.decoding import flash_decoding
from kernels.launch import launcher, tensors
from kernels.merge import softmax_split
from kernels.softmax import softmax_naive, softmax_online, softmax_row, softmax_safe, softmax_tiled
from kernels.topk import softmax_topk
from kernels.verify import verify

pytestmark = pytest.mark.gpu
PAST = 2**31


@pytest.mark.parametrize("kernel", [kernel for kernel in TAUGHT.values() if not kernel.wrong], ids=lambda k: k.name)
def test_the_grid(kernel):
    missed = []
    for experiment in grid(kernel):
        verdict = verdict_of(experiment, "cuda")
        if must_pass(experiment) and not verdict.within_tolerance:
            missed.append((experiment.key, verdict))
    assert not missed


@pytest.mark.parametrize(
    "softmax", [softmax_naive, softmax_safe, softmax_row, softmax_online, softmax_tiled, softmax_split]
)
def test_softmax_past_2_to_the_31_elements(softmax):
    rows, cols = 65536 + 8, 32768
    x = torch.randn(rows, cols, dtype=torch.float16, device="cuda")
    y = softmax(x, block_n=cols if softmax is softmax_row else 2048)
    for part in (slice(0, 4), slice(rows - 4, rows)):
        expected = reference.softmax(x[part].cpu().numpy())
        np.testing.assert_allclose(y[part].cpu().numpy(), expected, rtol=2e-3, atol=1e-7)


def test_topk_past_2_to_the_31_elements():
    rows, cols, k = 65536 + 8, 32768, 5
    x = torch.randn(rows, cols, dtype=torch.float16, device="cuda")
    y, index = softmax_topk(x, k=k)
    for part in (slice(0, 4), slice(rows - 4, rows)):
        expected, columns = reference.softmax_topk(x[part].float().cpu().numpy(), k)
        np.testing.assert_array_equal(index[part].cpu().numpy(), columns)
        np.testing.assert_allclose(y[part].cpu().numpy(), expected, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize(
    "attention", [flash_attention, flash_attention_exp2, flash_attention_v1, attention_standard, flash_decoding]
)
@pytest.mark.parametrize("far", ["head", "row", "dim"])
def test_attention_strides_past_2_to_the_31_elements(attention, far):
    store = torch.empty(2 * PAST + 2**20, dtype=torch.float16, device="cuda")
    strides = {"head": (0, PAST, 512, 1), "row": (0, 192, PAST // 16, 1), "dim": (0, 2**14, 192, PAST // 16)}[far]
    q, k, v = (store.as_strided((1, 2, 24, 32), strides, 64 * i) for i in range(3))
    for tensor in (q, k, v):
        tensor.copy_(torch.randn(1, 2, 24, 32, device="cuda"))
    out = attention(q, k, v, causal=True, block_m=16, block_n=16)
    o = out[0] if isinstance(out, tuple) else out
    expected, _ = reference.attention(*(t.float().cpu().numpy() for t in (q, k, v)), causal=True)
    np.testing.assert_allclose(o.float().cpu().numpy(), expected, rtol=0, atol=5e-3)


def test_standard_attention_with_more_than_2_to_the_31_scores():
    q, k, v = (torch.randn(1, 1, n, 16, dtype=torch.float16, device="cuda") for n in (32768 + 64, 65536, 65536))
    o = attention_standard(q, k, v, block_m=64, block_n=128)
    last = q[:, :, -8:].float().cpu().numpy()
    expected, _ = reference.attention(last, k.float().cpu().numpy(), v.float().cpu().numpy(), causal=False)
    np.testing.assert_allclose(o[:, :, -8:].float().cpu().numpy(), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    "name",
    [
        "attention_standard",
        "flash_attention_v1",
        "flash_attention",
        "flash_attention_exp2",
        "attention_backward_standard",
        "flash_attention_backward",
        "flash_decoding",
        "softmax_tiled",
        "softmax_topk",
        "softmax_safe_topk",
        "softmax_safe_then_topk",
        "softmax_split",
    ],
)
def test_twenty_runs_give_the_same_bits(name):
    sizes = (
        {"rows": 37, "cols": 1000}
        if name.startswith("softmax")
        else {"heads": 8, "seq_len": 257, "causal": True, "head_dim": 64}
    )
    experiment = Experiment.of(name, {**sizes, "dtype": "fp16"}, "normal")
    p = experiment.values
    arrays = experiment.entry.make_inputs(experiment.preset, p, 0)
    launch = launcher(experiment.entry, p, tensors(p, arrays, "cuda"))
    first = launch()
    for _ in range(20):
        again = launch()
        assert all(torch.equal(first[output], again[output]) for output in first)


def test_with_atomics_only_dq_may_change_and_each_run_is_within_tolerance():
    sizes = {"heads": 8, "seq_len": 2048, "head_dim": 64, "dtype": "fp16", "block_m": 64, "block_n": 64}
    experiment = Experiment.of("flash_attention_backward_atomic", sizes, "normal")
    entry, p, arrays = experiment.entry, experiment.values, experiment.make_inputs()
    launch = launcher(entry, p, tensors(p, arrays, "cuda"))
    first = launch()
    for _ in range(20):
        again = launch()
        assert torch.equal(first["dk"], again["dk"])
        assert torch.equal(first["dv"], again["dv"])
    assert verify(entry, p, arrays, again).within_tolerance


@pytest.mark.parametrize("attention", [flash_attention, flash_attention_exp2, flash_attention_v1, attention_standard])
def test_a_nan_value_reaches_only_the_rows_that_see_it(attention):
    q, k, v = (torch.randn(1, 1, 48, 32, device="cuda") for _ in range(3))
    v[0, 0, 20, 5] = float("nan")
    out = attention(q, k, v, causal=True, block_m=16, block_n=16)
    o = (out[0] if isinstance(out, tuple) else out)[0, 0].cpu()
    expected = torch.zeros(48, 32, dtype=torch.bool)
    expected[20:, 5] = True
    assert torch.equal(torch.isnan(o), expected)
