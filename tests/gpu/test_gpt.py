"""In a model on a GPU: it compiles as one graph and trains as with PyTorch's own attention."""

from __future__ import annotations

import pytest
import torch

from kernels.operator import attention
from tests.kernels.gpt import GPT, NOISE, Size, beyond_noise, same_in_one_graph

pytestmark = pytest.mark.gpu


def causal(q, k, v):
    return attention(q, k, v, causal=True)


def size(head_dim):
    return Size(layers=4, heads=4, head_dim=head_dim, context=320, rows=8, learning_rate=3e-4)


@pytest.mark.parametrize("head_dim", [64, 80, 128, 192, 256])
def test_a_gpt_trains_to_the_same_loss_as_with_pytorchs_attention(head_dim):
    assert beyond_noise(causal, size(head_dim), "cuda", torch.bfloat16) <= NOISE


@pytest.mark.parametrize("head_dim", [64, 192])
def test_a_gpt_with_a_wrong_attention_does_not(head_dim):
    def wrong(q, k, v):
        return attention(q, k.detach(), v, causal=True)

    assert beyond_noise(wrong, size(head_dim), "cuda", torch.bfloat16) > 10 * NOISE


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_it_compiles_as_one_graph(head_dim):
    small = Size(layers=2, heads=2, head_dim=head_dim, context=192, rows=2)
    model = GPT(small, causal).cuda().bfloat16()
    assert same_in_one_graph(model, small, "cuda", "inductor")
