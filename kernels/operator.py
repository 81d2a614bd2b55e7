"""Attention as an operator of PyTorch, with gradients, to be dropped into a model: it exports, compiles and
differentiates as torch's own do.

    from kernels.operator import attention
    o = attention(q, k, v, causal=True)
    o.sum().backward()

What runs is `dispatch.py`'s choice; the gradients have the same bits every time if you ask PyTorch for it:
torch.use_deterministic_algorithms(True). Registered as torch.ops.tilescope.attention and .attention_backward.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels import dispatch


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> torch.Tensor:
    """O (batch, heads, seq_len, head_dim) of q, k, v as `attention.py` takes them; differentiable once, in q, k and v.

    Raises ValueError naming the argument that does not fit.
    """
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    o, _lse = torch.ops.tilescope.attention(q, k, v, causal, scale)
    return o


_library = torch.library.Library("tilescope", "DEF")
_library.define("attention(Tensor q, Tensor k, Tensor v, bool causal, float sm_scale) -> (Tensor, Tensor)")
_library.define(
    "attention_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor grad, bool causal, float sm_scale)"
    " -> (Tensor, Tensor, Tensor)"
)


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return dispatch.attention(q, k, v, causal=causal, sm_scale=sm_scale)


def _forward_fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


def _backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    causal: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return dispatch.attention_backward(
        q,
        k,
        v,
        o,
        lse,
        do,
        causal=causal,
        sm_scale=sm_scale,
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )


def _backward_fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    causal: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any) -> tuple[torch.Tensor, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            o, lse = torch.ops.tilescope.attention.default(q, k, v, *options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mark_non_differentiable(lse)
        ctx.options = options
        return o, lse

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor, _dlse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        gradients = torch.ops.tilescope.attention_backward.default(*ctx.saved_tensors, do, *ctx.options)
        return (*gradients, None, None)


def _autograd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        result: tuple[torch.Tensor, torch.Tensor] = _Differentiable.apply(q, k, v, causal, sm_scale)
        return result
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.tilescope.attention.default(q, k, v, causal, sm_scale)


# `torch.library.custom_op` takes fewer lines, and about 25 µs more a call on the host.
_library.impl("attention", _forward, "CompositeExplicitAutograd")
_library.impl("attention", _autograd, "Autograd")
_library.impl("attention_backward", _backward, "CompositeExplicitAutograd")
torch.library.register_fake("tilescope::attention", _forward_fake, lib=_library)
torch.library.register_fake("tilescope::attention_backward", _backward_fake, lib=_library)
