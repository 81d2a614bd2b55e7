"""A sweep's pictures and sentences: labels that do not overlap, numbers in words, a table and a file of every point."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from explain.chapters.sweeps import exercises, figures, model, roofline, sentences, steps
from explain.chapters.sweeps.analysis import curve, roofline_points, slope
from explain.chapters.sweeps.model import READY, SPILLED, Reading, Sweep, formula
from explain.experiment import Experiment
from explain.figures import numbers
from explain.figures.labels import text_width
from explain.figures.phone import SIZE, narrowed
from explain.figures.plot import FONT, TITLE_WIDE, titled
from explain.gpus import card
from explain.records import registry
from explain.records.model import Roof
from kernels.catalog import TAUGHT

PAIR = ("attention_standard", "flash_attention")
SWEEP = Sweep.of(PAIR, "seq_len", [64, 128, 256, 512], {"head_dim": 64, "dtype": "fp16"})
ROOFS = {
    roof.level: roof
    for roof in (
        Roof("shared", 30e12, "B/s", "s"), Roof("l2", 9e12, "B/s", "l"), Roof("hbm", 4e12, "B/s", "h"),
        Roof("matmul fp16", 7e14, "FLOP/s", "m"),
    )
}  # fmt: skip


def measured(sweep: Sweep = SWEEP, **bytes: float) -> list[Reading]:
    """Readings of a GPU: FLOPs at 100 TFLOP/s, and bytes as shares of the formula's."""
    found = []
    for experiment in sweep.experiments:
        said = formula(experiment)
        counts = {level: int(share * said.bytes["asked"]) for level, share in bytes.items()}
        found.append(Reading(experiment, "hardware", counts, said.flops, said.flops / 1e14, "", "a GPU"))
    return found


def test_labels_at_one_height_move_apart():
    half = figures.LABEL_PIXELS / 2
    assert figures.shifts({"a": 0.0, "b": 100.0}) == {"a": 0.0, "b": 0.0}
    assert figures.shifts({"a": 0.0, "b": 0.0}) == {"a": -half, "b": half}
    moved = figures.shifts({"a": 20.0, "b": 0.0}, high=18.5)
    assert 20 + moved["a"] + half <= 18.5
    assert 20 + moved["a"] - moved["b"] == pytest.approx(2 * half)


def test_a_long_title_has_lines_and_room_for_them():
    short, long = (figures.growth(SWEEP, measured(asked=1.0), "seconds") for _ in "ab")
    before = short.layout.height, short.layout.margin.t
    titled(long, "a title of many words " * 6)
    lines = long.layout.title.text.split("<br>")
    assert len(lines) > 1
    assert all(text_width(line, FONT + 1, bold=True) <= TITLE_WIDE for line in lines)
    more = (len(lines) - 1) * FONT
    assert long.layout.height - before[0] > more < long.layout.margin.t - before[1]


def test_a_kernels_line_marker_and_label_have_one_full_colour():
    four = (*PAIR, "flash_attention_exp2", "flash_attention_v1")
    sweep = Sweep.of(four, "seq_len", [64, 128, 256], {"head_dim": 64, "dtype": "fp16"})
    figure = figures.growth(sweep, measured(sweep, hbm=1.0), "hbm")
    labels = "".join(one.text for one in figure.layout.annotations)
    for kernel in four:
        (line,) = (one for one in figure.data if one.name == figures.name_of(kernel))
        assert line.opacity is None
        assert line.line.color == line.marker.color
        assert f"color:{line.line.color}" in labels


