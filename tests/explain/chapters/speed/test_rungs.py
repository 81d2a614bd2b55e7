"""The climb: each rung's module, line and twins exist; what the benchmark says of it is told as it is, slower rungs and
missing ones too.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable

import pytest

from explain.chapters.speed import climb_figures as figures
from explain.chapters.speed import counted_figures, readable, rungs
from explain.chapters.speed import results as speed
from explain.chapters.speed.results import Case, Limit, Variant
from explain.chapters.speed.rungs import BY_NAME, RUNGS, TOP
from explain.experiment import Experiment
from explain.figures.numbers import ratio
from explain.gpus import GPUS
from explain.recordings.shipped import shipped
from explain.records import registry
from explain.records.model import Roof
from kernels import attention
from kernels.catalog import TAUGHT
from kernels.edits import source_of
from kernels.rungs import ORDER
from tests.explain.records.made import point, record

PEAK = Limit("matmul", 800e12, "made for this test")


def case(**speeds: float) -> Case:
    """One shape, timed at these FLOP/s: rungs by their name, other kernels as well."""
    variants = [
        Variant(speed.RUNG + name if name in ORDER else {"top": "attention"}.get(name, name), 1e12 / per_second,
        per_second, 0.2)
        for name, per_second in speeds.items()
    ]  # fmt: skip
    return Case("attention", (2, 16, 8192, 128), "bf16", False, 1e12, "FLOP/s", tuple(variants))


def test_the_rungs_are_those_of_the_folder_in_its_order_and_the_hopper_kernel_on_top():
    assert [rung.name for rung in RUNGS] == [*ORDER, TOP]


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_each_rung_has_its_code_its_line_and_what_is_new_in_it(rung):
    text = source_of(rung.entry.module)
    assert rung.line in rung.source
    assert text.splitlines()[rung.line_number - 1].strip() == rung.line
    assert f"def {rung.entry.function}(" in rung.source
    assert rung.gluon == ("@gluon.jit" in rung.source)
    lower = rungs.below(rung)
    if lower is None:
        assert rungs.difference(rung) == rungs.news(rung) == ""
        return
    for diff in (rungs.difference(rung), rungs.news(rung)):
        assert rung.line in [line[1:].strip() for line in diff.splitlines() if line.startswith("+")]
    assert "-> tuple" not in rungs.news(rung)  # neither parameters nor launch
    assert rung.line not in [line.strip() for line in lower.source.splitlines()]


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung.twin], ids=lambda rung: rung.name)
def test_each_rungs_twins_are_shipped_traces_and_the_link_leads_to_them(rung):
    pair = []
    for side in ("a.", "b."):
        query = {name.removeprefix(side): value for name, value in rung.twin.query.items() if name.startswith(side)}
        run = Experiment.from_query(query)
        pair.append(run)
        assert run.kernel in TAUGHT
        assert run in list(shipped())
    assert pair[0] != pair[1]


def test_a_diff_leaves_out_what_is_alike_far_from_a_change():
    shown, source = rungs.difference(BY_NAME["exp2"]).splitlines(), BY_NAME["exp2"].source.splitlines()
    assert {line[:1] for line in shown} <= {"+", "-", " ", ""}
    left_out = [int(line.split()[1]) for line in shown if line.startswith(" … ")]
    assert left_out
    assert len(shown) - len(left_out) < len(source)
    assert len([line for line in shown if line[:1] == "+"]) < len(source) - sum(left_out)


def test_a_step_has_its_gain_over_the_rung_below_where_both_have_a_time():
    steps = {step.rung.name: step for step in rungs.climb(case(naive_fp32=10e12, bf16=200e12, top=600e12))}
    assert steps["naive_fp32"].gain is None
    assert steps["bf16"].gain == pytest.approx(20)
    assert steps["exp2"].variant is None
    assert steps[TOP].per_second == 600e12
    assert steps[TOP].gain is None
    assert rungs.largest(list(steps.values())) == steps["bf16"]


def test_without_a_benchmark_no_rung_has_a_number():
    steps = rungs.climb(None)
    assert [step.variant for step in steps] == [None] * len(RUNGS)
    assert "FLOP/s" not in figures.climb_told(steps, None)


def test_what_only_one_head_dim_has_is_said_there():
    steps = rungs.climb(case(overlapped=400e12, top=500e12))
    assert "gains **1.25 ×**, because three warpgroups" in figures.shape_told(steps, 64)
    assert "warpgroups" not in figures.shape_told(steps, 128)


def test_others_stand_beside_the_rungs_and_no_rung_among_them():
    beside = rungs.beside(
        case(bf16=200e12, top=600e12, **{"torch.sdpa cudnn": 500e12, "flash_attention_hopper[groups=3]": 610e12})
    )
    assert [one.label for one in beside] == ["cuDNN"]


def test_what_is_slower_is_said_and_drawn_in_the_alarms_colour():
    steps = rungs.climb(case(naive_fp32=10e12, bf16=200e12, exp2=150e12))
    assert "kernel 3, *exp2*, is slower than kernel 2 (**0.75 ×**)" in figures.shape_told(steps, 128)
    assert "15.0 × fp32" in " ".join(figures.climb_more(steps, PEAK))
    picture = figures.climb(steps, (), PEAK, "2 × 16", "exp2")
    assert re.findall(r'fill="var\(--q-alarm\)">([^<]*)<', picture) == ["0.75 ×"]
    assert [step.rung.name for step in steps if step.slower] == ["exp2"]
    assert "0.75 × as fast as *bf16*" in figures.number(steps[2], PEAK, RUNGS[1])


def test_the_picture_has_each_rung_to_press_its_number_and_its_share():
    steps = rungs.climb(case(naive_fp32=10e12, bf16=200e12))
    picture = figures.climb(steps, (), PEAK, "2 × 16", "bf16")
    assert re.findall(r'data-press="(\w+)"', picture) == [rung.name for rung in RUNGS]
    assert picture.count('aria-pressed="true"') == 1
    for words in (">200<", ">20.0 ×<", "peak: matmul, 800"):
        assert words in picture
    assert picture.count(">not timed<") == len(RUNGS) - 2


def test_a_tuned_kernel_is_compared_with_the_one_above_it_that_is_not_tuned():
    steps = rungs.climb(case(tma=460e12, specialised=490e12, two_groups=630e12))
    tma, specialised, two_groups = (
        next(s for s in steps if s.rung.name == n) for n in ("tma", "specialised", "two_groups")
    )
    tuned = {"TMA": 538e12}
    told = figures.tuned_told(steps, tuned)
    assert "more than specialized, which was not tuned. Specialized is still a step: ping-pong builds on it" in told
    assert "more than" not in figures.tuned_told(steps, {"TMA": 480e12})
    assert "TMA reaches 538" in figures.not_yet(specialised, tma.rung, tuned)
    assert figures.not_yet(specialised, tma.rung, {"TMA": 480e12}) == ""
    assert figures.not_yet(two_groups, specialised.rung, tuned) == ""
    assert "; more" in figures.climb_in_rows(steps, (), PEAK, "tma", (("specialized", "more"),))


def test_the_readable_kernels_setting_and_the_rungs_are_those_of_their_launches():
    whole = case(exp2=300e12, flash_attention_exp2=380e12)
    setting = readable.setting(whole)
    defaults = inspect.signature(attention.flash_attention_exp2).parameters
    assert (setting.block_m, setting.block_n) == (defaults["block_m"].default, defaults["block_n"].default)
    assert f"num_warps={setting.warps}, num_stages={setting.stages}," in inspect.getsource(
        attention.flash_attention_exp2
    )
    assert readable.of_rung(readable.TWIN) == readable.Setting(128, 64, 8, 1)
    with pytest.raises(ValueError, match="persistent"):
        readable.of_rung(BY_NAME[TOP])


def test_why_the_line_is_above_its_twin_is_told_with_the_records_times():
    timed, there = case(bf16=288e12, exp2=300e12, flash_attention_exp2=380e12), registry.recorded()
    where, gain = readable.told(timed, rungs.climb(timed), rungs.counted(there, timed), there)
    assert "our readable kernel* (380)" in where
    assert "64 × 64, 4 warps, 2 stages. The" in where
    assert "kernel 3: 128 × 64, 8 warps, 1 stage." in where
    found = readable.both(there, timed)
    assert found
    slow, fast = found
    assert slow.seconds
    assert fast.seconds
    assert slow.experiment.values == fast.experiment.values
    assert f"1.04 × here, and {ratio(slow.seconds / fast.seconds)} between" in gain
    assert readable.told(case(exp2=300e12), rungs.climb(case(exp2=300e12)), {}, there) == ()
    masked = dataclasses.replace(timed, causal=True)
    assert len(readable.told(masked, rungs.climb(masked), {}, there)) == 1
    below = case(bf16=288e12, exp2=300e12, flash_attention_exp2=280e12)
    assert readable.told(below, rungs.climb(below), {}, there) == ()


def test_the_tensor_pipes_bars_are_as_long_as_what_was_counted():
    counted = rungs.counted(registry.recorded(), case())
    drawn = counted_figures.tensor_bars(counted, RUNGS)
    wide = [float(one) for one in re.findall(r'width="([\d.]+)" height="22', drawn)]
    whole, parts = wide[0], wide[1::2]
    counters = [counted[rung.name].counters for rung in RUNGS if rung.name in counted]
    active = [one.cold.tensor_active_percent or 0 for one in counters if one]
    assert [100 * part / whole for part in parts] == pytest.approx(active, abs=0.1)
    assert counted_figures.tensor_told(counted, RUNGS).startswith("From fp32 to persistent: **0% → ")
    assert re.findall(r">(\d+%)<", counted_figures.tensor_bars(counted, RUNGS, narrow=True)) == re.findall(
        r">(\d+%)<", drawn
    )
    assert counted_figures.tensor_bars({}, RUNGS) == counted_figures.tensor_told({}, RUNGS) == ""


def test_a_clock_that_falls_as_the_tensor_cores_get_busier_is_told():
    counted = rungs.counted(registry.recorded(), case())
    cold = {name: point.counters.cold for name, point in counted.items() if point.counters}
    busy = {name: one.tensor_active_percent or 0.0 for name, one in cold.items()}

    def told(clock: Callable[[float], float]) -> str:
        speeds = {name: clock(percent / 100) * percent / 100 * 4096 * 132 for name, percent in busy.items()}
        steps = [
            dataclasses.replace(step, variant=Variant(step.rung.name, 1.0, speeds.get(step.rung.name)))
            for step in rungs.climb(case(top=600e12))
        ]
        return counted_figures.clock_told(steps, counted, GPUS["H200"])

    assert "busier" not in told(lambda share: 1.7e9)
    assert "busier" not in told(lambda share: 1.5e9 + 0.2e9 * share)
    assert "lower this clock: 1.7 GHz at " in told(lambda share: 1.7e9 if share < 0.7 else 1.6e9)
    assert ", 1.6 GHz at " in told(lambda share: 1.7e9 if share < 0.7 else 1.6e9)


def test_a_kernels_column_says_what_it_also_does_at_this_head_dim():
    steps = rungs.climb(case())
    assert figures.notes(steps, {}, 64) == {"persistent": "at d = 64 also: three warpgroups share the work"}
    assert figures.notes(steps, {}, 128) == {}


def test_shares_of_the_peak_the_datasheet_and_the_cycles_are_told_apart():
    counted = rungs.counted(registry.recorded(), case())
    told = counted_figures.shares_told(rungs.climb(case(top=600e12)), PEAK, counted, 1000e12)
    assert "**600 TFLOP/s** are 75% of a large matmul's 800 and 60% of the datasheet's 1,000" in told
    assert "datasheet" not in counted_figures.shares_told(rungs.climb(case(top=600e12)), PEAK, counted)
    point = counted[TOP].counters
    assert point
    assert point.cold.tensor_active_percent
    clock = 600e12 / (point.cold.tensor_active_percent / 100 * 4096 * 132)
    told = counted_figures.clock_told(rungs.climb(case(top=600e12)), counted, GPUS["H200"])
    assert f"about {clock / 1e9:.3g} GHz: an estimate" in told
    assert counted_figures.shares_told(rungs.climb(case(top=600e12)), None, counted) == ""


def test_names_at_the_lines_ends_do_not_cover_one_another():
    baselines = [
        Variant(f"baseline {at}", 1.0, per_second) for at, per_second in enumerate((790e12, 795e12, 500e12, 501e12))
    ]
    picture = figures.climb(rungs.climb(None), tuple(baselines), PEAK, "a shape", "bf16")
    places = sorted(float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>(?:baseline \d|peak: matmul), ', picture))
    assert len(places) == 5
    assert all(after - before >= figures.GAP - 0.11 for before, after in itertools.pairwise(places))


def test_a_rung_that_is_not_right_has_no_time_and_says_so():
    wrong = dataclasses.replace(case(), variants=(Variant(f"{speed.RUNG}bf16", error=3.0, why="exceeds its tolerance"),
        ))  # fmt: skip
    step = rungs.climb(wrong)[1]
    assert step.variant.missed
    assert "FLOP/s" not in figures.number(step, PEAK, RUNGS[0])
    assert ">wrong result<" in figures.climb(rungs.climb(wrong), (), PEAK, "a shape", "bf16")


def test_timed_rungs_stand_under_the_roofs_at_one_intensity():
    roofs = {"matmul bf16": Roof("matmul bf16", 800e12, "FLOP/s", ""), "hbm": Roof("hbm", 4e12, "B/s", "")}
    shape = case(naive_fp32=10e12, bf16=200e12, top=600e12)
    points = rungs.under_roofs(rungs.climb(shape), shape, roofs)
    assert [point.flops_per_second for point in points] == [10e12, 200e12, 600e12]
    batch_heads, length, d = 32, 8192, 128
    moved = batch_heads * length * (4 * d * 2 + 4)  # Q, K, V and O in 16 bits, lse in 32
    assert {point.intensity for point in points} == {shape.work / moved}
    assert {point.compute for point in points} == {800e12}


def test_what_a_gpu_counted_is_found_by_the_cases_d_and_mask():
    shape = case()
    counted = {one.kernel: one for one in rungs.COUNTED
        if (one.values["head_dim"], one.values["causal"]) == (128, False)}  # fmt: skip
    there = record(point(counted["rung:bf16"]), point(counted[BY_NAME[TOP].kernel]), point(counted["torch:cudnn"]))
    found = rungs.counted(there, shape)
    assert set(found) == {"bf16", TOP}
    assert rungs.counted(there, dataclasses.replace(shape, causal=True)) == {}
    assert rungs.counted(None, shape) == {}
    lines = counted_figures.counters_table(found, RUNGS).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| bf16", "| persistent"]


def test_spills_of_the_rung_below_are_part_of_a_rungs_gain():
    counted = {one.kernel: one for one in rungs.COUNTED
        if (one.values["head_dim"], one.values["causal"]) == (128, False)}  # fmt: skip
    points = {name: point(counted[f"rung:{name}"]) for name in ("naive_fp32", "bf16")}
    below = points["naive_fp32"].counters
    assert below is not None
    spilling = dataclasses.replace(
        below.cold, spill_read_bytes=6 * 10**9, spill_written_bytes=10**9, l2_read_bytes=10**10
    )
    points["naive_fp32"] = dataclasses.replace(points["naive_fp32"], counters=dataclasses.replace(below, cold=spilling))
    roofs = {"l2": Roof("l2", 5e12, "B/s", "")}
    spill = rungs.spilled(points, BY_NAME["bf16"], roofs)
    assert spill is not None
    assert spill.size == 7 * 10**9
    assert below.cold.sm_bytes is not None
    assert spilling.sm_bytes is not None
    assert spill.seconds == pytest.approx((spilling.sm_bytes - below.cold.sm_bytes) / 5e12)
    steps = rungs.climb(case(naive_fp32=10e12, bf16=200e12))
    assert "as fast as *fp32*: it" in figures.number(steps[1], PEAK, RUNGS[0], spill)
    idle = dataclasses.replace(spill, tensor=(0.0, 30.0))
    assert figures.notes(steps, {"bf16": idle}) == {"bf16": "no more spills"}
    assert "and fp32 also spills registers." in figures.number(steps[1], PEAK, RUNGS[0], idle)
    assert "7.00 GB" in figures.spill_told(spill)
    assert rungs.spilled(points, BY_NAME["exp2"], roofs) is None
    assert rungs.spilled(points | {"naive_fp32": points["bf16"]}, BY_NAME["bf16"], roofs) is None
