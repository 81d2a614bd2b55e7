"""What a page shows of timelines: the lanes of a run and a program, or why there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from explain.chapters.speed import timeline
from explain.records.results import ResultFileError
from tests.explain.chapters.speed import schedules


def page(name: str = "") -> None:
    from explain.chapters.speed import climb_view

    climb_view.warps(name)


def shown(name: str = "") -> AppTest:
    test = AppTest.from_function(page, kwargs={"name": name}, default_timeout=300)
    return test.run()


@pytest.fixture
def recorded(monkeypatch):
    def put(*runs):
        monkeypatch.setattr(timeline, "recorded", lambda: runs)

    return put


def test_without_a_recording_it_says_what_makes_one(recorded):
    recorded()
    assert "python -m explain record timelines" in shown().info[0].value
    recorded(schedules.made())
    assert "overlapped" in shown("overlapped").info[0].value


def test_a_run_and_a_program_are_chosen_and_told_with_their_source(recorded):
    recorded(schedules.made(), schedules.made(causal=True))
    test = shown()
    assert not test.exception
    assert [box.label for box in test.selectbox] == ["Run", "Program"]
    assert len(test.get("plotly_chart")) == 1
    captions = " ".join(one.value for one in test.caption)
    assert "recorded · NVIDIA Test 1" in captions
    assert any(one.value.startswith("| run: ") for one in test.markdown)
    assert "Stale" in captions  # the digest of the made up run is nobody's
    test.selectbox[0].select("made_up-d128-causal").run()
    assert not test.exception
    assert test.selectbox[0].value == "made_up-d128-causal"
    assert "made_up-d128-causal" in str(test.query_params["run"])


def test_runs_of_one_shape_stand_under_each_other_and_others_in_a_fold(recorded):
    recorded(schedules.made(), schedules.made(name="another"), schedules.made(causal=True))
    test = shown()
    assert not test.exception
    assert not test.expander[0].proto.expanded
    tables = [one.value.splitlines() for one in test.markdown if one.value.startswith("| run: ")]
    assert [len(rows) for rows in tables] == [4, 3]
    assert "causal" in tables[1][2]
    assert sum('aria-label="Share of the cycles in sight' in one.value for one in test.markdown) == 1


def test_of_the_kernel_as_it_is_nothing_is_said_of_changes(recorded):
    from kernels.digest import digest_of

    made = schedules.made()
    recorded(replace(made, code=digest_of(made.module, made.function)))
    assert "Stale" not in " ".join(one.value for one in shown().caption)


def test_a_file_that_cannot_be_read_is_said(monkeypatch):
    def refused():
        raise ResultFileError("timeline-x.json is no timeline")

    monkeypatch.setattr(timeline, "recorded", refused)
    assert "timeline-x.json" in shown().error[0].value
