"""Pages whose parts rerun alone: every control is moved, there and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection

from benchmarks.reruns import rerun_costs
from explain.tab import Tab, open_socket
from tests.e2e.server import Server
from tests.e2e.waiting import in_a_thread

QUIET_S = 0.3
"""Nothing more comes when nothing came for so long."""


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


@pytest.mark.parametrize("page", ["flash_attention"])
def test_a_control_that_is_moved_while_the_page_is_sent_leaves_all_of_it(app: Server, page: str) -> None:
    """The moved control draws its own parts alone. What was drawn before and not yet sent is still sent."""
    in_a_thread(_moved_meanwhile(app.url, page, "Causal", 20))


async def _moved_meanwhile(url: str, page: str, label: str, times: int) -> None:
    """Asks for the page, and moves a control about when it is drawn, over and over."""
    async with open_socket(url) as socket:
        tab = Tab(socket, page, 60)
        await tab.rerun()
        control = next(one for one in tab.controls.values() if one.label == label)
        still = list(tab._states.values())
        moved = [one for one in still if one.id != control.states[1].id] + [control.states[1]]
        begun = time.perf_counter()
        await _ask(socket, tab, control.fragment, still)
        every = await _places(socket)
        took = time.perf_counter() - begun - QUIET_S
        assert len(every) > 40
        for turn in range(times):
            await _ask(socket, tab, control.fragment, still)
            await asyncio.sleep(took * (0.4 + 0.7 * turn / times))
            await _ask(socket, tab, control.fragment, moved)
            assert every <= await _places(socket)
            still, moved = moved, still


async def _ask(socket: ClientConnection, tab: Tab, fragment: str, states: Sequence[WidgetState]) -> None:
    request = BackMsg()
    request.rerun_script.page_script_hash = tab._page_hash
    request.rerun_script.fragment_id = fragment
    request.rerun_script.widget_states.widgets.extend(states)
    await socket.send(request.SerializeToString())


async def _places(socket: ClientConnection) -> set[tuple[int, ...]]:
    """Where on the page something is drawn, until nothing comes any more."""
    found: set[tuple[int, ...]] = set()
    while True:
        try:
            message = ForwardMsg.FromString(await asyncio.wait_for(socket.recv(decode=False), QUIET_S))
        except TimeoutError:
            return found
        if message.metadata.delta_path:
            found.add(tuple(message.metadata.delta_path))
