"""The errors of predicted times: drawn, named, and worked through."""

from __future__ import annotations

import html
import inspect
import math
import re
from dataclasses import replace
from statistics import median

import pytest

from explain.chapters.measurements import predictions, worked
from explain.figures import palette
from explain.figures.labels import text_width
from explain.figures.numbers import duration, ratio
from explain.gpus import GPUS
from explain.prediction import fitted
from explain.records import registry
from kernels.catalog import KERNELS
from tests.explain.records.made import SHIPPED


def test_every_predicted_time_is_drawn_and_the_worst_kernel_is_named():
    model = fitted(*registry.shipped())
    assert model is not None
    for test in model.tests:
        points = [trace for trace in predictions.predicted_chart(test, model.tests).data if trace.mode == "markers"]
        assert sum(len(trace.x) for trace in points) == len(test.points)
        assert len({(trace.marker.symbol, trace.marker.color) for trace in points}) == len(points)
        red = sum(len(trace.x) for trace in points if trace.marker.color == palette.mid("alarm"))
        assert red == predictions._off(test)
    rows = predictions.prediction_table(model).splitlines()[2:]
    assert len(rows) == len(model.fitted)
    worst = [max(one.factor for one in model.tests[0].points if one.experiment.kernel == kernel)
             for kernel in predictions._errors(model.tests[0])]  # fmt: skip
    assert [row.split("|")[4].strip() for row in rows[: len(worst)]] == [ratio(factor) for factor in worst]
    medians = [error[1] for error in predictions._errors(model.tests[0]).values()]
    assert medians == sorted(medians, reverse=True)
    assert [row.split("|")[3].strip() for row in rows[: len(medians)]] == [ratio(factor) for factor in medians]
    said = predictions.largest(model.tests[0])
    assert rows[0].split("|")[1].strip() in said
    assert rows[0].split("|")[3].strip() in said


def test_what_is_predicted_too_long_is_told_with_both_gpus_bandwidths():
    model = fitted(*registry.shipped())
    assert model is not None
    elsewhere, own = (predictions.told(model, test).replace("\u00a0", " ") for test in model.tests)
    assert f"{ratio(GPUS['H200'].hbm_bytes_per_second / GPUS['H100'].hbm_bytes_per_second)} the bandwidth" in elsewhere
    assert "bandwidth" not in own


def test_what_no_model_would_say_is_told_beside_the_model():
    model = fitted(*registry.shipped())
    assert model
    elsewhere, alone = model.tests
    own = {one.experiment: one.measured for one in model.points}
    ratios = sorted(math.exp(abs(math.log(own[one.experiment] / one.measured))) for one in elsewhere.points)
    far = sum(one > predictions.FAR for one in ratios)
    modelled = sum(one.factor > predictions.FAR for one in elsewhere.points)
    found = predictions.found(model)
    assert "- From the H200 to the H100: 9 of 10 predictions have an error of at most 1.25 ×. " in found
    assert 0.9 <= 1 - modelled / len(ratios) < 1
    assert 2 * modelled <= far
    assert elsewhere.median >= median(ratios)
    assert found.startswith(
        f"**For most runs, copying the H200's time is as good: its typical error is {ratio(median(ratios))}, the "
        f"model's {ratio(elsewhere.median)}. The model helps with the large errors: {modelled} of {len(ratios)} are "
        f"above 1.25 ×, against {far} by copying.**"
    )
    long = [one for one in elsewhere.points if one.factor > predictions.FAR and one.seconds > one.measured]
    same = sum(1 / 1.05 < own[one.experiment] / one.measured < 1.05 for one in long)
    assert f"- {len(long)} of the {modelled} large errors are too long" in found
    assert f"but {same} take the same time on both GPUs (within 1.05 ×)" in found
    often = sum(one.factor > predictions.FAR for one in alone.points)
    assert f"on the H200: 1 of {round(len(alone.points) / often)} predictions has an error above 1.25 ×" in found
    assert f"The typical error is {ratio(alone.median)}." in found
    assert far > modelled  # the model is worth having
    assert "%" not in found
    one_gpu = predictions.found(replace(model, others=()))
    assert one_gpu.startswith("**From one size to another on the H200: ")
    assert "On another GPU the error is not measured" in one_gpu


def test_only_hbm_is_named_as_the_difference_where_it_is_the_only_one(monkeypatch):
    model = fitted(*registry.shipped())
    assert model
    assert {GPUS[name].sms for name in ("H200", "H100")} == {132}
    assert "differ in HBM" in predictions.untested(model)
    monkeypatch.setattr(predictions, "GPUS", {**GPUS, "H100": replace(GPUS["H100"], sms=114)})
    assert "compute capability 9.0" in predictions.untested(model)
    assert "wait for HBM" not in inspect.unwrap(predictions.found)(model)


def test_times_without_a_second_one_of_their_kernel_are_named():
    model = fitted(SHIPPED)
    assert model is not None
    said = predictions.unpredicted(model, SHIPPED).replace("\u00a0", " ")
    timed = [point for point in SHIPPED.points.values() if point.timing]
    assert len(timed) > len(model.points)
    assert said.count("\n- **") == said.count("**") / 2
    assert said.count("**") == 2 * (len(timed) - len(model.points))
    kept = {key: point for key, point in SHIPPED.points.items() if point.experiment.kernel in model.fitted}
    assert predictions.unpredicted(model, replace(SHIPPED, points=kept)) == ""


