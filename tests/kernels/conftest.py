"""Kernels run in the quick interpreter, as in the app, and kernels with the same inputs share one reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from explain.trace.patches import replaced
from tests.one_reference import one_reference

__all__ = ["one_reference"]


@pytest.fixture(scope="package", autouse=True)
def quick_interpreter() -> Iterator[None]:
    """What the app's runs have, for kernels that a test runs in the plain interpreter too."""
    from explain.trace.quick import QUICK

    with ExitStack() as stack:
        for owner, name, value in QUICK:
            stack.enter_context(replaced(owner, name, value))
        yield
