"""The lines of the processes that share an answer's cases, in the order of the cases, as they arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from explain.puzzles.runner import Lines
from explain.sandbox.process import Limits, run_together


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "sent").touch()
    return tmp_path / "sent"


def test_lines_stand_in_turn_up_to_the_first_that_is_missing(file: Path) -> None:
    told: list[int] = []
    lines = Lines(file, 2, told.append)
    for process, chunk, there in (
        (1, b"1\n3\n", b""),
        (0, b"0", b""),
        (0, b"\n2", b"0\n1\n"),
        (1, b"5\n", b"0\n1\n"),
        (0, b"\n4\n6", b"0\n1\n2\n3\n4\n5\n"),
    ):
        assert lines.receive(process, chunk)
        assert file.read_bytes() == there
    assert told == [2, 6]
    assert lines.missing == 0


def test_nobody_reads_a_file_that_is_gone(file: Path) -> None:
    lines = Lines(file, 1, lambda _: None)
    assert lines.receive(0, b"0\n")
    file.unlink()
    assert not lines.receive(0, b"")
    assert not lines.receive(0, b"1\n")
    assert not file.exists()


def test_a_run_that_is_not_wanted_any_more_is_ended() -> None:
    """It sends once and then never again; the other one sends and ends by itself."""

    def endless():
        yield b"first"
        while True:
            pass

    first = bytearray()

    def wanted(number: int, chunk: bytes) -> bool:
        first.extend(chunk if number == 0 else b"")
        return not first

    stopped, other = run_together([endless, lambda: [b"all"]], Limits(30, 500), locked=False, watch=wanted)
    assert (stopped.answer, stopped.why) == (b"first", "")
    assert other.why == ""
