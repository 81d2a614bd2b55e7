"""The load test tells a student who waited too long from one that lost the connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from websockets.exceptions import ConnectionClosedError

from benchmarks import classroom_load
from explain.tab import Tab


@pytest.mark.parametrize(
    ("error", "gave_up"),
    [(TimeoutError(), 1), (ConnectionResetError(), 0), (ConnectionClosedError(None, None), 0)],
    ids=["waited too long", "reset", "closed"],
)
def test_a_student_who_gives_up_is_told_from_one_who_lost_the_connection(error, gave_up, monkeypatch):
    @asynccontextmanager
    async def no_socket(url: str, **options: object) -> AsyncIterator[None]:
        yield None

    async def fail(self: object) -> None:
        raise error

    monkeypatch.setattr(classroom_load, "open_socket", no_socket)
    monkeypatch.setattr(Tab, "rerun", fail)
    tally = classroom_load.Tally()
    attending = classroom_load.attend("", iter(["softmax"]), 0.0, [], tally, random.Random(0))
    with ThreadPoolExecutor(1) as thread:  # a browser test leaves a loop in this one
        thread.submit(asyncio.run, attending).result()
    assert (tally.dropped, tally.gave_up, tally.failed) == (1, gave_up, 0)
