"""Waiting, where Playwright's own way is closed: the app's Content-Security-Policy forbids the page what
`wait_for_function` does, which is to evaluate text in it; and Playwright keeps an event loop running in its thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from playwright.sync_api import Page

PATIENCE_S = 300.0  # a machine that runs everything at once
Result = TypeVar("Result")


def until(page: Page, script: str, arg: Any = None, patience_s: float = PATIENCE_S) -> None:
    """Returns once the expression, or the function of `arg`, is true. Raises TimeoutError with the script."""
    give_up = time.monotonic() + patience_s
    while not page.evaluate(script, arg):
        if time.monotonic() > give_up:
            raise TimeoutError(f"not within {patience_s:g} s: {script}")
        page.wait_for_timeout(50)


def in_a_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """What the coroutine returns; it runs in an event loop of its own, so a browser may be open in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
