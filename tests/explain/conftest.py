"""What the tests of the engine share: warm workers, which take two seconds of a core to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from explain.compile.service import COMPILE_WORKER
from explain.workers import WorkerPool


@pytest.fixture(scope="session")
def compile_workers() -> Iterator[WorkerPool]:
    """The workers of all tests that compile. In the app they step back; on busy cores a test would wait minutes."""
    with closing(WorkerPool(replace(COMPILE_WORKER, nice=0), size=2)) as pool:
        yield pool
