"""The experiments that chapters open on, and the same inputs through another kernel."""

from __future__ import annotations

from explain.experiment import Experiment
from kernels.parameters import ITEM_BYTES

VECTORS = Experiment.of("vector_add", {"n": 27, "block_n": 8}, "edge")
OPENING = Experiment.of("flash_attention", {"block_m": 16, "block_n": 16}, "sentence")
SHORT = OPENING.with_(inputs="sentence_short", seq_len=15, kv_len=15, block_m=8, block_n=8)
ONLINE = Experiment.of("softmax_online", {"rows": 1, "block_n": 2}, "notebook")
SAFE = Experiment.of("softmax_safe", {"rows": 1, "block_n": 2}, "edge")
ROWS = Experiment.of("softmax_tiled", {"rows": 4, "block_m": 4, "block_n": 4}, "sentence_short")
MERGED = Experiment.of("softmax_split", {"rows": 1, "block_n": 4}, "sentence_short")
TOPK = Experiment.of("softmax_topk", {"rows": 1, "k": 4, "block_n": 4}, "sentence_short")
ONE_TILE = SHORT.through("attention_standard").with_(block_m=16, block_n=16)
EXACT = Experiment.of("flash_attention_exp2", {"block_m": 16, "block_n": 16, "dtype": "fp16"}, "sentence")
JOINED = Experiment.of("softmax_split", {"rows": 4, "cols": 64, "block_n": 4})
BACKWARD = Experiment.of("flash_attention_backward", {"block_m": 16, "block_n": 16}, "sentence")
DECODED = Experiment.of(
    "flash_decoding",
    {"heads": 4, "kv_heads": 1, "kv_len": 64, "head_dim": 16, "block_m": 4, "block_n": 8, "splits": 4},
    "normal",
    seed=21,  # the second part has the largest lse, so the first is rescaled
)
VERIFIED = Experiment.of(
    "flash_decoding",
    {"seq_len": 4, "kv_len": 8, "head_dim": 16, "causal": True, "block_m": 4, "block_n": 4, "splits": 2},
    "normal",
)
STANDARD = Experiment.of("attention_standard", {"block_m": 16, "block_n": 16}, "sentence")
LONG = Experiment.of(
    "attention_standard",
    {"seq_len": 4096, "kv_len": 4096, "head_dim": 64, "dtype": "fp16", "block_m": 128, "block_n": 128},
    "normal",
)
"""Standard attention at a size and in a format of practice, beside the runs; only its formula is used."""
LOSS = Experiment.of("cross_entropy_fused", {"block_n": 4}, "sentence_short")


def element_by_element(experiment: Experiment) -> Experiment:
    """The same softmax with tiles of one element: Milakov & Gimelshein's algorithm 3 as printed."""
    return experiment.with_(block_n=1)


def wrong_twin(experiment: Experiment) -> Experiment:
    """The same row through the kernel that normalises each tile by itself."""
    return experiment.through("softmax_blocked_wrong")


def naive_twin(experiment: Experiment) -> Experiment:
    """The same row through the kernel that subtracts no maximum."""
    return experiment.through("softmax_naive")


def in_every_dtype(experiment: Experiment) -> list[Experiment]:
    """The same experiment in each dtype."""
    return [experiment.with_(dtype=dtype) for dtype in ITEM_BYTES]


def added_twin(experiment: Experiment) -> Experiment:
    """The same tiles through the merge that adds their sums as they are."""
    return experiment.through("softmax_split_wrong")


def summed_by_atomics(experiment: Experiment) -> Experiment:
    """The same gradients with dQ added in HBM."""
    return experiment.through("flash_attention_backward_atomic")


def with_p_kept(experiment: Experiment) -> Experiment:
    """The same gradients from the P that the forward pass kept."""
    return experiment.through("attention_backward_standard")


def first_order(experiment: Experiment) -> Experiment:
    """The same attention with the loops of the first FlashAttention: keys and values outside."""
    return experiment.through("flash_attention_v1")


def top_left(experiment: Experiment) -> Experiment:
    """The same few queries under a causal mask that aligns the first query with the first key."""
    return experiment.with_(align="top left")
