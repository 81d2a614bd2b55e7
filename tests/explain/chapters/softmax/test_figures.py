"""Softmax's numbers: a softmax in each format's own precision, where it breaks, and what fixes it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from explain.chapters.softmax import figures
from kernels import reference
from kernels.parameters import ITEM_BYTES

ROW = np.array([-1.0, 0.5, 2.0, 3.5, 0.0, 1.0])
TORCH = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
UNIT = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_the_largest_number_is_the_formats_own(dtype):
    assert figures.LARGEST[dtype] == torch.finfo(TORCH[dtype]).max


@pytest.mark.parametrize("dtype", ITEM_BYTES)
@pytest.mark.parametrize("x", [11.0, 12.0, 88.0, 89.0, 2000.0])
def test_exp_leaves_a_format_where_torch_says_so(dtype, x):
    ours = figures.as_written(np.array([x]), dtype).p[0]
    theirs = float(torch.tensor(x, dtype=torch.float64).exp().to(TORCH[dtype]))
    assert math.isinf(ours) == math.isinf(theirs)
    assert math.isinf(theirs) or abs(ours - theirs) <= 4 * UNIT[dtype] * theirs


@pytest.mark.parametrize("dtype", ITEM_BYTES)
@pytest.mark.parametrize("shift", [0.0, 8.0, -8.0])
def test_both_ways_are_softmax_where_nothing_overflows(dtype, shift):
    for way in (figures.as_written, figures.safe):
        row = way(ROW + shift, dtype)
        if np.isfinite(row.total):
            np.testing.assert_allclose(row.y, reference.softmax(ROW), rtol=16 * UNIT[dtype])


@pytest.mark.parametrize(("dtype", "shift"), [("fp32", 90), ("bf16", 90), ("fp16", 10), ("fp32", -200)])
def test_as_written_breaks_and_safe_does_not(dtype, shift):
    assert np.isnan(figures.as_written(ROW + shift, dtype).y).any()
    assert np.isfinite(figures.safe(ROW + shift, dtype).y).all()


def test_a_loss_through_the_weights_is_lost_where_logsumexp_is_exact():
    found = figures.losses(50 * ROW, 0, "fp32")
    assert found.pop("float64") == found.pop("m + ln ℓ − x") == 225.0
    assert set(found.values()) == {math.inf}
    assert math.isnan(figures.losses(ROW + 100, 0, "fp32")["−ln of the naive softmax"])


def test_bars_show_what_is_no_number_as_such_and_are_heard():
    shown = figures.bars(figures.as_written(ROW + 90, "fp32"), "Naive", "")
    assert 'class="cell odd"><i>∞</i>' in shown
    assert 'class="cell odd"><i>NaN</i>' in shown
    assert 'aria-label="exp(x) / ℓ: NaN, NaN' in shown
    assert re.findall(r'style="color: var\(--q-(\w+)\)">(?:ℓ|sum) = (?:∞|NaN)', shown) == ["alarm", "alarm"]
    assert "--share: 1.0000" in figures.bars(figures.safe(ROW, "fp32"), "Safe", "")


@pytest.mark.parametrize(("shift", "last"), [(0, "3.5"), (100, "103.5"), (-200, "−196.5"), (2000, "2,003.5")])
def test_no_logit_is_larger_than_the_maximum_beside_it(shift, last):
    shown = figures.bars(figures.safe(ROW + shift, "fp32"), "Safe", "")
    logits = re.findall(r"<i>([−\d.,]+)</i>", shown)[: len(ROW)]
    assert [float(one.replace("−", "-").replace(",", "")) for one in logits] == list(ROW + shift)
    assert f"m = {last}" in shown


def test_a_bar_of_infinity_fills_the_picture_and_nan_has_none():
    shown = figures.bars(figures.as_written(ROW + 100, "fp32"), "Naive", "")
    assert shown.count("<i>∞</i><u></u>") == shown.count("<i>NaN</i></span>") == len(ROW)


@pytest.mark.parametrize(
    ("x", "dtype", "told"),
    [
        ((1999.0, 2000.5), "fp16", "fp16 has no 2,000.5: softmax gets 2,000 instead. So the safe weights change too."),
        ((1999.0, 2000.0), "bf16", "bf16 has no 1,999: softmax gets 2,000 instead. So the safe weights change too."),
        ((1999.0, 2000.5), "fp32", ""),
        ((0.1, -0.35), "bf16", ""),  # not held exactly either, but nobody sees it
        ((1e6, 0.0), "fp16", ""),  # becomes infinite, which the bars show
    ],
)
def test_a_logit_that_the_format_has_not_is_said(x, dtype, told):
    assert figures.rounded(x, dtype) == told
