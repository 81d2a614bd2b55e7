"""The specification of attention's gradients: float64, within the tolerance of `kernels/verify.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from kernels import verify
from kernels.attention_backward import flash_attention_backward


def eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention in eager PyTorch in the tensors' dtype, with grouped heads and rows that see no key."""
    group, diagonal = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if not causal:
        return torch.softmax(s, dim=-1) @ v
    seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(diagonal)
    p = torch.softmax(s.masked_fill(~seen, -torch.inf), dim=-1)
    return torch.where(seen.any(-1, keepdim=True), p, 0.0).nan_to_num() @ v


def gradients(inputs: Sequence[torch.Tensor], causal: bool) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV of `eager` at q, k, v, dO."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs[:3]]
    with torch.enable_grad():
        o = eager(leaves[0], leaves[1], leaves[2], causal)
    return torch.autograd.grad(o, leaves, inputs[3])


def gradient_error(inputs: tuple[torch.Tensor, ...], result: tuple[torch.Tensor, ...], causal: bool) -> float:
    """The largest |gradient − float64| ÷ tolerance of dQ, dK and dV; inputs are q, k, v, dO."""
    return _worst(result, *_specified(inputs, causal))


def _specified(inputs: tuple[torch.Tensor, ...], causal: bool) -> tuple[Sequence[Any], Sequence[Any]]:
    """dQ, dK and dV in float64, and how far each element may be off."""
    q, k, v, do = wide = [t.double() for t in inputs]
    off = (do * eager(q, k, v, causal)).abs().sum(-1, keepdim=True) * q.shape[-1] ** -0.5
    through_d = (
        off * eager(q, k, k.abs(), causal),
        gradients([q, k, v, off * q.abs()], causal)[2],  # of O = P V by V: Pᵀ times what comes back
        torch.zeros_like(v),
    )
    exact = gradients(wide, causal)
    return exact, verify.gradients(inputs, exact, gradients(inputs, causal), through_d)


def _worst(result: Sequence[torch.Tensor], exact: Sequence[Any], allowed: Sequence[Any]) -> float:
    ratios = [((ours.double() - right).abs() / most) for ours, right, most in zip(result, exact, allowed, strict=True)]
    return max(float(ratio.max()) if ratio.isfinite().all() else torch.inf for ratio in ratios)


@lru_cache(maxsize=64)
def _forward(
    forward: Callable[..., Any], shape: tuple[int, ...], dtype: torch.dtype, causal: bool, device: str
) -> tuple[tuple[torch.Tensor, ...], Any, tuple[Sequence[Any], Sequence[Any]]]:
    """Random q, k, v, dO; the forward kernel's (o, lse); the gradients specified. Once for all that is run on them."""
    batch, heads, kv_heads, seq_len, kv_len, head_dim = shape
    torch.manual_seed(0)
    q, do = (torch.randn(batch, heads, seq_len, head_dim, dtype=dtype, device=device) for _ in range(2))
    k, v = (torch.randn(batch, kv_heads, kv_len, head_dim, dtype=dtype, device=device) for _ in range(2))
    return (q, k, v, do), forward(q, k, v, causal=causal), _specified((q, k, v, do), causal)


def worst_gradient(
    forward: Callable[..., Any], shape: tuple[int, ...], dtype: torch.dtype, causal: bool, device: str,
    backward: Callable[..., Any] = flash_attention_backward, **options: Any,
) -> float:  # fmt: skip
    """A backward kernel after a forward kernel, on random tensors: its largest error ÷ tolerance."""
    (q, k, v, do), (o, lse), specified = _forward(forward, shape, dtype, causal, device)
    return _worst(backward(q, k, v, o, lse, do, causal=causal, **options), *specified)
