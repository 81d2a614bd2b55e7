"""The page's pictures: limits, bars of loads and HBM, and a dot for each row."""

from __future__ import annotations

import html
import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from explain.chapters.measurements import asked, beside, findings, limits, points, slowest, tables, two_gpus
from explain.chapters.measurements.exercises import run_of
from explain.figures import palette
from explain.figures.labels import begun, text_width
from explain.figures.numbers import duration, moved, number, percent, ratio, ratios, si
from explain.gpus import specified
from explain.records import registry
from explain.records.plans import PLANS
from kernels.catalog import KERNELS
from tests.explain.records.made import SHIPPED


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("gpus", [1, 2])
def test_each_limit_has_a_dot_on_one_logarithmic_scale_and_its_words_beside_it(gpus, narrow):
    shown = registry.entries()[0][:gpus]
    for drawn in limits.drawn(shown, narrow=narrow):
        assert drawn.count(limits.PERCENT) == 1
        (unit,) = re.findall('aria-label="measured limits in ([^"]*)"', drawn)
        roofs = [
            (gpu, one.record, one.record.roofs[level])
            for level in dict.fromkeys(level for one in shown for level in one.record.roofs)
            for gpu, one in zip(points.names(shown), shown, strict=True)
            if level in one.record.roofs and one.record.roofs[level].unit == unit
        ]
        dots = [(float(x), "transparent" in look) for x, look in re.findall(r'<circle cx="([\d.]+)"([^>]*)>', drawn)]
        assert len(dots) == len(roofs)
        (x0, _), (x1, _) = dots[0], dots[-1]
        low, high = (math.log(roof.per_second) for _, _, roof in (roofs[0], roofs[-1]))
        for (x, hollow), (gpu, record, roof) in zip(dots, roofs, strict=True):
            assert x == pytest.approx(x0 + (x1 - x0) * (math.log(roof.per_second) - low) / (high - low), abs=0.2)
            assert hollow == (gpu != points.names(shown)[0])
            counts = " exp/s" if roof.level == "exp" else unit
            stated = specified(roof.level, record.gpu)
            share = f" ({percent(roof.per_second / stated)})" if stated else ""
            told = f"{f'{gpu} ' if gpus > 1 else ''}{si(roof.per_second, counts, zeros=True)}{share}"
            scale = (x1 - x0) / (high - low)
            tick = x + scale * math.log(stated / roof.per_second) if stated else x
            begins = re.findall(rf'<text x="([\d.]+)"[^>]*>{re.escape(told)}<', drawn.replace(limits.PERCENT, "%"))
            assert any(float(start) == pytest.approx(max(x, tick) + 14, abs=0.3) for start in begins)
            ticks = re.findall(r'<line x1="([\d.]+)"[^>]*stroke-width="2"', drawn)
            assert not stated or any(float(one) == pytest.approx(tick, abs=0.3) for one in ticks)
        across = float(re.findall(r'viewBox="0 0 ([\d.]+)', drawn)[0])
        for x, rest, said in re.findall(r'<text x="([\d.]+)"([^>]*)>([^<]*)<', drawn):
            wide = text_width(html.unescape(said), bold="font-weight" in rest)
            assert (float(x) if "end" in rest else float(x) + wide) <= across
        numbers = re.findall(r'<text x="([\d.]+)" y="[\d.]+" font-size="13" text-anchor="start"[^>]*>(\d[^<]*)<', drawn)
        assert len(numbers) >= 2
        for (x, said), (after, _) in pairwise(numbers):
            assert float(x) + text_width(said, 13) < float(after)


