"""Measures how long students wait when a whole class uses the app at once.

    python -m benchmarks.classroom_load --students 100 --out classroom.json

Starts the app with `streamlit run app.py` on a free port, on two cores that it shares with the students. Each student
speaks Streamlit's protocol over a websocket, as a browser does: opens a page, keeps the large messages, and asks for a
rerun every period (± a quarter). Students arrive during a ramp of a few seconds. A latency runs from the moment when a
rerun is due until the script has finished and all its messages have arrived. A late answer therefore counts in full,
although its student asks less often.

Prints one JSON object. Exits with 1 if the 95th percentile exceeds --p95-ms, a connection was lost, a page failed, or
no rerun finished.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from benchmarks.report import finish, parser_of
from explain import contents
from tests.e2e.server import Server, running_app

CORES = 2
RAMP_S = 5.0
FINISHED = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
PATIENCE_S = 30.0  # a longer wait counts as a lost connection


class PageFailedError(Exception):
    """The page showed an exception or was not found."""


@dataclass(frozen=True)
class Lesson:
    """What the class does: pages assigned in turn, one rerun per period; times in seconds."""

    students: int
    period_s: float
    duration_s: float
    pages: tuple[str, ...]

    def due(self, rng: random.Random) -> Iterator[float]:
        """The times of one student's reruns, in seconds from the start: periodic, with a random phase and jitter."""
        phase = rng.uniform(0, self.period_s)
        for beat in range(int(self.duration_s / self.period_s)):
            yield RAMP_S + phase + (beat + rng.uniform(-0.25, 0.25)) * self.period_s


@dataclass
class Tally:
    """The measurements so far; times in seconds."""

    first_pages: list[float] = field(default_factory=list)
    reruns: list[float] = field(default_factory=list)
    dropped: int = 0
    failed: int = 0


class Tab:
    """One student's browser tab."""

    def __init__(self, socket: ClientConnection, page: str) -> None:
        self._socket = socket
        address = urlsplit(page)
        self._page_name, self._query = address.path.strip("/"), address.query
        self._page_hash = ""
        self._kept: set[str] = set()

    async def rerun(self) -> None:
        """Asks for a run of the page, as a control does, and receives all of its messages.

        Raises:
            PageFailedError: the page raised an error or does not exist.
            TimeoutError: the run does not end within PATIENCE_S.
        """
        request = BackMsg()
        request.rerun_script.query_string = self._query
        request.rerun_script.page_script_hash = self._page_hash
        request.rerun_script.page_name = "" if self._page_hash else self._page_name
        request.rerun_script.cached_message_hashes.extend(self._kept)
        async with asyncio.timeout(PATIENCE_S):
            await self._socket.send(request.SerializeToString())
            while not self._take(ForwardMsg.FromString(await self._socket.recv(decode=False))):
                pass

    def _take(self, message: Any) -> bool:
        """Handles a message as a browser does; True if the run has ended."""
        kind = message.WhichOneof("type")
        if message.metadata.cacheable and kind != "ref_hash":
            self._kept.add(message.hash)
        if kind == "navigation":
            self._page_hash = message.navigation.page_script_hash
        elif kind == "page_not_found":
            raise PageFailedError(f"no page {self._page_name!r}")
        elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
            raise PageFailedError(f"{self._page_name!r}: {message.delta.new_element.exception.message}")
        elif kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
            raise PageFailedError(f"{self._page_name!r} does not compile")
        return bool(kind == "script_finished" and message.script_finished in FINISHED)


def open_socket(url: str) -> connect:
    """A connection like a browser's: same origin and subprotocol, no proxy."""
    return connect(
        url.replace("http://", "ws://") + "/_stcore/stream",
        origin=url,  # type: ignore[arg-type]  # websockets has its own NewType of str
        subprotocols=["streamlit", "PLACEHOLDER_AUTH_TOKEN"],  # type: ignore[list-item]
        compression=None,
        max_size=None,
        proxy=None,
    )


