"""So many scripts of pages run at once; the others wait for their turn. Standard library only.

Python runs one thread at a time. With fifty scripts at once each takes fifty times as long, and the server's loop,
which sends what they made, waits for all of them before each of its own steps. With a few at once every reader is
answered sooner (`python -m benchmarks.classroom_load`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

AT_ONCE = 3
"""More than one: a script that takes long shall not stop those of all others."""
PATIENCE_S = 1.0
"""So long a script waits for its turn. Then it runs without one: nobody waits for ever, whatever the others do."""


class Turns:
    """At most `at_once` threads have a turn."""

    def __init__(self, at_once: int) -> None:
        self._free = threading.Semaphore(at_once)
        self._own = threading.local()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The block is this thread's turn."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The block only waits for something else: meanwhile another thread has this one's turn, if it has one."""
        if not self._give():
            yield
            return
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._own.has = self._free.acquire(timeout=PATIENCE_S)

    def _give(self) -> bool:
        """Ends this thread's turn; whether it had one."""
        had: bool = getattr(self._own, "has", False)
        self._own.has = False
        if had:
            self._free.release()
        return had


SCRIPTS = Turns(AT_ONCE)