def test_a_picture_of_two_gpus_says_what_differs_most_and_by_how_much():
    both = registry.entries()[0]
    first, second = (one.record for one in both)
    moves, computes = limits.drawn(both)
    for drawn, unit in ((moves, "B/s"), (computes, "FLOP/s")):
        column = [ratio(roof.per_second / second.roofs[level].per_second)
                  for level, roof in first.roofs.items() if roof.unit == unit]  # fmt: skip
        assert re.findall(r">(\d\.\d+ ×)</text>", drawn) == column
        assert ">H200 ÷ H100</text>" in drawn
    assert "H200 ÷ " not in "".join(limits.drawn(both[:1]))
    factor = first.roofs["hbm"].per_second / second.roofs["hbm"].per_second
    assert f"Largest measured difference: HBM, read, {ratio(factor)} (H200 ÷ H100)" in moves
    assert "the GPUs are at most" in computes
    faster = replace(second.roofs["exp"], per_second=3 * first.roofs["exp"].per_second)
    other = replace(both[1], record=replace(second, roofs={**second.roofs, "exp": faster}))
    _, computes = limits.drawn([both[0], other])
    assert "exponentials, 3.00 × (H100 ÷ H200)" in computes


def test_what_limits_mean_is_told_of_each_gpu_that_has_them():
    both = registry.entries()[0]
    told = limits.meanings(both)
    for one, gpu in zip(both, points.names(both), strict=True):
        roofs = one.record.roofs
        flops = number(roofs["matmul bf16"].per_second / roofs["hbm"].per_second)
        assert f"{flops} ({gpu})" in told
        exp = number(roofs["matmul bf16"].per_second / roofs["exp"].per_second)
        for shown in (both, [one]):
            assert f"- **One exponential takes as long as {exp} bf16 matmul FLOPs**; a score" in limits.meanings(shown)
    assert told.count("FLOPs per byte from HBM") == told.count("matmul FLOPs") == 1
    assert "(H" not in limits.meanings(both[:1])
    assert limits.meanings([replace(both[0], record=replace(both[0].record, roofs={}))]) == ""


@pytest.mark.parametrize("narrow", [False, True])
def test_bars_of_loads_and_of_hbm_have_one_scale(narrow):
    (one,) = shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    plan = PLANS["levels"]
    drawn = asked.bars(plan, one, "flash_attention", narrow=narrow)
    runs = list(points.measured_sizes(plan, shown, "flash_attention"))
    bar = r'width="([\d.]+)" height="16.00" fill="'
    wide = {
        fill: [float(x) for x in re.findall(bar + re.escape(palette.mid(fill)), drawn)] for fill in ("slate", "hbm")
    }
    reads = [SHIPPED.point(run).counters.cold.dram_read_bytes or 0 for run in runs]
    assert len(wide["slate"]) == len(wide["hbm"]) == len(runs) == 3
    once = [points.inputs_once(run) for run in runs]
    scale = wide["slate"][0] / runs[0].traffic.read_bytes * once[0]
    loads = [run.traffic.read_bytes for run in runs]
    assert wide["slate"] == pytest.approx([scale * own / of for own, of in zip(loads, once, strict=True)], abs=0.02)
    assert wide["hbm"] == pytest.approx([scale * own / of for own, of in zip(reads, once, strict=True)], abs=0.02)
    assert drawn.count("stroke-dasharray") == len(runs)
    hollow = f'fill="{palette.CLEAR}" fill-opacity="1" stroke="{palette.mid("hbm")}"'
    assert drawn.count(hollow) == len(runs) + 1  # standard attention, and the key
    spilt = [p for run in runs if (p := SHIPPED.point(run)) and p.counters and p.counters.cold.spill_written_bytes]
    assert drawn.count("; the extra: probably spills)<") == len(spilt) == 1
    for run in runs:
        beside = next(p for p in SHIPPED.points.values() if p.experiment.kernel == "attention_standard"
                      and points.work(p.experiment) == points.work(run) and p.counters)  # fmt: skip
        assert ratio((beside.counters.cold.dram_read_bytes or 0) / points.inputs_once(run)) in drawn
        took = duration(beside.seconds or 0)
        point = SHIPPED.point(run)
        assert point
        assert f">memory it allocates: {moved(point.peak_bytes or 0)}" in drawn
        assert f"(standard attention: {moved(beside.peak_bytes or 0)})<" in drawn
        assert (f">(standard attention {took})<" if narrow else f">{took}<") in drawn
    assert f"standard attention: {'' if narrow else 'time, '}bytes from HBM" in drawn
    assert (">time</text>" in drawn) != narrow
    assert ">1 × = every input read once<" in drawn
    assert "bytes from HBM" not in asked.bars(plan, one, "softmax_safe", narrow=narrow)
    bold = re.findall(r'<text[^>]*font-weight="650"[^>]*>([^<]*)<', drawn)
    titles = [words for words in bold if not re.search(r"\d [mµ]s|× \(", words)]
    assert " ".join(titles) == findings.loaded_and_delivered(plan, one, "flash_attention")
    assert len(titles) <= 2 or narrow
    assert asked.bars(plan, one, "") == ""  # several kernels
    many = asked.bars(PLANS["sweeps"], one, "flash_attention")
    every = points.measured_sizes(PLANS["sweeps"], shown, "flash_attention")
    assert f"{asked.ROWS} of {len(every)} runs, by how often each byte is loaded" in many
    milakov = PLANS["milakov"]
    alike = asked.bars(milakov, one, "softmax_naive")
    assert "runs, from the smallest to the largest" in alike
    without = replace(SHIPPED, points={})
    assert asked.bars(plan, replace(one, record=without), "flash_attention") == ""