async def attend(url: str, page: str, arrival: float, due: Iterator[float], tally: Tally) -> None:
    """One student's lesson; `arrival` and the reruns `due` are in seconds from now."""
    clock = asyncio.get_running_loop().time
    start = clock()
    await asyncio.sleep(arrival)
    try:
        async with open_socket(url) as socket:
            tab = Tab(socket, page)
            await tab.rerun()
            tally.first_pages.append(clock() - start - arrival)
            for moment in due:
                await asyncio.sleep(max(0.0, start + moment - clock()))
                await tab.rerun()
                tally.reruns.append(clock() - start - moment)
    except (WebSocketException, OSError):  # TimeoutError is an OSError
        tally.dropped += 1
    except PageFailedError as error:
        tally.failed += 1
        print(error, file=sys.stderr)


async def hold(server: Server, lesson: Lesson) -> dict[str, Any]:
    """Holds the lesson and returns its measurements."""
    pages = lesson.pages or tuple("" if page.kind == "home" else page.stem for page in contents.pages())
    tally, rng = Tally(), random.Random(0)
    class_ = [
        attend(server.url, pages[i % len(pages)], RAMP_S * i / lesson.students, lesson.due(rng), tally)
        for i in range(lesson.students)
    ]
    before = cpu_seconds(server.process)
    start = asyncio.get_running_loop().time()
    await asyncio.gather(*class_)
    elapsed = asyncio.get_running_loop().time() - start
    return {
        "students": lesson.students,
        "period_s": lesson.period_s,
        "duration_s": lesson.duration_s,
        "pages": pages,
        "reruns": len(tally.reruns),
        **milliseconds(tally.reruns),
        "first_page": milliseconds(tally.first_pages),
        "dropped": tally.dropped,
        "failed": tally.failed,
        "server_cpu_share": round((cpu_seconds(server.process) - before) / elapsed, 3),
        "server_rss_mib": resident_mib([server.process]),
        "workers_rss_mib": resident_mib(server.process.children(recursive=True)),
    }


def milliseconds(seconds: Sequence[float]) -> dict[str, float | None]:
    """Median, 95th and 99th percentile and maximum in ms; None for fewer than two values."""
    if len(seconds) < 2:
        return dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "max_ms"))
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    named = {"p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98], "max_ms": max(seconds)}
    return {name: round(value * 1e3, 1) for name, value in named.items()}


def cpu_seconds(process: psutil.Process) -> float:
    """User and system time of this process, without its children, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


def resident_mib(processes: Sequence[psutil.Process]) -> float:
    """Resident memory of the processes, in MiB."""
    return float(round(sum(process.memory_info().rss for process in processes) / 2**20, 1))


def share_two_cores() -> int | None:
    """Restricts this process, and the app it starts, to CORES cores; returns how many, None if the system cannot."""
    if sys.platform == "darwin":
        return None
    cores = psutil.Process().cpu_affinity()[:CORES]
    psutil.Process().cpu_affinity(cores)
    return len(cores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if the class was served in time."""
    parser = parser_of(__doc__)
    parser.add_argument("--students", type=bounded(int, 1, 1000), default=100)
    parser.add_argument("--period-s", type=bounded(float, 0.1, 60), default=2.0, help="seconds between reruns")
    parser.add_argument("--duration-s", type=bounded(float, 1, 3600), default=60.0, help="seconds after all have come")
    parser.add_argument("--page", action="append", default=[], help="path with optional query; default: all pages")
    parser.add_argument("--p95-ms", type=bounded(float, 1, 60_000), default=300.0, help="limit of the 95th percentile")
    options = parser.parse_args(arguments)
    if options.duration_s < options.period_s:
        parser.error("--duration-s must be at least --period-s")
    lesson = Lesson(options.students, options.period_s, options.duration_s, tuple(options.page))
    cores = share_two_cores()
    with running_app() as server:
        result = asyncio.run(hold(server, lesson))
    served = result["dropped"] == result["failed"] == 0 and result["p95_ms"] is not None
    result |= {
        "limit_p95_ms": options.p95_ms,
        "passed": served and result["p95_ms"] <= options.p95_ms,
        "cores": cores,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    return finish(result, "app", options.out)


def bounded(kind: Callable[[str], float], low: float, high: float) -> Any:
    """An argparse type: a number of `kind` from `low` to `high`."""

    def number(text: str) -> float:
        with suppress(ValueError):
            value = kind(text)
            if low <= value <= high:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from {low:g} to {high:g}")

    return number


if __name__ == "__main__":
    sys.exit(main())
