"""The benchmark that fills the tuning grid: what it asks, what it keeps, what it says of a setting without a time. No
GPU: children are made up.
"""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
from triton.runtime.errors import OutOfResources

from benchmarks import speed, tuning_grid
from explain.chapters.speed.tuning import FAILURES, empty, load
from tests.explain.records.made import WHERE


@pytest.fixture
def asked(monkeypatch):
    """Which settings were asked of which work; a child answers unless `mute` has its settings."""
    calls: dict[str, list[tuple[int, ...]]] = {"check": [], "time": []}
    mute: set[tuple[str, tuple[int, ...]]] = set()

    def run(work, tasks, processes, deadline, script=None):
        for task in tasks:
            for variant in task["variants"]:
                settings = tuple(variant["options"].values())
                calls[work].append(settings)
                if (work, settings) in mute:
                    continue
                answer = {"case": task["case"], "variant": variant}
                if work == "time":
                    yield {**answer, "seconds": 1e-3 * sum(settings), "p20": 0.1, "p80": 0.9, "per_second": 1.0}
                elif settings[0] * settings[1] * settings[3] > 2**16:
                    yield {
                        **answer,
                        **tuning_grid.failure_of(OutOfResources(3e5, 2e5, "shared memory")),
                        "shared_bytes": 300000,
                    }
                else:
                    yield {**answer, **tuning_grid.verdict_of(0.5), "shared_bytes": 1000, "registers": 99, "spills": 0}

    monkeypatch.setattr(speed, "run", run)
    monkeypatch.setattr(speed, "state_of_the_gpu", dict)
    return calls, mute


def measured(path, shape=(1, 2, 256, 64), where=WHERE, before=None):
    grids = [empty("pipelined", shape, False)]
    return tuning_grid.measure(before, where, grids, 4, 60.0, path)


def test_every_setting_has_a_time_or_a_reason_and_the_file_is_what_was_measured(asked, tmp_path):
    calls, mute = asked
    mute.add(("check", (64, 32, 4, 1)))
    path = tmp_path / "deep" / "grid.json"
    found = measured(path)
    assert load(path) == found
    (grid,) = found.grids
    assert len(grid.points) == len(set(calls["check"])) == 72
    assert all((point.seconds is not None) != (point.failure in FAILURES) for point in grid.points)
    assert {point.failure for point in grid.points} == {"", "shared memory", "silent"}
    assert calls["time"] == [point.settings for point in grid.points if point.error is not None and not point.failure]
    assert grid.timed[0].block_m == 64
    assert not list(path.parent.glob("*.part"))


def test_what_was_killed_goes_on_where_it_was(asked, tmp_path):
    calls, _ = asked
    path = tmp_path / "grid.json"
    first = measured(path)
    for work in calls.values():
        work.clear()
    half = dataclasses.replace(
        first.grids[0],
        points=tuple(dataclasses.replace(p, seconds=None) if p.warps == 8 else p for p in first.grids[0].points),
    )
    again = measured(path, before=dataclasses.replace(first, grids=(half,)))
    assert again.grids == first.grids
    assert calls["check"] == []
    assert {settings[2] for settings in calls["time"]} == {8}


@pytest.mark.parametrize("change", [{"shape": (1, 2, 512, 64)}, {"where": dataclasses.replace(WHERE, triton="0.0")}])
def test_what_is_of_another_shape_or_version_is_measured_anew(asked, tmp_path, change):
    calls, _ = asked
    first = measured(tmp_path / "grid.json")
    calls["check"].clear()
    measured(tmp_path / "grid.json", before=first, **change)
    assert len(calls["check"]) == 72


def test_what_is_silent_is_asked_again(asked, tmp_path):
    calls, mute = asked
    mute.add(("check", (64, 32, 4, 1)))
    first = measured(tmp_path / "grid.json")
    mute.clear()
    calls["check"].clear()
    assert not any(
        point.failure == "silent" for point in measured(tmp_path / "grid.json", before=first).grids[0].points
    )
    assert calls["check"] == [(64, 32, 4, 1)]


@pytest.mark.parametrize(
    ("exception", "failure"),
    [
        (OutOfResources(300000, 232448, "shared memory"), "shared memory"),
        (OutOfResources(512, 256, "threads"), "registers"),
        (RuntimeError("CUDA error: an illegal memory access"), "error"),
    ],
)
def test_why_a_setting_cannot_be_run_is_said(exception, failure):
    said = tuning_grid.failure_of(exception)
    assert said["failure"] == failure
    assert str(exception) in said["why"]


class Unloadable:
    """A compiled kernel that needs more than there is, as Triton has it: asking for its registers raises again."""

    metadata = SimpleNamespace(shared=300_000)

    @property
    def n_regs(self):
        raise OutOfResources(300_000, 232_448, "shared memory")


def test_what_cannot_be_loaded_still_says_its_shared_memory():
    kernel = SimpleNamespace(device_caches={0: ({"key": Unloadable()},)})
    assert tuning_grid.compilers_word(kernel) == {"shared_bytes": 300_000}
    assert tuning_grid.compilers_word(SimpleNamespace(device_caches={})) == {}


def test_a_wrong_result_has_a_reason_that_is_plain_json():
    assert tuning_grid.verdict_of(0.9) == {"error": 0.9}
    assert tuning_grid.verdict_of(3.0)["failure"] == "wrong"
    assert json.loads(json.dumps(tuning_grid.verdict_of(float("inf")), allow_nan=False))["error"] is None


def test_the_table_has_the_fastest_first(asked, tmp_path):
    lines = list(tuning_grid.table(measured(tmp_path / "grid.json").grids[0]))
    assert lines[0].startswith("pipelined, 1 × 2 × 256 × 64, bf16: ")
    assert "block_m=64 block_n=32 warps=4 stages=1" in lines[1]
    assert lines[-1].endswith("× shared memory")
