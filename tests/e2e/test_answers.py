"""The hall answers: a lecturer at the server, phones that come in by the room's code, a restart in between."""

from __future__ import annotations

import http.client
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, BrowserContext, Page, expect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from explain.app_process import free_ports
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.server import Server, running_room
from tests.e2e.waiting import in_a_thread

ADDRESS = "127.0.0.3"
"""Stands for this machine's address on a local network."""
NUMBER = {"kind": "number", "words": "What will m be?"}
CHOICE = {"kind": "choice", "words": "How will m change?", "options": ["larger", "the same", "smaller"]}
CELL = {"kind": "cell", "words": "Which score will m be?", "shape": [16, 16], "axes": ["query", "key"]}


class Room:
    """A room's server, which can be started again at the same port."""

    def __init__(self, cache: Path) -> None:
        [self._port] = free_ports(1)
        self._cache, self._open = cache, ExitStack()
        self.start()

    def start(self) -> None:
        self.server: Server = self._open.enter_context(running_room(self._cache, ADDRESS, self._port))

    def stop(self) -> None:
        self._open.close()

    @property
    def phones_url(self) -> str:
        return f"http://{ADDRESS}:{self._port}"

    def send(self, path: str, body: object = None, *, at: str = "127.0.0.1", raw: bytes = b"", method: str = "",
             **headers: str) -> tuple[int, Any]:  # fmt: skip
        """Status and JSON of an answer; without a body it is asked for by GET."""
        line = http.client.HTTPConnection(at, self._port, timeout=60)
        try:
            sent = raw or (b"" if body is None else json.dumps(body).encode())
            line.request(method or ("POST" if sent else "GET"), path, sent, {"Host": f"{at}:{self._port}", **headers})
            answer = line.getresponse()
            text = answer.read()
            self.given = [one.partition(";")[0] for one in answer.headers.get_all("Set-Cookie") or ()]
            return answer.status, json.loads(text) if text[:1] in b"{[" and text else text.decode()
        finally:
            line.close()

    def ask(self, question: dict[str, Any]) -> str:
        """Opens a question as a lecturer's player does; returns its id."""
        status, told = self.send("/asked", {"open": question})
        assert status == 200, told
        return str(told["question"])

    def reveal(self, asked: str, right: object) -> Any:
        status, told = self.send("/asked", {"reveal": asked, "right": right})
        assert status == 200, told
        return told["tally"]

    def ticket(self) -> str:
        """The cookie of someone who has given the code."""
        found = re.search(r'class="code">(\w+) (\w+)<', self.send("/room")[1])
        assert found
        assert self.send(f"/enter?code={found[1]}{found[2]}", at=ADDRESS)[0] == 303
        return self.given[0]

    def phone(self, ticket: str) -> str:
        """The cookies of a phone that has come in and opened its page."""
        assert self.send("/answer", at=ADDRESS, Cookie=ticket)[0] == 200
        return f"{ticket}; {self.given[0]}"


@pytest.fixture(scope="module")
def room(cache: Path) -> Iterator[Room]:
    room = Room(cache)
    yield room
    room.stop()


@pytest.fixture(scope="module")
def ticket(room: Room) -> str:
    return room.ticket()


def came_in(room: Room, browser: Browser, **like: Any) -> Page:
    """A phone that has scanned the QR code: its page."""
    context: BrowserContext = browser.new_context(viewport={"width": 420, "height": 800}, **like)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    found = re.search(r'class="code">(\w+) (\w+)<', room.send("/room")[1])
    assert found
    page.goto(f"{room.phones_url}/enter?code={found[1]}{found[2]}&to=/answer")
    expect(page.get_by_role("heading")).not_to_have_text("Loading…")
    return page


def test_a_phone_without_the_code_or_from_another_site_is_refused_everywhere(room: Room, ticket: str) -> None:
    asked = room.ask(NUMBER)
    answer, close = {"question": asked, "value": "1"}, {"close": asked}
    for path, body in (
        ("/answer", None),
        ("/answer", answer),
        ("/asked", None),
        ("/asked", close),
        ("/lecturer", None),
    ):
        assert room.send(path, body, at=ADDRESS)[0] == 401
        assert room.send(path, body, at=ADDRESS, Cookie="tilescope_room=0123.4567")[0] == 401
        for at in ("127.0.0.1", ADDRESS):
            assert room.send(path, body, at=at, Cookie=ticket, Host="evil.example")[0] == 400
            assert room.send(path, body, at=at, Cookie=ticket, Origin="http://evil.example")[0] == 403
            assert room.send(path, body, at=at, Cookie=ticket, Origin="null")[0] == 403
    assert room.send("/asked", {"close": asked})[0] == 200, "it was still open"


