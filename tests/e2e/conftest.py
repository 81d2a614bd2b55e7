"""One app, one browser and one tab for a worker's browser tests; a watched page for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, CDPSession, ConsoleMessage, Error, Page, expect, sync_playwright

from explain.browser import NoBrowserError, find_browser
from explain.player.component import Run
from explain.player.export import standalone_html
from tests.e2e.server import Server, running_app

HERE = Path(__file__).parent
# What comes in time on an idle machine may come late on a busy one; a test that passes waits no longer.
PATIENCE_MS = 100_000

# A reader who has chosen the code, and every line of it, before; tests/e2e/test_idea.py has one who comes first.
CODE_READER = """try {
  localStorage.setItem("tilescope: depth", "code");
  localStorage.setItem("tilescope: clock", "every");
} catch { /* about:blank has no storage */ }"""

# Goes to an address of the app that is open, and waits until Streamlit has run the page. A quick run can begin and end
# without a sign of it in the page: then the server has said that it is done and is silent for a fifth of a second (or
# for a second, had it not said so). What was asked before is done first; should it take the new address's query away all
# the same, it moves again.
MOVE = """async (address) => {
  let app;
  while (!(app = document.querySelector("[data-test-script-state]"))) await new Promise((soon) => setTimeout(soon, 50));
  const until = (rests, patience) => new Promise((resolve) => {
    const is = () => (app.dataset.testScriptState === "notRunning") === rests;
    const end = (reached) => (watch.disconnect(), resolve(reached));
    const watch = new MutationObserver(() => is() && end(true));
    watch.observe(app, { attributeFilter: ["data-test-script-state"] });
    if (is()) end(true);
    else if (patience) setTimeout(end, patience, false);
  });
  const wire = window.testWire ??= listened({ sent: 0, heard: 0, at: 0, waits: false });
  function listened(wire) {
    const send = WebSocket.prototype.send, known = new WeakSet();
    const heard = ({ data }) => {
      const [field, value] = new Uint8Array(data).slice(-2);     // script_finished: FINISHED_SUCCESSFULLY
      if (data.byteLength < 100 && field === 6 << 3 && value === 0) wire.waits = false;
      wire.heard += 1;
      wire.at = performance.now();
    };
    WebSocket.prototype.send = function (message) {
      if (!known.has(this)) this.addEventListener("message", heard);
      known.add(this);
      wire.sent += 1;
      wire.waits = true;
      send.call(this, message);
    };
    return wire;
  }
  const place = new URL(address, location.href);
  const arrived = () => location.pathname === place.pathname && (location.search || !place.search);
  for (let tries = 0; !tries || (!arrived() && tries < 3); tries += 1) {
    for (let looks = 0; wire.waits && looks < 20; looks += 1) await new Promise((soon) => setTimeout(soon, 50));
    await until(true);
    history.pushState({}, "", address);
    const { sent, heard } = wire;
    let asked = 0;                                          // Streamlit asks for nothing where it is there already
    do dispatchEvent(new PopStateEvent("popstate", { state: {} }));
    while (wire.sent === sent && !await until(false, 100) && ++asked < 20);
    while (wire.sent !== sent && !await until(false, 200)
      && (wire.heard === heard || performance.now() - wire.at < (wire.waits ? 1_000 : 200)));
    await until(true);
  }
}"""

# An evaluation has no time limit of its own.
LATE = """new Promise((_, fail) => setTimeout(fail, 30_000, new Error("the page does not come to rest")))"""

# Streamlit fades what a run may replace, and each frame of that is drawn: a twelfth of what a page costs that is moved to.
WITHOUT_FADES = """{
  const still = new CSSStyleSheet();
  still.replaceSync("*, ::before, ::after { transition: none !important }");
  document.adoptedStyleSheets.push(still);
}"""

# A page lives for seconds here: compiling its JavaScript a second and a third time takes an eighth of all a test costs.
# A small space for its young objects is collected often: 65 s of CPU for two files where it is 63 with a larger one.
SHORT_LIVED = "--js-flags=--no-turbofan --no-maglev --min-semi-space-size=32"
# One process draws all pages: a new one for each site that a tab goes to costs a twentieth of all.
ONE_PROCESS = ("--renderer-process-limit=1", "--disable-site-isolation-trials")

NO_SNAPSHOTS = HERE / "no_snapshots.cjs"

expect.set_options(timeout=PATIENCE_MS)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test in this folder e2e, and keep a file's tests in one worker, where they share a tab and an app.

    A file whose tests take minutes can name groups of its own.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of all apps of this test run, empty at its beginning: as on a new machine."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "cache"


@pytest.fixture(scope="session")
def app(cache: Path) -> Iterator[Server]:
    """The app, started once from the project's root."""
    with running_app(cache=cache) as server:
        yield server


@pytest.fixture(scope="session")
def app_url(app: Server) -> str:
    """The address of the running app, such as http://127.0.0.1:8501."""
    return app.url


@pytest.fixture(scope="session")
def launch() -> Iterator[Callable[..., Browser]]:
    """launch(env=…): the machine's Chrome or Chromium, headless; without one the tests fail, they are never skipped."""
    try:
        path = find_browser()
    except (NoBrowserError, ValueError) as error:
        pytest.fail(str(error), pytrace=False)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(
            "NODE_OPTIONS", f'{os.environ.get("NODE_OPTIONS", "")} --require "{NO_SNAPSHOTS.as_posix()}"'
        )
        playwright = sync_playwright().start()
    yield partial(playwright.chromium.launch, executable_path=path, args=[SHORT_LIVED, *ONE_PROCESS])
    playwright.stop()


