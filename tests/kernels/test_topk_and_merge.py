"""Top-k and merging handle ties, short rows, masks, NaN, strides and any order of merges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from explain.experiment import Experiment, ParameterError
from kernels import reference
from kernels.inputs import NOTEBOOK_ROW
from kernels.merge import softmax_split, softmax_split_wrong
from kernels.parameters import ORDERS
from kernels.topk import softmax_online_then_topk, softmax_safe_then_topk, softmax_safe_topk, softmax_topk

TOPKS = [softmax_topk, softmax_safe_topk, softmax_safe_then_topk, softmax_online_then_topk]
BOTH = [softmax_split, *TOPKS]


def named(function) -> str:
    return function.__name__


def weights(result) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("topk", TOPKS, ids=named)
@pytest.mark.parametrize(("k", "block_n"), [(1, 1), (2, 4), (5, 64), (17, 16), (32, 64)])
def test_topk_is_softmax_and_then_topk(topk, k, block_n):
    x = torch.randn(3, 50, generator=torch.Generator().manual_seed(k))
    y, index = topk(x, k=k, block_n=block_n)
    expected, columns = torch.softmax(x.double(), 1).topk(k)
    assert index.dtype == torch.int64
    assert torch.equal(index, columns)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=0)


def test_the_notebooks_three_largest():
    y, index = softmax_topk(torch.tensor([NOTEBOOK_ROW]), k=3, block_n=2)
    assert index.tolist() == [[5, 3, 2]]
    np.testing.assert_allclose(y[0].numpy(), [0.2485, 0.2249, 0.1841], atol=5e-5)


@pytest.mark.parametrize("topk", TOPKS, ids=named)
@pytest.mark.parametrize("block_n", [1, 2, 8])
def test_of_equal_elements_the_one_further_left_comes_first(topk, block_n):
    x = torch.tensor([[1.0, 3.0, 1.0, 3.0, 2.0, 3.0, 1.0]])
    assert topk(x, k=6, block_n=block_n)[1].tolist() == [[1, 3, 5, 4, 0, 2]]


@pytest.mark.parametrize("topk", [softmax_topk, softmax_safe_topk], ids=named)
def test_a_list_that_nothing_fills_ends_in_weight_0_and_column_minus_1(topk):
    x = torch.tensor([[0.5, -math.inf, 0.25], [-math.inf] * 3])
    y, index = topk(x, k=5, block_n=2)
    assert index.tolist() == [[0, 2, -1, -1, -1], [-1] * 5]
    assert torch.equal(y[1], torch.zeros(5))
    assert torch.equal(y[0, 2:], torch.zeros(3))
    assert y[0].sum() == pytest.approx(1)


@pytest.mark.parametrize("topk", [softmax_safe_then_topk, softmax_online_then_topk], ids=named)
def test_a_stored_weight_of_0_has_a_place_and_past_the_row_there_is_none(topk):
    y, index = topk(torch.tensor([[0.5, -math.inf, 0.25]]), k=5, block_n=2)
    assert index.tolist() == [[0, 2, 1, -1, -1]]
    assert torch.equal(y[0, 2:], torch.zeros(3))
    assert y[0].sum() == pytest.approx(1)


@pytest.mark.parametrize("topk", TOPKS, ids=named)
def test_a_nan_spoils_its_rows_weights_and_no_others(topk):
    x = torch.randn(3, 9)
    x[1, 4] = math.nan
    y, index = topk(x, k=3, block_n=4)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()
    assert len(set(index[1].tolist())) == 3
    if topk in (softmax_topk, softmax_safe_topk):  # the list is of x itself
        assert index[1].tolist() == torch.where(x[1].isnan(), -math.inf, x[1]).topk(3).indices.tolist()


def test_the_reference_agrees_with_torch_where_torch_has_an_answer():
    x = np.random.default_rng(0).standard_normal((4, 20))
    y, index = reference.softmax_topk(x, 6)
    expected = torch.softmax(torch.from_numpy(x), 1).topk(6)
    np.testing.assert_array_equal(index, expected.indices.numpy())
    np.testing.assert_allclose(y, expected.values.numpy(), rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cols", [1, 4, 5, 29, 64])
def test_every_order_of_the_joins_gives_the_softmax(order, cols):
    x = 5 * torch.randn(3, cols, generator=torch.Generator().manual_seed(cols))
    y = softmax_split(x, order=order, block_n=4)
    torch.testing.assert_close(y.double(), torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-12)


def test_the_last_bits_may_depend_on_the_order_and_nothing_more():
    x = torch.randn(4, 128, generator=torch.Generator().manual_seed(1))
    line, tree = (softmax_split(x, order=order, block_n=8) for order in ("left to right", "tree"))
    assert not torch.equal(line, tree)
    torch.testing.assert_close(line, tree, rtol=1e-6, atol=0)


@pytest.mark.parametrize("order", ORDERS)
def test_adding_the_sums_is_wrong_unless_all_tiles_have_one_maximum(order):
    x = torch.tensor([[0.0, 1.0, 0.0, 3.0], [2.0, 0.0, 0.0, 2.0]])
    y = softmax_split_wrong(x, order=order, block_n=2)
    right = torch.softmax(x, 1)
    assert y[0].sum() < 0.9
    torch.testing.assert_close(y[1], right[1])


@pytest.mark.parametrize("order", ORDERS)
def test_merging_masked_tiles_and_masked_rows(order):
    x = torch.randn(3, 12)
    x[0, :4] = x[1] = -math.inf
    x[2, 5] = math.nan
    y = softmax_split(x, order=order, block_n=4)
    torch.testing.assert_close(y[0], torch.softmax(x[0], 0), rtol=1e-5, atol=1e-7)
    assert torch.equal(y[1], torch.zeros(12))
    assert y[2].isnan().all()


@pytest.mark.parametrize("softmax", BOTH, ids=named)
def test_strides_are_respected(softmax):
    x = torch.randn(5, 10)
    assert torch.equal(weights(softmax(x, block_n=4)), weights(softmax(x.T.contiguous().T, block_n=4)))


@pytest.mark.parametrize("softmax", BOTH, ids=named)
def test_a_stride_past_2_to_the_31_elements(softmax):
    """32-bit offsets wrap silently; the pages between the two rows are never touched, so they cost no memory."""
    store = torch.empty(2**31 + 64, dtype=torch.float16)
    x = store.as_strided((2, 8), (2**31, 1))
    x.copy_(torch.randn(2, 8))
    assert torch.equal(weights(softmax(x, block_n=4))[1], weights(softmax(x[1:].clone(), block_n=4))[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax_topk(torch.ones(2, 4), k=0), "k=0: must be from 1 to 32"),
        (lambda: softmax_topk(torch.ones(2, 4), k=33), "k=33: must be from 1 to 32"),
        (lambda: softmax_safe_then_topk(torch.ones(2, 4), k=33), "k=33: must be from 1 to 32"),
        (lambda: softmax_online_then_topk(torch.ones(2, 4), block_n=3), "block_n=3: a tile's side is a power of two"),
        (lambda: softmax_topk(torch.ones(2, 4), block_n=3), "block_n=3: a tile's side is a power of two"),
        (lambda: softmax_split(torch.ones(2, 4), order="inside out"),
         "order='inside out': must be one of left to right"),
        (lambda: softmax_split(torch.ones(1, 65536), block_n=1), "block_n=1: makes 65536 tiles a row"),
    ],
)  # fmt: skip
def test_a_bad_call_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("kernel", "given", "message"),
    [
        ("softmax_topk", {"k": 33}, "k=33: must be a whole number from 1 to 32"),
        ("softmax_split", {"order": "random"}, "order=random: must be one of left to right, right to left, tree"),
        ("softmax_split", {"cols": 2**20, "block_n": 8}, "block_n=8: with cols=1048576 must be at least 32"),
    ],
)
def test_a_bad_experiment_names_the_parameter(kernel, given, message):
    with pytest.raises(ParameterError, match=message):
        Experiment.of(kernel, given)
