"""A page whose parts rerun alone, one of them drawing outside itself: every control is moved, there and back."""

from __future__ import annotations

from benchmarks.reruns import rerun_costs
from tests.e2e.server import Server
from tests.e2e.waiting import in_a_thread


def test_no_control_of_softmax_ends_in_an_error(app: Server) -> None:
    """Raises PageFailedError where a rerun shows an exception."""
    costs = in_a_thread(rerun_costs(app.url, app.process, "softmax", rounds=1))
    assert {"x0", "Format", "Row length"} <= set(costs)
