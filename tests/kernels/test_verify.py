"""The verdict on a result: what is out of tolerance is refused, element by element, and what rounding does is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels import reference, verify
from kernels.catalog import KERNELS
from kernels.verify import Verdict

P = {"rows": 2, "cols": 4, "dtype": "fp32"}
X = np.array([[0.0, 1.0, 2.0, -12.0], [3.0, 3.0, 3.0, 3.0]], np.float32)


def judged(y: np.ndarray) -> Verdict:
    return verify.verify(KERNELS["softmax_naive"], P, {"x": X}, {"y": torch.from_numpy(y)})


@pytest.mark.parametrize(("row", "col"), [(0, 0), (0, 3), (1, 2)])
@pytest.mark.parametrize("factor", [1.001, 0.999, np.nan, np.inf, 0.0])
def test_one_wrong_weight_is_enough_however_small_it_is(row, col, factor):
    y = reference.softmax(X).astype(np.float32)
    assert judged(y).within_tolerance
    y[row, col] *= factor
    verdict = judged(y)
    assert not verdict.within_tolerance
    assert verdict.index == (row, col)
    assert verdict.bites


def test_a_nan_where_one_is_right_is_right_and_nowhere_else():
    expected = np.array([[np.nan, 1.0]])
    worst = verify._worst("y", np.array([[np.nan, 1.0]]), expected, np.zeros((1, 2)))
    assert worst.within_tolerance
    assert not verify._worst("y", np.array([[0.0, 1.0]]), expected, np.zeros((1, 2))).within_tolerance
    assert not verify._worst("y", np.array([[np.nan, np.nan]]), expected, np.full((1, 2), 9.0)).within_tolerance


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_the_units_are_the_dtypes(dtype):
    of_torch = torch.finfo({"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype])
    assert verify.UNIT[dtype] == of_torch.eps / 2
    assert verify.SMALLEST[dtype] == (of_torch.tiny if dtype != "fp16" else of_torch.smallest_normal * of_torch.eps)


def test_an_error_of_pytorchs_in_one_row_allows_none_in_another():
    assert verify._row_max(np.array([[1e-3, np.nan, np.inf], [0.0, 1e-7, 0.0]])).tolist() == [[1e-3], [1e-7]]


def test_the_worst_of_all_outputs_counts():
    p = {"batch": 1, "heads": 1, "kv_heads": 1, "seq_len": 3, "kv_len": 3, "head_dim": 16, "causal": False,
         "dtype": "fp32", "block_n": 16}  # fmt: skip
    q, k, v = np.random.default_rng(0).normal(size=(3, 1, 1, 3, 16)).astype(np.float32)
    o, lse = reference.attention(q, k, v, causal=False)
    outputs = {"o": torch.tensor(o).float(), "lse": torch.tensor(lse).float()}
    arrays = {"q": q, "k": k, "v": v}
    assert verify.verify(KERNELS["flash_attention"], p, arrays, outputs).within_tolerance
    outputs["lse"][0, 0, 2] *= 1.4427
    verdict = verify.verify(KERNELS["flash_attention"], p, arrays, outputs)
    assert (verdict.output, verdict.index, verdict.within_tolerance) == ("lse", (0, 0, 2), False)


def test_the_reference_is_the_formula_written_out():
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(1, 4, 600, 4)), rng.normal(size=(1, 2, 7, 4)), rng.normal(size=(1, 2, 7, 4))
    v[0, 1, 6] = np.nan  # the last key: the last query alone sees it
    o, lse = reference.attention(q, k, v, causal=True)
    for head in range(4):
        s = q[0, head] @ k[0, head // 2].T / 2
        for row in (592, 593, 595, 599):
            seen = row - 592  # keys 0 … seen − 1
            assert lse[0, head, row] == pytest.approx(np.log(np.exp(s[row, :seen]).sum()) if seen else -np.inf)
            weights = np.exp(s[row, :seen] - lse[0, head, row])
            assert o[0, head, row] == pytest.approx(weights @ v[0, head // 2, :seen], nan_ok=True)
    assert np.isnan(o[0, 2:, 599]).all()
    assert np.isfinite(o[0, 2:, :599]).all()
