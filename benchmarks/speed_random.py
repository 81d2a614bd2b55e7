"""Random shapes that a user might have, and how fast our dispatcher is on them: nothing can be tuned to this measure.

Half of the shapes have the sizes of a published model, half have sizes of no model at all. `benchmarks/speed.py
--random SEED …` checks each against float64 and times it; the same seed draws the same shapes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from benchmarks.speed_cases import TORCH_DTYPE, Case
from benchmarks.speed_random_table import WAYS

MODELS = (  # query heads, key heads, head_dim
    (12, 12, 64), (25, 25, 64), (20, 20, 64), (32, 8, 128), (64, 8, 128), (28, 4, 128), (40, 40, 128), (16, 8, 256),
    (16, 16, 256), (32, 32, 80), (16, 16, 80), (32, 32, 96), (64, 64, 96), (128, 128, 192), (32, 8, 64), (8, 8, 40),
    (8, 8, 160), (16, 16, 72),
)  # fmt: skip
"""GPT-2 small and XL, Whisper large, Llama 3 8B and 70B, Qwen 2.5 7B, Llama 2 13B, Gemma 2 9B, GPT-J, Phi-2, ViT-H,
Phi-3 mini, GPT-NeoX, DeepSeek-V2, Llama 3.2 1B, two layers of Stable Diffusion 1.5, SigLIP.
"""
VOCABULARIES = (
    50257, 128256, 256000, 51200, 32064, 152064, 32000, 32768, 30522, 250880, 51866, 50368, 32128, 49152, 129280,
    200019,
)  # fmt: skip
LENGTHS = (197, 257, 512, 577, 1024, 1500, 2048, 4096, 8192, 16384)
TOKENS = 32768  # the most in one call
WORK = 2**42  # FLOPs of the two matmuls, the most in one call
ELEMENTS = 2**27  # of a softmax, the most in one call


def cases(seed: int, count: int, tables: list[str]) -> Iterator[Case]:
    """So many cases, the tables in turn. Raises ValueError for a table that has none."""
    tables = tables or list(WAYS)
    if unknown := [table for table in tables if table not in WAYS]:
        raise ValueError(f"{unknown[0]!r}: shapes are drawn for {', '.join(WAYS)}")
    draw = random.Random(seed)
    for number in range(count):
        table = tables[number % len(tables)]
        yield _softmax(draw) if table == "softmax" else _attention(draw, table)


def _around(draw: random.Random, low: int, high: int) -> int:
    """Any number between, as likely below as above their geometric mean."""
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def _softmax(draw: random.Random) -> Case:
    columns = draw.choice(VOCABULARIES) if draw.random() < 0.5 else _around(draw, 32, 300_000)
    rows = max(1, _around(draw, 2**18, ELEMENTS) // columns)
    dtype = draw.choice(("fp32", "bf16", "fp16"))
    return Case("softmax", (rows, columns), dtype, 2.0 * rows * columns * TORCH_DTYPE[dtype].itemsize, "B/s")


def _attention(draw: random.Random, table: str) -> Case:
    if draw.random() < 0.5:
        heads, kv_heads, head_dim = draw.choice(MODELS)
        seq_len = draw.choice(LENGTHS)
    else:
        kv_heads, head_dim, seq_len = draw.randint(1, 16), 8 * draw.randint(2, 32), _around(draw, 128, 16384)
        heads = kv_heads * draw.choice((1, 1, 2, 4, 8))
    keys, causal = seq_len, draw.random() < 0.5
    if table == "backward":
        kv_heads = heads  # the check takes each head alone
    elif draw.random() < 0.2:  # a few queries at the end of many keys
        seq_len, keys, causal = _around(draw, 1, 256), _around(draw, 2048, 32768), False
    most = min(TOKENS / keys, WORK / (4 * heads * seq_len * keys * head_dim))
    batch = _around(draw, 1, int(max(1, min(64, most))))
    work = (4 if table == "attention" else 10) * batch * heads * seq_len * keys * head_dim / (2 if causal else 1)
    shape, dtype = (batch, heads, seq_len, head_dim), draw.choice(("bf16", "bf16", "fp16"))
    return Case(table, shape, dtype, work, "FLOP/s", causal, kv_heads, keys, by_rows=draw.random() < 0.5)
