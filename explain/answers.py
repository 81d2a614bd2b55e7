"""The hall answers: phones answer the lecturer's question, and the projector shows how many have answered what.

A phone's page is /answer, without Streamlit. It sends one answer by POST, and hears over a websocket when a question
opens, ends or is revealed. A lecturer's player opens and reveals at /asked, and hears there of the answers. Who sits at
the server is a lecturer; in a hall whoever has opened the lecturer's link.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import segno
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from explain.door import SHOWN, invitation, is_desk
from explain.figures import palette
from explain.lecture import KEPT_S, Lecture
from explain.plain import plain
from explain.poll import Poll, Question, RefusedError

PHONE, LECTURER = "tilescope_phone", "tilescope_lecturer"
"""Cookies: a phone's name, random and signed; who has opened the lecturer's link."""
MOST_BYTES = 200_000
"""Of what is sent; the right cells of a map are the most."""
TICK_S = 0.25
"""How often a process looks for what another has written, and how often a histogram grows."""
AT_ONCE, A_SECOND = 5, 1.0
"""What one phone may send at once, and then each second."""
MOST_SOCKETS, MOST_OF_PHONE = 2000, 4
MOST_KNOWN = 4000
_PAGE = Path(__file__).with_name("look").joinpath("answer.html").read_text(encoding="utf-8")


def routes(lecture: Lecture | None) -> list[BaseRoute]:
    """The routes of the phones and of the lecturer; where no lecture is held they say so."""
    hall = _Hall(lecture) if lecture else None
    if hall is None:
        return [Route("/answer", _nobody), Route("/asked", lambda _: JSONResponse({"address": None}))]
    return [
        Route("/answer", hall.page),
        Route("/answer", hall.answered, methods=["POST"]),
        WebSocketRoute("/answer/live", hall.phone),
        Route("/asked", hall.who),
        Route("/asked", hall.asked, methods=["POST"]),
        WebSocketRoute("/asked/live", hall.projector),
        Route("/lecturer", hall.lecturer),
        Route(SHOWN, hall.shown),
    ]


def _nobody(_: Request) -> Response:
    return PlainTextResponse("No lecture is held here. Start one: python3 start.py --room\n", 404)


class _Hall:
    """What this process knows of the lecture: its poll, and who listens. Used from the server's event loop alone."""

    def __init__(self, lecture: Lecture) -> None:
        self._lecture = lecture
        self._poll = Poll(lecture.folder)
        self._listening: Counter[str] = Counter()  # by phone; lecturers under ""
        self._changed = asyncio.Event()  # replaced at each change
        self._turned = asyncio.Event()  # a question has opened, ended or was revealed
        self._stage: Hashable = None
        self._watching: asyncio.Task[None] | None = None
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # phone → what it may send, counted when
        self._tally: tuple[Hashable, dict[str, Any]] = (None, {})
        self._html = _PAGE.replace("/* palette */", palette.both_themes())
        [script] = re.findall(r"<script>(.*?)</script>", self._html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._policy = (
            f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
            "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        )

    # --- phones ---

    async def page(self, request: Request) -> Response:
        """The phone's page; with it the phone gets its name."""
        headers = {"Content-Security-Policy": self._policy, "Cache-Control": "no-store",
                   "Referrer-Policy": "no-referrer"}  # fmt: skip
        answer = HTMLResponse(self._html, headers=headers)
        if not self._phone(request):
            self._give(answer, request, PHONE, self._lecture.signed("phone", secrets.token_hex(16)))
        return answer

    async def answered(self, request: Request) -> Response:
        """A phone's answer: {"question": id, "value": …}."""

        async def take() -> dict[str, Any]:
            phone = self._phone(request)
            if not phone:
                raise RefusedError("This phone is not known here. Load this page again.", 403)
            self._slow_down(phone)
            sent = await _sent(request)
            return {"mine": self._poll.take(str(sent.get("question")), phone, sent.get("value"))}

        return await _said(take)

    async def phone(self, socket: WebSocket) -> None:
        """The message to a phone each time that a question opens, ends or is revealed."""
        phone = self._phone(socket)
        full = sum(self._listening.values()) >= MOST_SOCKETS or self._listening[phone] >= MOST_OF_PHONE
        if not phone or full:
            return await socket.close(1008)
        return await self._tell(socket, phone, lambda: self._turned, lambda: self._for_phone(phone))

    def _for_phone(self, phone: str) -> dict[str, Any]:
        poll = self._poll
        question = None if poll.question is None or poll.closed else plain(poll.question)
        told = {"question": question, "mine": poll.mine(phone)}
        if not question or poll.open:
            return told
        return {**told, "tally": self._counted(), "right": poll.is_right(phone)}

    def _phone(self, request: HTTPConnection) -> str:
        given = request.cookies.get(PHONE, "")
        return given if self._lecture.is_signed("phone", given) else ""

    def _slow_down(self, phone: str) -> None:
        """Raises RefusedError for a phone that sends too much."""
        now = time.monotonic()
        left, counted = self._left.pop(phone, (float(AT_ONCE), now))
        left = min(float(AT_ONCE), left + (now - counted) * A_SECOND)
        self._left[phone] = (max(0.0, left - 1), now)
        if len(self._left) > MOST_KNOWN:
            self._left.popitem(last=False)
        if left < 1:
            raise RefusedError("Too many answers at once. Wait a second, then send it again.", 429)

    # --- the lecturer ---

    async def shown(self, _: Request) -> Response:
        """Where a hall's phones answer, large, with a QR code; a room's door shows its own, with the code."""
        address = f"{self._lecture.address}/answer"
        return invitation(address, segno.make(address, error="m", micro=False), "Questions come there by themselves.")

    async def lecturer(self, request: Request) -> Response:
        """The lecturer's link: from now on this browser may ask."""
        if not self._lecture.is_signed("lecturer", request.query_params.get("key", "")):
            return PlainTextResponse(
                "This is not the lecturer's link. It is printed where the hall was started.\n", 403
            )
        answer = RedirectResponse("./", 303, {"Referrer-Policy": "no-referrer"})
        self._give(answer, request, LECTURER, self._lecture.signed("lecturer", secrets.token_hex(16)))
        return answer

    def _is_lecturer(self, request: HTTPConnection) -> bool:
        return (self._lecture.has_desk and is_desk(request)) or self._lecture.is_signed(
            "lecturer", request.cookies.get(LECTURER, "")
        )

    async def who(self, request: Request) -> Response:
        """The address that phones open, for a lecturer; null for anyone else, who may not ask."""
        address = f"{self._lecture.address}/answer" if self._is_lecturer(request) else None
        return JSONResponse({"address": address}, headers={"Cache-Control": "no-store"})

    async def asked(self, request: Request) -> Response:
        """What a lecturer's player does: {"open": question}, {"reveal": id, "right": …} or {"close": id}."""

        async def do() -> dict[str, Any]:
            if not self._is_lecturer(request):
                raise RefusedError("Only the lecturer asks. Open the lecturer's link in this browser first.", 403)
            sent, poll = await _sent(request), self._poll
            if "open" in sent:
                poll.put(Question.of(sent["open"]))
            elif "reveal" in sent:
                poll.reveal(str(sent["reveal"]), sent.get("right"))
            elif "close" in sent:
                poll.close(str(sent["close"]))
            else:
                raise RefusedError("Send open, reveal or close.")
            self._announce()
            return self._for_lecturer()

        return await _said(do)

    async def projector(self, socket: WebSocket) -> None:
        """What a lecturer's player is told, each time that answers have come."""
        if not self._is_lecturer(socket) or sum(self._listening.values()) >= MOST_SOCKETS:
            return await socket.close(1008)
        return await self._tell(socket, "", lambda: self._changed, self._for_lecturer)

    def _for_lecturer(self) -> dict[str, Any]:
        question = self._poll.question
        return {"question": question.id if question else None, "open": self._poll.open, "tally": self._counted()}

    # --- both ---

    def _counted(self) -> dict[str, Any]:
        """The tally, made once for all who are told."""
        poll = self._poll
        version = (poll.stage, poll.lines)
        if self._tally[0] != version:
            self._tally = (version, poll.tally())
        return self._tally[1]

    async def _tell(
        self, socket: WebSocket, who: str, event: Callable[[], asyncio.Event], said: Callable[[], dict[str, Any]]
    ) -> None:
        """Tells one listener at once, and at each event until it goes or sends something: nothing is sent here."""
        await socket.accept()
        async with self._listener(who):
            gone = asyncio.ensure_future(socket.receive())
            try:
                while not gone.done():
                    waited = asyncio.ensure_future(event().wait())
                    await socket.send_json(said())
                    await asyncio.wait({gone, waited}, return_when=asyncio.FIRST_COMPLETED)
                    waited.cancel()
                if gone.result()["type"] != "websocket.disconnect":
                    await socket.close(1008)
            except (WebSocketDisconnect, RuntimeError):  # it went while it was told
                pass
            finally:
                gone.cancel()

    @asynccontextmanager
    async def _listener(self, who: str) -> AsyncIterator[None]:
        self._listening[who] += 1
        if self._watching is None:
            self._poll.read()
            self._stage = self._poll.stage
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._listening[who] -= 1
            if not self._listening[who]:
                del self._listening[who]
            if not self._listening:
                self._watching.cancel()
                self._watching = None

    async def _watch(self) -> None:
        """While somebody listens: tells of what was written, here or by another process."""
        seen = None
        while True:
            with suppress(OSError):
                self._poll.read()
            if (now := (self._poll.stage, self._poll.lines)) != seen:
                seen = now
                self._announce()
            await asyncio.sleep(TICK_S)

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if self._poll.stage != self._stage:
            self._stage = self._poll.stage
            self._turned.set()
            self._turned = asyncio.Event()

    def _give(self, answer: Response, request: Request, name: str, value: str) -> None:
        secure = request.url.scheme == "https"
        answer.set_cookie(name, value, max_age=int(KEPT_S), httponly=True, samesite="lax", secure=secure)


async def _sent(request: Request) -> dict[str, Any]:
    """The JSON object that was sent. Raises RefusedError."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise RefusedError(f"That is too long: at most {MOST_BYTES} bytes.", 413)
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError("That is not JSON.") from None
    if not isinstance(sent, dict):
        raise RefusedError("Send a JSON object.")
    return sent


async def _said(work: Callable[[], Awaitable[dict[str, Any]]]) -> Response:
    """What the work returns, or the reason why not, as {"said": …}."""
    try:
        return JSONResponse(await work())
    except RefusedError as error:
        return JSONResponse({"said": str(error)}, error.status)
    except OSError as error:
        return JSONResponse({"said": f"The answers cannot be kept: {error.strerror}."}, 507)