def test_only_who_sits_at_the_server_asks(room: Room, ticket: str) -> None:
    phone = room.phone(ticket)
    assert room.send("/asked", at=ADDRESS, Cookie=phone) == (200, {"address": None})
    assert room.send("/asked") == (200, {"address": f"{room.phones_url}/answer"})
    asked = room.ask(NUMBER)
    for cookie in (
        phone,
        f"{phone}; tilescope_lecturer={'0' * 64}",
        phone.replace("tilescope_phone", "tilescope_lecturer"),
    ):
        for body in ({"open": NUMBER}, {"reveal": asked, "right": "1"}, {"close": asked}):
            status, told = room.send("/asked", body, at=ADDRESS, Cookie=cookie)
            assert (status, told["said"][:22]) == (403, "Only the lecturer asks")
    assert room.send("/lecturer?key=0", at=ADDRESS, Cookie=ticket)[0] == 403


def test_no_websocket_opens_to_a_stranger(room: Room, ticket: str) -> None:
    async def opens(path: str, at: str, **more: Any) -> bool:
        url = f"ws://{at}:{room.server.url.rpartition(':')[2]}{path}"
        try:
            async with connect(url, proxy=None, **more) as socket:
                await socket.recv()
                return True
        except (InvalidStatus, ConnectionClosed):
            return False

    phone = {"Cookie": room.phone(ticket)}
    assert in_a_thread(opens("/answer/live", ADDRESS, additional_headers=phone))
    assert in_a_thread(opens("/asked/live", "127.0.0.1"))
    for path in ("/answer/live", "/asked/live"):
        assert not in_a_thread(opens(path, ADDRESS))
        assert not in_a_thread(opens(path, ADDRESS, additional_headers={"Cookie": ticket}))
        assert not in_a_thread(opens(path, ADDRESS, additional_headers=phone, origin="http://evil.example"))
    assert not in_a_thread(opens("/asked/live", ADDRESS, additional_headers=phone))


@pytest.mark.parametrize(
    ("raw", "status", "said"),
    [
        (b"{", 400, "That is not JSON."),
        (b"[" * 5000, 400, "That is not JSON."),
        (b"[]", 400, "Send a JSON object."),
        (b"x" * 500_000, 413, "too long"),
        (b'{"question": "ASKED", "value": NaN}', 400, "Type a number"),
        (b'{"question": "ASKED", "value": "a lot"}', 400, "is not a number"),
        (b'{"question": "ASKED"}', 400, "Type a number"),
        (b'{"question": "another", "value": "1"}', 409, "closed"),
    ],
)
def test_what_is_no_answer_gets_a_short_sentence(room: Room, ticket: str, raw: bytes, status: int, said: str) -> None:
    asked = room.ask(NUMBER)
    got, told = room.send("/answer", raw=raw.replace(b"ASKED", asked.encode()), at=ADDRESS, Cookie=room.phone(ticket))
    assert got == status
    assert said in told["said"]
    assert len(told["said"]) < 120


def test_a_forged_name_is_refused_and_a_flood_is_slowed_down(room: Room, ticket: str) -> None:
    answer = {"question": room.ask(NUMBER), "value": "1"}
    for forged in ("", "tilescope_phone=", f"tilescope_phone={secrets.token_hex(16)}.{'0' * 32}"):
        status, told = room.send("/answer", answer, at=ADDRESS, Cookie=f"{ticket}; {forged}")
        assert status == 403, told
        assert "Load this page again" in told["said"]
    phone, other = room.phone(ticket), room.phone(ticket)
    statuses = [room.send("/answer", answer, at=ADDRESS, Cookie=phone)[0] for _ in range(40)]
    assert statuses[:5] == [200] * 5
    assert statuses.count(429) > 20
    assert room.send("/answer", answer, at=ADDRESS, Cookie=other)[0] == 200


