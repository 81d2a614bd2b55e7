"""How fast the player is: drawing a step, from a key to the painted frame, and until a chapter can be stepped.

    python -m benchmarks.player --out benchmarks/results/player.json

A real server and headless Chrome or Chromium share two cores. Keys step through each lecture from several places. A
draw is the player's synchronous pass. A paint runs from the key to the second animation frame after it, so it takes at
least two frames: 33 ms at 60 Hz. The same steps are measured again while more students have the chapter open, over
Streamlit's protocol. They do not step, since a step asks the server for nothing; frames counted at the websocket
check this. A chapter is ready when its first step is painted: cold on a fresh server with an empty browser cache, warm
when the same browser opens it again. Beside it, a Streamlit page with a title and nothing else, until that is painted.

Prints one JSON object. Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from playwright.sync_api import Browser, Page, ViewportSize, WebSocket

from benchmarks.classroom_load import RAMP_S, Tally, attend, cpu_seconds, share_cores
from benchmarks.report import chrome, finish, parser_of
from explain.engine import HEAD_START_S
from explain.player.view import view
from tests.e2e.server import Server, running_app

CHAPTER = "flash_attention"
LECTURES = {
    "64x64": "",  # the chapter's opening lecture
    "256x256": "inputs=normal&seq_len=256&kv_len=256&block_m=16&block_n=32&causal=true",
}
LIMITS_MS = {"64x64": {"draw": 8.0, "paint": 34.0}, "256x256": {"draw": 16.0, "paint": 50.0}}
READY_S = {"cold": 2.0, "warm": 1.3}
PACKET_BYTES = 500_000
STUDENTS, LESSON_S = 30, 3600.0
WARM_OPENINGS = 4  # per server; a browser caches compiled code only after it has loaded a script again
PLACES = 4  # evenly spaced starting steps in a run
VIEWPORT: ViewportSize = {"width": 1920, "height": 1080}  # wide enough for every panel
PATIENCE_MS = 120_000
IDLE_SHARE = 0.05  # of a core
QUIET_MS = 1500  # longer than the player waits before it writes the step to the address

PLAYER = """() => {
  const all = document.querySelectorAll("*");
  for (const { shadowRoot } of all) {
    const player = shadowRoot?.querySelector(".player[data-testid=player]");
    if (player && player.dataset.step !== undefined) return player;
  }
  return null;
}"""
READY = f"""() => {{
  const player = ({PLAYER})();
  if (!player) return false;
  globalThis.tilescopePlayer = player;
  return performance.now();
}}"""
PAINTED = """(ready, patience) => new Promise((done, fail) => {
  const look = (now) => {
    try {
      if (ready()) requestAnimationFrame(() => done(performance.now()));  // the frame before this one showed it
      else if (now > patience) fail(new Error(`not ready after ${patience} ms`));
      else requestAnimationFrame(look);
    } catch (error) {
      fail(error);
    }
  };
  requestAnimationFrame(look);
})"""
PANELS = """() => [...tilescopePlayer.querySelectorAll(".panel:not([hidden], .idea), .counters")]
  .map((panel) => ({
    name: panel.classList[1] ?? "counters",
    seen: panel.checkVisibility() && panel.clientHeight > 0,
  }))"""
EVERY_LINE = "localStorage.setItem('tilescope: depth', 'code'); localStorage.setItem('tilescope: clock', 'every')"
STEP = """async ([from, presses]) => {
  const player = globalThis.tilescopePlayer, range = player.querySelector(".timeline input");
  const frame = () => new Promise(requestAnimationFrame);
  const key = { key: "ArrowRight", bubbles: true, composed: true, cancelable: true };
  range.value = from;
  range.dispatchEvent(new Event("input", { bubbles: true }));
  await frame();
  await frame();
  const draws = [], paints = [];
  for (let i = 0; i < presses; i++) {
    const before = Number(player.dataset.step), start = performance.now();
    player.dispatchEvent(new KeyboardEvent("keydown", key));
    if (Number(player.dataset.step) !== before + 1) throw new Error(`step ${before} did not lead to the next`);
    draws.push(player.drawMs);
    await frame();
    await frame();
    paints.push(performance.now() - start);
  }
  return [draws, paints];
}"""


class Wire:
    """The traffic of a page's websocket: frames in both directions, and bytes received."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames = self.received = 0
        page.on("websocket", self._watch)

    def wait_until_quiet(self) -> None:
        """Waits until nothing is sent or received for QUIET_MS. Raises RuntimeError if that never happens."""
        deadline = time.monotonic() + PATIENCE_MS / 1e3
        while time.monotonic() < deadline:
            before = self.frames
            self.page.wait_for_timeout(QUIET_MS)
            if self.frames == before:
                return
        raise RuntimeError("the page and the server did not stop sending")

    def _watch(self, socket: WebSocket) -> None:
        socket.on("framesent", lambda _: self._count(0))
        socket.on("framereceived", lambda payload: self._count(len(payload)))

    def _count(self, received: int) -> None:
        self.frames += 1
        self.received += received


