"""The published context lengths of language models, and the bytes of S at these lengths."""

from __future__ import annotations

from dataclasses import dataclass

ITEM_BYTES = 2
"""Of one score in fp16."""


@dataclass(frozen=True)
class Model:
    """A language model: how many tokens it reads at once, as its authors published it, and where."""

    name: str
    context: int
    source: str
    address: str

    @property
    def score_bytes(self) -> int:
        """The bytes of S of one head, N × N."""
        return ITEM_BYTES * self.context**2


_OPENAI = "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf"

MODELS = (
    Model("GPT-2", 1024, "Radford et al. 2019, section 2.3", _OPENAI),
    Model("GPT-3", 2048, "Brown et al. 2020, section 2.1", "https://arxiv.org/abs/2005.14165"),
    Model("Llama 2", 4096, "Touvron et al. 2023, table 1", "https://arxiv.org/abs/2307.09288"),
    Model("Llama 3.1", 131_072, "Llama team 2024, abstract: 128K", "https://arxiv.org/abs/2407.21783"),
    Model("Qwen2.5-1M", 1_000_000, "Qwen team 2025, abstract", "https://arxiv.org/abs/2501.15383"),
)
