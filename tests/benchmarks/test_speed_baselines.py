"""Others' kernels in the benchmark: called as their libraries have it, their results in our order of axes, and missed
in words where they are not installed.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from benchmarks.speed_cases import BASELINES, CASES, Case, Variant, variants

SHAPE = (2, 3, 16, 8)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


@pytest.fixture
def flash_attention_4(monkeypatch):
    """A library of that name and interface: (batch, length, heads, head_dim) in; O and lse out."""
    made, seen = ModuleType("flash_attn.cute"), []

    def flash_attn_func(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool):
        seen.append((tuple(q.shape), q.is_contiguous()))
        return attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal).transpose(1, 2), None

    vars(made)["flash_attn_func"] = flash_attn_func
    monkeypatch.setitem(sys.modules, "flash_attn", ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", made)
    return seen


def tensors(count: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(SHAPE) for _ in range(count))


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_4_is_given_its_order_of_axes_and_gives_ours(flash_attention_4, causal):
    q, k, v = tensors(3)
    o = Variant("FlashAttention-4").on(Case("attention", SHAPE, "fp32", 1.0, "FLOP/s", causal), (q, k, v))()
    assert flash_attention_4 == [((2, 16, 3, 8), True)]
    torch.testing.assert_close(o, attention(q, k, v, causal))


@pytest.mark.parametrize("causal", [False, True])
def test_its_backward_pass_is_timed_alone_and_gives_the_three_gradients(flash_attention_4, causal):
    q, k, v, do = tensors(4)
    case = Case("backward", SHAPE, "fp32", 1.0, "FLOP/s", causal)
    launch = Variant("FlashAttention-4 backward").on(case, (q, k, v, do, do, do))
    forward = len(flash_attention_4)
    for _ in range(2):  # a benchmark launches it again and again
        gradients = launch()
    assert len(flash_attention_4) == forward == 1
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    expected = torch.autograd.grad(attention(leaves[0], leaves[1], leaves[2], causal), leaves, do)
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_quack_computes_the_softmax(monkeypatch):
    made = ModuleType("quack")
    vars(made)["softmax"] = lambda x: torch.softmax(x, dim=-1)
    monkeypatch.setitem(sys.modules, "quack", made)
    x = torch.randn(4, 9)
    torch.testing.assert_close(
        Variant("QuACK").on(Case("softmax", (4, 9), "fp32", 1.0, "B/s"), (x,))(), torch.softmax(x, dim=-1)
    )


@pytest.mark.parametrize(("table", "baseline"), [("attention", "FlashAttention-4"), ("backward",
    "FlashAttention-4 backward"), ("softmax", "QuACK")])  # fmt: skip
def test_every_case_has_them_and_where_they_are_not_installed_the_reason_is_their_name(monkeypatch, table, baseline):
    for case in CASES[table]():
        assert Variant(baseline) in variants(case, tune=False)
    for name in ("flash_attn", "flash_attn.cute", "quack"):
        monkeypatch.setitem(sys.modules, name, None)
    inputs = tensors(6 if table == "backward" else 3) if table != "softmax" else (torch.randn(2, 2),)
    with pytest.raises(ModuleNotFoundError, match=r"flash_attn|quack"):
        BASELINES[baseline](next(iter(CASES[table]())), *inputs)
