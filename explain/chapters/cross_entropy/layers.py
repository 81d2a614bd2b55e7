"""The last layers of published language models, and the bytes of a training step's tensors there."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.traffic import tiles

ITEM_BYTES = 2
"""Of one number in 16 bits, as models are trained."""
TOKENS = 8192
"""Tokens of a training step to begin with."""


@dataclass(frozen=True)
class Layer:
    """A model's last layer: its vocabulary V and its hidden size d, as published, and where."""

    name: str
    vocab: int
    dim: int
    source: str
    address: str

    @property
    def weight_bytes(self) -> int:
        """The bytes of W, V × d."""
        return ITEM_BYTES * self.vocab * self.dim

    def hidden_bytes(self, tokens: int) -> int:
        """The bytes of H, tokens × d."""
        return ITEM_BYTES * tokens * self.dim

    def logit_bytes(self, tokens: int) -> int:
        """The bytes of the logits, tokens × V."""
        return ITEM_BYTES * tokens * self.vocab


_OPENAI = "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf"

LIGER = "https://github.com/linkedin/Liger-Kernel/blob/main/src/liger_kernel/ops/fused_linear_cross_entropy.py"
"""Where Liger's rule is published."""


def part_of_liger(tokens: int, vocab: int, dim: int) -> int:
    """How many tokens Liger computes at a time, by its published rule: next_power_of_2(cdiv(tokens, cdiv(V, d)))."""
    return min(tokens, 1 << (tiles(tokens, tiles(vocab, dim)) - 1).bit_length())


LAYERS = (
    Layer("GPT-2 XL", 50_257, 1600, "Radford et al. 2019, section 2.2 and table 2", _OPENAI),
    Layer("Llama 3.1 8B", 128_256, 4096, "its config.json", "https://huggingface.co/meta-llama/Llama-3.1-8B"),
    Layer("Gemma 3 1B", 262_144, 1152, "its config.json", "https://huggingface.co/google/gemma-3-1b-pt"),
)
