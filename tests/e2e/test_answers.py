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
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from explain import lessons
from explain.app_process import free_ports
from explain.engine import engine
from explain.trace.model import Tile, Trace
from tests.e2e.conftest import CODE_READER, PATIENCE_MS, move
from tests.e2e.server import Server, running_room
from tests.e2e.waiting import PATIENCE_S, in_a_thread, until

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
        line = http.client.HTTPConnection(at, self._port, timeout=PATIENCE_S)
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


@pytest.fixture(scope="module")
def two_phones(room: Room, browser: Browser) -> Iterator[tuple[Page, Page]]:
    """Two phones that stay in the room for every question, the second one dark: to come in costs more than to answer."""
    phones = came_in(room, browser), came_in(room, browser, color_scheme="dark")
    yield phones
    for page in phones:
        page.context.close()


@pytest.fixture
def phones(room: Room, two_phones: tuple[Page, Page]) -> tuple[Page, Page]:
    """The two phones, connected, without a question."""
    room.send("/asked", {"close": room.ask(NUMBER)})
    for page in two_phones:
        page.set_viewport_size({"width": 420, "height": 800})
        expect(page.get_by_role("heading", name="The next question comes here by itself.")).to_be_visible()
    return two_phones


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


def test_phones_hear_of_a_question_answer_it_and_are_told(room: Room, phones: tuple[Page, Page]) -> None:
    one, other = phones
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


def test_a_choice_and_a_cell_by_the_keyboard_on_a_narrow_phone(room: Room, phones: tuple[Page, Page]) -> None:
    page = phones[0]
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
    page.wait_for_timeout(1_000)  # a phone may send once per second after its first five
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Sent: query 0, key 0.")
    assert room.reveal(asked, [[0, 0], [0, 1]])["cells"] == [[0, 0, 1]]
    expect(page.locator(".verdict")).to_have_text("✓ Right: query 0, key 0, or one of 1 more.")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_restart_costs_nobody_the_answer_or_the_place_in_the_room(room: Room, phones: tuple[Page, Page]) -> None:
    page = phones[0]
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
    expect(page.get_by_role("status")).to_contain_text(re.compile(r"Sent: 7\.(?!\d)"))
    assert room.reveal(asked, "7.0959") == {
        "count": 1, "right": 1, "answer": "7.096",
        "bars": [{"label": "7", "count": 1, "right": 1, "holds": False},
                 {"label": "7.096", "count": 0, "right": 0, "holds": True}],
    }  # fmt: skip
    expect(page.locator(".verdict")).to_have_text("✓ Right: 7.096.")


# --- the lecturer's player ---


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The run that the chapter on FlashAttention opens on."""
    return engine().trace(lessons.OPENING).trace


@pytest.fixture(scope="module")
def lecturer(browser: Browser) -> Iterator[Page]:
    """The lecturer's browser: one tab for all tests, since a page that opens in a used tab costs a third."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(CODE_READER)
    yield context.new_page()
    context.close()


@pytest.fixture
def desk(room: Room, lecturer: Page) -> Page:
    """The lecturer's browser, newly at the chapter on FlashAttention, with the code shown."""
    lecturer.emulate_media(color_scheme="light")
    lecturer.set_viewport_size({"width": 1440, "height": 900})
    if lecturer.url.startswith(room.server.url):
        lecturer.evaluate("[sessionStorage, localStorage].forEach((storage) => storage.clear())")
        lecturer.evaluate(CODE_READER)
        move(lecturer, room.server, "questions")
    move(lecturer, room.server, "flash_attention?step=0")
    player = lecturer.get_by_test_id("player")
    expect(player).to_be_visible()
    player.focus()
    return lecturer


def predict(page: Page, variable: str, times: int = 1) -> Locator:
    """Goes on to the question before the variable is set for this time; its box."""
    page.get_by_label("Watched variable").last.select_option(variable)
    page.get_by_test_id("player").focus()
    page.keyboard.press("a")
    box = page.get_by_role("region", name="Prediction")
    show = box.get_by_role("button", name="Show the answer")
    for i in range(times):
        if i:
            show.click()
            expect(box.locator(".change")).to_be_visible()
        for _ in range(3):  # the next tile may end before it
            if not show.is_visible():
                page.keyboard.press("PageDown")
        expect(show).to_be_visible()
    return box


