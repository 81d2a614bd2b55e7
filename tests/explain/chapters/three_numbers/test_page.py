"""The lab's page of three numbers: what it shows with and without a GPU, and where its numbers come from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explain.chapters.three_numbers import view as page_levels
from explain.chapters.three_numbers.byte_accounting import check
from explain.chapters.three_numbers.levels import amount
from explain.counters import errors
from explain.counters.model import Counters
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.records import registry
from explain.records.model import Point
from explain.records.plans import MEASURED, sizes
from explain.records.registry import Entry
from explain.workers import WorkerDied, WorkerFailed
from kernels.catalog import TAUGHT
from tests.explain.records.made import SHIPPED, WHERE
from tests.pages import measured_on, page, texts

NONE = DeviceStatus(False, "No NVIDIA driver on this machine.")
THERE = DeviceStatus(True, "", {**WHERE.__dict__})


def with_gpu(monkeypatch: pytest.MonkeyPatch, status: DeviceStatus, point: Callable[[Experiment], Point]) -> None:
    class Here:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine(), name)

        def device_if_known(self) -> DeviceStatus:
            return status

        def point(self, experiment: Experiment, **_: object) -> Point:
            return point(experiment)

    monkeypatch.setattr(page_levels, "engine", Here)


def refused(error: Exception) -> Callable[[Experiment], Point]:
    def point(_: Experiment) -> Point:
        raise error

    return point


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a test says so, this machine has none."""
    with_gpu(monkeypatch, NONE, refused(AssertionError()))


def measured(kernel: str) -> Counters:
    point = SHIPPED.point(sizes(kernel)[0])
    assert point.counters is not None
    return point.counters


def count(test: AppTest) -> AppTest:
    (button,) = [one for one in test.button if one.label == "Count on this GPU"]
    return button.click().run()


def test_without_a_gpu_the_recorded_counters_are_shown_and_say_whose_they_are():
    test = page("three_numbers", kernel="softmax_online")
    said = texts(test)
    assert "NVIDIA H200" in said
    assert NONE.reason in said
    assert not [one for one in test.button if one.label == "Count on this GPU"]


def test_a_missed_prediction_names_its_cause_and_its_bytes():
    said = texts(page("three_numbers", kernel="softmax_safe", size="1", link="dram"))
    done = check(sizes("softmax_safe")[0], measured("softmax_safe").cold, GPUS["H200"])
    assert not done.met
    (held,) = [cause for cause in done.causes if cause.name == "Hit in L2"]
    assert f"Hit in L2: {amount(held.bytes)}" in said


def test_on_a_gpu_the_run_is_counted_here_and_kept_for_later_reruns(monkeypatch):
    asked = []

    def point(experiment: Experiment) -> Point:
        asked.append(experiment)
        here = replace(measured("softmax_online"), provenance=WHERE, fallback="")
        return Point(experiment, here)

    with_gpu(monkeypatch, THERE, point)
    test = page("three_numbers", kernel="softmax_online")
    count(test)
    for _ in range(2):
        assert "NVIDIA Test 1" in texts(test)
        assert "**CUPTI**" in texts(test)
        test.run()
    assert asked == [sizes("softmax_online")[0]]