def test_the_kernels_of_the_title_are_drawn_strong_and_curves_on_each_other_share_their_width():
    four = (*PAIR, "flash_attention_exp2", "flash_attention_v1")
    sweep = Sweep.of(four, "seq_len", [64, 128, 256, 512], {"head_dim": 64, "dtype": "fp16"})
    figure = figures.growth(sweep, measured(sweep, asked=1.0), "asked")
    lines = {one.name: one for one in figure.data if one.mode == "lines+markers"}
    standard, flash, exp2, first = (lines[figures.name_of(kernel)] for kernel in four)
    assert standard.line.width == flash.line.width == exp2.line.width > first.line.width
    assert next(iter(lines.values())) is first  # below the others
    assert (flash.line.dash, exp2.line.dash) == ("solid", "10px,10px")  # its gaps show the other
    assert [bool(one) for one in flash.marker.size] == [not one for one in exp2.marker.size]
    labels = {one.text.partition("</span> ")[2] for one in figure.layout.annotations}
    assert labels == {f"<b>{figures.name_of(one)}</b>" for one in PAIR} | {figures.name_of(one) for one in four[2:]}


@pytest.mark.parametrize("many", [2, 3])
def test_of_curves_on_each_other_each_has_a_piece_and_single_points_are_all_seen(many):
    kernels = ("softmax_safe", "softmax_online", "softmax_row")[:many]
    for values in ([256, 512, 1024, 2048, 4096, 8192], [256]):
        sweep = Sweep.of(kernels, "cols", values)
        curves = {kernel: dict.fromkeys(sweep.values, 1.0) for kernel in kernels}
        drawn = [figures._drawn(kernel, curves, True, False) for kernel in sweep.kernels]
        assert len({width for width, _, _ in drawn}) == 1
        shown = [many if dash == "solid" else int(dash.partition("px")[0]) / figures.DASH for *_, dash in drawn]
        assert shown == [*range(many, 0, -1)]  # each leaves a piece of the one below
        sizes = [size for _, size, _ in drawn]
        if len(values) > 1:
            assert all(sum(map(bool, column)) == 1 for column in zip(*sizes, strict=True))
        else:
            assert sizes == sorted(sizes, reverse=True)
            assert len(set(sizes)) == many


def test_a_dotted_line_begins_at_a_value_inside_its_plot():
    readings = [
        replace(one, seconds=max(1e-3, one.flops / 1e11)) for one in measured(asked=1.0)
    ]  # as launching takes: at small sizes far above the FLOPs
    figure = figures.growth(SWEEP, readings, "seconds")
    low = 10 ** figure.layout.yaxis.range[0]
    dotted = [line for line in figure.data if line.line.dash == "dot" and line.x[0] is not None]
    assert len(dotted) == 2
    for kernel, line in zip(PAIR, dotted, strict=True):
        assert min(line.y) > low
        known = figures.theory(SWEEP, readings, kernel, "seconds")
        assert list(line.x) == [value for value in SWEEP.values if known[value] > low] != list(SWEEP.values)


def test_all_points_have_a_unit_in_the_head_of_each_column_and_even_digits():
    rows = figures.points_table(SWEEP, measured(hbm=1.0)).splitlines()
    heads, *cells = ([cell.strip() for cell in row.strip("| ").split("|")] for row in [rows[0], *rows[2:]])
    assert heads[2:] == ["bytes at HBM, kB", "MFLOP", "time, ns", "TFLOP/s"]
    last = formula(SWEEP.at(PAIR[1], 512))
    assert float(cells[-1][2].replace(",", "")) == pytest.approx(last.bytes["asked"] / 1e3, abs=0.5)
    for column in list(zip(*cells, strict=True))[2:]:
        assert len({len(cell.partition(".")[2]) for cell in column}) == 1
    assert figures.points_table(SWEEP, [replace(one, bytes={"hbm": 0}) for one in measured()])  # nothing moved


def test_a_theory_that_is_a_polynomial_is_stated_as_one():
    assert figures.polynomial("N", {x: 3 * x * x + 40 * x for x in (64.0, 128.0, 256.0)}) == "3 N² + 40 N"
    assert figures.polynomial("N", {64.0: 1.0, 128.0: 2.5, 256.0: 4.0}) == ""
    assert figures.polynomial("d", {x: 3 * x + 512 for x in (64.0, 128.0, 256.0)}) == "3 d + 512 B"
    assert figures.polynomial("batch", {x: 142_606_336 * x for x in (1.0, 2.0, 4.0)}) == "143 MB × batch"


