"""Attention's gradients against float64, in the interpreter: masks, grouped heads, ragged lengths, every way of dQ."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import edits
from kernels.attention import flash_attention
from kernels.attention_backward import flash_attention_backward
from kernels.edits import Edit
from tests.kernels.gradients import gradient_error, worst_gradient

SHAPES = [  # batch, heads, kv_heads, seq_len, kv_len, head_dim
    (1, 1, 1, 32, 32, 16),
    (2, 4, 2, 45, 70, 16),
    (1, 2, 1, 70, 33, 24),
    (1, 1, 1, 1, 50, 16),
    (1, 2, 2, 1, 1, 64),  # P is 1, and dP − D cancels to nothing
    (1, 2, 1, 40, 33, 40),  # a head in two parts
]


@pytest.mark.parametrize("dq", ["again", "add"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_float64(shape, dtype, causal, dq):
    with interpreter_fidelity():
        assert worst_gradient(flash_attention, shape, dtype, causal, "cpu", dq=dq, block_m=16, block_n=32) <= 1


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_dk_and_dv_in_a_launch_each_are_the_same(shape):
    with interpreter_fidelity():
        assert worst_gradient(flash_attention, shape, torch.bfloat16, True, "cpu", apart=True, block_m=16) <= 1


KEYS, QUERIES, LOOP = "attention_backward_keys_kernel", "attention_backward_queries_kernel", "_queries_over_keys"
WAYS: tuple[dict[str, Any], ...] = ({"dq": "again"}, {"dq": "add"}, {"apart": True})
BROKEN = [
    ("attention_rows_kernel", "tl.sum(o * do, axis=1)", "tl.sum(o * o, axis=1)"),
    ("attention_rows_kernel", 'lse == -float("inf"), float("inf")', 'lse == -float("inf"), lse'),
    (KEYS, "tl.program_id(1) * at_once + tl.program_id(0) % at_once", "tl.program_id(1) * at_once"),
    (KEYS, "tl.program_id(0) // at_once * BLOCK_N", "tl.program_id(0) * BLOCK_N"),
    (KEYS, "tl.maximum(0, first - diagonal)", "tl.maximum(0, first - diagonal + BLOCK_N)"),
    (KEYS, "whole = first + BLOCK_N - 1 - diagonal", "whole = first - diagonal"),
    (KEYS, "range(group)", "range(1)"),
    (QUERIES, "(tl.num_programs(0) - 1 - tl.program_id(0)) // at_once", "tl.program_id(0)"),
    (QUERIES, "tl.maximum(0, tile * BLOCK_M + 1 + diagonal)", "tl.maximum(0, tile * BLOCK_M + BLOCK_M + diagonal)"),
    (QUERIES, "head // group * stride_kh", "head * stride_kh"),
    (LOOP, "(dp - delta[:, None])", "dp"),
    (LOOP, "rows[:, None] + diagonal", "rows[:, None] + diagonal - 1"),
    ("_scores", "if REST > 0", "if False"),
    ("_plus", "b[1], sums[1]", "b[1], sums[1] * 0"),
    ("_store", "BLOCK_D + tl.arange(0, REST)", "tl.arange(0, REST)"),
    ("_tile", "stride_dim, BLOCK_D, REST", "stride_dim, 0, REST"),
    (KEYS, "dk = _plus(dk, ds, q, REST)", "dk = _plus(dk, ds, q, REST) if OF == 'kv' else dk"),
    (KEYS, 'if OF != "k":\n                dv', 'if OF == "kv":\n                dv'),
]


@pytest.mark.parametrize(("function", "old", "new"), BROKEN)
def test_one_thing_wrong_and_the_gradients_are_too(function, old, new):
    broken = edits.load("kernels.attention_backward", Edit(f"{function} {old} {new}", function, old, new))
    with interpreter_fidelity():
        assert any(
            not worst_gradient(
                flash_attention, shape, torch.float32, causal, "cpu", backward=broken.flash_attention_backward,
                **way, block_m=16, block_n=32, l2_share=0.5,
            ) <= 1
            for shape in ((1, 1, 1, 33, 20, 40), (1, 2, 1, 70, 33, 24), (2, 4, 2, 45, 70, 16))  # the quickest first
            for causal in (True, False)
            for way in WAYS
        )  # fmt: skip


@pytest.mark.parametrize("dq", ["again", "add"])
def test_a_key_outside_brings_nothing_where_all_scores_are_far_below_0(dq):
    """Its score is 0, and 2^(0 − lse) is inf."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 45, 16) + 7, torch.randn(1, 1, 70, 16) - 7
    v, do = torch.randn(1, 1, 70, 16), torch.randn(1, 1, 45, 16)
    with interpreter_fidelity():
        o, lse = flash_attention(q, k, v)
        result = flash_attention_backward(q, k, v, o, lse, do, dq=dq, block_m=16, block_n=32)
    assert lse.max() < -100
    assert gradient_error((q, k, v, do), result, causal=False) <= 1
