"""Attention as a PyTorch operator, and its dispatcher, in the interpreter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import attention_hopper, dispatch
from kernels.attention import flash_attention, flash_attention_exp2
from kernels.operator import attention
from tests.kernels.gradients import eager, gradient_error

SHAPES = [  # batch, heads, kv_heads, seq_len, kv_len, head_dim
    (1, 2, 1, 33, 47, 16),
    (2, 2, 2, 20, 20, 24),
    (1, 4, 2, 1, 50, 16),
]


def _inputs(shape, dtype=torch.float32):
    batch, heads, kv_heads, seq_len, kv_len, head_dim = shape
    torch.manual_seed(0)
    q, do = (torch.randn(batch, heads, seq_len, head_dim, dtype=dtype) for _ in range(2))
    k, v = (torch.randn(batch, kv_heads, kv_len, head_dim, dtype=dtype) for _ in range(2))
    return q, k, v, do


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_through_autograd_are_those_of_float64(shape, dtype, causal):
    q, k, v, do = _inputs(shape, dtype)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    with interpreter_fidelity():
        result = torch.autograd.grad(attention(*leaves, causal=causal), leaves, do)
    assert gradient_error((q, k, v, do), result, causal) <= 1


@pytest.mark.parametrize("causal", [False, True])
def test_the_operator_is_registered_as_torch_demands(causal):
    q, k, v, _ = _inputs((1, 2, 1, 5, 7, 16))
    leaves = tuple(t.requires_grad_() for t in (q, k, v))
    torch.library.opcheck(torch.ops.tilescope.attention.default, (*leaves, causal, 0.25))


def test_a_layer_with_heads_beside_features_is_right():
    q, k, v, _ = _inputs((2, 3, 3, 9, 9, 16))
    sideways = [t.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for t in (q, k, v)]
    o = attention(*sideways, causal=True)
    torch.testing.assert_close(o, eager(q, k, v, True))
    torch.library.opcheck(torch.ops.tilescope.attention.default, (*sideways, True, 0.25), test_utils="test_faketensor")


def test_what_does_not_fit_is_named_through_the_operator():
    q, k, v, _ = _inputs((1, 3, 2, 4, 4, 16))
    with pytest.raises(ValueError, match="k has 2 heads"):
        attention(q, k, v)


@pytest.mark.parametrize("by_rows", [False, True])
def test_queries_of_heads_that_share_keys_are_rows_of_one_tile(by_rows, monkeypatch):
    seen = []

    def prepare(q, k, v, packed=False, **options):
        assert not packed  # Q is a view: no kernel packs it
        seen.append(tuple(q.shape))
        return lambda q, k, v: flash_attention_exp2(q, k, v, **options)

    monkeypatch.setattr(dispatch, "is_hopper", lambda q: True)
    monkeypatch.setattr(attention_hopper, "refusal", lambda *_: "")
    monkeypatch.setattr(attention_hopper, "flash_attention_hopper", SimpleNamespace(prepare=prepare))
    q, k, v, _ = _inputs((2, 6, 2, 70, 40, 16))
    if by_rows:  # Q would be copied: that pays for many keys only
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    with interpreter_fidelity():
        for causal in (False, True):
            result = dispatch.attention.prepare(q, k, v, causal=causal)(q, k, v)
            torch.testing.assert_close(result, flash_attention(q, k, v, causal=causal), rtol=1e-5, atol=1e-6)
    assert seen == [(2, 6, 70, 16) if by_rows else (2, 2, 3 * 70, 16), (2, 6, 70, 16)]


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "options", "expected"),
    [
        (16, 300, {}, "flash_attention_backward"),
        (24, 300, {}, "attention_backward_hopper"),
        (128, 300, {"causal": True}, "attention_backward_hopper"),
        (128, 200, {"causal": True}, "attention_backward_hopper"),
        (128, 260, {}, "attention_backward_hopper"),
        (96, 260, {"causal": True}, "attention_backward_hopper"),
        (136, 260, {"causal": True}, "attention_backward_wide"),
        (256, 300, {}, "attention_backward_wide"),
        (256, 300, {"deterministic": True}, "flash_attention_backward"),
        (260, 300, {}, "flash_attention_backward"),
        (100, 300, {}, "flash_attention_backward"),
    ],
)
def test_on_hopper_heads_go_to_the_backward_kernel_made_for_them(head_dim, seq_len, options, expected, monkeypatch):
    monkeypatch.setattr(dispatch, "is_hopper", lambda q: True)
    monkeypatch.setattr(dispatch, "shared_memory", lambda q: 227 * 1024)
    for name in ("attention_backward_hopper", "attention_backward_wide", "flash_attention_backward"):
        monkeypatch.setattr(dispatch, name, SimpleNamespace(prepare=lambda *_, name=name, **__: name))
    q = torch.zeros(1, 1, seq_len, head_dim, dtype=torch.float16)
    assert dispatch.attention_backward.prepare(q, q, q, q, q[..., 0], q, **options) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("cols", [1, 300, 1500, 40_000])
def test_the_dispatcher_takes_rows_of_any_length(cols, dtype):
    x = torch.randn(3, cols).to(dtype)
    with interpreter_fidelity():
        y = dispatch.softmax(x)
    right = torch.softmax(x.double(), dim=-1)
    torch.testing.assert_close(y.double(), right, rtol=1e-5 if dtype == torch.float32 else 8e-3, atol=1e-7)