def test_no_two_kernels_are_called_alike():
    names = [figures.name_of(kernel) for kernel in TAUGHT]
    assert len(set(names)) == len(names)
    assert figures.name_of("flash_attention") == "FlashAttention-2"


@pytest.mark.parametrize("what", ["asked", "seconds"])
def test_a_figure_has_a_curve_and_its_theory_for_each_kernel(what):
    figure = figures.growth(SWEEP, measured(asked=1.0), what)
    dotted = [line for line in figure.data if line.line.dash == "dot" and line.x[0] is not None]
    curves = [line for line in figure.data if line.mode == "lines+markers"]
    assert len(dotted) == len(curves) == 2
    for theory, drawn in zip(dotted, curves, strict=True):
        assert list(theory.y) == pytest.approx(list(drawn.y))  # as these readings were made
    labels = [note.text.partition("</span> ")[2] for note in figure.layout.annotations]
    assert [label for label in labels if label] == [*map(figures.name_of, PAIR)]
    powers = [slope(dict(zip(map(float, drawn.x), drawn.y, strict=True))) for drawn in curves]
    table = figures.slopes(SWEEP, measured(asked=1.0), what)
    assert all(f"**N<sup>{power:.2f}</sup>**" in table for power in powers)


def test_values_that_are_no_numbers_are_bars():
    sweep = READY["Attention: without and with the causal mask"]
    figure = figures.growth(sweep, measured(sweep, hbm=1.0), "hbm")
    assert [bar.type for bar in figure.data] == ["bar", "bar"]
    assert len(set(figure.data[0].x)) == 2
    [told] = sentences.crossings(sweep, measured(sweep, hbm=1.0), ["hbm"])
    above, below = (curve(sweep, measured(sweep, hbm=1.0), kernel, "hbm") for kernel in PAIR)
    assert all(numbers.ratio(above[value] / below[value]) in told for value in sweep.values)


def test_a_sweep_over_the_tile_names_the_fastest_of_each_kernel():
    sweep = READY["Attention: query tile from 16 to 128"]
    readings = measured(sweep, hbm=1.0)
    found = figures.fastest(sweep, readings)
    assert set(found) == set(sweep.kernels)
    for kernel, best in found.items():
        times = curve(sweep, readings, kernel, "seconds")
        assert times[best] == min(times.values())
    assert figures.fastest(SWEEP, measured(asked=1.0)) == {}


def test_where_two_kernels_cross_is_said_with_how_far_apart_they_end():
    (bytes_said, time_said) = sentences.crossings(SWEEP, measured(asked=1.0), ["asked", "seconds"])
    ends = [formula(SWEEP.at(kernel, 512)) for kernel in PAIR]
    times = numbers.ratio(ends[0].bytes["asked"] / ends[1].bytes["asked"])
    assert f"**{times}** as many bytes" in bytes_said
    assert bytes_said != time_said
    assert sentences.crossings(Sweep.of(PAIR[::-1], "seq_len", [64, 128]), [], ["asked"]) == []


def test_a_crossing_between_two_points_is_said_with_its_place():
    readings = measured(asked=1.0)
    slow = [
        Reading(r.experiment, "hardware", {}, r.flops, 1e-3 if r.experiment.kernel == "flash_attention" else n * 1e-5,
        "", "")
        for r in readings
        for n in [r.experiment.values["seq_len"]]
    ]  # fmt: skip
    (sentence,) = sentences.crossings(SWEEP, slow, ["seconds"])
    assert "**N = 128**" in sentence  # the first measured length, and the interpolated crossing beside it
    assert "N ≈ 100" in sentence


