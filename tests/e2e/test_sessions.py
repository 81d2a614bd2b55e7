"""The network goes for a moment: every reader of a hall comes back to the session that they had, and soon."""

from __future__ import annotations

import asyncio

from explain.tab import Tab, open_socket
from tests.e2e.server import Server
from tests.e2e.waiting import in_a_thread

READERS = 140
"""More than the 128 that Streamlit keeps."""
SOON_S = 0.05
"""For one reader's return, on average; with the look at all modules it took 0.09."""


def test_a_hall_comes_back_to_its_sessions(app: Server) -> None:
    async def lesson() -> float:
        tabs = []
        for _ in range(READERS):
            socket = await open_socket(app.url)
            tabs.append((Tab(socket, "questions"), socket))
            await tabs[-1][0].rerun()
        for _, socket in tabs:
            socket.transport.abort()
        await asyncio.sleep(0.5)
        before = [tab.session for tab, _ in tabs]
        again = [await open_socket(app.url, session=session) for session in before]
        start = sum(process.cpu_times().user for process in app.apps)
        for (tab, _), socket in zip(tabs, again, strict=True):
            await tab.reconnect(socket)
        spent = sum(process.cpu_times().user for process in app.apps) - start
        assert [tab.session for tab, _ in tabs] == before
        for socket in again:
            await socket.close()
        return spent

    assert in_a_thread(lesson()) < SOON_S * READERS
