"""Each kind of fault once; `python -m benchmarks.faults` lets each happen many times."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.faults.lesson import KINDS, RECOVERED_S, Lesson, lesson
from tests.faults.worker import FAULTS

SLOWER = 4
"""How much longer than a whole benchmark's run one may take beside other tests."""


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def held(loop, tmp_path_factory) -> Iterator[Lesson]:
    stack = AsyncExitStack()
    folder = tmp_path_factory.mktemp("a folder, ä")
    yield loop.run_until_complete(stack.enter_async_context(lesson(folder)))
    loop.run_until_complete(stack.aclose())


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_costs_one_run_and_is_said_in_words(loop, held, kind):
    loop.run_until_complete(held.happen(kind))
    assert held.slowest_s < SLOWER * RECOVERED_S


@pytest.mark.parametrize("wrong", ["another trace", "nothing is told"])
def test_what_should_not_be_is_found(loop, held, wrong, monkeypatch):
    if wrong == "another trace":
        monkeypatch.setattr(Lesson, "digest_of", lambda self, experiment: "0" * 64)
    else:
        monkeypatch.setitem(FAULTS, "thread left", (lambda: None, "a thread"))
    with pytest.raises(AssertionError, match=r"another trace|is told ''"):
        loop.run_until_complete(held.happen("thread left"))