def test_the_histogram_grows_on_the_projector_and_the_step_reveals_it(
    room: Room, ticket: str, phones: tuple[Page, Page], desk: Page, trace: Trace
) -> None:
    """By the keyboard alone; the server is started again in between."""
    one, other = phones
    box = predict(desk, "l_i")
    value = trace.state(int(desk.get_by_test_id("player").get_attribute("data-step") or 0) + 1)["l_i"]
    assert isinstance(value, Tile)
    right = f"{float(value.numpy()[0]):.3f}"
    expect(box.get_by_role("textbox", name="Your answer")).to_be_focused()
    for _ in range(2):
        desk.keyboard.press("Tab")
    expect(box.get_by_role("button", name="Ask the hall: its value")).to_be_focused()
    desk.keyboard.press("Enter")
    hall = box.get_by_role("group", name="The hall")
    expect(hall).to_have_attribute("data-count", "0")
    expect(hall).to_contain_text(f"Phones: {ADDRESS}")
    expect(box.get_by_role("button", name="Show the answer")).to_be_focused()
    for i, (page, typed) in enumerate(((one, right), (other, "1000"))):
        expect(page.get_by_role("heading")).to_contain_text("What will l_i be")
        page.get_by_role("textbox", name="Your answer").fill(typed)
        page.keyboard.press("Enter")
        expect(hall).to_have_attribute("data-count", str(i + 1))
        assert right not in (other.content() if page is one else ""), "no phone is told what is right"
    room.stop()
    expect(one.get_by_role("status")).to_contain_text("The connection is lost.")
    room.start()
    asked = one.evaluate("question.id")
    assert room.send("/answer", {"question": asked, "value": "1000"}, at=ADDRESS, Cookie=room.phone(ticket))[0] == 200
    expect(hall).to_have_attribute("data-count", "3")
    expect(hall.get_by_role("listitem")).to_have_count(2)
    expect(desk.get_by_role("dialog")).to_have_count(0)  # Streamlit's, of the lost connection: it takes the focus
    box.get_by_role("button", name="Show the answer").focus()
    desk.keyboard.press("Enter")
    expect(hall).to_contain_text("1 of 3 right")
    expect(hall.locator(".holds .label")).to_have_count(1)
    expect(one.locator(".verdict")).to_contain_text("✓ Right")
    expect(other.locator(".verdict")).to_contain_text("You said 1000.")
    desk.get_by_test_id("player").focus()
    desk.keyboard.press("ArrowRight")
    expect(box).to_be_hidden()
    expect(one.locator(".verdict")).to_contain_text("✓ Right")  # until the next question


def again(page: Page) -> None:
    """Predicts no more and goes back to the first step."""
    page.get_by_test_id("player").focus()
    page.keyboard.press("a")
    expect(page.get_by_role("region", name="Prediction")).to_be_hidden()
    page.keyboard.press("Home")
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", "0")


def test_the_hall_chooses_and_finds_a_cell(phones: tuple[Page, Page], desk: Page, trace: Trace) -> None:
    phone = phones[0]
    for kind, variable in (("larger or smaller", "m_i"), ("a cell of the map", "m_i"), ("a cell of the map", "s")):
        box = predict(desk, variable, times=2)
        step = int(desk.get_by_test_id("player").get_attribute("data-step") or 0) + 1
        before = phone.evaluate("question?.id")
        box.get_by_role("button", name=f"Ask the hall: {kind}").click()
        until(phone, "before => question && question.id !== before", before)
        if kind == "larger or smaller":
            m_i, m_new = (trace.state(at)["m_new"] for at in (step - 1, step))
            assert isinstance(m_i, Tile)
            assert isinstance(m_new, Tile)
            right = "larger" if m_new.numpy()[0] > m_i.numpy()[0] else "the same"
            phone.get_by_role("radio", name=right).check()
        else:
            row, column = cell_of(trace, variable, step)
            phone.get_by_label("query (").fill(str(row))
            phone.get_by_label("key (").fill(str(column))
        phone.get_by_role("button", name="Send").click()
        hall = box.get_by_role("group", name="The hall")
        expect(hall, f"{kind}, {variable}").to_have_attribute("data-count", "1")
        desk.get_by_test_id("player").focus()
        desk.keyboard.press("ArrowRight")
        expect(hall, f"{kind}, {variable}").to_contain_text("1 of 1 right")
        expect(phone.locator(".verdict"), f"{kind}, {variable}").to_contain_text("✓ Right")
        again(desk)


