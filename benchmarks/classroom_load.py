"""Measures how long students wait when a whole class uses the app at once.

    python -m benchmarks.classroom_load --students 300 --duration-s 600 --blip --out classroom.json

Starts the app with `streamlit run app.py` on a free port, on --cores cores with all its workers. The students run on
the machine's other cores, as they have machines of their own; where there are none, on the same ones. Each
student speaks Streamlit's protocol over a websocket, as a browser does: opens a page, keeps the large messages, moves a
control every period (± a quarter), to one of its next choices or back, and goes to another page every --stay-s.
Students arrive during --ramp-s. To step through a kernel asks the server for nothing. A latency runs from the moment
when a rerun is due until the script has finished and all its messages have arrived. A late answer therefore counts in
full, although its student asks less often. The cache of recorded runs is empty at the beginning. --rehearsed fills it:
so many minutes of `python -m explain rehearse` on all cores, as a lecturer lets it run the day before. --cache takes a
folder that a rehearsal has filled (TILESCOPE_CACHE=FOLDER), and adds what the lesson records. With --blip the network
is gone for BLIP_S in the middle of the lesson: all connections are cut at once, and each student goes on with the same
session, or has lost it.

Prints one JSON object. Exits with 1 if the 95th percentile exceeds --p95-ms, that of opened pages FIRST_P95_MS, a
connection or a session was lost, a page failed, or no rerun finished.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import psutil
from websockets.exceptions import WebSocketException

from benchmarks.report import finish, loop_s, parser_of
from explain import ROOT, app_process, contents
from explain.tab import PageFailedError, Tab, cookies_of, open_socket
from tests.e2e.server import Server, running_app, running_hall

CORES = 2
RAMP_S = 5.0
STAY_S = 60.0
BLIP_S = 3.0
FIRST_P95_MS = 3000.0


Deed = tuple[float, str]
"""When, and what: "move" a control, "turn" to another page, "blip" (the network is gone for a while)."""


@dataclass(frozen=True)
class Lesson:
    """What the class does: pages assigned in turn, one control moved per period; times in seconds."""

    students: int
    period_s: float
    duration_s: float
    pages: tuple[str, ...]
    ramp_s: float = RAMP_S
    stay_s: float = STAY_S
    blip: bool = False
    seed: int = 0
    """Of all that is random in it."""

    def due(self, rng: random.Random) -> list[Deed]:
        """What one student does, in seconds from the start: periodic, with a random phase and jitter."""
        phase, stay = rng.uniform(0, self.period_s), rng.uniform(0, self.stay_s)
        moves = (phase + (beat + rng.uniform(-0.25, 0.25)) * self.period_s for beat in range(
            int(self.duration_s / self.period_s)))  # fmt: skip
        turns = (stay + turn * self.stay_s for turn in range(int(self.duration_s / self.stay_s)))
        deeds = [*((moment, "move") for moment in moves), *((moment, "turn") for moment in turns)]
        if self.blip:
            deeds.append((self.duration_s / 2, "blip"))
        return sorted((self.ramp_s + moment, deed) for moment, deed in deeds)


@dataclass
class Tally:
    """The measurements so far; times in seconds."""

    first_pages: list[float] = field(default_factory=list)
    reruns: list[float] = field(default_factory=list)
    dropped: int = 0
    """Connections that were lost, or given up."""
    gave_up: int = 0
    """Of these: after an answer did not come within the tab's patience."""
    failed: int = 0
    lost: int = 0
    """Sessions that a blip of the network ended."""


async def attend(
    url: str, pages: Iterator[str], arrival: float, due: Sequence[Deed], tally: Tally, rng: random.Random,
    trust: ssl.SSLContext | None = None,
) -> None:  # fmt: skip
    """One student's lesson; `arrival` and what is `due` are in seconds from now. `trust`: of a server with TLS."""
    clock = asyncio.get_running_loop().time
    start = clock()
    await asyncio.sleep(arrival)
    try:
        async with AsyncExitStack() as stack:
            socket = await stack.enter_async_context(open_socket(url, ssl=trust))
            tab = Tab(socket, next(pages))
            await tab.rerun()
            tally.first_pages.append(clock() - start - arrival)
            for moment, deed in due:
                await asyncio.sleep(max(0.0, start + moment - clock()))
                if deed == "blip":
                    before, cookies = tab.session, cookies_of(socket)
                    socket.transport.abort()
                    await asyncio.sleep(BLIP_S)
                    again = open_socket(url, session=before, cookies=cookies, ssl=trust)
                    socket = await stack.enter_async_context(again)
                    await tab.reconnect(socket)
                    tally.lost += tab.session != before
                elif deed == "turn":
                    await tab.turn(next(pages))
                    tally.first_pages.append(clock() - start - moment)
                else:
                    await tab.move_at_random(rng)
                    tally.reruns.append(clock() - start - moment)
    except (WebSocketException, OSError) as error:
        tally.dropped += 1
        tally.gave_up += isinstance(error, TimeoutError)
    except PageFailedError as error:
        tally.failed += 1
        print(error, file=sys.stderr)


