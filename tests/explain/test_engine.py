"""The engine: where a trace comes from, and what is said where there is none."""

from __future__ import annotations

import time

import pytest

from explain import engine, lessons, recordings
from explain.player.component import Run, body_of
from explain.player.view import view
from explain.trace import file as trace_file
from explain.workers import WorkerError


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """An engine on a machine without Triton."""
    monkeypatch.setattr(engine, "has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    made = engine.Engine()
    yield made
    made.close()


@pytest.mark.parametrize("experiment", [lessons.OPENING, lessons.ONLINE], ids=lambda experiment: experiment.kernel)
def test_without_triton_a_chapter_opens_on_its_shipped_trace(elsewhere, experiment):
    run = elsewhere.trace(experiment)
    assert run.origin == "recorded"
    assert run.data == recordings.path_of(experiment).read_bytes()


def test_without_triton_what_was_not_recorded_is_said_in_words(elsewhere):
    with pytest.raises(WorkerError, match="Triton"):
        elsewhere.trace(lessons.OPENING.with_(block_n=32))


def test_the_first_page_does_not_wait_for_the_workers(monkeypatch):
    monkeypatch.setattr(engine, "HEAD_START_S", 2.0)
    monkeypatch.setattr(engine, "has_triton", lambda: True)
    started = []
    made = engine.Engine()
    monkeypatch.setattr(made._traces, "warm", lambda: started.append(time.monotonic()))
    asked = time.monotonic()
    for _ in range(5):  # by as many pages
        made.warm()
    assert not started
    deadline = asked + 60
    while not started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert started[0] - asked >= 2.0
    time.sleep(0.3)
    assert len(started) == 1
    made.close()


def test_a_run_is_decoded_once_from_the_engine_to_the_player(elsewhere, monkeypatch):
    calls = []
    plain = trace_file.read

    def read(source, *limit):
        calls.append(source)
        return plain(source, *limit)

    monkeypatch.setattr(trace_file, "read", read)
    run = elsewhere.trace(lessons.OPENING)
    shown = body_of([Run(run, view(lessons.OPENING, run.trace, run.origin))])
    assert shown.traces == run.data
    assert len(calls) == 1