@given(
    st.binary(max_size=200)
    | st.text(max_size=60).map(lambda text: json.dumps({"reveal": text, "right": text}).encode())
)
@settings(max_examples=60, deadline=None)
def test_no_bytes_break_what_a_lecturer_sends(room: Room, raw: bytes) -> None:
    status, told = room.send("/asked", raw=raw or b"-")
    assert status in (400, 409)
    assert told["said"]


def test_phones_hear_of_a_question_answer_it_and_are_told(room: Room, browser: Browser) -> None:
    room.send("/asked", {"close": room.ask(NUMBER)})
    one, other = came_in(room, browser), came_in(room, browser, color_scheme="dark")
    for page in (one, other):
        expect(page.get_by_role("heading", name="The next question comes here by itself.")).to_be_visible()
    asked = room.ask(NUMBER)
    for page, typed in ((one, "7,1"), (other, "5")):
        expect(page.get_by_role("heading", name="What will m be?")).to_be_visible()
        page.get_by_role("textbox", name="Your answer").fill(typed)
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("status")).to_have_text(f"Sent: {typed}. You can change it until the answer is shown.")
    other.reload()  # it is known again
    expect(other.get_by_role("textbox", name="Your answer")).to_have_value("5")
    other.get_by_role("textbox", name="Your answer").fill("many")
    other.get_by_role("button", name="Change", exact=True).click()
    expect(other.get_by_role("status")).to_contain_text("“many” is not a number")
    other.get_by_role("button", name="NaN").click()
    other.get_by_role("button", name="Infinity").click()
    other.get_by_role("button", name="Change the sign").click()
    other.get_by_role("button", name="Change", exact=True).click()
    expect(other.get_by_role("status")).to_contain_text("Sent: −∞.")
    told = room.reveal(asked, "7.0959")
    assert (told["count"], told["right"]) == (2, 1)
    expect(one.locator(".verdict")).to_have_text("✓ Right: 7.096.")
    expect(other.locator(".verdict")).to_have_text("It is 7.096. You said −∞.")
    for page in (one, other):
        expect(page.locator(".sum")).to_have_text("1 of 2 answers right.")
        assert page.locator("li").all_inner_texts() == ["−∞\n1", "7.096\n0", "7.1\n1"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.context.close()


def test_a_choice_and_a_cell_by_the_keyboard_on_a_narrow_phone(room: Room, browser: Browser) -> None:
    room.send("/asked", {"close": room.ask(NUMBER)})
    page = came_in(room, browser)
    page.set_viewport_size({"width": 320, "height": 640})
    asked = room.ask(CHOICE)
    expect(page.get_by_role("heading", name="How will m change?")).to_be_visible()
    page.get_by_role("radio", name="larger").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Sent: the same.")
    for box in page.locator(".options label, button.strong").all():
        size = box.bounding_box()
        assert size
        assert size["height"] >= 44
    room.reveal(asked, 1)
    expect(page.locator(".verdict")).to_have_text("✓ Right: the same.")
    asked = room.ask(CELL)
    page.get_by_label("query (0–15)").fill("3")
    page.keyboard.press("Tab")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Sent: query 3, key 12.")
    page.locator("form .map").click(position={"x": 5, "y": 5})
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Sent: query 0, key 0.")
    assert room.reveal(asked, [[0, 0], [0, 1]])["cells"] == [[0, 0, 1]]
    expect(page.locator(".verdict")).to_have_text("✓ Right: query 0, key 0, or one of 1 more.")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()


def test_a_restart_costs_nobody_the_answer_or_the_place_in_the_room(room: Room, browser: Browser) -> None:
    page = came_in(room, browser)
    asked = room.ask(NUMBER)
    page.get_by_role("textbox", name="Your answer").fill("7.1")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status")).to_contain_text("Sent: 7.1.")
    room.stop()
    expect(page.get_by_role("status")).to_contain_text("The connection is lost.")
    room.start()
    expect(page.get_by_role("status")).to_contain_text("Sent: 7.1.")
    page.get_by_role("textbox", name="Your answer").fill("7")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Sent: 7.")
    assert room.reveal(asked, "7.0959") == {
        "count": 1, "right": 1, "answer": "7.096",
        "bars": [{"label": "7", "count": 1, "right": 1, "holds": False},
                 {"label": "7.096", "count": 0, "right": 0, "holds": True}],
    }  # fmt: skip
    expect(page.locator(".verdict")).to_have_text("✓ Right: 7.096.")
    page.context.close()
