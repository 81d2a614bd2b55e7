"""Each kind of fault once; `python -m benchmarks.faults` lets each happen many times."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.faults.lesson import KINDS, RECOVERED_S, Lesson, lesson
from tests.faults.worker import FAULTS

SLOWER = 4
"""How much longer than in the benchmark a run may take beside other tests."""
TRIES = 3
"""A busy machine can stand still for many seconds: what is only slow happens again. What is wrong fails at once."""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs a coroutine to its end, in a thread of its own: Playwright's loop may run in this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def held(run, tmp_path_factory) -> Iterator[Lesson]:
    stack = AsyncExitStack()
    folder = tmp_path_factory.mktemp("a folder, ä")
    yield run(stack.enter_async_context(lesson(folder)))
    run(stack.aclose())


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_costs_one_run_and_is_said_in_words(run, held, kind):
    assert any(run(held.happen(kind)) < SLOWER * RECOVERED_S for _ in range(TRIES))


@pytest.mark.parametrize("wrong", ["another trace", "nothing is told"])
def test_what_should_not_be_is_found(run, held, wrong, monkeypatch):
    if wrong == "another trace":
        monkeypatch.setattr(Lesson, "digest_of", lambda self, experiment: "0" * 64)
    else:
        monkeypatch.setitem(FAULTS, "thread left", (lambda: None, "a thread"))
    with pytest.raises(AssertionError, match=r"another trace|is told ''"):
        run(held.happen("thread left"))
