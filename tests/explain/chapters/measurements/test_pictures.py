"""The page's pictures: limits, bars of loads and HBM, and a dot for each row."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from explain.chapters.measurements import asked, beside, findings, limits, points
from explain.chapters.measurements.exercises import run_of
from explain.figures import palette
from explain.figures.labels import text_width
from explain.figures.numbers import percent, ratio, si
from explain.figures.plot import FONT
from explain.records import registry
from explain.records.plans import PLANS
from kernels.catalog import KERNELS
from tests.explain.records.made import SHIPPED


def test_a_bars_number_stands_before_it_and_the_datasheets_at_its_own_mark():
    for shown in (registry.entries()[0][:1], registry.entries()[0]):
        for figure in limits.bars(shown):
            bars, marks, words = figure.data
            unit = figure.layout.meta
            before = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
            assert bars.text is None
            assert len(bars.y) == sum(roof.unit == unit for one in shown for roof in one.record.roofs.values())
            for place, rate, stated, told in zip(bars.y, bars.x, marks.x, words.text, strict=True):
                assert before[place].endswith(f"\u2002<b>{si(rate, unit, zeros=True)}</b>")
                assert (f"% of {si(stated, unit)}" in told) if stated else told == ""


def test_a_limit_has_one_colour_whichever_gpus_are_shown_and_each_bar_of_two_names_its_gpu():
    alone, beside = limits.bars(registry.entries()[0][:1]), limits.bars(registry.entries()[0])
    for one, two in zip(alone, beside, strict=True):
        hues = one.data[0].marker.line.color
        assert two.data[0].marker.line.color == tuple(hue for hue in hues for _ in registry.entries()[0])
        assert two.data[0].marker.color[::2] == hues
        assert set(two.data[0].marker.color[1::2]) == {palette.CLEAR}
        gpus = [re.findall(r"(H\d00)\u2002", text) for text in two.layout.yaxis.ticktext]
        assert gpus == [["H200"], ["H100"]] * len(hues)


def test_a_plot_of_two_gpus_says_what_differs_most_and_by_how_much():
    first, second = (one.record for one in registry.entries()[0])
    moves, computes = (figure.layout.title.text.replace("<br>", " ") for figure in limits.bars(registry.entries()[0]))
    factor = first.roofs["hbm"].per_second / second.roofs["hbm"].per_second
    assert moves == f"Largest measured difference: HBM, read, {ratio(factor)} (H200 ÷ H100)"
    assert "the GPUs are at most" in computes
    faster = replace(second.roofs["exp"], per_second=3 * first.roofs["exp"].per_second)
    other = replace(registry.entries()[0][1], record=replace(second, roofs={**second.roofs, "exp": faster}))
    _, computes = limits.bars([registry.entries()[0][0], other])
    assert "exponentials" in computes.layout.title.text
    assert "3.00 × (H100 ÷ H200)" in computes.layout.title.text.replace("<br>", " ")


def test_a_longest_bar_fills_its_axis_and_its_words_have_room_beside_it():
    for shown in (registry.entries()[0][:1], registry.entries()[0]):
        for figure in limits.bars(shown):
            drawn = [trace for trace in figure.data if trace.x]
            longest = max(end for trace in drawn for end in trace.x if end)
            assert longest > 0.95 * figure.layout.xaxis.range[1]
            for trace in drawn:
                for end, words in zip(trace.x, trace.text or (), strict=False):
                    spare = (1 - end / longest) * limits.NARROWEST + figure.layout.margin.r
                    assert text_width(re.sub("<.*?>", "", words), FONT) < spare


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
    assert drawn.count("stroke-dasharray") == len(runs) + 1  # each input once, and the key
    assert drawn.count(f'stroke="{palette.mid("hbm")}"') == len(runs) + 1  # open: standard attention, and the key
    for run in runs:
        beside = next(p for p in SHIPPED.points.values() if p.experiment.kernel == "attention_standard"
                      and points.work(p.experiment) == points.work(run) and p.counters)  # fmt: skip
        assert ratio((beside.counters.cold.dram_read_bytes or 0) / points.inputs_once(run)) in drawn
    assert "HBM delivers to standard attention" in drawn
    assert "HBM delivers to" not in asked.bars(plan, one, "softmax_safe", narrow=narrow)
    assert asked.bars(plan, one, "") == ""  # several kernels
    many = asked.bars(PLANS["sweeps"], one, "flash_attention")
    every = points.measured_sizes(PLANS["sweeps"], shown, "flash_attention")
    assert f"{asked.ROWS} of {len(every)} rows, by how often each byte is loaded" in many
    milakov = PLANS["milakov"]
    alike = asked.bars(milakov, one, "softmax_naive")
    assert "rows, from the smallest to the largest" in alike
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
    rows = [row for row in points.rows(plan, shown, points.TIME) if row.get(points.BESIDE)]
    drawn = beside.dots(plan, shown, points.TIME, "")
    assert drawn.count("<circle") == len(rows)
    assert f"{ratio(findings.bandwidths(shown) or 0)}: HBM, copied" in drawn
    assert f"{ratio(findings.bandwidths(shown, 'hbm') or 0)}: HBM, read" in drawn
    assert "HBM, copied" not in beside.dots(plan, shown, points.READ, "")
    alike = [float(row[points.BESIDE] or 0) for row in points.rows(plan, shown, points.READ, "flash_attention")]
    assert all(abs(factor - 1) < findings.ALIKE for factor in alike)
    assert beside.dots(plan, shown, points.READ, "flash_attention") == ""
    assert beside.dots(plan, shown[:1] * 2, "tensor cores busy, %", "softmax_online") == ""
    assert beside.dots(plan, shown[:1] * 2, points.TIME, "").count(">1.00 ×</text>") == 1  # all are the same
    many = points.rows(PLANS["sweeps"], shown, points.TIME, "flash_attention")
    assert len(many) > beside.LINES
    folded = beside.dots(PLANS["sweeps"], shown, points.TIME, "flash_attention", narrow=True)
    assert folded.count("<circle") == len(many)
    assert KERNELS["flash_attention"].title in folded


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_a_kernels_few_sizes_have_a_bar_each_from_0_beside_the_first_gpu_and_hbm(narrow, order):
    shown = registry.entries()[0][:2][::order]
    (first, second), plan = points.names(shown), PLANS["levels"]
    drawn = beside.dots(plan, shown, points.TIME, "flash_attention", narrow=narrow)
    factors = [float(row[points.BESIDE] or 0) for row in points.rows(plan, shown, points.TIME, "flash_attention")]
    wide = [float(x) for x in re.findall(r'<rect [^>]*?width="([\d.]+)"', drawn)]
    assert wide == pytest.approx([wide[0] * factor / factors[0] for factor in factors], abs=0.02)
    assert f"Time, {second} ÷ {first}" in drawn
    assert all(f">{ratio(factor)}</text>" in drawn for factor in factors)
    marks = [findings.bandwidths(shown) or 0, findings.bandwidths(shown, "hbm") or 0, 1.0]
    left = float(re.findall(r'<rect x="([\d.]+)"', drawn)[0])
    lines = sorted(float(x) for x in re.findall(r'<line x1="([\d.]+)"', drawn))
    assert lines == pytest.approx(sorted(left + wide[0] * mark / factors[0] for mark in marks), abs=0.2)
    words = re.findall(r'<text x="([\d.]+)" [^>]*text-anchor="(\w+)"[^>]*>([^<]*)<', drawn)
    across = float(re.findall(r'viewBox="0 0 ([\d.]+)', drawn)[0])
    for x, anchor, told in words:
        assert (float(x) <= across + 1) if anchor == "end" else (float(x) + text_width(told) <= across + 1)
    assert "<circle" in beside.dots(plan, shown, points.TIME, "")  # all kernels
    far = beside.dots(PLANS["sweeps"], shown, points.TIME, "flash_attention")
    assert "<circle" in far  # more sizes than bars


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