def test_no_share_above_100_percent_and_no_overhead_where_none_shows():
    model = fitted(SHIPPED)
    assert model is not None
    (left_out,) = model.tests
    factors = [point.factor for point in left_out.points]
    assert left_out.median == median(factors)
    assert left_out.worst.factor == max(factors)
    for row in predictions.prediction_table(model).splitlines()[2:]:
        *_, overhead, bandwidth, peak = (cell.strip() for cell in row.strip("|").split("|"))
        fit = next(fit for name, fit in model.fitted.items() if KERNELS[name].title == row.split("|")[1].strip())
        assert (overhead == "–") == (not fit.needed[0])
        for cell, (low, high), needed in zip((bandwidth, peak), fit.ranges[1:], fit.needed[1:], strict=True):
            assert (cell == "unknown") == (not needed)
            if not needed:
                assert high == 1  # as good without it
                continue
            ends = [float(end.removesuffix("%")) / 100 for end in cell.split("–")]
            assert [ends[0], ends[-1]] == pytest.approx([low, high], abs=0.005)


def test_how_many_times_are_predicted_is_said():
    model = fitted(*registry.shipped())
    assert model
    records = registry.shipped()
    timed = [[point for point in one.points.values() if point.timing] for one in records]
    known = [[one for one in own if one.experiment.kernel in model.fitted] for own in timed]
    (h200, all_of_it), (h100, all_of_other) = (map(len, both) for both in zip(known, timed, strict=True))
    said = predictions.known(model, records)
    assert f"{h200} of the {all_of_it} times of the H200" in said
    assert f"{h100} of the {all_of_other} times of the H100" in said
    assert predictions.known(model, [replace(one, points={}) for one in records]) == ""


def test_pictures_beside_each_other_have_the_same_scales():
    model = fitted(*registry.shipped())
    assert model
    charts = [predictions.predicted_chart(test, model.tests) for test in model.tests]
    assert len({tuple(chart.layout.xaxis.range) for chart in charts}) == 1
    every = [one.seconds / one.measured for test in model.tests for one in test.points]
    factors = [1 / predictions.FAR, predictions.FAR, *every]
    for chart in charts:
        low, high = (10**end for end in chart.layout.yaxis.range)
        assert [low, high] == pytest.approx([min(factors) / predictions.ROOM, max(factors) * predictions.ROOM])
        words = dict(zip(chart.layout.yaxis.tickvals, chart.layout.yaxis.ticktext, strict=True))
        assert words[2] == "2 × too long"
        assert words[1] == "equal"


def number_in(words: str) -> float:
    """The seconds of "614 µs"."""
    number, unit = words.split()
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]


@pytest.mark.parametrize("narrow", [False, True])
def test_a_prediction_is_worked_through_beside_what_was_measured(narrow):
    model = fitted(*registry.shipped())
    assert model
    one = worked.example(model)
    assert one
    test = model.tests[0]
    assert one.point in test.points
    assert one.took == model.recorded[one.point.experiment.key]
    assert abs(one.point.seconds / one.took - 1) > worked.CLEAR_GAIN
    assert one.closes
    assert one.fits > 1
    drawn = worked.drawn(model, narrow=narrow)
    words = [html.unescape(said) for said in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)]
    for seconds in (one.took, one.point.seconds, one.point.measured):
        assert duration(seconds) in words
    assert f"{one.fits} settings of the shares and the fixed time fit the H200's times" in " ".join(words)
    times = ratio(one.point.seconds / one.point.measured)
    assert f"the time predicted for the H100 is {times} the measured one" in " ".join(words)
    of_two = {
        word: words[words.index(word, words.index("H200")) + 1 :][:2] for word in (worked.FIXED, "memory", "compute")
    }
    for at, parts in enumerate((one.here, one.there)):  # as a reader works it out
        constant, memory, compute = (number_in(of_two[word][at]) for word in (worked.FIXED, "memory", "compute"))
        assert f"{constant + max(memory, compute) / parts.busy:.3g}" == f"{parts.seconds:.3g}"
        assert f"{parts.bytes / parts.bandwidth / round(parts.of_bandwidth, 3):.3g}" == f"{memory:.3g}"
    took, there, here = (number_in(duration(s)) for s in (one.took, one.there.seconds, one.here.seconds))
    assert f"{took * there / here:.3g}" == f"{number_in(duration(one.point.seconds)):.3g}"
    across = float(re.findall(r'viewBox="0 0 ([\d.]+)', drawn)[0])
    for x, size, anchor, rest, said in re.findall(
        r'<text x="([\d.]+)"[^>]*font-size="([\d.]+)" text-anchor="(\w+)"([^>]*)>([^<]*)<', drawn
    ):
        wide = text_width(html.unescape(said), float(size), bold="font-weight" in rest)
        assert (float(x) if anchor == "end" else float(x) + wide) <= across + 1, said


def test_without_another_gpu_the_formula_stands_alone():
    alone = fitted(SHIPPED)
    assert alone
    assert worked.example(alone) is None
    drawn = worked.drawn(alone)
    assert "Example" not in drawn
    assert "each tensor once per launch" in drawn


def test_the_parts_of_a_time_are_those_of_the_model():
    model = fitted(*registry.shipped())
    assert model
    for one in model.points[::20]:
        for gpu in (GPUS["H200"], GPUS["H100"]):
            times = [parts.seconds for parts in model.parts(one.experiment, gpu)]
            assert math.exp(sum(map(math.log, times)) / len(times)) == pytest.approx(
                model.modelled(one.experiment, gpu)
            )
