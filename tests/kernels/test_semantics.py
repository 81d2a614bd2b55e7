"""Kernels handle masked rows, NaN, strides and any tile size, and never read the future."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from kernels import reference
from kernels.attention import attention_standard, flash_attention, flash_attention_exp2, flash_attention_v1
from kernels.catalog import TAUGHT
from kernels.decoding import flash_decoding
from kernels.inputs import NOTEBOOK_ROW, PRESETS, representable
from kernels.softmax import (
    softmax_blocked_wrong,
    softmax_naive,
    softmax_online,
    softmax_row,
    softmax_safe,
    softmax_tiled,
)

RIGHT = [softmax_safe, softmax_row, softmax_online, softmax_tiled]
EVERY_SOFTMAX = [*RIGHT, softmax_naive, softmax_blocked_wrong]
EVERY_ATTENTION = [flash_attention, flash_attention_exp2, flash_attention_v1, attention_standard, flash_decoding]
by_name = pytest.mark.parametrize


def named(function) -> str:
    return function.__name__


def tile(softmax, cols: int, block_n: int = 4) -> dict[str, int]:
    return {} if softmax is softmax_row else {"block_n": block_n}


def output(result) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def qkv(*shape: int, kv_len: int | None = None, kv_heads: int | None = None, dtype=torch.float32):
    batch, heads, seq_len, head_dim = shape
    generator = torch.Generator().manual_seed(sum(shape))
    kv = (batch, kv_heads or heads, kv_len or seq_len, head_dim)
    return tuple(torch.randn(size, generator=generator).to(dtype) for size in (shape, kv, kv))


@by_name("softmax", RIGHT, ids=named)
def test_the_notebook_row(softmax):
    y = softmax(torch.tensor([NOTEBOOK_ROW]), **tile(softmax, 6, 2))
    np.testing.assert_allclose(y[0].numpy(), [0.0827, 0.1364, 0.1841, 0.2249, 0.1234, 0.2485], atol=5e-5)


@by_name("softmax", EVERY_SOFTMAX, ids=named)
def test_a_fully_masked_row_gives_zeros(softmax):
    x = torch.tensor([[-math.inf] * 7, [0.5] * 7])
    y = softmax(x, **tile(softmax, 7))
    assert torch.equal(y[0], torch.zeros(7))


@by_name("softmax", RIGHT, ids=named)
def test_a_nan_spoils_its_row_and_no_other(softmax):
    x = torch.randn(5, 11)
    x[2, 9] = math.nan
    y = softmax(x, **tile(softmax, 11))
    assert y[2].isnan().all()
    assert torch.equal(y[[0, 1, 3, 4]], softmax(x[[0, 1, 3, 4]].contiguous(), **tile(softmax, 11)))


@by_name("softmax", RIGHT, ids=named)
def test_a_row_sums_to_one_and_a_shift_changes_nothing(softmax):
    x = torch.randn(4, 37)
    y, shifted = softmax(x, **tile(softmax, 37)), softmax(x + 64, **tile(softmax, 37))
    torch.testing.assert_close(y.sum(1), torch.ones(4), rtol=1e-6, atol=0)
    torch.testing.assert_close(y, shifted, rtol=3e-5, atol=0)


@by_name("softmax", EVERY_SOFTMAX, ids=named)
def test_strides_are_respected(softmax):
    x = torch.randn(5, 10)
    turned = x.T.contiguous().T
    assert torch.equal(softmax(x, **tile(softmax, 10)), softmax(turned, **tile(softmax, 10)))


@by_name("softmax", EVERY_SOFTMAX, ids=named)
def test_a_stride_past_2_to_the_31_elements(softmax):
    """32-bit offsets wrap silently; the pages between the two rows are never touched, so they cost no memory."""
    store = torch.empty(2**31 + 64, dtype=torch.float16)
    x = store.as_strided((2, 8), (2**31, 1))
    x.copy_(torch.randn(2, 8))
    y = softmax(x, **tile(softmax, 8))
    assert y.shape == (2, 8)
    assert torch.equal(y[1], softmax(x[1:].clone(), **tile(softmax, 8))[0])


@by_name("attention", EVERY_ATTENTION, ids=named)
def test_a_query_that_sees_no_key_gives_zeros(attention):
    q, k, v = qkv(1, 2, 9, 16, kv_len=5)
    result = attention(q, k, v, causal=True, block_m=4, block_n=4)
    assert torch.equal(output(result)[:, :, :4], torch.zeros(1, 2, 4, 16))
    if isinstance(result, tuple):
        assert (result[1][:, :, :4] == -math.inf).all()
        assert result[1][:, :, 4:].isfinite().all()


@by_name("causal", [False, True])
@by_name("attention", EVERY_ATTENTION, ids=named)
def test_a_nan_query_spoils_its_row_alone(attention, causal):
    q, k, v = qkv(1, 2, 12, 16)
    whole = output(attention(q, k, v, causal=causal, block_m=4, block_n=4))
    q[0, 1, 5, 3] = math.nan
    o = output(attention(q, k, v, causal=causal, block_m=4, block_n=4))
    assert o[0, 1, 5].isnan().all()
    o[0, 1, 5] = whole[0, 1, 5]
    assert torch.equal(o, whole)


@by_name("which", ["key", "value"])
@by_name("causal", [False, True])
@by_name("attention", EVERY_ATTENTION, ids=named)
def test_a_nan_key_or_value_spoils_the_rows_that_may_attend_to_it(attention, causal, which):
    q, k, v = qkv(1, 1, 13, 16)
    whole = output(attention(q, k, v, causal=causal, block_m=4, block_n=4))
    (k if which == "key" else v)[0, 0, 6] = math.nan
    o = output(attention(q, k, v, causal=causal, block_m=4, block_n=4))
    first = 6 if causal else 0
    assert o[0, 0, first:].isnan().all()
    assert torch.equal(o[0, 0, :first], whole[0, 0, :first])


@by_name("attention", EVERY_ATTENTION, ids=named)
def test_one_nan_element_of_a_value_spoils_one_feature(attention):
    q, k, v = qkv(1, 1, 13, 16)
    v[0, 0, 6, 9] = math.nan
    spoiled = output(attention(q, k, v, causal=True, block_m=4, block_n=4))[0, 0].isnan()
    expected = torch.zeros(13, 16, dtype=torch.bool)
    expected[6:, 9] = True
    assert torch.equal(spoiled, expected)


@by_name("attention", EVERY_ATTENTION, ids=named)
def test_a_future_key_cannot_change_an_earlier_row(attention):
    q, k, v = qkv(1, 1, 16, 16)
    before = output(attention(q, k, v, causal=True, block_m=4, block_n=8))
    k[0, 0, 10:], v[0, 0, 10:] = 100.0, -100.0
    after = output(attention(q, k, v, causal=True, block_m=4, block_n=8))
    assert torch.equal(before[0, 0, :10], after[0, 0, :10])
    assert not torch.equal(before[0, 0, 10:], after[0, 0, 10:])


@by_name("attention", EVERY_ATTENTION, ids=named)
def test_views_of_one_packed_tensor(attention):
    packed = torch.randn(2, 9, 3, 4, 24)  # (batch, length, which, heads, head_dim), as a projection makes it
    q, k, v = (packed[:, :, which].transpose(1, 2) for which in range(3))
    o = output(attention(q, k, v, causal=True, block_m=4, block_n=4))
    assert torch.equal(
        o, output(attention(q.contiguous(), k.contiguous(), v.contiguous(), causal=True, block_m=4, block_n=4))
    )


@by_name("far", ["head", "row", "dim"])
@by_name("attention", EVERY_ATTENTION, ids=named)
def test_attention_strides_past_2_to_the_31_elements(attention, far):
    store = torch.empty(2**31 + 2**20, dtype=torch.float16)
    strides = {"head": (0, 2**31, 192, 1), "row": (0, 0, 2**29, 1), "dim": (0, 0, 192, 2**27)}[far]
    size = (1, 2, 5, 16) if far == "head" else (1, 1, 5, 16)
    q, k, v = (store.as_strided(size, strides, 64 * which) for which in range(3))
    for tensor in (q, k, v):
        tensor.copy_(torch.randn(size))
    o = output(attention(q, k, v, block_m=4, block_n=4))
    expected, _ = reference.attention(*(tensor.float().numpy() for tensor in (q, k, v)), causal=False)
    np.testing.assert_allclose(o.float().numpy(), expected, atol=4e-3)


@by_name("attention", EVERY_ATTENTION, ids=named)
def test_any_tile_size_gives_the_same_answer(attention):
    q, k, v = qkv(1, 2, 11, 24, kv_len=15, kv_heads=1)
    expected, _ = reference.attention(*(tensor.numpy() for tensor in (q, k, v)), causal=True)
    for block_m, block_n in ((1, 4), (2, 8), (8, 1), (16, 16)):
        o = output(attention(q, k, v, causal=True, block_m=block_m, block_n=block_n))
        np.testing.assert_allclose(o.numpy(), expected, atol=2e-6)


@by_name("attention", EVERY_ATTENTION, ids=named)
def test_inputs_are_left_alone(attention):
    tensors = qkv(1, 1, 9, 16)
    before = [tensor.clone() for tensor in tensors]
    attention(*tensors, causal=True, block_m=4, block_n=4)
    assert all(torch.equal(tensor, was) for tensor, was in zip(tensors, before, strict=True))


@by_name(
    ("change", "message"),
    [
        ({"q": torch.randn(2, 4, 16)}, "q of shape"),
        ({"k": torch.randn(1, 3, 8, 16), "v": torch.randn(1, 3, 8, 16)}, "k has 3 heads"),
        ({"v": torch.randn(1, 2, 7, 16)}, "v of shape"),
        ({"k": torch.randn(1, 2, 8, 32), "v": torch.randn(1, 2, 8, 32)}, "batch and head_dim"),
        ({"q": torch.randn(1, 2, 8, 16).double()}, "float64"),
        ({"v": torch.randn(1, 2, 8, 16).half()}, "must be alike"),
        ({"block_n": 24}, "block_n=24"),
    ],
)
@by_name("attention", EVERY_ATTENTION, ids=named)
def test_a_bad_call_names_the_argument(attention, change, message):
    call = dict(zip("qkv", qkv(1, 2, 8, 16), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        attention(**call)


def test_merging_two_halves_by_their_lse_is_the_whole():
    q, k, v = qkv(1, 1, 8, 16, kv_len=20)
    whole, whole_lse = flash_attention(q, k, v, block_m=4, block_n=4)
    (o1, l1), (o2, l2) = (
        flash_attention(q, k[:, :, part], v[:, :, part], block_m=4, block_n=4) for part in (slice(0, 7), slice(7, 20))
    )
    lse = torch.logaddexp(l1, l2)
    merged = o1 * (l1 - lse).exp()[..., None] + o2 * (l2 - lse).exp()[..., None]
    torch.testing.assert_close(lse, whole_lse, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(merged, whole, rtol=1e-5, atol=1e-6)


@by_name("kernel", TAUGHT.values(), ids=lambda kernel: kernel.name)
@by_name("dtype", ["fp32", "fp16", "bf16"])
def test_presets_make_values_that_the_dtype_has(kernel, dtype):
    from explain.experiment import Experiment

    for preset in PRESETS.values():
        experiment = Experiment.of(kernel.name, {"dtype": dtype}, preset.name)
        for name, array in kernel.make_inputs(preset, experiment.values, 3).items():
            if name == "targets":
                assert array.dtype == np.int64
                continue
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, representable(array, dtype), err_msg=preset.name)


def test_rounding_to_bf16_is_torchs():
    values = torch.cat(
        [torch.randn(2000) * 10.0**e for e in range(-38, 38, 4)]
        + [torch.tensor([0.0, -0.0, math.inf, -math.inf, 1 + 2**-8, 1 + 3 * 2**-8, 3.4e38])]
    )
    np.testing.assert_array_equal(representable(values.numpy(), "bf16"), values.bfloat16().float().numpy())
