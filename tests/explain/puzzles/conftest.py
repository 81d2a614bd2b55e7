"""One judge for all tests of puzzles, for its two processes import torch; answers to one puzzle share the reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from explain.puzzles.judge import Judge
from tests.one_reference import one_reference

__all__ = ["one_reference"]


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with closing(Judge()) as made:
        yield made
