"""Flash-Decoding: any splits give one answer, each alignment is its library's, and both launches compile for Hopper."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa

from explain.experiment import Experiment
from explain.parts import part_of
from kernels.attention import flash_attention
from kernels.decoding import flash_decoding
from kernels.parameters import MOST_SPLITS, diagonal_of
from kernels.traffic_decoding import merge_bytes

TILE: dict[str, Any] = {"block_m": 4, "block_n": 4}


def inputs(seq_len: int = 3, kv_len: int = 22, heads: int = 4, kv_heads: int = 2) -> list[torch.Tensor]:
    """q, k and v of two sequences, d = 16."""
    random = torch.Generator().manual_seed(3)
    shapes = ((2, heads, seq_len, 16), (2, kv_heads, kv_len, 16), (2, kv_heads, kv_len, 16))
    return [torch.randn(shape, generator=random) for shape in shapes]


@pytest.mark.parametrize("causal", [False, True])
def test_any_number_of_splits_gives_the_same_answer_also_with_more_than_there_are_tiles(causal):
    q, k, v = inputs()
    o, lse = flash_attention(q, k, v, causal=causal, **TILE)
    for splits in (1, 2, 5, 6, 13):
        own, own_lse = flash_decoding(q, k, v, causal=causal, splits=splits, **TILE)
        torch.testing.assert_close(own, o, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(own_lse, lse, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("seq_len", "kv_len"), [(3, 22), (7, 7)])
def test_each_alignment_is_that_of_its_library(seq_len, kv_len):
    """PyTorch's is_causal is top left; its causal_lower_right is FlashAttention's since 2.1."""
    q, k, v = inputs(seq_len, kv_len)
    all_k, all_v = (one.repeat_interleave(2, dim=1) for one in (k, v))
    top_left, _ = flash_decoding(q, k, v, causal=True, align="top left", splits=3, **TILE)
    torch.testing.assert_close(top_left, sdpa(q, all_k, all_v, is_causal=True), rtol=1e-5, atol=1e-6)
    bottom_right, _ = flash_decoding(q, k, v, causal=True, splits=3, **TILE)
    theirs = sdpa(q, all_k, all_v, attn_mask=causal_lower_right(seq_len, kv_len))
    torch.testing.assert_close(bottom_right, theirs, rtol=1e-5, atol=1e-6)


def test_with_more_queries_than_keys_the_first_rows_see_none_and_are_zeros():
    """As in FlashAttention; at the top left each query sees a key."""
    q, k, v = inputs(seq_len=9, kv_len=5)
    o, lse = flash_decoding(q, k, v, causal=True, splits=3, **TILE)
    assert not o[:, :, :4].any()
    assert (lse[:, :, :4] == -torch.inf).all()
    assert lse[:, :, 4:].isfinite().all()
    _, lse = flash_decoding(q, k, v, causal=True, align="top left", splits=3, **TILE)
    assert lse.isfinite().all()


def test_a_diagonal_is_zero_at_the_top_left():
    assert (diagonal_of("bottom right", 3, 8), diagonal_of("top left", 3, 8)) == (5, 0)


def test_a_nan_of_one_part_reaches_the_rows_that_see_it_through_the_merge():
    q, k, v = inputs(seq_len=2, kv_len=16, kv_heads=1)
    v[0, 0, 15, 0] = torch.nan
    o, lse = flash_decoding(q, k, v, causal=True, splits=4, **TILE)
    expected = torch.zeros(o.shape, dtype=torch.bool)
    expected[0, :, 1, 0] = True
    assert torch.equal(o.isnan(), expected)
    assert not lse.isnan().any()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"align": "left"}, "align='left': must be one of bottom right, top left"),
        ({"splits": 0}, f"splits=0: from 1 to {MOST_SPLITS}"),
        ({"splits": MOST_SPLITS + 1}, f"splits={MOST_SPLITS + 1}: from 1 to {MOST_SPLITS}"),
    ],
)
def test_a_bad_call_names_the_argument(more, words):
    with pytest.raises(ValueError, match=words):
        flash_decoding(*inputs(), **more)


def test_keys_are_read_once_for_all_heads_that_share_them_and_the_merge_costs_both_ways():
    one = Experiment.of("flash_decoding", {"heads": 8, "kv_heads": 1, "kv_len": 64, "splits": 1})
    four = one.with_(splits=4)
    keys = [{t.buffer: t.bytes for t in e.traffic.terms if t.buffer in ("k", "v")} for e in (one, four)]
    assert keys[0] == keys[1] == {"k": 64 * 32 * 4, "v": 64 * 32 * 4}
    assert merge_bytes(four.values) == 4 * merge_bytes(one.values) == 4 * 2 * (8 * 32 + 8) * 4
    assert part_of(four).experiment == four, "its 8 heads are one part"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_both_launches_compile_for_hopper(compile_workers, tmp_path, dtype):
    sizes = {"heads": 4, "kv_heads": 1, "seq_len": 4, "head_dim": 64, "causal": True, "block_n": 32, "dtype": dtype}
    experiment = Experiment.of("flash_decoding", sizes, "normal").to_json()
    cost = compile_workers.call({"experiment": experiment, "capability": 90, "listing": str(tmp_path / "listing")})
    kernels = {one["kernel"]: one["spill_store_bytes"] for one in cost["launches"]}
    assert kernels == {"flash_decoding_part_kernel": 0, "flash_decoding_merge_kernel": 0}
