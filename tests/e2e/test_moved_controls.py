"""Pages whose parts rerun alone: every control is moved, there and back."""

from __future__ import annotations

import pytest

from benchmarks.reruns import rerun_costs
from tests.e2e.server import Server
from tests.e2e.waiting import in_a_thread


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        ("softmax", {"x0", "Format", "Row length"}),  # one of its parts draws outside itself
        ("cross_entropy", {"Kernel", "Tokens", "dtype"}),  # a control's parts stand before and after what it leaves
    ],
)
def test_no_control_ends_in_an_error(app: Server, page: str, labels: set[str]) -> None:
    """Raises PageFailedError where a rerun shows an exception."""
    costs = in_a_thread(rerun_costs(app.url, app.process, page, rounds=1))
    assert labels <= set(costs)