def open_lecture(page: Page, server: Server, query: str) -> float:
    """Opens the chapter; returns milliseconds from the navigation to the first painted step."""
    return opened(page, f"{server.url}/{CHAPTER}?{query}&step=0", READY)


def opened(page: Page, address: str, ready: str) -> float:
    """Opens an address; returns milliseconds from the navigation until the function `ready` holds and that is painted.

    Raises playwright's Error if it fails, or does not hold within PATIENCE_MS.
    """
    page.goto(address, wait_until="commit")
    return float(page.evaluate(f"({PAINTED})({ready}, {PATIENCE_MS})"))


def wait_for_rest(server: Server, after_s: float) -> None:
    """Waits `after_s` seconds, then until the app is idle. Raises RuntimeError if it never is."""
    time.sleep(after_s)
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while time.monotonic() < deadline:
        before = busy_seconds(server)
        time.sleep(1)
        if busy_seconds(server) - before < IDLE_SHARE:
            return
    raise RuntimeError("the app did not become idle")


def busy_seconds(server: Server) -> float:
    """CPU seconds of the server and all its children."""
    return sum(cpu_seconds(process) for process in (server.process, *server.process.children(recursive=True)))


def panels_of(page: Page) -> list[str]:
    """The panels on screen.

    Raises:
        RuntimeError: a panel of this run is not visible, so its drawing would not be measured.
    """
    panels = page.evaluate(PANELS)
    if away := [panel["name"] for panel in panels if not panel["seen"]]:
        raise RuntimeError(f"not on screen: {', '.join(away)}")
    return [panel["name"] for panel in panels]


