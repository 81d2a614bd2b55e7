"""CUPTI's binding: what is asked in which order, what a chip lacks, and every failure in words."""

from __future__ import annotations

import re

import pytest

from explain.counters import cupti, errors
from explain.counters.cupti import Cupti, RangeProfiler
from explain.counters.model import METRICS
from explain.counters.stalls import METRICS as STALLS
from tests.explain.counters.fake_cupti import FakeCupti

WANTED = {name: names for name, (names, _) in METRICS.items()}


def profiler(fake: FakeCupti) -> RangeProfiler:
    return RangeProfiler(Cupti(fake), WANTED, context=1, synchronize=lambda: None)


def test_each_range_has_its_own_values():
    fake = FakeCupti(values=[[10.0], [20.0]])
    run, after = profiler(fake).count(lambda: None, lambda: None, lambda: None)
    assert set(run) == set(METRICS)
    assert set(run.values()) == {10.0}
    assert set(after.values()) == {20.0}


def test_the_preparation_runs_once_a_pass_after_the_profiler_started_and_outside_the_ranges():
    fake = FakeCupti(passes=2)
    profiler(fake).count(lambda: fake.asked.append("prepared"), lambda: fake.asked.append("ran"))
    each_pass = [
        "cuptiRangeProfilerStart",
        "prepared",
        "cuptiRangeProfilerPushRange",
        "ran",
        "cuptiRangeProfilerPopRange",
        "cuptiRangeProfilerStop",
    ]
    start = fake.asked.index("cuptiRangeProfilerStart")
    assert fake.asked[start : start + 12] == each_pass * 2


def test_the_first_name_that_the_chip_has_is_used_and_what_it_lacks_is_said():
    newer = profiler(FakeCupti(lacks=("dram__bytes_read.sum", "l1tex__t_bytes.sum")))
    assert newer.metrics["dram_read_bytes"] == "dram__bytes_op_read.sum"
    assert newer.lacking == ("l1_bytes",)
    assert "l1_bytes" not in newer.metrics


def test_a_launch_that_fails_gives_the_counters_back():
    fake = FakeCupti()

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        profiler(fake).count(lambda: None, fail)
    assert fake.asked[-1] == "cuptiRangeProfilerDisable"


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("cuptiProfilerInitialize", 999, "CUDA had not started.*Run a kernel"),
        ("cuptiProfilerInitialize", 15, "CUDA had not started"),
        ("cuptiRangeProfilerEnable", 35, "ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0.*CAP|SYS_ADMIN"),
        ("cuptiRangeProfilerEnable", 39, "Another profiler.*Close"),
        ("cuptiRangeProfilerStart", 26, "Another profiler.*Close"),
        ("cuptiRangeProfilerEnable", 43, "MIG.*whole GPU"),
        ("cuptiProfilerHostInitialize", 46, "does not know it.*upgrade nvidia-cuda-cupti"),
        ("cuptiRangeProfilerDecodeData", 12345, "CUPTI failed.*Restart.*CUPTI_ERROR_OF_THE_TEST, 12345"),
    ],
)
def test_a_failure_has_its_cause_and_its_remedy(function, code, words):
    with pytest.raises(errors.CountersUnavailable) as failed:
        profiler(FakeCupti({function: code})).count(lambda: None, lambda: None)
    assert re.search(words, str(failed.value))
    assert function in str(failed.value)
    assert failed.value.cause
    assert failed.value.remedy


def test_a_library_without_the_range_profiler_is_too_old():
    with pytest.raises(errors.CountersUnavailable, match=r"CUDA 12\.6.*upgrade"):
        RangeProfiler(Cupti(object()), WANTED, 1, lambda: None)


def test_a_missing_library_is_said(monkeypatch):
    monkeypatch.setattr(cupti, "libraries", list)
    with pytest.raises(errors.CountersUnavailable, match="pip install nvidia-cuda-cupti"):
        Cupti.load()


def test_a_library_that_cannot_be_loaded_is_as_good_as_missing(monkeypatch, tmp_path):
    for name in ("libcupti.so.13", "libnvperf_host.so"):
        (tmp_path / name).write_bytes(b"no library")
    monkeypatch.setattr(cupti, "libraries", lambda: [tmp_path / "libcupti.so.13"])
    with pytest.raises(errors.CountersUnavailable, match="not found together"):
        Cupti.load()


def test_no_driver_is_said(monkeypatch):
    def absent(_: str) -> None:
        raise OSError

    monkeypatch.setattr("ctypes.CDLL", absent)
    with pytest.raises(errors.CountersUnavailable, match="No NVIDIA driver"):
        cupti.current_context()


def test_no_context_is_said(monkeypatch):
    class Driver:
        def cuCtxGetCurrent(self, _: object) -> int:
            return 0

    monkeypatch.setattr("ctypes.CDLL", lambda _: Driver())
    with pytest.raises(errors.CountersUnavailable, match=r"not started.*Run a kernel"):
        cupti.current_context()


@pytest.mark.skipif(not cupti.libraries(), reason="asks a real libcupti, which needs no GPU to know its chips")
@pytest.mark.parametrize("chip", ["TU104", "GA100", "AD102", "GH100", "GB202"])
def test_the_real_library_knows_every_metric_of_chips_from_turing_to_blackwell(chip):
    real = RangeProfiler(Cupti.load(), WANTED, context=0, synchronize=lambda: None, chip=chip)
    assert real.lacking == ()
    assert 1 <= real.passes <= 4


@pytest.mark.skipif(not cupti.libraries(), reason="asks a real libcupti, which needs no GPU to know its chips")
@pytest.mark.parametrize(
    ("chip", "lacking"),
    [
        ("TU104", ("gmma",)),
        ("GA100", ("gmma",)),
        ("AD102", ("gmma",)),
        ("GH100", ()),
        ("GB100", ("gmma", "imc_miss")),
        ("GB202", ("gmma", "imc_miss")),
    ],
)
def test_the_real_library_knows_why_warps_wait_on_chips_from_turing_to_blackwell(chip, lacking):
    real = RangeProfiler(Cupti.load(), STALLS, context=0, synchronize=lambda: None, chip=chip)
    assert real.lacking == lacking
    assert 1 <= real.passes <= 8