def test_where_cupti_may_not_ncu_counts_and_the_page_says_why(monkeypatch):
    why = str(errors.of_code(35, "cuptiRangeProfilerEnable", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"))
    with_gpu(
        monkeypatch, THERE, lambda one: Point(one, replace(measured("softmax_online"), provenance=WHERE, fallback=why))
    )
    said = texts(count(page("three_numbers", kernel="softmax_online")))
    assert "**ncu**" in said
    assert "ERR_NVGPUCTRPERM" in said


@pytest.mark.parametrize(
    ("point", "words"),
    [
        (
            lambda one: Point(one, why=str(errors.not_trusted("a copy of 1,073,741,824 bytes was counted as 7 read"))),
            "1,073,741,824 bytes was counted as 7 read",
        ),
        (lambda one: Point(one, why=str(errors.no_library())), "CUPTI, NVIDIA's library that reads the counters"),
        (lambda one: Point(one, why=str(errors.of_code(35, "f", "n"))), "NVreg_RestrictProfilingToAdminUsers=0"),
        (refused(WorkerDied(-9, "")), "The process running the kernel ended with"),
        (refused(WorkerFailed("DeviceError", "The GPU's memory is full.", "", "")), "The GPU's memory is full."),
    ],
    ids=["not trusted", "no library", "no permission", "killed", "no memory"],
)
def test_what_cannot_be_counted_here_is_said_and_the_recorded_counters_stay(monkeypatch, point, words):
    with_gpu(monkeypatch, THERE, point)
    test = count(page("three_numbers", kernel="softmax_online"))
    assert words in [*test.warning, *test.error][0].value
    assert "NVIDIA H200" in texts(test)


def test_with_neither_gpu_nor_record_formula_and_trace_remain(monkeypatch):
    monkeypatch.setattr(registry, "entries", lambda: ([], {}))
    test = page("three_numbers", kernel="flash_attention_v1")
    said = texts(test)
    experiment = sizes("flash_attention_v1")[0]
    assert "NVIDIA H200" not in said
    assert amount(experiment.traffic.read_bytes) in said


def trace_is_formula(said: str) -> bool:
    """Whether the table of levels marks the trace's bytes read as the formula's."""
    return bool(re.search(r"\*\*Trace\*\* \| :green\[\*\*✓\*\*\]", said))


def test_the_players_own_run_is_traced_here():
    said = texts(page("three_numbers", kernel="softmax_safe", size="small"))
    assert trace_is_formula(said)
    assert "not measured. " in said


def test_warm_and_cold_are_different_counts():
    cold, warm = (texts(page("three_numbers", kernel="softmax_safe", l2=heat)) for heat in ("cold", "warm"))
    assert "Left in L2 by the run before" in warm
    assert "Left in L2 by the run before" not in cold


@pytest.mark.parametrize("kernel", MEASURED)
def test_every_kernel_of_the_menu_opens(monkeypatch, kernel):
    monkeypatch.setattr("explain.ui.stepper.stepper", lambda *_, **__: [])  # its run is traced in other tests
    test = page("three_numbers", kernel=kernel)
    menu = test.selectbox(key="kernel")
    assert [TAUGHT[name].title for name in MEASURED] == menu.options
    assert menu.value == kernel
    assert not test.error
    assert ("not measured" in texts(test)) == any(SHIPPED.point(one) is None for one in sizes(kernel)[:1])


def test_a_kernel_without_sizes_to_measure_is_refused_in_words():
    assert "**Kernel: vector_add.**" in texts(page("three_numbers", kernel="vector_add"))


def test_an_address_that_makes_no_sense_is_said_and_the_page_stands():
    said = texts(page("three_numbers", kernel="nonsense", size="9", link="moon", term="read-moon"))
    assert "**Kernel: nonsense.**" in said
    assert "**Sizes: 9.**" in said


def test_several_gpus_are_put_side_by_side(monkeypatch):
    other = replace(SHIPPED, provenance=WHERE)
    both = [Entry("recorded:h200.json", SHIPPED, "recorded"), Entry("here:test-1.json", other, "your file")]
    monkeypatch.setattr("explain.records.registry.entries", lambda: (both, {}))
    test = page("three_numbers", kernel="softmax_online")
    assert "| Test 1 · " not in texts(test)
    said = texts(measured_on(test).set_value([one.key for one in both]).run())
    assert "| H200 · " in said
    assert "| Test 1 · " in said


def test_without_triton_the_page_opens_on_shipped_traces(monkeypatch, tmp_path):
    monkeypatch.setattr("explain.engine.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    test = page("three_numbers")
    assert not test.error
    assert trace_is_formula(texts(test))
