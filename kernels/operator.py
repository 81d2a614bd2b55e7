"""Attention as an operator of PyTorch, with gradients, to be dropped into a model: it exports, compiles and differentiates as torch's own do.

    from kernels.operator import attention
    o = attention(q, k, v, causal=True)
    o.sum().backward()

What runs is `dispatch.py`'s choice. Registered as torch.ops.tilescope.attention and .attention_backward.
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


@torch.library.custom_op("tilescope::attention", mutates_args=())
def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return dispatch.attention(q, k, v, causal=causal, sm_scale=sm_scale)


@_attention.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("tilescope::attention_backward", mutates_args=())
def _attention_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    causal: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return dispatch.attention_backward(q, k, v, o, lse, do, causal=causal, sm_scale=sm_scale)


@_attention_backward.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    causal: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, ctx.causal, ctx.sm_scale = inputs
    o, lse = output
    ctx.save_for_backward(q, k, v, o, lse)
    ctx.mark_non_differentiable(lse)


def _differentiate(ctx: Any, do: torch.Tensor, _dlse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    gradients = torch.ops.tilescope.attention_backward(*ctx.saved_tensors, do, ctx.causal, ctx.sm_scale)
    return (*gradients, None, None)


_attention.register_autograd(_differentiate, setup_context=_keep)
