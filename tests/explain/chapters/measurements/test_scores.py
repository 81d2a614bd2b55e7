"""A kernel with S in HBM beside one that computes the same without."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from explain.chapters.measurements import findings, points, scores
from explain.figures.numbers import ratio
from explain.records import registry
from explain.records.plans import PLANS
from tests.explain.records.made import SHIPPED

ONE = registry.Entry("a", SHIPPED, registry.YOURS)


def reads(kernel: str) -> list[int]:
    runs = points.measured(PLANS["levels"], [ONE], kernel)
    return [p.counters.cold.dram_read_bytes or 0 for run in runs if (p := SHIPPED.point(run)) and p.counters]


@pytest.mark.parametrize("kernel", ["attention_standard", "flash_attention", ""])
def test_standard_attention_is_told_beside_flash_attention_wherever_one_is_shown(kernel):
    factors = [
        much / little for much, little in zip(reads("attention_standard"), reads("flash_attention"), strict=True)
    ]
    assert min(factors) > 30
    low, high = ratio(min(factors)).removesuffix(" ×"), ratio(max(factors))
    told = f"**Standard attention reads {low} to {high} the bytes that FlashAttention-2 forward reads from HBM.**"
    seen = findings.seen(PLANS["levels"], [ONE], None, kernel)
    assert told in seen
    hbm = SHIPPED.roofs["hbm"].per_second
    runs = points.measured(PLANS["levels"], [ONE], "flash_attention")
    needs = [
        read / hbm / (SHIPPED.points[run.key].seconds or 0)
        for read, run in zip(reads("flash_attention"), runs, strict=True)
    ]
    shown = re.search(r"HBM needs at most ([\d.]+)% of the time of FlashAttention-2 forward", seen)
    assert shown
    assert max(needs) <= float(shown[1]) / 100 < max(needs) + 0.001
    assert "It takes only " in seen


def test_a_counterpart_computes_the_same_and_handles_the_scores_the_other_way():
    seen = set()
    for point in SHIPPED.points.values():
        run = point.experiment
        if run.entry.steppable and (beside := scores.other(ONE, run)):
            assert beside.experiment.entry.stores_scores != run.entry.stores_scores
            assert points.work(beside.experiment) == points.work(run)
            seen.add((run.kernel, beside.experiment.kernel))
    assert ("attention_standard", "flash_attention") in seen
    assert ("attention_backward_standard", "flash_attention_backward") in seen
    assert ("cross_entropy_standard", "cross_entropy_fused") in seen
    assert not [pair for pair in seen if "cross_entropy_backward" in pair]  # it computes gradients too
    assert not [pair for pair in seen if pair[0].startswith("softmax")]


def test_without_counts_nothing_is_compared():
    bare = {key: replace(point, counters=None) for key, point in SHIPPED.points.items()}
    one = replace(ONE, record=replace(SHIPPED, points=bare))
    run = points.measured(PLANS["levels"], [ONE], "flash_attention")[0]
    assert scores.other(one, run) is None
    assert scores.told(one, [*bare.values()]) == ""
