"""The KV cache of published models, in bytes: as many heads of keys as of queries, fewer (GQA), or one (MQA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from explain import data
from explain.plain import made

ITEM = 2
"""Bytes per number: 16-bit keys and values."""


@dataclass(frozen=True)
class Model:
    """A published model's attention: layers, heads, the length it was trained for in tokens, and the source."""

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    source: str

    @property
    def kind(self) -> Literal["MHA", "GQA", "MQA"]:
        """How its heads share keys: each has its own, a group shares them, or all do."""
        return "MHA" if self.kv_heads == self.heads else "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def group(self) -> int:
        """Query heads per head of keys: how many times smaller its cache is."""
        return self.heads // self.kv_heads

    def cache_bytes(self, tokens: int) -> int:
        """K and V of all layers for one sequence of that many tokens."""
        return 2 * self.layers * self.kv_heads * self.head_dim * ITEM * tokens


MODELS = tuple(made(Model, one) for one in data(__file__)["model"])
