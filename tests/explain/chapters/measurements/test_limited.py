"""What limits a kernel: the shares of HBM's and of a matmul's rate, told and drawn."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from explain.chapters.measurements import exercises, limited, points
from explain.chapters.measurements.exercises import run_of
from explain.chapters.measurements.limited import LIMIT, Limits
from explain.counters.stalls import REASONS
from explain.figures import palette
from explain.figures.labels import text_width
from explain.figures.numbers import aligned, number, percent
from explain.records import registry
from explain.records.plans import PLANS

NOT_COUNTED = f"{limited.NEITHER} {limited.UNKNOWN}"


@pytest.mark.parametrize("plan", ["levels", "sweeps", "rungs", "flashattention"])
@pytest.mark.parametrize("gpu", [0, 1])
def test_the_shares_are_those_of_the_record_and_each_is_drawn(plan, gpu):
    one = registry.entries()[0][gpu]
    for kernel in points.kernels(PLANS[plan], [one]):
        found = [p for run in points.measured(PLANS[plan], [one], kernel) if (p := one.record.point(run))]
        hbm = [seconds / p.seconds for p in found if p.seconds and (seconds := points.hbm_seconds(one.record, p))]
        matmuls = [
            p.experiment.traffic.flops_of("matmul") / p.seconds / known.peak
            for p in found
            if p.seconds and p.experiment.traffic.flops_of("matmul") and (known := run_of(one.record, p.experiment))
        ]
        limits = limited.limits(PLANS[plan], one, kernel)
        assert limits
        assert limits.of_hbm == pytest.approx(hbm)
        assert limits.of_matmuls == pytest.approx(matmuls)
        drawn = limited.drawn(PLANS[plan], [one], kernel)
        for shares, hue in ((hbm, "hbm"), (matmuls, "series-1")):
            bars = [float(x) for x in re.findall(f'width="([\\d.]+)" height="14.00" fill="{palette.mid(hue)}"', drawn)]
            assert len(bars) == 2 * bool(shares)
            if shares:
                (whole, *_) = (float(x) for x in re.findall('width="([\\d.]+)" height="14.00"', drawn))
                ends = [max(0.25, whole * min(1, share)) for share in (max(shares), min(shares))]
                assert bars == pytest.approx(ends, abs=0.02)
                most = number(100 * max(shares), 2, zeros=True)
                assert f"{most}%</text>" in drawn
        across = float(re.findall(r'viewBox="0 0 ([\d.]+)', drawn)[0])
        for x, size, rest, words in re.findall(r'<text x="([\d.]+)"[^>]*font-size="([\d.]+)"([^>]*)>([^<]*)<', drawn):
            wide = text_width(html.unescape(words), float(size), bold="font-weight" in rest)
            assert float(x) + wide <= across + 1, words


def test_the_bytes_read_and_written_take_their_time_at_each_rate():
    one = registry.entries()[0][0]
    point = one.record.point(points.measured(PLANS["levels"], [one], "softmax_naive")[0])
    assert point
    assert point.counters
    cold, roofs = point.counters.cold, one.record.roofs
    assert cold.dram_read_bytes
    assert cold.dram_written_bytes
    reading = cold.dram_read_bytes / roofs["hbm"].per_second
    wrote = points.written(point) or 0  # now or later, as the table says
    assert wrote == cold.dram_written_bytes + (cold.dirty_bytes or 0)
    writing = wrote / roofs["hbm write"].per_second
    assert points.hbm_seconds(one.record, point) == pytest.approx(reading + writing)
    without = replace(one.record, roofs={name: roof for name, roof in roofs.items() if name != "hbm write"})
    alike = (cold.dram_read_bytes + wrote) / roofs["hbm"].per_second
    assert points.hbm_seconds(without, point) == pytest.approx(alike)
    assert points.hbm_seconds(replace(one.record, roofs={}), point) is None
    assert points.hbm_seconds(one.record, replace(point, counters=None)) is None


@pytest.mark.parametrize(
    ("of_hbm", "of_matmuls", "told"),
    [
        ([0.01, LIMIT - 0.01], [], "HBM does not limit this kernel."),
        ([LIMIT, 0.9], [], "HBM limits this kernel."),
        ([LIMIT, 0.9], [0.1, 0.2], "HBM limits this kernel."),
        ([0.1, 0.9], [0.1, 0.2], "HBM limits this kernel in 1 of 2 runs."),
        ([0.1, 0.2], [0.7, 0.8], "The matmuls limit this kernel."),
        ([0.1, 0.2, 0.3], [0.7, 0.8, 0.1], "The matmuls limit this kernel in 2 of 3 runs."),
        ([0.9, 0.2, 0.3], [0.1, 0.8, 0.1], "HBM limits this kernel in 1 of 3 runs, the matmuls in 1."),
    ],
)
def test_what_limits_a_kernel_is_told_with_its_runs(of_hbm, of_matmuls, told):
    assert Limits(of_hbm, of_matmuls, ["bf16"]).told == f"**{told}**"


def test_a_kernel_that_neither_limits_has_a_link_to_what_its_warps_do():
    told = Limits([0.01, 0.02], [0.2, 0.4], ["bf16"]).told
    assert told.startswith("**Neither HBM nor the matmuls limit this kernel.** ")
    assert told.endswith(limited.UNKNOWN)
    assert "(./speed)" in told


def test_what_warps_wait_for_is_told_where_it_was_counted():
    (one,), plan = registry.entries()[0][:1], PLANS["rungs"]
    found = limited.limits(plan, one, "rung:bf16")
    assert found
    counted = [point for run in points.measured(plan, [one], "rung:bf16") if (point := one.record.point(run))
               and point.counters and point.counters.stalls]  # fmt: skip
    stalls = max(counted, key=lambda point: point.experiment.traffic.flops).counters.stalls
    assert f"*{REASONS[stalls.most[0]].name}*, {percent(stalls.share(stalls.most[0]))} of its time" in found.told


def test_without_rates_or_bytes_nothing_is_told():
    one, plan = registry.entries()[0][0], PLANS["levels"]
    bare = replace(one, record=replace(one.record, roofs={}))
    assert limited.limits(plan, bare, "flash_attention") is None
    assert limited.drawn(plan, [bare], "flash_attention") == ""
    uncounted = {key: replace(point, counters=None) for key, point in one.record.points.items()}
    assert limited.limits(plan, replace(one, record=replace(one.record, points=uncounted)), "flash_attention") is None
    assert limited.limits(plan, one, "") is None  # several kernels
    no_matmul = replace(one, record=replace(one.record, roofs={"hbm": one.record.roofs["hbm"]}))
    found = limited.limits(plan, no_matmul, "flash_attention")
    assert found
    assert found.told == "**HBM does not limit this kernel.**"
    assert "matmuls" not in limited.drawn(plan, [no_matmul], "flash_attention")


def test_of_two_gpus_each_has_its_bars_and_what_both_have_is_told_once():
    both, plan = registry.entries()[0][:2], PLANS["levels"]
    kernel = "flash_attention_exp2"
    assert limited.told(plan, both, kernel) == NOT_COUNTED
    drawn = limited.drawn(plan, both, kernel)
    for one in both:
        found = limited.limits(plan, one, kernel)
        assert found
        for shares in (found.of_hbm, found.of_matmuls, found.of_exps):
            assert (
                f">{number(100 * min(shares), 2, zeros=True)} to {number(100 * max(shares), 2, zeros=True)}%</text>"
                in drawn
            )
    assert drawn.count(">H200</text>") == drawn.count(">H100</text>") == 3
    bare = replace(both[1], record=replace(both[1].record, roofs={}))
    assert limited.told(plan, [both[0], bare], kernel) == f"H200: {NOT_COUNTED}"
    assert limited.told(plan, [bare], kernel) == ""
    slow = {key: replace(roof, per_second=roof.per_second / 30) for key, roof in both[1].record.roofs.items()}
    slower = replace(both[1], record=replace(both[1].record, roofs=slow))
    told = limited.told(plan, [both[0], slower], kernel)
    assert told.startswith(f"H200: {NOT_COUNTED}\n\nH100: **")


@pytest.mark.parametrize("gpu", [0, 1])
def test_the_bar_the_sentence_and_the_question_have_one_share_of_hbm(gpu):
    one = registry.entries()[0][gpu]
    for plan in points.plans([one]).values():
        for kernel in points.kernels(plan, [one]):
            runs = points.measured(plan, [one], kernel)
            shown = [known for run in runs if (known := run_of(one.record, run))]
            found = limited.limits(plan, one, kernel)
            if not found or len(shown) < len(found.of_hbm):  # a roof of its arithmetic is missing
                continue
            asked = [
                float(str(exercises.OF_TWO[2].answer(exercises.Both(known, known, ("A", "B"))))) for known in shown
            ]
            assert asked == pytest.approx([100 * share for share in found.of_hbm])
            assert f">{limited._percents([share / 100 for share in asked])}</text>" in limited.drawn(
                plan, [one], kernel
            )
            assert ("HBM limits" in found.told or ", HBM in" in found.told) == any(s >= 100 * LIMIT for s in asked)


def test_the_same_kernel_in_base_2_is_told_where_it_has_the_same_bytes():
    one, plan = registry.entries()[0][0], PLANS["levels"]
    run = max(points.measured(plan, [one], "flash_attention"), key=lambda run: run.traffic.flops)
    point, other = (one.record.point(replace(run, kernel=name)) for name in ("flash_attention", "flash_attention_exp2"))
    assert point
    assert other
    told = limited.in_base_2(plan, [one], "flash_attention")
    assert point.seconds
    assert other.seconds
    saved = aligned(point.seconds - other.seconds, "s", "m").removesuffix(" ms")
    saves = f"{saved} of {aligned(point.seconds, 's', 'm')} ({percent(1 - other.seconds / point.seconds)} of the time)"
    assert told.startswith(
        f"**[Computing 2ˣ instead of eˣ](./measurements?kernel=flash_attention_exp2) saves {saves}**"
    )
    assert "HBM did not cost" in limited.why_in_base_2()
    assert limited.told(plan, [one], "flash_attention") == NOT_COUNTED
    assert "(./measurements?kernel=flash_attention_exp2)" in told
    both = limited.in_base_2(plan, registry.entries()[0], "flash_attention")
    assert both.count("Computing 2ˣ") == 1
    assert f"saves {saves} on the H200 and " in both
    assert limited.in_base_2(plan, [one], "flash_attention_exp2") == ""
    shares = [
        run.traffic.flops_of("exp") / p.seconds / one.record.roofs["exp"].per_second
        for run in points.measured(plan, [one], "flash_attention")
        if (p := one.record.point(run)) and p.seconds
    ]
    found = limited.limits(plan, one, "flash_attention")
    assert found
    assert found.of_exps == pytest.approx(shares)