@pytest.mark.parametrize("narrow", [False, True])
def test_no_words_of_bars_leave_their_picture(narrow):
    one = registry.entries()[0][0]
    seen = 0
    for plan in points.plans([one]).values():
        for kernel in points.kernels(plan, [one]):
            for draw in (asked.bars, asked.rates):
                drawn = draw(plan, one, kernel, narrow=narrow)
                for x, y, rest, words in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*)<', drawn):
                    across, tall = (float(end) for end in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
                    wide = text_width(html.unescape(words), bold="font-weight" in rest)
                    assert float(x) + wide <= across + 1, words
                    assert float(y) < tall
                    seen += 1
    assert seen > 1000


@pytest.mark.parametrize("narrow", [False, True])
def test_bars_of_rates_stand_beside_a_matmul_in_their_own_arithmetic(narrow):
    (one,) = shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    plan = PLANS["rungs"]
    for kernel in ("rung:naive_fp32", "rung:overlapped", "torch:cudnn"):
        drawn = asked.rates(plan, one, kernel, narrow=narrow)
        found = [known for run in points.measured_sizes(plan, shown, kernel) if (known := run_of(SHIPPED, run))]
        assert 0 < len(found) <= asked.ROWS
        bars = [float(x) for x in re.findall(r'width="([\d.]+)" height="16.00"', drawn)]
        times, wide = ([], bars) if narrow else (bars[::2], bars[1::2])
        longest = max(known.seconds for known in found)
        assert times == pytest.approx([] if narrow else [asked.TIMES * k.seconds / longest for k in found], rel=0.01)
        rates = [known.experiment.traffic.flops_of("matmul") / known.seconds for known in found]
        assert wide == pytest.approx([wide[0] * rate / rates[0] for rate in rates], rel=0.01)
        for known, rate in zip(found, rates, strict=True):
            assert f"({percent(rate / known.peak)})" in drawn
            assert f"{known.arithmetic} {si(known.peak, 'FLOP/s', zeros=True)}" in drawn
    assert asked.rates(plan, one, "", narrow=narrow) == ""  # several kernels
    assert asked.rates(PLANS["levels"], one, "softmax_naive", narrow=narrow) == ""  # without a matmul
    assert asked.rates(plan, replace(one, record=replace(SHIPPED, roofs={})), kernel, narrow=narrow) == ""


def test_a_dot_per_row_shows_two_gpus_ratio():
    shown = registry.entries()[0][:2]
    plan = PLANS["levels"]
    rows = [row for row in tables.rows(plan, shown, points.TIME) if row.get(tables.BESIDE)]
    drawn = beside.dots(plan, shown, points.TIME, "")
    assert len(re.findall("<(?:circle|polygon)[^>]*><title>", drawn)) == len(rows)
    assert f"{ratio(two_gpus.bandwidths(shown) or 0)}: if it only copied in HBM" in drawn
    assert f"{ratio(two_gpus.bandwidths(shown, 'hbm') or 0)}: if it only read HBM" in drawn
    assert "if it only" not in beside.dots(plan, shown, points.READ, "")
    alike = [float(row[tables.BESIDE] or 0) for row in tables.rows(plan, shown, points.READ, "flash_attention")]
    assert all(abs(factor - 1) < two_gpus.ALIKE for factor in alike)
    assert beside.dots(plan, shown, points.READ, "flash_attention") == ""
    assert beside.dots(plan, shown[:1] * 2, "tensor cores busy, %", "softmax_online") == ""
    assert beside.dots(plan, shown[:1] * 2, points.TIME, "").count(">1 ×</text>") == 2  # alike, on both scales
    many = tables.rows(PLANS["sweeps"], shown, points.TIME, "flash_attention")
    assert len(many) > beside.LINES
    folded = beside.dots(PLANS["sweeps"], shown, points.TIME, "flash_attention", narrow=True)
    assert folded.count("<circle") == len(many)
    assert KERNELS["flash_attention"].title in folded


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_a_kernels_few_sizes_have_a_line_each_with_three_digits_below_what_they_show(narrow, order):
    shown = registry.entries()[0][:2][::order]
    (first, second), plan = points.names(shown), PLANS["levels"]
    drawn = beside.dots(plan, shown, points.TIME, "flash_attention", narrow=narrow)
    factors = [float(row[tables.BESIDE] or 0) for row in tables.rows(plan, shown, points.TIME, "flash_attention")]
    told = [f"{factor:.3f} ×" for factor in factors]
    assert len({*told}) == len(told)
    assert drawn.count("<circle") == len(told)
    assert all(f">{one}</text>" in drawn for one in told)
    assert (f">{second} ÷ {first}</text>" in drawn) != narrow
    row = next(iter(tables.rows(plan, shown, points.TIME, "flash_attention")))
    took = [duration(float(row[column] or 0) / 1e6) for column in tables.gpu_columns(shown, points.TIME)]
    assert (f">{first} {took[0]}, {second} {took[1]}<" if narrow else f">{took[0]}<") in drawn
    bold = " ".join(html.unescape(words) for words in re.findall(r'font-weight="650"[^>]*>([^<]*)<', drawn))
    conclusion = two_gpus.concluded(plan, shown, "flash_attention")
    assert bold.startswith(conclusion)
    assert conclusion.startswith("Same time on both GPUs, within 3%: HBM that is over 1.4 × as fast does not help ")


@pytest.mark.parametrize("narrow", [False, True])
def test_a_kernel_that_gains_more_than_hbm_allows_has_the_reason_beside_its_dots(narrow):
    shown, plan = registry.entries()[0][:2], PLANS["levels"]
    more = two_gpus.reads_more(plan, shown)
    assert more == {"Safe softmax, three passes": "H100 reads 9% more"}
    assert two_gpus.reads_more(plan, shown[::-1]) == more
    drawn = beside.dots(plan, shown, points.TIME, "", narrow=narrow)
    assert all(f"{said}<" in drawn for said in more.values())
    factors = [
        float(row[tables.BESIDE] or 0)
        for row in tables.rows(plan, shown, points.TIME)
        if row["kernel"] == "Naive softmax"
    ]
    assert ratios(factors) in drawn  # also on a phone


@pytest.mark.parametrize("narrow", [False, True])
def test_every_time_of_one_gpu_has_a_mark_and_the_largest_difference_is_the_title(narrow):
    shown, plan = registry.entries()[0][:1], PLANS["levels"]
    rows = tables.rows(plan, shown, None)
    drawn = beside.times(plan, shown, narrow=narrow)
    assert len(re.findall("<(?:circle|polygon)[^>]*><title>", drawn)) == sum(bool(row.get(points.TIME)) for row in rows)
    assert {"1 ms", "10 ms"} <= {*re.findall(">([^<]*)</text>", drawn)}
    assert duration(max(float(row[points.TIME] or 0) for row in rows) / 1e6) in drawn
    first, *others = slowest.pairs(plan, shown[0])
    assert all(pair.factor <= first.factor for pair in others)
    assert points.work(first.slow) == points.work(first.fast)
    alike = [run for run in plan.experiments if points.work(run) == points.work(first.slow)]
    same = [p.seconds for run in alike if run.entry.outputs[0] == "o" and (p := SHIPPED.point(run)) and p.seconds]
    assert first.factor == max(same) / min(same)
    bold = " ".join(html.unescape(words) for words in re.findall(r'font-weight="650"[^>]*>([^<]*)<', drawn))
    assert bold.startswith(slowest.title(plan, shown[0]))
    assert slowest.told(plan, shown[0]).count("\n- ") == 1 + len(others)
    nothing = [replace(shown[0], record=replace(shown[0].record, points={}))]
    assert beside.times(plan, nothing) == slowest.told(plan, nothing[0]) == ""


def test_near_marks_stand_below_each_other_and_equal_ones_in_one_place():
    assert beside._offsets([10.0, 50.0]) == [0.0, 0.0]
    assert beside._offsets([10.0, 10.0, 11.0]) == [0.0, 0.0, 0.0]
    assert beside._offsets([10.0, 10.0, 14.0]) == [-beside.APART / 2, -beside.APART / 2, beside.APART / 2]


def test_two_kernels_that_compute_the_same_are_drawn_beside_each_other():
    shown = registry.entries()[0][:1]
    plan = PLANS["times"]
    pairs = findings.pair(plan, shown)
    assert len(pairs) == 8
    drawn = beside.pair(plan, shown)
    assert drawn.count("<circle") == 2 * len(pairs) + 2  # bytes and time, and the key
    slow, fast = pairs[-1]
    assert slow.seconds
    assert fast.seconds
    assert f"{ratio(slow.seconds / fast.seconds)}</title>" in drawn
    assert beside.pair(PLANS["levels"], shown) == ""
    narrow = beside.pair(plan, shown, narrow=True)
    titles = re.findall(r"<text[^>]*>([^<]*(?:÷|log)[^<]*)</text>", narrow)
    assert titles
    assert all(text_width(html.unescape(title), bold=True) <= beside.NARROW for title in titles)


def test_ticks_are_round_and_inside_their_axis():
    for ends in (
        (0.94, 1.41), (1.0, 1.0), (0.5, 30.0), (0.999, 1.0004), (0.98, 1.02), (1e-3, 0.9), (0.3, 77.8), (1.0, 8.1)
    ):  # fmt: skip
        low, high = beside._scale(*ends)
        assert low <= ends[0] <= ends[1] <= high
        ticks = beside._ticks(low, high)
        assert 2 <= len({ratio(tick) for tick in ticks}) == len(ticks) <= 6
        assert low - 1e-9 <= ticks[0] <= ticks[-1] <= high + 1e-9


def test_kernels_of_one_kind_stand_below_its_name():
    shown = registry.entries()[0][:1]
    plan = PLANS["levels"]
    titles = [KERNELS[kernel].title for kernel in points.kernels(plan, shown)]
    found = re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>([^<]*)</text>', beside.once(plan, shown))
    words = [html.unescape(said) for _, said in sorted(found, key=lambda one: float(one[0]))]
    kinds = points.groups(plan, shown)
    heads = {begun(kind): kind for kind in kinds.values()}
    below = ""
    for said in words:
        below = heads.get(said, below)
        assert said not in titles or kinds[said] == below
    assert {*heads} <= {*words}
    assert not {*heads} & {*re.findall(r"<text[^>]*>([^<]*)<", beside.once(plan, shown, largest=points.OF_ONCE))}
