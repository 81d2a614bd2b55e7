"""Background jobs: their result, their error, their end, and how many run at once."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from explain.jobs import Job, Jobs
from explain.workers import WorkerCancelled, WorkerFailed


def until_cancelled(job: Job[int]) -> int:
    assert job.cancel.wait(20)
    raise WorkerCancelled


def test_a_job_keeps_its_result():
    said = []

    def work(job):
        said.append(job.doing)
        return 7

    job = Job(work, "counting").wait()
    assert (job.result, job.error, job.cancelled, job.running, said) == (7, "", False, False, ["counting"])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorkerFailed("ValueError", "too wide", "x.py:3 in main", ""), "too wide"),
        (RuntimeError("broken"), "broken"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_failure_is_kept_in_words(error, words):
    def work(_: object) -> int:
        raise error

    job = Job(work, "failing").wait()
    assert (job.result, job.error, job.cancelled) == (None, words, False)


def test_a_job_can_be_cancelled():
    job = Job(until_cancelled, "waiting")
    assert job.running
    job.cancel.set()
    assert job.wait().cancelled
    assert not job.error


def test_one_key_has_one_running_job_and_can_start_again():
    jobs: Jobs[int] = Jobs(most_running=2, most_kept=4)
    jobs.start("a", until_cancelled, "")
    first = _started(jobs, "a")
    jobs.start("a", lambda job: 2, "")
    assert jobs.get("a") is first
    jobs.cancel("a")
    first.wait()
    jobs.start("a", lambda job: 2, "")
    assert _started(jobs, "a").wait().result == 2


def test_too_many_are_refused_and_ended_ones_are_forgotten():
    jobs: Jobs[int] = Jobs(most_running=1, most_kept=3)
    jobs.start("long", until_cancelled, "")
    ran: list[str] = []

    def work(job):
        ran.append("")
        return 1

    for name in "abcd":
        jobs.start(name, work, "")
        assert _started(jobs, name).wait().error
    assert not ran
    assert [name for name in ("long", *"abcd") if jobs.get(name)] == ["long", "c", "d"]
    jobs.forget("long")
    assert jobs.get("long") is None


def test_a_job_that_is_forgotten_is_cancelled():
    jobs: Jobs[int] = Jobs(most_running=1, most_kept=1)
    job = jobs.start("a", until_cancelled, "")
    jobs.forget("a")
    assert job.wait().cancelled
    assert jobs.get("a") is None


def _started(jobs: Jobs[int], name: str) -> Job[int]:
    """The job of this name, which must be there."""
    job = jobs.get(name)
    assert job is not None
    return job


class _Finalized:
    """Garbage that only the collector frees; its finalizer lets another thread go on."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


def test_jobs_parse_at_the_same_time():
    text = Path(__file__).read_text(encoding="utf-8")
    interval = sys.getswitchinterval()

    def parse(_: object) -> int:
        for _ in range(25):
            _ = [_Finalized() for _ in range(20)]
            ast.parse(text)
        return 0

    sys.setswitchinterval(1e-5)
    try:
        errors = [job.wait().error for job in [Job(parse, "parsing") for _ in range(4)]]
    finally:
        sys.setswitchinterval(interval)
    assert errors == [""] * 4
