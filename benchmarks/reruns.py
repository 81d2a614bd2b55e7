"""Measures what a rerun of each page costs the server: milliseconds of CPU, beside an empty page of Streamlit's.

    python -m benchmarks.reruns --out benchmarks/results/reruns.json

One server, one reader, who speaks Streamlit's protocol as a browser does. On each page the reader moves the controls in
turn, each to up to OTHERS of its other choices and back, and waits for the answer. A page without a control only
reruns. Every page was opened and every control moved once before: traces are made, caches are warm, and what the server
does in the background has ended. A rerun's CPU time is that of the server's process, all threads, until the next one is
asked for: the script, its messages, what follows them. Workers are other processes.

Each of several passes measures all pages, and the empty page beside them. On a shared machine the others' work makes a
core slower, for seconds or minutes, and never faster. So for each page, the empty one too, the pass with the lowest
median counts.

Prints one JSON object: for each page the median of its reruns, and of those by its costliest control. Exits with 1 if a
page's median exceeds LIMIT_MS.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.classroom_load import every_page
from benchmarks.report import finish, parser_of
from explain.tab import Tab, open_socket
from tests.e2e.server import running_app

LIMIT_MS = 6.0
OTHERS = 3
WITHOUT = 6
"""Reruns of a page that has no control, each round."""
PATIENCE_S = 300.0  # a first run in the interpreter may take long
IDLE_MS = 20.0  # a second
PAUSE_S = 0.01  # the server's loop ends what belongs to a rerun
EMPTY = "import streamlit as st\n\nst.title('Empty')\nst.toggle('A control')\n"
"""A page that only has a control to move."""

Costs = dict[str, list[float]]
"""The CPU milliseconds of each rerun, by the label of the control that was moved; "" for none."""


async def rerun_costs(url: str, process: psutil.Process, page: str, rounds: int) -> Costs:
    """Each rerun's cost on one page, after a first round that is not counted. Raises PageFailedError."""
    costs: Costs = defaultdict(list)
    async with open_socket(url) as socket:
        tab = Tab(socket, page, PATIENCE_S)
        await tab.rerun()
        for lap in range(rounds + 1):
            for label, cost in await _lap(tab, process, list(tab.controls)):
                if lap:
                    costs[label].append(cost)
    return costs


async def _lap(tab: Tab, process: psutil.Process, ids: Sequence[str]) -> list[tuple[str, float]]:
    """Moves every control to its other choices and back; what each rerun cost, by the control's label."""
    costs = []

    async def timed(label: str, rerun: Any) -> None:
        before = cpu_ms(process)
        await rerun
        await asyncio.sleep(PAUSE_S)
        costs.append((label, cpu_ms(process) - before))

    for id in ids:
        home = tab.controls[id]
        for other in home.states[1 : OTHERS + 1]:
            for state in (other, home.states[0]):
                if id in tab.controls:
                    await timed(home.label, tab.move(state))
    for _ in range(0 if ids else WITHOUT):
        await timed("", tab.rerun())
    return costs


def cpu_ms(process: psutil.Process) -> float:
    """User and system time of this process, with the threads that have ended, in milliseconds. Linux only."""
    return time.clock_gettime_ns(~process.pid << 3 | 2) / 1e6  # clock_getcpuclockid(3): nanoseconds, not 10 ms


def summary(costs: Costs) -> dict[str, Any]:
    """Of a page: the median of all reruns, how many they were, and the costliest control with its median."""
    medians = {label: statistics.median(found) for label, found in costs.items()}
    costliest = max(medians, key=medians.__getitem__)
    every = [cost for found in costs.values() for cost in found]
    return {
        "ms": round(statistics.median(every), 2),
        "reruns": len(every),
        "costliest": costliest,
        "costliest_ms": round(medians[costliest], 2),
    }


def quietest(passes: Sequence[Costs]) -> dict[str, Any]:
    """The summary of the pass in which the reruns were cheapest."""
    return min(map(summary, passes), key=lambda one: float(one["ms"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if each page's median is within the limit."""
    parser = parser_of(__doc__)
    parser.add_argument("--passes", type=int, default=4, help="over all pages")
    parser.add_argument("--rounds", type=int, default=2, help="how often each control is moved in a pass")
    parser.add_argument("--page", action="append", default=[], help="path with optional query; default: all pages")
    options = parser.parse_args(arguments)
    pages = options.page or every_page()
    costs: dict[str, list[Costs]] = defaultdict(list)
    empty: list[Costs] = []
    with tempfile.TemporaryDirectory() as folder, running_app() as server:
        script = Path(folder, "empty.py")
        script.write_text(EMPTY, encoding="utf-8")
        with running_app(str(script)) as beside:
            for page in pages:
                asyncio.run(rerun_costs(server.url, server.process, page, 0))
            while True:  # until the server is idle
                before = cpu_ms(server.process)
                time.sleep(1)
                if cpu_ms(server.process) - before < IDLE_MS:
                    break
            for _ in range(options.passes):
                empty.append(asyncio.run(rerun_costs(beside.url, beside.process, "", 10 * options.rounds)))
                for page in pages:
                    costs[page].append(asyncio.run(rerun_costs(server.url, server.process, page, options.rounds)))
    found = {page or "home": quietest(costs[page]) for page in pages}
    for name, one in found.items():
        print(f"{name:20} {one['ms']:6.2f} ms   {one['costliest']}: {one['costliest_ms']} ms", file=sys.stderr)
    slowest = max(found, key=lambda page: found[page]["ms"])
    result = {
        "pages": found,
        "median_ms": statistics.median(page["ms"] for page in found.values()),
        "slowest": slowest,
        "slowest_ms": found[slowest]["ms"],
        "empty": quietest(empty),
        "passes": options.passes,
        "limit_ms": LIMIT_MS,
        "passed": found[slowest]["ms"] <= LIMIT_MS,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    return finish(result, "app", options.out)


if __name__ == "__main__":
    sys.exit(main())