def test_registers_that_spill_are_named_with_where_and_how_much():
    readings = [
        Reading(e, "hardware", {SPILLED: 3 * 10**9 if e.values["seq_len"] > 128 and e.kernel == "flash_attention"
        else 0}, 1, 1.0, "", "")
        for e in SWEEP.experiments
    ]  # fmt: skip
    (sentence,) = sentences.spills(SWEEP, readings)
    for said in ("N = 256 and 512", "FlashAttention-2", "up to 3 GB"):
        assert said in sentence


def test_the_theory_of_time_meets_the_last_point_that_spills_nothing():
    readings = []
    for one in measured():
        spills = one.experiment.values["seq_len"] > 128
        readings.append(replace(one, bytes={SPILLED: int(spills)}, seconds=(one.seconds or 0.0) * (9 if spills else 1)))
    for kernel in PAIR:
        known = figures.theory(SWEEP, readings, kernel, "seconds")
        times = curve(SWEEP, readings, kernel, "seconds")
        assert known[128] == times[128]
        assert known[512] == pytest.approx(times[512] / 9)
    all_spill = [replace(reading, bytes={SPILLED: 1}) for reading in readings]
    assert figures.theory(SWEEP, all_spill, PAIR[0], "seconds") == {}


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "a cache answers these repeats in "),
        (0.3, "30% of these repeats reach HBM in "),
        (0.7, "70% of these repeats reach HBM in "),
        (1.0, "all these repeats reach HBM in "),
    ],
)
def test_where_elements_come_from_again_is_told_by_their_share(share, said):
    readings = []
    for one in measured(asked=1.0):
        least, asked = model.once_per_launch(one.experiment), one.bytes["asked"]
        readings.append(replace(one, bytes={"hbm": round(least + share * (asked - least))}))
    (between, repeats) = sentences.again(SWEEP, readings)
    assert said in repeats
    assert repeats.count("%") == (0 < share < 1)  # one number for all kernels that share it
    assert between.count("its next launch reads them") == 1  # FlashAttention-2 has one launch
    assert "the N\u00a0×\u00a0N scores S and weights P to HBM" in between
    assert ("most of its bytes" in between) == (share < figures.PARTLY)


