"""The errors of predicted times: drawn, named, and worked through."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from statistics import median

import pytest

from explain.chapters.measurements import predictions
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
        points = [trace for trace in predictions.predicted_chart(test).data if trace.mode == "markers"]
        assert sum(len(trace.x) for trace in points) == len(test.points)
        assert len({trace.marker.symbol for trace in points}) == len(points)
    rows = predictions.prediction_table(model).splitlines()[2:]
    assert len(rows) == len(model.fitted)
    medians = [float(row.split("|")[3].split()[0]) for row in rows]
    assert medians == sorted(medians, reverse=True)
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
    elsewhere = model.tests[0]
    own = {one.experiment: one.measured for one in model.points}
    ratios = sorted(math.exp(abs(math.log(own[one.experiment] / one.measured))) for one in elsewhere.points)
    far = sum(one > predictions.FAR for one in ratios)
    told, left_out = (predictions.told(model, test).replace("\u00a0", " ") for test in model.tests)
    modelled = sum(one.factor > predictions.FAR for one in elsewhere.points)
    beside_own, alone = (predictions.concluded(model, test).replace("\u00a0", " ") for test in model.tests)
    assert f"Of the {modelled} predictions that are more than 1.25 × off" in told
    joined = "but" if ratio(elsewhere.median) > ratio(median(ratios)) else "and"
    for test, said in ((elsewhere, beside_own), (model.tests[1], alone)):
        assert f"are within {ratio(test.median)} of the measured ones; " in said
        off = sum(one.factor > predictions.FAR for one in test.points)
        assert f"{off} of {len(test.points)} are more than 1.25 × off, the worst {ratio(test.worst.factor)}.**" in said
    assert "sizes that were not timed on the H200" in alone
    assert "as they are" not in alone
    assert f"half are within {ratio(median(ratios))}, {joined} {far} are more than 1.25 × off" in beside_own
    helps = modelled < far and elsewhere.median >= median(ratios)
    assert beside_own.endswith("not against the typical one.") == helps
    assert far > modelled  # the model is worth having
    assert "own time" not in left_out


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
            ends = [float(end.removesuffix("%")) / 100 for end in cell.split("–")]
            assert [ends[0], ends[-1]] == pytest.approx([low, high], abs=0.005)
            assert needed or high == 1  # as good without it


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


def test_a_prediction_is_worked_through_beside_what_was_measured():
    model = fitted(*registry.shipped())
    assert model
    said = predictions.worked(model)
    (test,) = [one for one in model.tests if not one.left_out]
    found = next(one for one in test.points if f"**{duration(one.seconds)}** is predicted" in said)
    assert abs(found.seconds / model.recorded[found.experiment.key] - 1) > predictions.CLEAR
    assert f"It took {duration(found.measured)}" in said
    took, there, here, result = (float(one) for one in re.findall(r"([\d.]+)\s[µm]s", said.partition("So ")[2])[:4])
    assert f"{took * there / here:.3g}" == f"{result:.3g}"  # as a reader works it out
    alone = fitted(SHIPPED)
    assert alone
    assert predictions.worked(alone) == ""
