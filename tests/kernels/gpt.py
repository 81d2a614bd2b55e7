"""A small GPT that learns this repository's attention kernels, byte by byte, with any attention in its layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch.nn import modules as nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

TEXT = Path(__file__).parents[2] / "kernels" / "attention.py"
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Causal attention of q, k, v: (batch, heads, seq_len, head_dim), strides of a model."""
NOISE = 3.0
"""Rounding alone takes the losses at most so many times as far from the nearest of PyTorch's two as these are apart."""


@dataclass(frozen=True)
class Size:
    """Of a model, of a step's batch (so many rows of `context` bytes) and of a step.

    A large `learning_rate` amplifies rounding until a wrong gradient is within the noise: at 3e-3 and 768 features
    it hid a K without gradient.
    """

    layers: int
    heads: int
    head_dim: int
    context: int
    rows: int
    learning_rate: float = 3e-3


class _Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, size: Size, attend: Attend) -> None:
        super().__init__()
        width = size.heads * size.head_dim
        self.size, self.attend = size, attend
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.before(x)).unflatten(-1, (3, self.size.heads, self.size.head_dim))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):  # type: ignore[misc]
    """Scores of the next byte, (rows, context, 256), of bytes (rows, context)."""

    def __init__(self, size: Size, attend: Attend) -> None:
        super().__init__()
        width = size.heads * size.head_dim
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(size.context, width)
        self.layers = nn.Sequential(*(_Layer(size, attend) for _ in range(size.layers)))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        return self.scores(self.norm(self.layers(self.bytes(text) + self.places(places))))


def losses(attend: Attend, size: Size, device: str, dtype: torch.dtype, steps: int = 40) -> torch.Tensor:
    """The loss of each step, float64, in the same order of the same batches from the same weights."""
    torch.manual_seed(0)
    model = GPT(size, attend).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.learning_rate)
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    found = []
    for _ in range(steps):
        starts = torch.randint(len(text) - size.context, (size.rows,)).tolist()
        batch = torch.stack([text[start : start + size.context + 1] for start in starts]).to(device)
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1).float(), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach().double())
    return torch.stack(found).cpu()


def of_torch(backend: SDPBackend) -> Attend:
    """PyTorch's attention by one of its backends."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=True)

    return attend


@cache
def _of_torchs_two(size: Size, device: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    math, flash = (losses(of_torch(one), size, device, dtype) for one in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION))
    return math, flash


def beyond_noise(attend: Attend, size: Size, device: str, dtype: torch.dtype) -> float:
    """How far an attention's losses are from the nearest of PyTorch's two at worst, ÷ how far those two are apart."""
    ours, math, flash = losses(attend, size, device, dtype), *_of_torchs_two(size, device, dtype)
    assert flash[-1] < 0.8 * flash[0]  # it learns
    return float(torch.minimum((ours - math).abs(), (ours - flash).abs()).max() / (math - flash).abs().max())


def same_in_one_graph(model: GPT, size: Size, device: str, backend: str) -> bool:
    """Whether the model, compiled as one graph without a break, has its own loss and gradients, within 2e-2."""
    text = torch.arange(size.rows * size.context, device=device).reshape(size.rows, -1) * 7 % 256
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    found = []
    for one in (model, compiled):
        model.zero_grad()
        loss = one(text).float().square().mean()
        loss.backward()
        found.append([loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    return all(torch.allclose(a, b, rtol=2e-2, atol=2e-2 * float(a.abs().max())) for a, b in zip(*found, strict=True))
