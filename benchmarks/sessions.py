"""Measures what readers who come and go leave in the server's memory.

    python -m benchmarks.sessions --out benchmarks/results/sessions.json

Readers open a page each, all pages in turn, AT_ONCE at a time, and leave. The first ones fill what the server keeps for
all readers, and the sessions that it keeps for a while in case a network was gone. From then on memory should not grow.
Last, readers stay: their sessions' memory is the difference, by their number. About ten minutes.

Prints one JSON object. Exits with 1 if memory grows by more than GROWTH, a session needs more than MIB, or a page
failed.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.classroom_load import bounded, every_page, resident_mib
from benchmarks.report import finish, parser_of
from explain.server import SESSIONS
from explain.tab import Tab, open_socket
from tests.e2e.server import Server, running_app

AT_ONCE = 4
GROWTH = 0.10
MIB = 0.5
SETTLED_S = 5.0
"""So long after the last reader memory is looked at."""


async def visit(url: str, pages: Sequence[str]) -> None:
    """Readers one after the other, each at another page."""
    for page in pages:
        async with open_socket(url) as socket:
            await Tab(socket, page).rerun()


async def come_and_go(server: Server, readers: int) -> float:
    """The server's memory in MiB after so many readers."""
    pages = every_page()
    each = [[pages[number % len(pages)] for number in range(first, readers, AT_ONCE)] for first in range(AT_ONCE)]
    await asyncio.gather(*(visit(server.url, own) for own in each))
    await asyncio.sleep(SETTLED_S)
    return resident_mib(server.apps)


async def stay(server: Server, readers: int) -> float:
    """The server's memory in MiB with so many more readers, each at a page."""
    pages = every_page()
    async with AsyncExitStack() as stack:
        for number in range(readers):
            socket = await stack.enter_async_context(open_socket(server.url))
            await Tab(socket, pages[number % len(pages)]).rerun()
        await asyncio.sleep(SETTLED_S)
        return resident_mib(server.apps)


async def measured(server: Server, first: int, more: int, staying: int) -> dict[str, Any]:
    """All three parts."""
    before = await come_and_go(server, first)
    after = await come_and_go(server, more)
    with_readers = await stay(server, staying)
    growth = after / before - 1
    of_one = (with_readers - after) / staying
    return {
        "first": first,
        "more": more,
        "staying": staying,
        "mib": {"before": before, "after": after, "with_readers": with_readers},
        "growth": round(growth, 3),
        "mib_a_session": round(of_one, 3),
        "limit_growth": GROWTH,
        "limit_mib": MIB,
        "passed": growth <= GROWTH and of_one <= MIB,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if memory stays within both limits."""
    parser = parser_of(__doc__)
    parser.add_argument("--first", type=bounded(int, 1, 10**6), default=SESSIONS, help="readers before the first look")
    parser.add_argument("--more", type=bounded(int, 1, 10**6), default=10_000, help="readers who come and go then")
    parser.add_argument("--staying", type=bounded(int, 1, 1000), default=300, help="readers who stay at last")
    options = parser.parse_args(arguments)
    with running_app() as server:
        result = asyncio.run(measured(server, options.first, options.more, options.staying))
    machine = {"cores": os.cpu_count(), "machine": f"{platform.system()} {platform.machine()}"}
    return finish(result | machine, "app", options.out)


if __name__ == "__main__":
    sys.exit(main())
