"""The engine: where a trace comes from, and what is said where there is none."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from explain import engine, lessons, recordings
from explain.output import Output
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


@pytest.fixture
def making(monkeypatch, tmp_path):
    """An engine that makes each trace by copying the opening's, which is not shipped; and what it has made."""
    made: list[object] = []
    shipped = recordings.path_of(lessons.OPENING)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "has_triton", lambda: True)
    monkeypatch.setattr(recordings, "path_of", lambda experiment: tmp_path / "none")

    def trace_to(experiment, out, programs="all", **call):
        made.append(experiment)
        time.sleep(0.2)
        shutil.copy(shipped, out)

    one = engine.Engine()
    monkeypatch.setattr(one, "trace_to", trace_to)
    yield one, made
    one.close()


def test_a_class_that_asks_for_one_run_at_once_makes_it_once(making):
    one, made = making
    with ThreadPoolExecutor(8) as students:
        runs = list(students.map(one.trace, [lessons.OPENING] * 8))
    assert len(made) == 1
    assert {run.origin for run in runs} == {"interpreter"}


def test_nobody_waits_for_what_others_make(making):
    one, made = making
    one.trace(lessons.OPENING)
    ends = threading.Event()

    def make(path):
        ends.wait(60)
        path.write_bytes(b"made")

    def read(path):
        return path.read_bytes() if path.exists() else None

    with ThreadPoolExecutor(200) as others:
        waiting = [others.submit(one._made_once, f"{number}.npz", read, make) for number in range(200)]
        begun = time.monotonic()
        try:
            one.trace(lessons.OPENING)
            assert one._made_once("another.npz", read, lambda path: path.write_bytes(b"at once")) == b"at once"
            took = time.monotonic() - begun
        finally:
            ends.set()
    assert took < 20
    assert [each.result() for each in waiting] == [b"made"] * 200
    assert len(made) == 1


def test_a_trace_is_made_again_after_the_code_has_changed(making, monkeypatch):
    one, made = making
    for version in ("before", "before", "after"):
        monkeypatch.setattr(engine, "code_version", lambda version=version: version)
        one.trace(lessons.OPENING)
    assert len(made) == 2


def test_a_run_that_is_used_again_is_forgotten_last(making):
    one, _ = making
    one.trace(lessons.OPENING)
    (used,) = engine.cache_folder().glob("*.tilescope")
    unused = used.with_name("unused.tilescope")
    unused.write_bytes(b"")
    for path, written in ((used, 1000), (unused, 2000)):
        os.utime(path, (written, written))
    one.trace(lessons.OPENING)
    engine.forget_oldest(used.parent, "*.tilescope", 1)
    assert [*used.parent.glob("*.tilescope")] == [used]


def test_a_trace_of_another_experiment_is_not_taken(making):
    one, _ = making
    with pytest.raises(WorkerError, match="missing or damaged"):
        one.trace(lessons.OPENING.with_(block_n=32))


@pytest.mark.parametrize(("most", "most_bytes", "left"), [(2, 100, 2), (9, 25, 2), (0, 100, 0), (9, 9, 0), (9, 40, 4)])
def test_the_oldest_files_are_forgotten(tmp_path, most, most_bytes, left):
    for age in range(4):
        path = tmp_path / f"{age}.tilescope"
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    engine.forget_oldest(tmp_path, "*.tilescope", most, most_bytes)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{age}.tilescope" for age in range(left)]


def test_an_output_is_computed_once_and_again_if_its_file_is_damaged(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "has_triton", lambda: True)
    monkeypatch.setattr(recordings, "output_path_of", lambda experiment, reverse_keys: tmp_path / "none")
    one, computed = engine.Engine(), []

    def output_to(experiment, out, *, reverse_keys=False, **call):
        computed.append(reverse_keys)
        Output(np.full(3, reverse_keys), np.ones(3), np.ones(3)).write(out)

    monkeypatch.setattr(one, "output_to", output_to)
    for reverse_keys in (False, False, True, False):
        assert one.output(lessons.OPENING, reverse_keys=reverse_keys).result.tolist() == [reverse_keys] * 3
    assert computed == [False, True]
    for file in engine.cache_folder().iterdir():
        file.write_bytes(file.read_bytes()[:-9])
    assert one.output(lessons.OPENING).result.tolist() == [0] * 3
    assert computed == [False, True, False]
    one.close()
