"""One app and one browser for all browser tests; a fresh, watched page for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.e2e.browser import NoBrowserError, find_browser
from tests.e2e.server import Server, running_app

HERE = Path(__file__).parent
PATIENCE_MS = (
    120_000  # what comes in time on an idle machine may come late on a busy one; a test that passes waits no longer
)

expect.set_options(timeout=PATIENCE_MS)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test in this folder e2e and keep them in one worker, where they share the app."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.xdist_group("e2e"))


@pytest.fixture(scope="session")
def app() -> Iterator[Server]:
    """The app, started once from the project's root."""
    with running_app() as server:
        yield server


@pytest.fixture(scope="session")
def app_url(app: Server) -> str:
    """The address of the running app, such as http://127.0.0.1:8501."""
    return app.url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's Chrome or Chromium, headless; without one the tests fail, they are never skipped."""
    try:
        path = find_browser()
    except (NoBrowserError, ValueError) as error:
        pytest.fail(str(error), pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, app: Server) -> Iterator[Page]:
    """A blank page of 1440×900, light.

    The test fails at its end if the page logged an error or raised one, asked any machine but this one for
    anything, or left a traceback in the server's log.
    """
    faults: list[str] = []
    log_before = len(app.log.read_text(errors="replace"))
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.on("console", lambda message: faults.extend(_console_faults(message)))
    page.on("pageerror", lambda error: faults.append(f"page: {error}"))
    page.on("request", lambda r: None if _is_local(r.url, app.url) else faults.append(f"asked for {r.url}"))
    page.on("websocket", lambda w: None if _is_local(w.url, app.url) else faults.append(f"asked for {w.url}"))
    yield page
    context.close()
    printed = app.log.read_text(errors="replace")[log_before:]
    if "Traceback (most recent call last)" in printed:
        faults.append(f"server: {printed}")
    assert not faults, "\n".join(faults)


def _console_faults(message: ConsoleMessage) -> list[str]:
    asked = urlsplit(message.location["url"]).path
    # Opened at /chapter, Streamlit first asks for /chapter/_stcore/health, and then finds it at the root.
    probing = "/_stcore/" in asked and not asked.startswith("/_stcore/")
    return [] if message.type != "error" or probing else [f"console: {message.text} ({asked})"]


def _is_local(url: str, app_url: str) -> bool:
    host = app_url.removeprefix("http://")
    return url.startswith((f"http://{host}/", f"ws://{host}/", "data:", "blob:", "about:"))
