"""A rehearsal before a lecture: readers without a browser open every page and move its controls, as a class will.

What the pages record for them stays in the cache (`explain/engine.py`): whoever makes the same choices in the lecture
does not wait for it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from urllib.parse import urljoin

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from explain import app_process, contents
from explain.engine import cache_folder
from explain.tab import PageFailedError, Tab, open_socket

CORES_OF_AN_APP = 2
"""One for its pages, one for its recorders."""
READERS = 4
"""Of one app: while a run is recorded for one of them, the pages of the others run."""
MOVES = 12
"""At random on one page: a minute, for a reader who moves a control every five seconds."""
FIRST_S = 10.0
"""How long a page's first visit is assumed to take."""
PATIENCE_S = 120.0
GONE = (PageFailedError, WebSocketException, OSError)  # TimeoutError is an OSError

Say = Callable[[str], object]


def rehearse(minutes: float, say: Say = print) -> None:
    """Rehearses for so many minutes: first each choice of each control of each page, then moves at random, most of them
    on the pages that make a reader wait.

    Starts an app for each two cores, on this machine alone; `say` is told what is done. Raises
    `explain.app_process.AppError`.
    """
    before, urls = _kept(), list[str]()
    with ExitStack() as apps:
        for _ in range(max(1, (os.cpu_count() or 1) // CORES_OF_AN_APP)):
            page, _ = apps.enter_context(app_process.serving([], None, opens=False))
            urls.append(urljoin(page, "/").rstrip("/"))
        asyncio.run(_attend(urls, time.monotonic() + 60 * minutes, say))
    say(f"{_kept() - before} runs recorded, {_kept()} kept in {cache_folder()}")


def _kept() -> int:
    """How many recorded runs and outputs the cache has."""
    return sum(1 for _ in cache_folder().glob("*.*"))


async def _attend(urls: Sequence[str], end: float, say: Say) -> None:
    unread = iter(["" if page.kind == "home" else page.stem for page in contents.pages()])
    lasted = {page.stem: FIRST_S for page in contents.pages() if page.kind != "home"}
    moves = await asyncio.gather(*(_read(url, unread, lasted, end, say) for url in [*urls] * READERS))
    say(f"{sum(moves):,} choices at random")


async def _read(url: str, unread: Iterator[str], lasted: dict[str, float], end: float, say: Say) -> int:
    """One reader: every choice of each page that no other has read, then random ones until `end`; how many these were.

    A page is visited in proportion to the seconds that its last visit `lasted`: where choices wait for runs, there is
    most to record. A page that fails, or an app that ends, ends the visit alone.
    """
    for page in unread:
        with suppress(*GONE):
            await _sweep(url, page, end)
            say(page or "home")
    rng, moves = random.Random(), 0  # a second rehearsal makes other choices
    while (begun := time.monotonic()) < end:
        (page,) = rng.choices([*lasted], [*lasted.values()])
        try:
            async with open_socket(url) as socket:
                tab = await _opened(socket, page)
                for _ in range(MOVES):
                    if time.monotonic() < end:
                        await tab.move_at_random(rng)
                        moves += 1
            lasted[page] = time.monotonic() - begun
        except GONE:
            await asyncio.sleep(1)
    return moves


async def _sweep(url: str, page: str, end: float) -> None:
    """Moves each control of a page to each of its values and back, until `end`."""
    async with open_socket(url) as socket:
        tab = await _opened(socket, page)
        for name, control in list(tab.controls.items()):
            for state in control.states[1:]:
                for move in (state, control.states[0]):
                    if time.monotonic() < end and name in tab.controls:  # another choice can take a control away
                        await tab.move(move)


async def _opened(socket: ClientConnection, page: str) -> Tab:
    tab = Tab(socket, page, PATIENCE_S)
    await tab.rerun()
    return tab
