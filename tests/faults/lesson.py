"""A lesson in which faults happen: a server, the reader to whom they happen, and one beside them.

Each fault costs one run at most. Its reader is told in words what happened, and the next run is right: the trace is,
bit by bit, the one that another worker makes. No reader loses the connection, no page fails, and the server is the same
process to the end.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
from streamlit.proto.Alert_pb2 import Alert

from explain.engine import Engine
from explain.experiment import Experiment
from explain.tab import Tab, open_socket
from tests.e2e.server import Server, running_app
from tests.faults.digest import digest_of
from tests.faults.worker import A_KIND, FAULTS, NOTHING

WELL = Experiment.of("softmax_online", {"rows": 2, "cols": 24, "block_n": 8})
PRESETS = ("normal", "ascending", "descending", "large_magnitude", "spike_last_tile")
RECOVERED_S = 5.0
"""The longest that the run after a fault may take."""


class Reader(Tab):
    """A tab that keeps what the page shows: the trace's digest, and what went wrong in words."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.digest = self.error = ""

    async def look_at(self, experiment: Experiment) -> None:
        """Opens the run of an experiment. Raises as `rerun`."""
        self.digest = self.error = ""
        self._query = f"experiment={quote(experiment.key)}"
        await self.rerun()

    def _draw(self, delta: Any, path: tuple[int, ...]) -> None:
        element = delta.new_element
        if element.WhichOneof("type") == "alert" and element.alert.format == Alert.ERROR:
            self.error = element.alert.body
        if element.WhichOneof("type") == "text":
            self.digest = element.text.body
        if element.WhichOneof("type"):
            super()._draw(delta, path)


