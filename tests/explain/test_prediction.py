"""Predicted times: a recorded time is kept and scaled to other GPUs; no point is fitted to itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explain.chapters.speed import lengths
from explain.chapters.sweeps.model import PAIR
from explain.device.measurement import Timing
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.prediction import Fit, Model, fitted, programs
from explain.records import registry
from explain.records.model import Point, Record
from tests.explain.records.made import SHIPPED

RUNS = [Experiment.of("softmax_online", {"rows": 4096, "cols": 2**bit}) for bit in range(8, 16)]
H200 = GPUS["H200"]


def record(factors: dict[int, float] | None = None) -> Record:
    """A GPU that moves the bytes of every array once, at half its bandwidth, after 8 µs; `factors` slow down a run."""
    points = {}
    for at, run in enumerate(RUNS):
        size = sum(term.elements * term.item_bytes for term in run.traffic.terms)
        ms = 1e3 * (8e-6 + size / (H200.hbm_bytes_per_second / 2)) * (factors or {}).get(at, 1.0)
        timing = next(p.timing for p in SHIPPED.points.values() if p.timing)
        points[run.key] = Point(run, timing=replace(timing, median_ms=ms))
    return replace(SHIPPED, points=points)


def test_a_gpu_that_follows_the_model_is_predicted():
    model = fitted(record())
    assert model.tests[0].worst.factor < 1.2
    assert len(model.points) == len(RUNS)


def test_no_point_is_fitted_to_itself():
    plain, slowed = fitted(record()), fitted(record({3: 10.0}))
    assert slowed.points[3].seconds == plain.points[3].seconds
    assert slowed.tests[0].worst.experiment == RUNS[3]
    assert slowed.tests[0].worst.factor == pytest.approx(10, rel=0.2)


def test_another_gpu_scales_with_its_bandwidth():
    model = fitted(record())
    own, slow = (model.seconds(RUNS[-1], GPUS[name]) for name in ("H200", "T4"))
    assert own is not None
    assert slow is not None
    bytes_, flops = (
        getattr(H200, name) / getattr(GPUS["T4"], name) for name in ("hbm_bytes_per_second", "fp32_flops_per_second")
    )
    assert 1.2 * flops < slow / own < 1.01 * bytes_  # most of what explains its times is the bandwidth
    assert slow / own == pytest.approx(bytes_, rel=0.1)
    assert model.seconds(Experiment.of("flash_attention"), H200) is None


def test_a_recorded_time_stays_and_is_scaled_for_another_gpu():
    plain, slowed = fitted(record()), fitted(record({3: 10.0}))
    assert plain is not None
    assert slowed is not None
    for name in ("H200", "A100"):
        own, slow = (model.seconds(RUNS[3], GPUS[name]) for model in (plain, slowed))
        assert own is not None
        assert slow is not None
        assert slow / own == pytest.approx(10, rel=0.1)


def test_two_kernels_cross_on_the_recorded_gpu_where_they_were_measured_to():
    times = lengths.of(SHIPPED)
    model = fitted(SHIPPED)
    assert model is not None
    standard, flash = (lengths.predicted(model, H200)[kernel] for kernel in PAIR)
    for n in times.lengths:
        assert standard[n] / flash[n] == pytest.approx(times.gain(n))


def test_tensor_cores_that_triton_does_not_use_have_no_prediction():
    model = fitted(SHIPPED)
    assert model is not None
    run = lengths.experiments("flash_attention")[-1]
    assert model.seconds(run, GPUS["RTX 4090"])
    assert model.seconds(run, GPUS["T4"]) is None
    assert not lengths.predicted(model, GPUS["T4"])


def test_the_shipped_record_is_predicted_with_a_known_error():
    model = fitted(SHIPPED)
    timed = [point for point in SHIPPED.points.values() if isinstance(point.timing, Timing)]
    assert 0.95 * len(timed) <= len(model.points) <= len(timed)
    (left_out,) = model.tests
    assert 1 < left_out.median < 1.25
    assert left_out.worst.factor > left_out.median


def test_another_gpus_record_tests_the_model():
    model = fitted(*registry.shipped())
    assert model is not None
    elsewhere, own = model.tests
    other = registry.shipped()[1]
    assert (elsewhere.gpu, own.gpu) == ("H100", "H200")
    for one in elsewhere.points:
        assert one.measured == other.point(one.experiment).seconds
        assert one.seconds == model.seconds(one.experiment, GPUS["H100"])
    timed = [point for point in other.points.values() if point.timing]
    assert 0.95 * len(timed) <= len(elsewhere.points) <= len(timed)
    assert 1 < elsewhere.median < 1.15
    assert elsewhere.worst.factor < 2
    assert elsewhere.told in model.told(own.experiment for own in own.points)
    assert own.told in model.told([Experiment.of("flash_attention", {"seq_len": 96})])  # scaled from no recorded time


def test_a_wrong_bandwidth_of_the_other_gpu_is_seen(monkeypatch):
    def largest() -> float:
        """The error of the softmax that moves most bytes: HBM limits it."""
        points = Model(model.gpu, model.fitted, model.points, model.others).tests[0].points
        own = [point for point in points if point.experiment.kernel == "softmax_row"]
        return max(own, key=lambda point: point.experiment.traffic.read_bytes).factor

    model = fitted(*registry.shipped())
    assert model is not None
    right = GPUS["H100"]
    assert largest() < 1.1
    for wrong in (0.7, 1.4):
        gpu = replace(right, hbm_bytes_per_second=wrong * right.hbm_bytes_per_second)
        monkeypatch.setattr("explain.prediction.card", {"NVIDIA H100 80GB HBM3": gpu}.get)
        assert largest() > 1.25


def test_a_record_alone_or_twice_is_tested_on_the_times_left_out():
    for records in ((SHIPPED,), (SHIPPED, SHIPPED)):
        (only,) = fitted(*records).tests
        assert only.left_out
        assert "with that time left out" in fitted(*records).told(RUNS)
    assert fitted() is None


def test_what_is_fitted_is_no_bound_of_the_search_and_no_share_is_above_1():
    model = fitted(SHIPPED)
    assert model is not None
    for kernel, fit in model.fitted.items():
        (least, most), *shares = fit.ranges
        assert not fit.needed[0] or 1e-6 < least <= most < 1e-2, kernel
        for (low, high), needed in zip(shares, fit.needed[1:], strict=True):
            assert 0.005 < low <= high <= 1 if needed else high == 1, kernel


def test_a_part_that_explains_no_time_is_not_needed():
    model = fitted(record())
    assert model is not None
    fit = model.fitted["softmax_online"]
    assert fit.needed == (True, False, False)  # its FLOPs grow as its bytes do: either explains the times
    (overhead, _), (share, whole), _ = fit.ranges
    assert overhead == pytest.approx(8e-6, rel=0.4)
    assert share == pytest.approx(0.5, rel=0.1)
    assert whole == 1  # then the FLOPs explain them


def test_where_bytes_and_flops_explain_a_time_the_prediction_lies_between_them():
    fit = Fit(np.array([[0.0, 0.5, 1.0], [0.0, 1.0, 0.25]]), (False, False, False))
    assert fit.seconds(1.0, 0.5) == pytest.approx(2.0)  # both say so
    assert fit.seconds(4.0, 0.5) == pytest.approx((8 * 4) ** 0.5)  # a quarter of the bandwidth
    assert fit.seconds(1.0, 2.0) == pytest.approx((2 * 8) ** 0.5)


def test_the_programs_of_flash_decoding_share_its_keys():
    run = Experiment.of("flash_decoding", {"heads": 32, "kv_heads": 8, "splits": 16, "seq_len": 1, "kv_len": 8192})
    assert programs(run) == 8 * 16
    assert programs(run.with_(batch=2)) == 2 * 8 * 16
