"""An access outside its tensor in plain words: from the messages that the tracer really writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from explain.outside import Stopped, in_words, stopped
from explain.trace.python_file import record_file

KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + {shift}
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0))


def main():
    copy[(3,)](torch.ones(10), torch.ones({size}), {n}, BLOCK=4)
"""
OFFSETS = "All of its lanes lie outside: its offsets are wrong."


@pytest.mark.parametrize(
    ("shift", "size", "n", "words"),
    [
        (0, 12, 12, "Program 2 reads x_ptr[10], but x_ptr ends at element 9. 2 of its 4 lanes lie outside: mask them."),
        (0, 8, 10, f"Program 2 writes y_ptr[8], but y_ptr ends at element 7. {OFFSETS}"),
        (
            -1,
            12,
            12,
            "Program 0 reads x_ptr[-1], but x_ptr begins at element 0. 1 of its 4 lanes lies outside: mask it.",
        ),
        (99, 12, 200, f"Program 0 reads x_ptr[99], but x_ptr ends at element 9. {OFFSETS}"),
        (0, 0, 10, f"Program 0 writes y_ptr[0], but y_ptr has no elements. {OFFSETS}"),
    ],
    ids=["read", "write", "before", "offsets", "empty"],
)
def test_the_message_of_a_run_that_left_its_tensor(tmp_path: Path, shift: int, size: int, n: int, words: str):
    file = tmp_path / "own.py"
    file.write_text(KERNEL.format(shift=shift, size=size, n=n), encoding="utf-8")
    failure = record_file(file, "main", "all", lambda *_: None).report.failure
    assert stopped(failure.message) == Stopped("own.py", 9, words)


def test_another_failure_is_no_access():
    assert stopped("own.py failed: ValueError: no") is None


def test_a_program_of_a_grid_of_several_axes_has_a_place_on_each():
    access = "loads element 16 of k_ptr (16 of 16 lanes are outside it): its shape is [16]; allowed: elements 0 to 15"
    assert in_words((0, 1, 0), access).startswith("Program (0, 1) reads k_ptr[16], but k_ptr ends at element 15.")
