"""Attention's gradients against float64, in the interpreter: causal or not, grouped heads, lengths that no tile divides, every way of dQ."""

from __future__ import annotations

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels.attention import flash_attention
from tests.kernels.gradients import worst_gradient

SHAPES = [  # batch, heads, kv_heads, seq_len, kv_len, head_dim
    (1, 1, 1, 32, 32, 16),
    (2, 4, 2, 45, 70, 16),
    (1, 2, 1, 70, 33, 24),
    (1, 1, 1, 1, 50, 16),
]


@pytest.mark.parametrize("dq", ["again", "add"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_float64(shape, dtype, causal, dq):
    with interpreter_fidelity():
        assert worst_gradient(flash_attention, shape, dtype, causal, "cpu", dq=dq, block_m=16, block_n=32) <= 1