@pytest.fixture(scope="session")
def browser(launch: Callable[..., Browser]) -> Iterator[Browser]:
    """The browser of all tests but those that choose its fonts."""
    browser = launch()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[tuple[Page, CDPSession]]:
    """One tab for all tests: a new one costs two pages that open in a used one."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(CODE_READER)
    context.add_init_script(WITHOUT_FADES)
    page = context.new_page()
    yield page, context.new_cdp_session(page)
    context.close()


@pytest.fixture
def page(request: pytest.FixtureRequest, tab: tuple[Page, CDPSession], app: Server) -> Iterator[Page]:
    """A watched page of 1440×900, light, without a history, storage or a pointer over it: blank, or still of the app.

    A test that is tried again gets a blank one, and so a new session: the app remembers what its first try did.
    """
    page, devtools = tab
    page.set_viewport_size({"width": 1440, "height": 900})
    if page.evaluate("matchMedia('(prefers-color-scheme: dark), (prefers-reduced-motion: reduce)').matches"):
        page.emulate_media(color_scheme="light", reduced_motion="no-preference")  # has every style computed again
    page.mouse.move(0, 0)
    if not page.url.startswith(app.url) or getattr(request.node, "execution_count", 1) > 1:
        page.goto("about:blank")
    devtools.send("Page.resetNavigationHistory")
    with watched(page, app):
        yield page
        if not page.url.startswith("about:"):
            page.evaluate("[sessionStorage, localStorage].forEach((storage) => storage.clear())")


@pytest.fixture
def visit(page: Page, app: Server) -> Callable[[str], Page]:
    """visit("softmax?step=3"): the page at an address of the app.

    Where the app is open it moves there, as the browser's Back and Forward do. That costs half of a page that is loaded
    (`page.goto`), which compiles Streamlit again. A page that is open already is left first, so its parts are new.
    """

    def visit(address: str) -> Page:
        if page.url.startswith(app.url):
            page.evaluate(CODE_READER)
            if (path := urlsplit(page.url).path) == urlsplit(f"/{address}").path:
                move(page, app, "notes" if path != "/notes" else "questions")  # the notes cost least
        move(page, app, address)
        return page

    return visit


def move(page: Page, app: Server, address: str) -> None:
    """Moves to an address of the app where that is open, else loads it."""
    if page.url.startswith(app.url):
        try:
            page.evaluate(f"(address) => Promise.race([({MOVE})(address), {LATE}])", f"/{address}")
            return
        except Error:  # on a busy machine a move can be lost between two runs of the page
            pass
    page.goto(f"{app.url}/{address}")


def rests(page: Page) -> None:
    """Waits until the page has run: what is pressed before may be replaced under the pointer, and the press lost."""
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()


def go(page: Page, step: int) -> None:
    """Goes to a step of the player as a reader does, by its number."""
    player = page.get_by_test_id("player")
    player.press("g")
    page.get_by_role("textbox", name="Step number").fill(str(step))
    page.keyboard.press("Enter")
    expect(player).to_have_attribute("data-step", str(step))


@pytest.fixture
def alone(page: Page, tmp_path: Path) -> Callable[..., Page]:
    """alone(run, …, step=0): the player at *Code* on a page of its own, which opens from disk.

    What needs no server is tested so: it costs a third of a page of the app.
    """

    def alone(*runs: Run, step: int | None = 0) -> Page:
        file = tmp_path / "player.html"
        file.write_text(standalone_html(runs, step))
        page.goto(file.as_uri())
        expect(page.get_by_test_id("player")).not_to_have_attribute("data-steps", "0")
        return page

    return alone


@contextmanager
def watched(page: Page, app: Server) -> Iterator[None]:
    """Fails at its end if the page logged an error or raised one, asked any machine but this one for anything, or left
    a traceback in the server's log."""
    faults: list[str] = []
    log_before = len(app.log.read_text(errors="replace"))
    listeners: dict[str, Callable[[Any], None]] = {
        "console": lambda message: faults.extend(_console_faults(message)),
        "pageerror": lambda error: faults.append(f"page: {error}"),
        "request": lambda r: None if _is_local(r.url, app.url) else faults.append(f"asked for {r.url}"),
        "websocket": lambda w: None if _is_local(w.url, app.url) else faults.append(f"asked for {w.url}"),
    }
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]  # it wants a literal for each
    yield
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    printed = app.log.read_text(errors="replace")[log_before:]
    if "Traceback (most recent call last)" in printed:
        faults.append(f"server: {printed}")
    assert not faults, "\n".join(faults)


def _console_faults(message: ConsoleMessage) -> list[str]:
    asked = urlsplit(message.location["url"]).path
    return [f"console: {message.text} ({asked})"] if message.type == "error" else []


def _is_local(url: str, app_url: str) -> bool:
    host = app_url.removeprefix("http://")
    return url.startswith((f"http://{host}/", f"ws://{host}/", "file:", "data:", "blob:", "about:"))
