"""Library kernels: PyTorch's softmax, top-k and attention, called as any PyTorch program calls them. Imports torch.

q and do are (batch, heads, seq_len, head_dim), k and v (batch, heads, kv_len, head_dim): contiguous, one dtype. A
`…_backward` runs forward and backward and returns o, dq, dk, dv; nothing is kept between two calls.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of x (rows, cols)."""
    return torch.softmax(x, dim=-1)


def softmax_topk(x: torch.Tensor, *, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest weights (rows, k) of each row's softmax and their columns, by two calls."""
    y, index = torch.softmax(x, dim=-1).topk(k, dim=-1)
    return y, index


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention as matmul, softmax, matmul, each step in the tensors' dtype. The scale goes into q, the smallest."""
    s = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:
        s = s.masked_fill(_hidden(s), -torch.inf)
    return torch.softmax(s, dim=-1) @ v


def _hidden(s: torch.Tensor) -> torch.Tensor:
    return torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)


def flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """PyTorch's FlashAttention-2. Raises RuntimeError if it does not take these tensors."""
    return _fused(SDPBackend.FLASH_ATTENTION, q, k, v, causal)


def cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """cuDNN's fused attention. Raises RuntimeError if it does not take these tensors."""
    return _fused(SDPBackend.CUDNN_ATTENTION, q, k, v, causal)


def _fused(backend: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def attention_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> Gradients:
    """`attention`, forward and backward."""
    return _and_back(attention, q, k, v, do, causal)


def flash_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> Gradients:
    """`flash`, forward and backward."""
    return _and_back(flash, q, k, v, do, causal)


def cudnn_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool) -> Gradients:
    """`cudnn`, forward and backward."""
    return _and_back(cudnn, q, k, v, do, causal)


def _and_back(
    forward: Attention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool
) -> Gradients:
    q, k, v = (tensor.detach().requires_grad_() for tensor in (q, k, v))
    with torch.enable_grad():
        o = forward(q, k, v, causal)
    dq, dk, dv = torch.autograd.grad(o, (q, k, v), do)
    return o.detach(), dq, dk, dv
