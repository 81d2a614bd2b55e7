"""One judge for all tests of puzzles: its two processes import torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from explain.puzzles.judge import Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with closing(Judge()) as made:
        yield made
