"""In a model: it compiles as one graph and trains as with PyTorch's own attention, in the interpreter."""

from __future__ import annotations

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels.operator import attention
from tests.kernels.gpt import GPT, NOISE, Size, beyond_noise, same_in_one_graph

SIZE = Size(layers=1, heads=2, head_dim=16, context=24, rows=1)


def causal(q, k, v):
    return attention(q, k, v, causal=True)


def test_a_gpt_trains_to_the_same_loss_as_with_pytorchs_attention():
    with interpreter_fidelity():
        assert beyond_noise(causal, SIZE, "cpu", torch.float32) <= NOISE


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, k, v: attention(q, k, v, causal=True, sm_scale=1.01 * q.shape[-1] ** -0.5),
        lambda q, k, v: attention(q, k.detach(), v, causal=True),
    ],
    ids=["scale", "no gradient of k"],
)
def test_a_gpt_with_a_wrong_attention_does_not(wrong):
    with interpreter_fidelity():
        assert beyond_noise(wrong, SIZE, "cpu", torch.float32) > 10 * NOISE


def test_it_compiles_as_one_graph():
    with interpreter_fidelity():
        assert same_in_one_graph(GPT(SIZE, causal), SIZE, "cpu", "aot_eager")
