"""Third-party code can answer, and do nothing else. Each attack runs in a locked process, as a reader's kernel does."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from explain.sandbox import landlock
from explain.sandbox.process import Limits, run
from explain.sandbox.protections import Protections, protections
from explain.workers import WorkerPool, WorkerSpec
from tests.explain.sandbox import attacks

NEEDED = pytest.mark.skipif(
    not (landlock.version() and platform.machine() == "x86_64"), reason="needs Landlock, and x86-64's system calls"
)
SPEC = WorkerSpec("attacked", "tests.explain.sandbox.attacks:handle", own_environment=True)


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerPool]:
    os.environ["SECRET"] = "SECRET"
    try:
        with WorkerPool(SPEC) as pool:
            yield pool
    finally:
        del os.environ["SECRET"]


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("outside") / "secret"
    file.write_text("outside")
    file.with_name("prepared link").symlink_to(file)
    return file


@NEEDED
def test_this_machine_can_run_code_of_others() -> None:
    assert protections().complete, protections().line


@NEEDED
@pytest.mark.parametrize("name", attacks.ATTEMPTS)
def test_the_system_refuses(worker: WorkerPool, secret: Path, name: str) -> None:
    before = (secret.stat(), sorted(secret.parent.iterdir()))
    ended = worker.call({"attack": name, "secret": str(secret), "locked": True}, seconds=30)
    assert ended["answer"] == attacks.PREVENTED.decode(), ended
    assert secret.read_text() == "outside"
    assert _same(before[0], secret.stat())
    assert before[1] == sorted(secret.parent.iterdir())


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    names = ("st_mode", "st_uid", "st_size", "st_mtime_ns", "st_nlink")
    return all(getattr(one, name) == getattr(other, name) for name in names)


@NEEDED
@pytest.mark.parametrize("name", attacks.EXHAUSTIONS)
def test_a_limit_ends_it_without_an_answer(worker: WorkerPool, secret: Path, name: str) -> None:
    ended = worker.call({"attack": name, "secret": str(secret), "locked": True}, seconds=30)
    assert attacks.ESCAPED.decode() not in ended["answer"]
    assert ended["why"]
    assert len(ended["output"].encode()) <= attacks.LIMITS.output_bytes


@NEEDED
@pytest.mark.parametrize("name", attacks.HARMLESS)
def test_the_attack_would_succeed_without_the_lock(worker: WorkerPool, secret: Path, name: str) -> None:
    ended = worker.call({"attack": name, "secret": str(secret), "locked": False}, seconds=30)
    assert ended["answer"] != attacks.PREVENTED.decode()


def _sleep() -> Iterator[bytes]:
    time.sleep(60)
    yield b"awake"


@NEEDED
def test_nothing_is_left_of_a_run() -> None:
    """The run is over when `run` returns, although its code waits for a minute."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    run(_sleep, Limits(seconds=0.2, megabytes=100))
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert after <= before


def test_a_run_on_the_readers_own_machine_ends_with_its_session() -> None:
    """Without a lock a process may start others; they end with it."""

    def work() -> Iterator[bytes]:
        if (pid := os.fork()) == 0:
            time.sleep(60)
        yield str(pid).encode()

    ended = run(work, Limits(seconds=20, megabytes=200), locked=False)
    with suppress(psutil.NoSuchProcess):
        other = psutil.Process(int(ended.answer))
        while other.status() != psutil.STATUS_ZOMBIE:  # it is killed, and sleeps for a minute if it is not
            assert time.time() < other.create_time() + 50
            time.sleep(0.01)


WHOLE = Protections(landlock=7, seccomp=True, own_network=False)


@pytest.mark.parametrize(
    "lacking", [replace(WHOLE, landlock=0), replace(WHOLE, seccomp=False), replace(WHOLE, broken=("write a file",))]
)
def test_a_machine_that_lacks_a_protection_is_not_complete(lacking: Protections) -> None:
    assert WHOLE.complete
    assert not lacking.complete