def cell_of(trace: Trace, variable: str, step: int) -> tuple[int, int]:
    """The query and the key of a score that the question about the variable's first row is after."""
    rows, columns = (trace.state(step)[name].numpy() for name in ("rows", "cols"))  # type: ignore[union-attr]
    column = int(columns[-1])
    if variable == "m_i":
        scores = [(v.numpy()[0], trace.state(at)["cols"].numpy()) for at, v in trace.history("s")  # type: ignore[union-attr]
                  if at < step and isinstance(v, Tile)]  # fmt: skip
        column = max((float(x), int(c)) for row, cols in scores for x, c in zip(row, cols, strict=True))[1]
    return int(rows[0]), column


def test_nobody_is_there_and_it_goes_on(room: Room, desk: Page) -> None:
    inside = """box => {
      box.scrollIntoView({ block: "end" });
      const { left, right, top, bottom } = box.getBoundingClientRect();
      return [left, top, innerWidth - right, innerHeight - bottom, box.clientWidth - box.scrollWidth];
    }"""
    looks: tuple[tuple[int, int, Any], ...] = ((1440, 900, "light"), (420, 900, "dark"), (1920, 1080, "dark"))
    for width, height, scheme in looks:
        desk.emulate_media(color_scheme=scheme)
        desk.set_viewport_size({"width": 1440, "height": 900})
        box = predict(desk, "m_i")
        desk.set_viewport_size({"width": width, "height": height})
        if width == 1920:
            desk.get_by_test_id("player").focus()
            desk.keyboard.press("p")
        box.get_by_role("button", name="Ask the hall: a cell of the map").click()
        hall = box.get_by_role("group", name="The hall")
        expect(hall, str(width)).to_contain_text("0 answers")
        assert min(box.evaluate(inside)) >= 0, width
        desk.get_by_test_id("player").focus()
        desk.keyboard.press("ArrowRight")
        expect(box.locator(".change"), str(width)).to_be_visible()
        expect(hall.locator(".spread i.right"), str(width)).to_have_count(1)
        assert min(box.evaluate(inside)) >= 0, width
        expect(hall, str(width)).to_contain_text("0 answers")
        again(desk)


def test_a_question_that_is_left_is_closed_on_the_phones(phones: tuple[Page, Page], desk: Page) -> None:
    phone = phones[0]
    box = predict(desk, "l_i")
    box.get_by_role("button", name="Ask the hall: its value").click()
    expect(phone.get_by_role("heading")).to_contain_text("What will l_i be")
    desk.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(phone.get_by_role("heading", name="The next question comes here by itself.")).to_be_visible()


def test_without_a_lecture_and_for_a_student_predict_is_as_before(room: Room, browser: Browser, visit: Any) -> None:
    page = visit("flash_attention?step=0")
    expect(page.get_by_test_id("player")).to_be_visible()
    with page.expect_response("**/asked"):
        box = predict(page, "l_i")
    expect(box.get_by_role("group", name="The hall")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(box.locator(".change")).to_contain_text("l_i")
    phone = came_in(room, browser)
    phone.set_viewport_size({"width": 1440, "height": 900})
    phone.get_by_role("link", name="Read along in the app").click()
    phone.goto(f"{room.phones_url}/flash_attention?step=0&depth=code")
    with phone.expect_response("**/asked"):
        box = predict(phone, "l_i")
    expect(box.get_by_role("group", name="The hall")).to_be_hidden()
    phone.context.close()
