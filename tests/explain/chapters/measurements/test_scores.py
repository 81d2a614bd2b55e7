"""A kernel with S in HBM beside one that computes the same without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explain.chapters.measurements import findings, points, scores
from explain.figures.numbers import duration, moved
from explain.records import registry
from explain.records.plans import PLANS
from tests.explain.records.made import SHIPPED

ONE = registry.Entry("a", SHIPPED, registry.YOURS)


def runs(kernel: str) -> list[Any]:
    found = (SHIPPED.point(run) for run in points.measured(PLANS["levels"], [ONE], kernel))
    return [point for point in found if point and point.counters]


@pytest.mark.parametrize("kernel", ["attention_standard", "flash_attention", ""])
def test_standard_attention_is_told_beside_flash_attention_wherever_one_is_shown(kernel):
    both = [
        (
            slow,
            next(
                fast for fast in runs("flash_attention") if points.work(fast.experiment) == points.work(slow.experiment)
            ),
        )
        for slow in runs("attention_standard")
    ]
    slow, fast = max(both, key=lambda pair: pair[0].experiment.traffic.flops)
    seen = findings.seen(PLANS["levels"], [ONE], None, kernel)
    pair = (fast, slow) if kernel == "flash_attention" else (slow, fast)  # the chosen kernel first
    (first, its), (second, other) = (
        (point.experiment.entry.title, moved(point.counters.cold.dram_read_bytes)) for point in pair
    )
    sizes = "batch 4, N = 8,192, d = 64" if kernel else "batch 4, 16 heads, N = 8,192, d = 64, bf16"
    told = f"**{first} (our Triton teaching kernel) reads {its} from HBM, {second} {other}**, at {sizes}. They take "
    assert f"{told}{' and '.join(duration(point.seconds) for point in pair)}." in seen


def test_where_the_kernel_with_s_in_hbm_is_faster_both_times_say_so():
    slow, fast = (max(runs(name), key=lambda point: point.experiment.traffic.flops)
                  for name in ("cross_entropy_fused", "cross_entropy_standard"))  # fmt: skip
    assert fast.seconds < slow.seconds
    seen = findings.seen(PLANS["levels"], [ONE], None, "cross_entropy_fused")
    assert f" They take {duration(slow.seconds)} and {duration(fast.seconds)}." in seen
    assert "only" not in seen


def test_a_set_of_tiles_names_its_fastest_row_and_no_other_kernel():
    seen = findings.seen(PLANS["tiles"], [ONE], None, "flash_attention")
    assert seen.startswith("**The fastest of these ")
    assert "Standard attention" not in seen


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
    assert scores.told(one, [*bare.values()], {}) == ""