def test_repeats_are_told_by_kernel_and_what_l2_keeps_between_launches_is_not_told_as_hbm():
    readings = []
    for one in measured(asked=1.0):
        least, asked = model.once_per_launch(one.experiment), one.bytes["asked"]
        flash = one.experiment.kernel == "flash_attention"
        readings.append(replace(one, bytes={"hbm": asked if flash else least // 2}))
    (sentence,) = sentences.again(SWEEP, readings)
    assert "At N = 512, all these repeats reach HBM in FlashAttention-2." in sentence
    assert "In standard attention, a cache answers them." in sentence
    assert "next launch" not in sentence


def test_a_step_over_the_tile_is_shown_with_what_changes_there():
    record, sweep = registry.recorded(), READY["Attention: query tile from 16 to 128"]
    assert record is not None
    found = model.recorded(sweep, record)
    table = steps.steps(sweep, found, "seconds", card(record.gpu))
    times = curve(sweep, found, "flash_attention", "seconds")
    (row,) = (line for line in table.splitlines() if "FlashAttention-2 | 64 → 128" in line)
    assert numbers.ratio(times[128] / times[64]) in row
    assert "1,024<br>→ 512" in row  # the programs, of 16 heads and 4,096 queries
    assert "FLOPs" not in table  # they stay
    assert steps.steps(sweep, [formula(e) for e in sweep.experiments], "seconds", None) == ""
    assert steps.steps(SWEEP, measured(asked=1.0), "seconds", None) == ""  # they follow a power


def test_a_step_that_no_column_explains_is_told_so():
    record = registry.recorded()
    assert record is not None
    found = {}
    for name, sweep in READY.items():
        readings = model.recorded(sweep, record)
        found[name] = steps.unexplained(sweep, readings, "hbm", card(record.gpu))
    rows = found["Attention: query tile from 16 to 128"]
    assert "BLOCK_M 32 → 64: the columns above do not explain this jump" in rows[0]
    assert not found["Attention: length N from 128 to 16,384"]  # O no longer stays in L2
    assert not found["Softmax: length N from 256 to 131,072"]  # registers spill


def test_a_kernel_has_one_symbol_in_every_sweep_and_no_other_of_its_family_has_it():
    for family in ("attention", "softmax", "loss"):
        kernels = [name for name, entry in TAUGHT.items() if entry.family == family]
        assert len({figures._look(kernel)[1] for kernel in kernels}) == len(kernels)


def test_a_label_that_would_run_over_another_point_stands_right_of_all_points():
    first, last = roofline_points(measured(hbm=1.0), ROOFS)[-2:]
    for times, crowded in ((1, True), (30, False)):
        points = [
            replace(first, intensity=20.0, flops_per_second=1e13),
            replace(last, intensity=40.0, flops_per_second=times * 1e13),
        ]
        names = [figures.name_of(kernel) for kernel in PAIR]
        every = roofline.roofline(points, ROOFS).layout.annotations
        labels = [one for one in every if one.text.partition(":")[0] in names]
        assert [bool(one.showarrow) for one in labels] == [crowded] * 2
        assert all(10**one.ax > 40 for one in labels if one.showarrow)


@pytest.mark.parametrize("record", registry.shipped(), ids=lambda record: record.gpu)
def test_the_line_to_a_label_strikes_no_other_point(record):
    readings = model.recorded(READY["Softmax: length N from 256 to 131,072"], record)
    points = roofline_points([one for one in readings if one.experiment.values["cols"] == 16384], record.roofs)
    figure = roofline.roofline([point for point in points if point.level == "hbm"], record.roofs)
    lines = [one for one in figure.layout.annotations if one.showarrow]
    low, high = figure.layout.yaxis.range
    pixels = (roofline.HEIGHT - figures.TOP - figures.BOTTOM) / (high - low)
    apart = [(one, other) for one in lines for other in lines if other.x - one.x > 0.3]  # of a decade
    assert apart
    for one, other in apart:
        passes = one.y + (other.x - one.x) / (one.ax - one.x) * (one.ay - one.y)
        assert abs(passes - other.y) * pixels > roofline.DOT / 2


def test_a_point_that_is_left_out_is_told_with_what_was_asked_and_what_is_allowed():
    sweep = READY["Softmax: length N from 256 to 131,072"]
    (sentence,) = sentences.left_out(sweep)
    for said in ("whole-row softmax", "at N = 131,072", "its N must be a whole number from 1 to 65,536"):
        assert said in sentence
    assert "cols" not in sentence


def test_tiles_cross_at_a_tile_that_was_measured():
    tiles = Sweep.of(["flash_attention_v1", "flash_attention"], "block_m", [16, 32, 64], {"seq_len": 256})
    times = {("flash_attention_v1", 16): 1.0, ("flash_attention", 16): 1.1}
    readings = [
        Reading(e, "hardware", {}, 1, times.get((e.kernel, e.values["block_m"]), 2.0 - (e.kernel == "flash_attention")),
        "", "")
        for e in tiles.experiments
    ]  # fmt: skip
    (sentence,) = sentences.crossings(tiles, readings, ["seconds"])
    assert "**BLOCK_M = 32**" in sentence
    assert "≈" not in sentence


def test_the_file_has_every_point_and_says_what_is_not_known():
    readings = [*measured(asked=1.0), Reading(SWEEP.experiments[0], "trace", {}, 5, None, "it took too long", "t")]
    rows = list(csv.DictReader(io.StringIO(figures.as_csv(SWEEP, readings))))
    assert len(rows) == 9
    assert list(rows[0])[:2] == ["kernel", "seq_len"]
    assert rows[1]["kernel"] == "flash_attention"
    assert float(rows[1]["seconds"]) == readings[1].seconds
    assert int(rows[1]["bytes_asked"]) == readings[1].bytes["asked"]
    assert rows[1]["bytes_hbm"] == rows[-1]["seconds"] == rows[-1]["bytes_asked"] == ""
    assert rows[-1]["why"] == "it took too long"


@pytest.mark.parametrize(
    ("level", "rate", "said"),
    [("shared", 30e12, "shared memory 30 TB/s"), ("l2", 9e12, "L2 9 TB/s"), ("hbm", 4e12, "HBM, read 4 TB/s")],
)
def test_the_roofline_has_each_kernel_under_the_roofs_of_one_level(level, rate, said):
    points = roofline_points(measured(shared=4.0, l2=1.0, hbm=0.1)[-2:], ROOFS)
    own = [point for point in points if point.level == level]
    figure = roofline.roofline(own, ROOFS)
    assert figure.layout.xaxis.showgrid is figure.layout.yaxis.showgrid is False  # no line runs through a roof's label
    assert [line.x for line in figure.data if line.mode == "markers"] == [(point.intensity,) for point in own]
    words = [note.text for note in figure.layout.annotations]
    assert said in words
    assert any("700 TFLOP/s" in one for one in words)
    assert any("FlashAttention-2" in one for one in words)
    slopes = [
        line.y[0] / line.x[0]
        for line in figure.data
        if line.mode == "lines" and line.x[0] < line.x[1] and line.y[0] < line.y[1]
    ]
    assert slopes == pytest.approx([rate])


def test_the_rule_of_the_roofline_is_in_its_sentences():
    points = roofline_points(measured(shared=4.0, l2=1.0, hbm=0.1)[-2:], ROOFS)
    for slower in (1, 2, 3, 4, 8):
        slow = [
            replace(point, flops_per_second=point.flops_per_second / slower)
            for point in points
            if point.level != "shared" or slower < 3
        ]
        shares = {
            kernel: max(
                one.flops_per_second / roof
                for one in slow
                if one.reading.experiment.kernel == kernel
                for roof in (one.memory, one.compute)
                if roof
            )
            for kernel in PAIR
        }
        told = roofline.nearest(slow)
        for kernel, share in shares.items():
            (sentence,) = (one for one in told if figures.name_of(kernel) in one)
            assert ("Neither memory nor the matmuls" in sentence) == (share < figures.PARTLY)
            assert ("partly limit" in sentence) == (figures.PARTLY <= share < figures.MOSTLY)
            assert (f"reaches {numbers.percent(share)}" in sentence) == (share >= figures.PARTLY)
        away = roofline.nearest(slow, "hbm")
        assert ["to see that roof" in sentence for sentence in away] == [
            sentence.startswith(("**L2 ", "**Shared memory ")) for sentence in away
        ]
    assert f"| {100e12 / 7e14:.0%} |" in roofline.roofline_table(points)


def test_kernels_that_no_roof_limits_are_told_once():
    points = [replace(one, flops_per_second=1e12) for one in roofline_points(measured(hbm=0.1)[-2:], ROOFS)]
    both = " and ".join(figures.name_of(kernel) for kernel in PAIR)
    (told,) = roofline.nearest(points)
    assert told.startswith(f"**Neither memory nor the matmuls limit {both}.** They stay under 40% of every roof. (")
    (alone,) = roofline.nearest(points[-1:])
    assert "It stays under" in alone
    assert "Its warps" in alone
    (memory,) = roofline.nearest([replace(one, compute=None) for one in points])
    assert f"No roof here limits {both}" in memory  # the units were not measured


def test_on_a_phone_the_roofs_and_the_points_have_words_in_the_picture():
    points = [one for one in roofline_points(measured(hbm=0.1)[-2:], ROOFS) if one.level == "hbm"]
    points[0] = replace(points[0], intensity=points[1].intensity / 100)  # far from the other
    wide = roofline.roofline(points, ROOFS)
    shown = [note.text for note in wide.layout.annotations if note.visible is not False]
    small = [note for note in narrowed(wide).layout.annotations if note.visible]
    shares = {numbers.percent(point.flops_per_second / (point.roof or 1.0)) for point in points}
    assert {note.text for note in small} == {"HBM 4 TB/s", "matmuls in fp16 700 TFLOP/s", *shares}
    assert not shares & set(shown)
    assert {note.font.size for note in small} == {SIZE}
    crowd = [replace(one, intensity=100.0, flops_per_second=1e13) for one in points]
    texts = [note.text for note in narrowed(roofline.roofline(crowd, ROOFS)).layout.annotations]
    assert not any("%" in text for text in texts)  # no number stands at a point that could be another's


def test_on_a_phone_a_roofs_number_stands_where_it_has_room():
    sweep = Sweep.of(["softmax_safe"], "cols", [4096])
    points = roofline_points([replace(formula(e), bytes={"hbm": 10**6}, seconds=1e-5) for e in sweep.experiments], {})
    roofs = {"matmul fp32": Roof("matmul fp32", 5e13, "FLOP/s", "m"), "exp": Roof("exp", 4e12, "FLOP/s", "e")}
    for speed, said in ((1e13, "exponentials 4 T exp/s"), (4e11, "exponentials")):  # where its line is long, and short
        figure = roofline.roofline(points, {**roofs, "hbm": Roof("hbm", speed, "B/s", "h")})
        assert said in [note.text for note in narrowed(figure).layout.annotations]


def test_kernels_have_the_markers_of_the_curves_in_the_roofline():
    points = roofline_points(measured(hbm=0.1)[-2:], ROOFS)
    drawn = [line.marker.symbol for line in roofline.roofline(points, ROOFS).data if line.mode == "markers"]
    assert drawn == [figures.symbol_of(kernel) for kernel in PAIR]


def test_the_roofline_says_which_kernel_comes_closest_and_what_hbm_roof_was_reached_by():
    roofs = {**ROOFS, "hbm write": Roof("hbm write", 3e12, "B/s", "w")}
    points = [one for one in roofline_points(measured(hbm=0.1)[-2:], roofs) if one.level == "hbm"]
    figure = roofline.roofline(points, roofs)
    assert "HBM, read 4 TB/s" in [note.text for note in figure.layout.annotations]
    best = max(points, key=lambda one: one.flops_per_second / (one.roof or 1.0))
    assert f": {figures.name_of(best.reading.experiment.kernel)}, at " in roofline.takeaway(points)


def test_without_roofs_the_points_are_drawn_alone():
    points = roofline_points(measured(hbm=0.1)[-2:], {})
    figure = roofline.roofline(points, {})
    assert [line.mode for line in figure.data if line.x[0] is not None] == ["markers", "markers"]
    assert roofline.nearest(points) == []


def test_one_point_alone_can_be_drawn():
    sweep = Sweep.of(["softmax_row"], "cols", [64])
    readings = [formula(e) for e in sweep.experiments]
    assert len(figures.growth(sweep, readings, "asked").data) == 1  # a formula is not its own theory
    assert figures.slopes(sweep, readings, "asked") == ""
    assert Experiment.of("softmax_row", {"cols": 64}) == sweep.experiments[0]


def test_a_drop_over_the_key_tile_is_told_as_a_drop_and_not_as_what_leaves_l2():
    sweep, record = READY["Attention: key tile from 16 to 128"], registry.recorded()
    assert record is not None
    found = model.recorded(sweep, record)
    assert re.search("drops to 0\\.[0-9]+ × at BLOCK_N = 32", figures.slopes(sweep, found, "hbm"))
    assert "grows as" not in figures.takeaway(sweep, found, "hbm")
    drawn = figures.growth(sweep, found, "hbm")
    assert not any("no longer stay" in (one.text or "") for one in drawn.layout.annotations)
    assert sentences.jumps(sweep, found, card(record.gpu)) == []


def test_a_jump_over_the_query_tile_is_not_told_as_what_leaves_l2():
    sweep, record = READY["Attention: query tile from 16 to 128"], registry.recorded()
    assert record is not None
    found = model.recorded(sweep, record)
    assert "jumps" in figures.slopes(sweep, found, "hbm")
    assert sentences.jumps(sweep, found, card(record.gpu)) == []


def test_a_kernel_that_wins_only_from_a_length_on_is_told_with_both_sides_below_it():
    times = {64: (0.9, 1.0), 128: (1.2, 1.0), 256: (0.8, 1.0), 512: (3.0, 1.0)}
    readings = [
        Reading(e, "hardware", {}, 1, times[e.values["seq_len"]][PAIR.index(e.kernel)], "", "")
        for e in SWEEP.experiments
    ]
    (sentence,) = sentences.crossings(SWEEP, readings, ["seconds"])
    crosses = re.search("The curves cross at (N ≈ [0-9]+)", sentence)
    assert crosses
    assert sentence.endswith(f" Below {crosses[1]} neither is always faster.")
    close: dict[float | None, float | None] = {0.8: 0.98, 0.9: 0.97, 1.2: 1.04}
    near = [replace(one, seconds=close.get(one.seconds, one.seconds)) for one in readings]
    (sentence,) = sentences.crossings(SWEEP, near, ["seconds"])
    assert sentence.endswith("Below that they differ little: 0.97 to 1.04 ×.")


def test_a_source_with_times_alone_has_questions_about_them():
    shown = exercises.Shown(SWEEP, measured())
    asked = {one.name: one for one in exercises.QUESTIONS if one.asked(shown)}
    assert set(asked) == {"beyond", "speedup"}
    last = [one.seconds or 0.0 for one in measured()[-2:]]
    assert asked["speedup"].answer(shown) == last[0] / last[1]
    assert "takes" not in asked["beyond"].prompt_of(shown)
    assert " take at N = 1,024" in asked["beyond"].prompt_of(shown)


def test_bytes_beyond_the_sweep_are_asked_only_where_they_follow_a_power():
    record = registry.recorded()
    assert record is not None
    (beyond,) = (one for one in exercises.QUESTIONS if one.name == "beyond")
    for name, asked in (
        ("Attention: length N from 128 to 16,384", True),
        ("Attention: head dimension d from 32 to 256", False),
        ("Attention: fp32, fp16, bf16", False),
    ):
        shown = exercises.Shown(READY[name], model.recorded(READY[name], record))
        assert beyond.asked(shown) == asked
    exact = exercises.Shown(SWEEP, measured(hbm=1.0))
    sizes = [formula(SWEEP.at(PAIR[0], n)).bytes["asked"] for n in (512, 1024)]
    assert beyond.answer(exact) == pytest.approx(sizes[1] / 1e6, rel=beyond.tolerance)
    assert str(round(sizes[1] / 1e6)) not in beyond.prompt_of(exact)


def test_what_all_roofs_methods_share_is_said_once_above_them():
    timed = "median of 15 launches, by device events"
    fastest = "median of 15 launches, the fastest of 5 grids, by device events"
    roofs = {
        "hbm": Roof("hbm", 4e12, "B/s", f"reading 2 GiB; {fastest}"),
        "exp": Roof("exp", 4e12, "FLOP/s", f"in registers; {timed}"),
    }
    above, _, table = roofline.roofs_table(roofs).partition("\n\n")
    assert above == f"Each rate: {timed}."
    assert "<br>reading 2 GiB; the fastest of 5 grids | **4.00 TB/s** |" in table
    assert "<br>in registers | **4.00 T exp/s** |" in table
    assert "Each rate" not in roofline.roofs_table(ROOFS)
