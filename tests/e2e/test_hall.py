"""A hall: two processes of the app behind the real nginx, with TLS. One test ends a process; it is the last."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from websockets.asyncio.client import connect
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus

from benchmarks.classroom_load import Lesson, hold
from explain.nginx import nginx
from explain.tab import Tab, open_socket
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.server import Server, running_hall
from tests.e2e.waiting import PATIENCE_S, in_a_thread, until

FOREIGN = "https://evil.example"


@pytest.fixture(scope="module")
def hall(cache: Path) -> Iterator[Server]:
    if nginx() is None:
        pytest.skip("nginx is not on this machine (Debian: sudo apt install nginx)")
    with running_hall(2, cache=cache) as server:
        yield server


def ask(hall: Server, path: str, body: object = None, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Status, headers and body of an answer."""
    line = http.client.HTTPSConnection(hall.url.removeprefix("https://"), context=hall.trust, timeout=PATIENCE_S)
    try:
        sent = None if body is None else json.dumps(body).encode()
        line.request("POST" if sent else "GET", path, sent, headers)
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        line.close()


def opened(hall: Server, cookie: str) -> connect:
    """A connection of a browser with this cookie."""
    return open_socket(hall.url, ssl=hall.trust, cookies=cookie)


def kept(headers: http.client.HTTPMessage | Headers) -> str:
    """The cookie that keeps a browser at its process; "" if the answer sets none."""
    cookies = (one.partition(";")[0] for one in headers.get_all("Set-Cookie") or ())
    return next((one for one in cookies if one.startswith("tilescope_process=")), "")


def at(context: BrowserContext) -> str:
    """The cookie that a browser has."""
    return next(f"{one['name']}={one['value']}" for one in context.cookies() if one["name"] == "tilescope_process")


def test_streamlits_files_come_compressed_and_are_asked_for_once(hall: Server) -> None:
    script = re.search(rb'src="\.(/static/js/index\.[^"]+)"', ask(hall, "/")[2])
    assert script
    path = script[1].decode()
    status, headers, small = ask(hall, path, **{"Accept-Encoding": "gzip, br"})
    assert (status, headers["Content-Encoding"], headers["Content-Type"]) == (200, "gzip", "text/javascript")
    assert "immutable" in headers["Cache-Control"]
    _, headers, whole = ask(hall, path)
    assert "Content-Encoding" not in headers
    assert len(small) < len(whole) / 2


def test_readers_are_spread_and_each_stays_at_its_process(hall: Server) -> None:
    cookies = [kept(ask(hall, "/softmax")[1]) for _ in range(20)]
    assert sorted(Counter(cookies).values()) == [10, 10]
    for cookie in set(cookies):
        again = {kept(ask(hall, path, Cookie=cookie)[1]) for path in ("/", "/_stcore/health", "/app/static/x") * 3}
        assert again == {""}, "it is told its process only when that changes"
    assert kept(ask(hall, "/", Cookie="tilescope_process=22")[1]) in cookies, "no other port of the machine"


def test_a_class_goes_on_with_its_sessions_after_the_network_was_gone(hall: Server) -> None:
    lesson = Lesson(students=8, period_s=1.0, duration_s=4.0, pages=("softmax",), ramp_s=0.5, blip=True)
    found = in_a_thread(hold(hall, lesson))
    assert (found["lost"], found["dropped"], found["failed"]) == (0, 0, 0)
    assert found["reruns"] == 8 * 4


def test_another_name_and_another_sites_page_are_refused(hall: Server) -> None:
    for path in ("/", "/softmax", "/_stcore/health", "/app/static/formulas.woff2", "/static/js/none.js"):
        assert ask(hall, path, Host="evil.example")[0] == 421
        assert ask(hall, path, Origin=FOREIGN)[0] == ask(hall, path, Origin="null")[0] == 403
        assert ask(hall, path, Origin=hall.url)[0] in (200, 404)

    async def refused() -> None:
        async with open_socket(hall.url, ssl=hall.trust, origin=FOREIGN):
            pass

    with pytest.raises(InvalidStatus) as error:
        in_a_thread(refused())
    assert error.value.response.status_code == 403