@dataclass
class Lesson:
    """A server with its readers, and what has happened so far."""

    server: Server
    reader: Reader
    neighbour: Reader
    right: Engine
    cache: Path
    random: random.Random = field(default_factory=lambda: random.Random(0))
    numbers: Iterator[int] = field(default_factory=itertools.count)
    runs: int = 0

    async def happen(self, kind: str) -> float:
        """Lets the fault happen once and looks at what it leaves; the seconds that the next run takes.

        Raises AssertionError for what should not be.
        """
        place = f"{kind}, time {self.runs}"
        if kind in FAULTS:
            _, words = FAULTS[kind]
            number = next(self.numbers) % A_KIND  # another each time: a fault may leave a right trace, which is kept
            experiment = WELL.with_(seed=([*FAULTS].index(kind) + 1) * A_KIND + number)
            await self.reader.look_at(experiment)
        else:
            words, inject = OUTSIDE[kind]
            experiment = self.next()
            await inject(self, experiment)
        told = self.reader.error
        assert re.search(words, told), f"{place}: the reader is told {told!r} and sees {self.shown(experiment)}"
        assert told or self.reader.digest == self.digest_of(experiment), f"{place}: another trace"
        began, after = time.monotonic(), self.next()
        await self.reader.look_at(after)
        recovered_s = time.monotonic() - began
        assert not self.reader.error, f"{place}: the next run says {self.reader.error!r}"
        assert self.reader.digest == self.digest_of(after), f"{place}: the next trace is another"
        await self.neighbour.look_at(WELL)
        assert self.neighbour.digest == self.digest_of(WELL), f"{place}: the neighbour sees {self.neighbour.error!r}"
        assert self.server.process.is_running(), f"{place}: the server has ended"
        return recovered_s

    def next(self) -> Experiment:
        """A run that was not made yet."""
        self.runs += 1
        return WELL.with_(inputs=PRESETS[self.runs // A_KIND % len(PRESETS)], seed=self.runs % A_KIND)

    def digest_of(self, experiment: Experiment) -> str:
        """Of the trace that a worker makes to which nothing happens."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "right.tilescope"
            self.right.trace_to(experiment, path)
            return digest_of(path.read_bytes())

    def shown(self, experiment: Experiment) -> str:
        """What the reader sees of a run, in words."""
        return {"": "no trace", self.digest_of(experiment): "its trace"}.get(self.reader.digest, "another trace")

    def workers(self) -> list[psutil.Process]:
        """The server's trace workers."""
        return [one for one in self.server.process.children() if one.status() != psutil.STATUS_ZOMBIE]

    def kept(self) -> Path:
        """The trace that the server has written last."""
        return max(self.cache.glob("traces/*.tilescope"), key=lambda path: path.stat().st_ctime_ns)


async def kill_all(lesson: Lesson) -> None:
    """Kills the workers and waits until they are dead: freeing their memory takes a while."""
    workers = lesson.workers()
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    while any(worker in lesson.workers() for worker in workers):
        await asyncio.sleep(0.01)


async def idle_killed(lesson: Lesson, experiment: Experiment) -> None:
    await kill_all(lesson)
    await lesson.reader.look_at(experiment)


async def killed_at_any_time(lesson: Lesson, experiment: Experiment) -> None:
    asked = asyncio.create_task(lesson.reader.look_at(experiment))
    await asyncio.sleep(lesson.random.uniform(0, 0.25))
    await kill_all(lesson)
    await asked


async def stopped_from_outside(lesson: Lesson, experiment: Experiment) -> None:
    for worker in lesson.workers():
        worker.send_signal(signal.SIGSTOP)
    await lesson.reader.look_at(experiment)
    for worker in lesson.workers():
        with suppress(psutil.NoSuchProcess):
            worker.send_signal(signal.SIGCONT)


def kept_is(change: Callable[[Lesson, Path], None]) -> Callable[[Lesson, Experiment], Any]:
    """A fault of the file that a run has left: it is asked for again."""

    async def inject(lesson: Lesson, experiment: Experiment) -> None:
        await lesson.reader.look_at(experiment)
        change(lesson, lesson.kept())
        await lesson.reader.look_at(experiment)

    return inject


def damaged(lesson: Lesson, path: Path) -> None:
    """A byte changed: of the header, one after the other, or any."""
    data = bytearray(path.read_bytes())
    at = lesson.runs % 64 if lesson.runs % 2 else lesson.random.randrange(len(data))
    data[at] ^= 1 << lesson.random.randrange(8)
    path.write_bytes(data)


def cut_off(lesson: Lesson, path: Path) -> None:
    os.truncate(path, lesson.random.randrange(path.stat().st_size))


def of_another_run(lesson: Lesson, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other.tilescope"
        lesson.right.trace_to(WELL.with_(inputs="ascending"), other)
        shutil.copy(other, path)


def a_folder(lesson: Lesson, path: Path) -> None:
    path.unlink()
    path.mkdir()


def from_the_future(lesson: Lesson, path: Path) -> None:
    moment = lesson.random.choice((0.0, 4e9))
    for one in path.parent.glob("*.tilescope"):
        os.utime(one, (moment, moment))


async def no_cache(lesson: Lesson, experiment: Experiment) -> None:
    """Nothing can be written where traces are kept: there is a file in the folder's place."""
    folder, aside = lesson.cache / "traces", lesson.cache / "aside"
    folder.rename(aside)
    folder.write_bytes(b"")
    await lesson.reader.look_at(experiment)
    folder.unlink()
    aside.rename(folder)


OUTSIDE: dict[str, tuple[str, Callable[[Lesson, Experiment], Any]]] = {
    "killed while idle": (f"SIGKILL|{NOTHING}", idle_killed),
    "killed at any time": (f"SIGKILL|{NOTHING}", killed_at_any_time),
    "stopped from outside": (f"longer than its limit|was stopped|{NOTHING}", stopped_from_outside),
    "cache damaged": (NOTHING, kept_is(damaged)),
    "cache cut": (NOTHING, kept_is(cut_off)),
    "cache of another run": (NOTHING, kept_is(of_another_run)),
    "cache is a folder": (NOTHING, kept_is(a_folder)),
    "clock jumps": (NOTHING, kept_is(from_the_future)),
    "cache cannot be made": (NOTHING, no_cache),
}
"""What the reader may be told, as a pattern, and the fault, done to the server's workers and files."""
KINDS = (*FAULTS, *OUTSIDE)


@asynccontextmanager
async def lesson(cache: Path) -> AsyncIterator[Lesson]:
    """A lesson whose server keeps its traces in `cache`."""
    right = Engine()
    try:
        with running_app("tests/faults/app.py", cache=cache) as server:
            async with open_socket(server.url) as one, open_socket(server.url) as other:
                held = Lesson(server, Reader(one, ""), Reader(other, ""), right, cache)
                await held.reader.look_at(WELL)
                assert held.reader.digest == held.digest_of(WELL), held.reader.error
                yield held
    finally:
        right.close()