async def hold(server: Server, lesson: Lesson) -> dict[str, Any]:
    """Holds the lesson and returns its measurements."""
    pages = lesson.pages or every_page()
    tally, rng = Tally(), random.Random(lesson.seed)
    class_ = [
        attend(
            server.url, islice(cycle(pages), i % len(pages), None), lesson.ramp_s * i / lesson.students,
            lesson.due(rng), tally, random.Random(rng.random()), server.trust,
        )
        for i in range(lesson.students)
    ]  # fmt: skip
    apps = server.apps
    resident = resident_mib(apps)
    before = sum(map(cpu_seconds, apps))
    start = asyncio.get_running_loop().time()
    await asyncio.gather(*class_)
    elapsed = asyncio.get_running_loop().time() - start
    return {
        "students": lesson.students,
        "processes": len(apps),
        "period_s": lesson.period_s,
        "duration_s": lesson.duration_s,
        "ramp_s": lesson.ramp_s,
        "stay_s": lesson.stay_s,
        "blip_s": BLIP_S if lesson.blip else 0.0,
        "seed": lesson.seed,
        "pages": pages,
        "reruns": len(tally.reruns),
        **milliseconds(tally.reruns),
        "first_page": milliseconds(tally.first_pages),
        "opened": len(tally.first_pages),
        "dropped": tally.dropped,
        "gave_up": tally.gave_up,
        "failed": tally.failed,
        "lost": tally.lost,
        "server_cpu_share": round((sum(map(cpu_seconds, apps)) - before) / elapsed, 3),
        "server_rss_mib": resident_mib(apps),
        "mib_a_student": round((resident_mib(apps) - resident) / lesson.students, 3),
        "workers_rss_mib": resident_mib([worker for app in apps for worker in app.children(recursive=True)]),
    }


def rehearse(cache: Path, minutes: int) -> int:
    """Rehearses the lesson for so many minutes; how many runs that recorded."""
    if minutes:
        command = [sys.executable, "-m", "explain", "rehearse", "--minutes", str(minutes)]
        environment = app_process.environment(TILESCOPE_CACHE=str(cache))
        subprocess.run(command, env=environment, cwd=ROOT, stdout=sys.stderr, check=True)
    return runs_in(cache)


def runs_in(cache: Path) -> int:
    """How many recorded runs and outputs a cache keeps."""
    return sum(1 for _ in cache.glob("traces/*.*"))


def every_page() -> tuple[str, ...]:
    """The path of each page, home first."""
    return tuple("" if page.kind == "home" else page.stem for page in contents.pages())


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


def share_cores(most: int = CORES) -> int | None:
    """Restricts this process, and the app it starts, to at most so many cores; how many they are, None if the system
    cannot."""
    cores = available_cores()[:most]
    if not cores:
        return None
    psutil.Process().cpu_affinity(cores)
    return len(cores)


def available_cores() -> list[int]:
    """The cores that this process may use; empty where the system does not say."""
    return [] if sys.platform == "darwin" else list(psutil.Process().cpu_affinity())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if the class was served in time."""
    parser = parser_of(__doc__)
    parser.add_argument("--students", type=bounded(int, 1, 1000), default=100)
    parser.add_argument("--processes", type=bounded(int, 1, 64), default=1, help="above 1: behind nginx (docs/hall.md)")
    parser.add_argument("--period-s", type=bounded(float, 0.1, 60), default=5.0, help="seconds between moves")
    parser.add_argument("--duration-s", type=bounded(float, 1, 3600), default=60.0, help="seconds after all have come")
    parser.add_argument("--ramp-s", type=bounded(float, 0, 600), default=RAMP_S, help="seconds until all have come")
    parser.add_argument("--stay-s", type=bounded(float, 1, 3600), default=STAY_S, help="seconds on a page")
    parser.add_argument("--rehearsed", type=bounded(int, 0, 60), default=0, help="minutes of a rehearsal before (0)")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="of recorded runs; default: a new one, empty")
    parser.add_argument("--cores", type=bounded(int, 1, 256), default=CORES, help="for the app and its workers")
    parser.add_argument("--seed", type=int, help="of its choices; default: others each time, so that none is kept")
    parser.add_argument("--blip", action="store_true", help="cut all connections once")
    parser.add_argument("--page", action="append", default=[], help="path with optional query; default: all pages")
    parser.add_argument("--p95-ms", type=bounded(float, 1, 60_000), default=300.0, help="limit of the 95th percentile")
    options = parser.parse_args(arguments)
    if options.duration_s < options.period_s:
        parser.error("--duration-s must be at least --period-s")
    lesson = Lesson(
        options.students, options.period_s, options.duration_s, tuple(options.page), options.ramp_s, options.stay_s,
        options.blip, random.randrange(10**6) if options.seed is None else options.seed,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        cache = options.cache or Path(folder)
        rehearsed = rehearse(cache, options.rehearsed)
        loop_before_s = loop_s()
        every = available_cores()
        cores = share_cores(options.cores)
        alone = options.processes == 1
        serving = running_app(cache=cache) if alone else running_hall(options.processes, cache=cache)
        with serving as server:
            if others := every[options.cores :]:
                psutil.Process().cpu_affinity(others)
            result = asyncio.run(hold(server, lesson))
        recorded = runs_in(cache) - rehearsed
    served = result["dropped"] == result["failed"] == result["lost"] == 0 and result["p95_ms"] is not None
    opened = result["first_page"]["p95_ms"]
    result |= {
        "loop_before_s": loop_before_s,
        "rehearsed_minutes": options.rehearsed,
        "rehearsed_cores": os.cpu_count() if options.rehearsed else None,
        "rehearsed_runs": rehearsed,
        "recorded_runs": recorded,
        "limit_p95_ms": options.p95_ms,
        "limit_first_p95_ms": FIRST_P95_MS,
        "passed": served and result["p95_ms"] <= options.p95_ms and opened <= FIRST_P95_MS,
        "cores": cores,
        "students_cores": len(others),
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
