"""Who is let in: every route, file and websocket, asked for under the right and under forged names."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from explain import server as routes
from explain.puzzles.puzzles import predictions
from tests.e2e.conftest import PATIENCE_MS, rests
from tests.e2e.server import Server, running_room
from tests.e2e.waiting import PATIENCE_S

HALL = "127.0.0.2"
"""Stands for this machine's address on a local network: it is not the name under which one asks at the desk."""
WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGlsZXNjb3BlIHRlc3QgIQ=="}  # fmt: skip
PATHS = (
    *sorted({route.path for route in routes.routes()}), "/index.html", "/_stcore/health", "/_stcore/host-config",
    "/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/upload_file/a/b", "/app/static/formulas.woff2",
    "/static/js/none.js", "/media/none.json", "/component/none/index.html", "/_stcore/bidi-components/none/index.js",
    "/answer", "/asked", "/lecturer", "/room",
)  # fmt: skip


@pytest.fixture(scope="module")
def hall(cache: Path) -> Iterator[Server]:
    with running_room(cache, HALL) as server:
        yield server


def status(server: Server, path: str, at: str = "127.0.0.1", **headers: str) -> int:
    """What the server says to a request for `path` that comes to its address `at`."""
    port = int(server.url.rpartition(":")[2])
    line = http.client.HTTPConnection(at, port, timeout=PATIENCE_S)
    try:
        line.request("GET", path, headers={"Host": f"{at}:{port}", **headers})
        return line.getresponse().status
    finally:
        line.close()


def test_no_route_answers_under_anothers_name_or_to_anothers_page(app: Server) -> None:
    refused = {path: (status(app, path, Host="evil.example"), status(app, path, Origin="http://evil.example"),
                      status(app, path, Origin="null")) for path in PATHS}  # fmt: skip
    assert set(refused.values()) == {(400, 403, 403)}, refused
    assert status(app, "/softmax") == status(app, "/softmax", Origin=app.url) == 200


def test_no_websocket_opens_under_anothers_name_or_to_anothers_page(app: Server) -> None:
    assert status(app, "/_stcore/stream", Origin=app.url, **WEBSOCKET) == 101
    assert status(app, "/_stcore/stream", Origin="http://evil.example", **WEBSOCKET) == 403
    assert status(app, "/_stcore/stream", Host="evil.example", **WEBSOCKET) >= 400


def test_a_page_asks_no_other_host_and_runs_no_other_script(browser: Browser, app: Server) -> None:
    tab = browser.new_page()
    tab.goto(f"{app.url}/glossary")
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    stopped = tab.evaluate("""() => new Promise((resolve) => {
      const stopped = new Set();
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
        if (stopped.add(effectiveDirective).size === 4) resolve([...stopped].sort());
      });
      const add = (name, more) => document.body.append(Object.assign(document.createElement(name), more));
      add("img", { src: "http://evil.example/?what" });
      add("iframe", { src: "http://evil.example/" });
      add("script", { textContent: "window.taken = true" });
      fetch("http://evil.example/").catch(() => {});
    })""")
    assert stopped == ["connect-src", "frame-src", "img-src", "script-src-elem"]
    assert not tab.evaluate("window.taken")
    tab.close()


def test_a_room_asks_everyone_but_the_desk_for_its_code(hall: Server) -> None:
    asked = {path: status(hall, path, HALL) for path in PATHS}
    assert set(asked.values()) == {401}, asked
    assert status(hall, "/_stcore/stream", HALL, **WEBSOCKET) == 403
    assert status(hall, "/room", HALL) == 401
    assert status(hall, "/softmax", HALL, Cookie="tilescope_room=0123.4567") == 401
    assert status(hall, "/softmax", HALL, Host="evil.example") == 400
    assert status(hall, "/softmax") == status(hall, "/room") == 200


def test_a_phone_comes_in_by_the_code_to_the_page_it_asked_for(hall: Server, browser: Browser) -> None:
    desk = browser.new_page()
    desk.goto(f"{hall.url}/room")
    code = desk.locator(".code").inner_text()
    expect(desk.locator("figure svg")).to_be_visible()
    phone = browser.new_page(viewport={"width": 420, "height": 800})
    phone.set_default_timeout(PATIENCE_MS)
    phone.goto(f"{hall.url.replace('127.0.0.1', HALL)}/softmax?add=90")
    field = phone.get_by_label("Code of the room")
    field.fill("not it")
    field.press("Enter")
    expect(phone.get_by_role("alert")).to_contain_text("is not the code")
    field.fill(code.lower())
    field.press("Enter")
    expect(phone.get_by_role("heading", name="Softmax", level=1)).to_be_visible()
    assert phone.url.endswith("/softmax?add=90")
    ticket = next(cookie for cookie in phone.context.cookies() if cookie["name"] == "tilescope_room")
    assert ticket["httpOnly"]
    for tab in (desk, phone):
        tab.close()


def test_on_a_shared_server_each_browser_keeps_what_its_reader_solved(hall: Server, browser: Browser) -> None:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{hall.url}/write_it?puzzle=predict_max")
    question = page.get_by_text("after this tile?").first
    expect(question).to_be_visible()
    known, tile = re.findall(r"(?:m =|holds) (.*?)\. ", question.inner_text())
    largest = max(float(one.replace("−", "-")) for one in [known, *tile.split(", ")])
    page.get_by_label("Your number").fill(str(largest))
    page.get_by_role("button", name="Check", exact=True).click()
    tick = page.get_by_role("button", name=f"{predictions()['predict_max'].title}, solved")
    expect(tick).to_be_visible()
    page.reload()  # a new session
    expect(tick).to_be_visible()
    context.clear_cookies()  # another browser
    page.evaluate("[sessionStorage, localStorage].forEach((storage) => storage.clear())")
    page.goto("about:blank")
    page.goto(f"{hall.url}/write_it?puzzle=predict_max")
    expect(page.get_by_label("Your number")).to_be_visible()
    rests(page)
    expect(page.get_by_role("button", name=re.compile(", solved$"))).to_have_count(0)
    context.close()


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_the_code_leads_to_no_other_site(hall: Server, browser: Browser, to: str) -> None:
    context = browser.new_context()
    answer = context.request.get(f"{hall.url}/room")
    code = re.search(r'class="code">(\w+) (\w+)<', answer.text())
    assert code
    elsewhere = context.request.get(
        f"{hall.url.replace('127.0.0.1', HALL)}/enter", params={"code": code[1] + code[2], "to": to}, max_redirects=0
    )
    assert (elsewhere.status, elsewhere.headers["location"]) == (303, "/")
    context.close()