def step_through(page: Page, presses: int, wire: Wire) -> dict[str, Any]:
    """Steps by keys from several places of the run. Returns milliseconds, and the websocket's frames until the end."""
    steps = int(page.evaluate("tilescopePlayer.dataset.steps"))
    draws: list[float] = []
    paints: list[float] = []
    wire.wait_until_quiet()
    before = wire.frames
    for place in range(PLACES):
        drawn, painted = page.evaluate(STEP, [place * steps // PLACES, min(presses, steps // PLACES - 1)])
        draws += drawn
        paints += painted
        page.wait_for_timeout(QUIET_MS)
    return {
        "steps": steps,
        "stepped": len(draws),
        "draw_ms": percentiles(draws),
        "paint_ms": percentiles(paints),
        "websocket_frames": wire.frames - before,
    }


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile."""
    cuts = statistics.quantiles(milliseconds, n=20, method="inclusive")
    return {"p50": round(cuts[9], 2), "p95": round(cuts[18], 2)}


@contextmanager
def class_of(students: int, server: Server) -> Iterator[None]:
    """A class in another process that has the chapter open while the block runs."""
    class_ = multiprocessing.get_context("spawn").Process(target=_attend_all, args=(server.url, students), daemon=True)
    class_.start()
    wait_for_rest(server, RAMP_S + 3)  # all students have arrived and have their page
    try:
        if not class_.is_alive():
            raise RuntimeError("the class did not stay")
        yield
        if not class_.is_alive():
            raise RuntimeError("the class left before the end")
    finally:
        class_.terminate()
        class_.join()


def _attend_all(url: str, students: int) -> None:
    async def attend_all() -> None:
        tally = Tally()
        stay = [(LESSON_S, "move")]
        each = (
            attend(url, iter([CHAPTER]), RAMP_S * i / students, stay, tally, random.Random(i)) for i in range(students)
        )
        await asyncio.gather(*each)

    asyncio.run(attend_all())


def openings(browser: Browser, runs: int, script: str, page_of: str, ready: str) -> dict[str, Any]:
    """Seconds until an app's page is ready, on fresh servers, and the bytes received until then."""
    seconds: dict[str, list[float]] = {"cold": [], "warm": []}
    received = 0
    for _ in range(runs):
        with running_app(script) as server:
            context = browser.new_context(viewport=VIEWPORT)
            for times in (seconds["cold"], *[seconds["warm"]] * WARM_OPENINGS):
                page = context.new_page()
                wire = Wire(page)
                times.append(opened(page, f"{server.url}/{page_of}", ready) / 1e3)
                received = max(received, wire.received)
                page.close()
            context.close()
    return {
        "ready_s": {how: round(statistics.median(times), 2) for how, times in seconds.items()},
        "slowest_s": {how: round(max(times), 2) for how, times in seconds.items()},
        "runs": runs,
        "websocket_bytes": received,
    }


def lecture_packet_bytes() -> int:
    """The size in bytes of the opening lecture's packet for the player: its trace and its view."""
    from explain import lessons, recordings
    from explain.player.component import Run, body_of
    from explain.trace.file import TraceFile

    run = TraceFile(recordings.path_of(lessons.OPENING).read_bytes())
    shown = view(lessons.OPENING, run.trace, "recorded")
    return len(body_of([Run(run, shown)]).packet(step=0, query="step", height=None))


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def overruns(result: Mapping[str, Any]) -> list[str]:
    """Each exceeded limit, as text."""
    over = []
    for name, limits in LIMITS_MS.items():
        for circumstance, measured in result["lectures"][name].items():
            for what, limit in limits.items():
                if (p95 := measured[f"{what}_ms"]["p95"]) > limit:
                    over.append(f"{name}, {circumstance}: {what} p95 {p95} ms, limit {limit:g}")
            if measured["websocket_frames"]:
                over.append(f"{name}, {circumstance}: stepping sent {measured['websocket_frames']} websocket frames")
    for how, limit in READY_S.items():
        if result["opening"]["ready_s"][how] > limit:
            over.append(f"ready {how} after {result['opening']['ready_s'][how]} s, limit {limit:g}")
    if result["packet_bytes"] > PACKET_BYTES:
        over.append(f"the packet has {result['packet_bytes']:,} bytes, limit {PACKET_BYTES:,}")
    return over


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if everything is within its limits."""
    parser = parser_of(__doc__)
    parser.add_argument("--presses", type=int, default=120, help="keys pressed from each starting step")
    parser.add_argument("--runs", type=int, default=5, help="fresh servers to open the chapter on")
    parser.add_argument("--students", type=int, default=STUDENTS)
    options = parser.parse_args(arguments)
    cores = share_cores()
    lectures: dict[str, dict[str, Any]] = {}
    with chrome() as browser:
        browser_version = browser.version
        with running_app() as server:
            for name, query in LECTURES.items():
                page = browser.new_page(viewport=VIEWPORT)
                page.add_init_script(EVERY_LINE)
                wire = Wire(page)
                ready = open_lecture(page, server, query)
                seen = panels_of(page)
                wait_for_rest(server, HEAD_START_S)  # until its workers have started and imported everything
                alone = step_through(page, options.presses, wire) | {"ready_s": round(ready / 1e3, 2), "panels": seen}
                with class_of(options.students, server):
                    among = step_through(page, options.presses, wire)
                lectures[name] = {"alone": alone, f"with {options.students} students": among}
                page.close()
        opening = openings(browser, options.runs, "app.py", f"{CHAPTER}?step=0", READY)
        with TemporaryDirectory() as folder:
            script = Path(folder, "empty.py")
            script.write_text('import streamlit as st\n\nst.title("Empty")\n')
            empty = openings(browser, options.runs, str(script), "", "() => document.querySelector('h1') !== null")
    result: dict[str, Any] = {
        "what": "milliseconds a step, p50 and p95; seconds until a chapter can be stepped, medians",
        "lectures": lectures,
        "opening": opening,
        "empty_page": empty,
        "packet_bytes": lecture_packet_bytes(),
        "limits": {"p95_ms": LIMITS_MS, "ready_s": READY_S, "packet_bytes": PACKET_BYTES},
    }
    over = overruns(result)
    result |= {
        "over": over,
        "passed": not over,
        "machine": {
            "processor": processor(),
            "cores": cores,
            "memory_gib": round(psutil.virtual_memory().total / 2**30),
        },
    }
    return finish(result, "player", options.out, chromium=browser_version)


if __name__ == "__main__":
    sys.exit(main())
