"""Library kernels and kernels for speed: right against float64, measured like any kernel, never traced."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explain import cli
from explain.commands import console
from explain.compile.service import Compiler
from explain.engine import Engine
from explain.experiment import Experiment, ParameterError
from explain.workers import WorkerError
from kernels.catalog import KERNELS, of_kind
from kernels.launch import launcher, tensors
from tests.kernels.test_against_float64 import verdict_of

ON_A_CPU = (
    "torch:softmax",
    "torch:softmax_topk",
    "fast:softmax_topk_lanes",
    "fast:cross_entropy_parts",
    "torch:attention",
    "torch:attention_backward",
)
SIZES = {
    "softmax": {"rows": 3, "cols": 70},
    "loss": {"tokens": 300, "vocab": 97, "dim": 32, "ignored": 7},
    "attention": {"batch": 2, "heads": 2, "seq_len": 40, "head_dim": 32},
}


def small(name: str, dtype: str, inputs: str = "normal", **more: object) -> Experiment:
    return Experiment.of(name, {**SIZES[KERNELS[name].family], "dtype": dtype, **more}, inputs)


@pytest.mark.parametrize("name", ON_A_CPU)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("inputs", ["normal", "ascending", "one_hot"])
def test_a_measured_kernel_is_right(name, dtype, inputs):
    if dtype not in next(one.choices for one in KERNELS[name].parameters if one.name == "dtype"):
        pytest.skip(f"{name} has no {dtype}")
    verdict = verdict_of(KERNELS[name], small(name, dtype, inputs))
    assert verdict.within_tolerance, verdict
    assert verdict.bites


def test_causal_eager_attention_is_right():
    assert verdict_of(KERNELS["torch:attention"], small("torch:attention", "fp32", causal=True)).within_tolerance


def test_the_gradients_are_those_of_the_formula():
    """dV = Pᵀ dO, dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O)), dQ = dS K / √d, dK = dSᵀ Q / √d: FlashAttention, appendix B.2."""
    experiment = small("torch:attention_backward", "fp32")
    p, entry = experiment.values, experiment.entry
    arrays = entry.make_inputs(experiment.preset, p, 0)
    found = launcher(entry, p, tensors(p, arrays, "cpu"))()
    q, k, v, do = (arrays[name].astype(np.float64) for name in ("q", "k", "v", "do"))
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(p["head_dim"])
    weights = np.exp(s - s.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    o = weights @ v
    ds = weights * (do @ np.swapaxes(v, -1, -2) - (do * o).sum(-1, keepdims=True)) / np.sqrt(p["head_dim"])
    expected = {"o": o, "dq": ds @ k, "dk": np.swapaxes(ds, -1, -2) @ q, "dv": np.swapaxes(weights, -1, -2) @ do}
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name].numpy(), gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", of_kind("library", "fast", "rung"))
def test_a_kernel_that_is_only_measured_has_no_trace_and_says_so(name):
    engine, experiment = Engine(), Experiment.of(name)
    for ask in (engine.trace, engine.check, engine.output):
        with pytest.raises(WorkerError, match=name):
            ask(experiment)
    engine.close()
    with pytest.raises(WorkerError, match=name):
        Compiler().compile(experiment, 90)


def test_the_command_line_says_so_too(capsys, tmp_path):
    for command in (["run", "torch:softmax"], ["trace", "torch:softmax", "--out", str(tmp_path / "x.tilescope")]):
        assert cli.main(command) == console.FAILED
        assert "torch:softmax" in capsys.readouterr().err


def test_a_library_kernel_refuses_what_it_does_not_take():
    for name, given, words in (
        ("torch:flash", {"dtype": "fp32"}, "dtype=fp32: must be one of fp16, bf16"),
        ("torch:attention", {"heads": 4, "kv_heads": 2}, "kv_heads=2: must be heads=4"),
        ("torch:cudnn", {"seq_len": 8, "kv_len": 16, "causal": True}, "kv_len=16: must be seq_len=8 with causal=true"),
        ("torch:softmax_topk", {"cols": 4, "k": 5}, "k=5: must be at most cols=4"),
    ):
        with pytest.raises(ParameterError, match=words):
            Experiment.of(name, given)


def test_the_least_that_eager_attention_moves_is_the_papers_count():
    """FlashAttention's figure 2 in fp16 without mask and dropout: forward 9.13 GB, forward and backward 25.2 GB."""
    sizes = {"batch": 64, "heads": 16, "seq_len": 1024, "head_dim": 64, "dtype": "fp16"}
    forward, both = (Experiment.of(name, sizes) for name in ("torch:attention", "torch:attention_backward"))
    moved = [sum(term.bytes for term in one.traffic.terms) for one in (forward, both)]
    assert moved == [9_126_805_504, 25_232_932_864]
    assert both.traffic.flops_of("matmul") == 12 * 64 * 16 * 1024**2 * 64


def test_torch_is_right_about_its_own_top_k():
    experiment = small("torch:softmax_topk", "fp32", k=3)
    arrays = experiment.entry.make_inputs(experiment.preset, experiment.values, 0)
    found = launcher(experiment.entry, experiment.values, tensors(experiment.values, arrays, "cpu"))()
    assert torch.equal(found["index"], torch.from_numpy(arrays["x"]).topk(3).indices)
