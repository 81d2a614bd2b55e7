"""The fast kernels that the interpreter can run pass the tests of the kernels they replace."""

from __future__ import annotations

import math

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import reference
from kernels.decode import flash_decode
from kernels.softmax_fast import softmax_pipelined, softmax_rows, softmax_shared_row, softmax_two_reads
from kernels.topk_fast import softmax_topk_lanes
from tests.kernels.fast import FAST, experiments, verdict

SOFTMAX = [
    lambda x: softmax_rows(x, block_m=4),
    softmax_pipelined,
    lambda x: softmax_two_reads(x, block_n=4, apart=2 * x.shape[1]),
    lambda x: softmax_shared_row(x, block_n=16),
]
every_softmax = pytest.mark.parametrize("softmax", SOFTMAX, ids=["rows", "pipelined", "two_reads", "shared_row"])


@pytest.mark.parametrize("name", FAST)
def test_every_seventh_experiment_of_the_grid(name):
    with interpreter_fidelity():
        missed = [(e.key, v) for e in experiments(name, 7) if not (v := verdict(name, e, "cpu")).within_tolerance]
    assert not missed


@every_softmax
def test_a_masked_row_is_zeros_and_a_nan_spoils_its_row_alone(softmax):
    x = torch.randn(5, 11)
    x[0] = -math.inf
    x[2, 9] = math.nan
    y = softmax(x)
    assert torch.equal(y[0], torch.zeros(11))
    assert y[2].isnan().all()
    torch.testing.assert_close(y[[1, 3, 4]], torch.softmax(x[[1, 3, 4]], dim=-1))


@every_softmax
def test_strides_are_respected(softmax):
    x = torch.randn(13, 10)
    assert torch.equal(softmax(x), softmax(x.T.contiguous().T))


@every_softmax
def test_a_stride_past_2_to_the_31_elements(softmax):
    x = torch.empty(2**31 + 64, dtype=torch.float16).as_strided((2, 8), (2**31, 1))
    x.copy_(torch.randn(2, 8))
    assert torch.equal(softmax(x)[1], softmax(x.clone().contiguous())[1])


def test_equal_weights_are_listed_from_the_left_whatever_lane_has_them():
    x = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0, -0.0, 3.0, 3.0, 0.0, 1.0]])
    _, index = softmax_topk_lanes(x, k=9, block_n=4)
    assert index[0].tolist() == reference.softmax_topk(x.numpy(), 9)[1][0].tolist() == [1, 2, 4, 6, 7, 0, 9, 3, 5]


def test_what_does_not_fit_is_named():
    x = torch.randn(2, 40)
    with pytest.raises(ValueError, match="block_n=32"):
        softmax_rows(x, block_n=32)
    with pytest.raises(ValueError, match="3 parts"):
        softmax_shared_row(x, block_n=16)
    with pytest.raises(ValueError, match="k=33"):
        softmax_topk_lanes(x, k=33)
    q, kv = torch.randn(1, 2, 2, 16), torch.randn(1, 2, 8, 16)
    with pytest.raises(ValueError, match="q has 2 queries"):
        flash_decode(q, kv, kv)
