"""Library kernels on a GPU: right against float64; gradients against PyTorch's autograd in float64."""

from __future__ import annotations

import pytest
import torch

from explain.experiment import Experiment
from kernels import library
from kernels.catalog import KERNELS, of_kind
from kernels.launch import launcher, tensors
from kernels.verify import verify

pytestmark = pytest.mark.gpu
SIZES = {
    "softmax": {"rows": 7, "cols": 3000},
    "loss": {"tokens": 300, "vocab": 1031, "dim": 64, "ignored": 7},
    "attention": {"batch": 2, "heads": 3, "seq_len": 192, "head_dim": 64},
}


@pytest.mark.parametrize("name", of_kind("library", "fast"))  # these have a file of their own
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_library_kernel_is_right(name, dtype):
    entry = KERNELS[name]
    if entry.module == "kernels.attention_hopper" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    if dtype not in next(one.choices for one in entry.parameters if one.name == "dtype"):
        pytest.skip(f"{name} has no {dtype}")
    for causal in (False, True) if entry.family == "attention" else (None,):
        given = {**SIZES[entry.family], "dtype": dtype, **({} if causal is None else {"causal": causal})}
        experiment = Experiment.of(name, given, "normal")
        p = experiment.values
        arrays = entry.make_inputs(experiment.preset, p, 0)
        verdict = verify(entry, p, arrays, launcher(entry, p, tensors(p, arrays, "cuda"))())
        assert verdict.within_tolerance, verdict


@pytest.mark.parametrize("name", [name for name, kernel in of_kind("library").items() if kernel.gradient])
def test_its_gradients_are_right(name):
    experiment = Experiment.of(name, {**SIZES["attention"], "dtype": "fp16"}, "normal")
    arrays = experiment.entry.make_inputs(experiment.preset, experiment.values, 0)
    inputs = tensors(experiment.values, arrays, "cuda")
    found = launcher(experiment.entry, experiment.values, inputs)()
    q, k, v, do = (inputs[one].double() for one in ("q", "k", "v", "do"))
    expected = library.attention_backward(q, k, v, do, causal=False)
    for output, right in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(output.double(), right, rtol=2e-2, atol=4e-3)
