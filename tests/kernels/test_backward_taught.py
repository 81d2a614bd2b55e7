"""The backward kernels to step through: what a NaN reaches, the gradient of lse, and bits that depend on the order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from explain.experiment import Experiment
from explain.trace.fidelity import interpreter_fidelity
from kernels.backward import flash_attention_backward
from kernels.backward_atomic import flash_attention_backward_atomic
from kernels.catalog import KERNELS, Kernel
from kernels.gradients import flash_forward
from kernels.launch import launcher, tensors
from kernels.verify import verify

BACKWARD = [kernel for kernel in KERNELS.values() if kernel.kind == "taught" and kernel.gradient]
SIZES = {"heads": 2, "kv_heads": 1, "seq_len": 20, "kv_len": 28, "head_dim": 16, "block_m": 8, "block_n": 8}


@pytest.mark.parametrize("kernel", BACKWARD, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("operand", "value"),
    [("q", math.nan), ("k", math.nan), ("v", math.nan), ("do", math.nan), ("q", math.inf), ("k", -math.inf)],
)
def test_what_is_not_a_number_reaches_the_gradients_of_pairs_that_see_it(kernel, causal, operand, value):
    experiment = Experiment.of(kernel.name, {**SIZES, "causal": causal}, "normal")
    p, arrays = experiment.values, experiment.make_inputs()
    arrays[operand][0, 0, 13, 5] = value
    with interpreter_fidelity():
        outputs = launcher(kernel, p, tensors(p, arrays, "cpu"))()
    assert verify(kernel, p, arrays, outputs).within_tolerance
    lost = {name: output.isnan().any(-1) for name, output in outputs.items()}
    assert any(rows.any() for rows in lost.values())
    if causal:  # query i sees keys up to i + 8
        assert not lost["dq"][0, 1, :5].any()
        assert not lost["dk"][0, 0, 28:].any() if operand in "kv" else not lost["dk"][0, 0, 22:].any()


@pytest.mark.parametrize("backward", [flash_attention_backward, flash_attention_backward_atomic])
@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_lse_is_one_more_term_of_delta(backward, causal):
    torch.manual_seed(0)
    q, do = (torch.randn(1, 2, 20, 16) for _ in range(2))
    k, v = (torch.randn(1, 1, 28, 16) for _ in range(2))
    dlse = torch.randn(1, 2, 20)
    left = flash_forward({"causal": causal}, {"q": q, "k": k, "v": v})
    with interpreter_fidelity():
        found = backward(q, k, v, do, **left, dlse=dlse, causal=causal, block_m=8, block_n=8)
        without = backward(q, k, v, do, **left, causal=causal, block_m=8, block_n=8)
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    s = leaves[0] @ leaves[1].mT * 16**-0.5
    if causal:
        s = s.masked_fill(~torch.ones(20, 28, dtype=torch.bool).tril(8), -math.inf)
    loss = (torch.softmax(s, -1) @ leaves[2] * do).sum() + (torch.logsumexp(s, -1) * dlse).sum()
    for name, ours, right in zip(("dq", "dk", "dv"), found, torch.autograd.grad(loss, leaves), strict=True):
        np.testing.assert_allclose(ours.double(), right, rtol=0, atol=2e-5, err_msg=name)
    assert not torch.allclose(found[0], without[0], atol=1e-2)


@pytest.mark.parametrize("change", [{"do": "half"}, {"lse": "half"}, {"o": "mT"}])
def test_a_bad_call_names_the_argument(change):
    q, k, v, do = (torch.randn(1, 1, 8, 16) for _ in range(4))
    call: dict[str, Any] = {"do": do, **flash_forward({}, {"q": q, "k": k, "v": v})}
    ((name, how),) = change.items()
    call[name] = getattr(call[name], how)() if how == "half" else getattr(call[name], how)
    with pytest.raises(ValueError, match=f"^{name} is"):
        flash_attention_backward(q, k, v, **call)


def in_order(kernel: Kernel, experiment: Experiment, order: slice) -> torch.Tensor:
    """dQ, where the keys, and with them the programs that hold them, come in another order."""
    p, arrays = experiment.values, experiment.make_inputs()
    arrays |= {name: np.ascontiguousarray(arrays[name][:, :, order]) for name in ("k", "v")}
    with interpreter_fidelity():
        return launcher(kernel, p, tensors(p, arrays, "cpu"))()["dq"]


def test_atomics_in_another_order_round_to_other_bits_within_tolerance():
    experiment = Experiment.of("flash_attention_backward_atomic", {"seq_len": 32, "head_dim": 16}, "normal")
    one, other = (in_order(experiment.entry, experiment, slice(None, None, step)) for step in (1, -1))
    assert not torch.equal(one, other)
    assert torch.allclose(one, other, atol=1e-5)