class Listener(Tab):
    """A tab that keeps what the page sent."""

    heard = b""

    def _take(self, message: Any) -> bool:
        self.heard += message.SerializeToString()
        return super()._take(message)


def test_a_reader_at_the_proxy_runs_no_code_without_a_lock(hall: Server) -> None:
    """Though the server listens on loopback and is asked under its name: the proxy asks for anyone."""

    async def lesson() -> None:
        async with opened(hall, "") as socket:
            tab = Listener(socket, "write_it")
            await tab.rerun()
            assert b"A check runs" in tab.heard
            assert b"file of your own" not in tab.heard

    in_a_thread(lesson())


def test_a_question_reaches_the_phones_of_every_process_and_only_the_lecturer_asks(hall: Server) -> None:
    here, there = sorted({kept(ask(hall, "/")[1]) for _ in range(4)})
    link = re.search(r"/lecturer\?key=(\S+)", hall.log.read_text())
    assert link
    assert ask(hall, "/lecturer?key=none")[0] == 403
    status, headers, _ = ask(hall, link[0])
    lecturer = next(one for one in headers.get_all("Set-Cookie") or () if one.startswith("tilescope_lecturer="))
    assert (status, "Secure" in lecturer, "HttpOnly" in lecturer) == (303, True, True)
    lecturer = f"{lecturer.partition(';')[0]}; {here}"
    assert json.loads(ask(hall, "/asked", Cookie=there)[2]) == {"address": None}
    assert json.loads(ask(hall, "/asked", Cookie=lecturer)[2]) == {"address": f"{hall.url}/answer"}
    question = {"open": {"kind": "number", "words": "What will m be?"}}
    assert ask(hall, "/asked", question, Cookie=there)[0] == 403
    asked = json.loads(ask(hall, "/asked", question, Cookie=lecturer)[2])["question"]
    _, headers, _ = ask(hall, "/answer", Cookie=there)
    phone = next(one for one in headers.get_all("Set-Cookie") or () if one.startswith("tilescope_phone="))
    assert "Secure" in phone
    answer = {"question": asked, "value": "7.1"}
    status, _, told = ask(hall, "/answer", answer, Cookie=f"{phone.partition(';')[0]}; {there}")
    assert (status, json.loads(told)) == (200, {"mine": "7.1"})
    assert ask(hall, "/answer", answer, Cookie=phone.partition(";")[0], Origin=FOREIGN)[0] == 403
    tally = json.loads(ask(hall, "/asked", {"reveal": asked, "right": "7.0959"}, Cookie=lecturer)[2])["tally"]
    assert (tally["count"], tally["right"]) == (1, 1)
    assert f"{hall.url}/answer" in ask(hall, "/room")[2].decode()


def test_a_process_that_ends_costs_its_readers_a_reconnect_and_the_others_nothing(
    hall: Server, browser: Browser
) -> None:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(f"{hall.url}/softmax")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    first = at(context)
    while (second := kept(ask(hall, "/")[1])) == first:  # so are all, for a while after a process has ended
        time.sleep(0.05)
    port = first.partition("=")[2]
    [process] = [one for one in hall.apps if f"--server.port={port}" in one.cmdline()]

    async def lesson() -> None:
        async with opened(hall, second) as other:
            untouched = Tab(other, "softmax")
            await untouched.rerun()
            async with opened(hall, first) as socket:
                await Tab(socket, "softmax").rerun()
                process.kill()
                await asyncio.wait_for(socket.wait_closed(), PATIENCE_S)
            async with opened(hall, first) as socket:
                assert socket.response
                assert kept(socket.response.headers) == second  # where the session is now
                await Tab(socket, "softmax").rerun()
            await untouched.rerun()

    with page.expect_websocket(timeout=PATIENCE_MS):  # by itself
        in_a_thread(lesson())
    until(page, "document.querySelector('.stApp').dataset.testConnectionState === 'CONNECTED'")
    give_up = time.monotonic() + PATIENCE_S
    while len(hall.apps) < 2 and time.monotonic() < give_up:
        time.sleep(0.5)  # to look reads all processes of the machine
    assert any(f"--server.port={port}" in one.cmdline() for one in hall.apps), "it is started again"
    context.close()
