"""Who is let in: ASGI middleware before every route, websocket and file of the app.

Without a room only requests for the server's own names pass (`server.allowedHosts`), and none that another site's page
makes: a page elsewhere could else read the app through the reader's browser by giving its own name this machine's
address (DNS rebinding). Streamlit itself asks for the name at its websocket alone.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

import segno
import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from explain.figures import palette
from explain.room import LETTERS, Room, TooManyTriesError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
COOKIE = "tilescope_room"
TICKET_S = 12 * 3600
ENTER, SHOWN = "/enter", "/room"
"""Where a code is given, and where the one who sits at the server shows it."""
_LOOK = Path(__file__).parent / "look"
_PAGES = {name: Template((_LOOK / f"{name}.html").read_text(encoding="utf-8")) for name in ("enter", "room")}
_NOTHING_ELSE = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; frame-ancestors 'none'"
)


def middleware(room: Room | None) -> list[Middleware]:
    """For `streamlit.App`: the check of names, then the door. `room` is None where none is open."""
    names = list(st.get_option("server.allowedHosts")) or ["*"]
    return [Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False), Middleware(Door, room=room)]


class Door:
    """Refuses what another site asks for; while a room is open, asks all but this machine for its code."""

    def __init__(self, app: ASGIApp, room: Room | None) -> None:
        self._app = app
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request: to the app, or answered here. A websocket that is refused is never opened (HTTP 403)."""
        refused = self._answer(HTTPConnection(scope)) if scope["type"] in ("http", "websocket") else None
        if refused is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(1008)(scope, receive, send)
        else:
            await refused(scope, receive, send)

    def _answer(self, asked: HTTPConnection) -> Response | None:
        """What is said instead of the app's own answer; None lets the request pass."""
        origin, host = asked.headers.get("origin"), asked.headers.get("host", "")
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse(f"Refused: {origin} is another site than {host}.\n", 403)
        room, path = self._room, asked.url.path
        if room is None:
            return None
        sender = asked.client.host if asked.client else ""
        if is_desk(asked):
            return _shown(room, asked.url.port or 80) if path == SHOWN else None
        if path == ENTER:
            return _entered(room, asked.query_params.get("code", ""), asked.query_params.get("to", "/"), sender)
        if room.is_ticket(asked.cookies.get(COOKIE, "")):
            return None
        return _page("enter", 401, said="", to=f"{path}?{asked.url.query}".rstrip("?"))


def is_desk(asked: HTTPConnection) -> bool:
    """Whether this comes from the machine that the app runs on, to one of its own names, and through no proxy."""
    sender, host = asked.client.host if asked.client else "", asked.headers.get("host", "")
    own = sender in LOOPBACK and urlsplit(f"//{host}").hostname in LOOPBACK
    return own and "x-forwarded-for" not in asked.headers


def _entered(room: Room, code: str, to: str, sender: str) -> Response:
    """On to the page that was asked for, with a ticket; or the reason why not."""
    if not code:
        return _page("enter", 401, said="", to=to)
    try:
        right = room.is_code(code, sender)
    except TooManyTriesError as error:
        said = f"Too many wrong codes. Wait {error.seconds:.0f} seconds, then type the one on the screen."
        return _page("enter", 429, said=said, to=to)
    if not right:
        return _page("enter", 401, said=f"{code[:20]} is not the code. It has {LETTERS} letters and digits.", to=to)
    inside = to.startswith("/") and to[1:2] not in ("/", "\\")  # "//elsewhere" would be another site
    answer = RedirectResponse(to if inside else "/", 303)
    answer.set_cookie(COOKIE, room.ticket(), max_age=TICKET_S, httponly=True, samesite="lax")
    return answer


def _shown(room: Room, port: int) -> Response:
    """Address, code and QR code, large; it renews itself when the code changes."""
    code = room.code()
    said = "The code changes every ten minutes."
    return invitation(
        f"http://{room.address}:{port}", room.qr(port), said, f"{code[:3]} {code[3:]}", room.seconds_left()
    )


def invitation(address: str, qr: segno.QRCode, said: str, code: str = "", seconds: float = 3600.0) -> Response:
    """The page that shows an address large, with its QR code; it renews itself after these seconds."""
    picture = qr.svg_inline(border=2, dark="black", light="white", omitsize=True)
    answer = _page("room", 200, address=address, said=said, code=code, seconds=str(int(seconds) + 1))
    return _html(bytes(answer.body).decode().replace("<!-- QR -->", picture), 200)


def _page(name: str, status: int, **words: str) -> HTMLResponse:
    said = {key: escape(word) for key, word in words.items()}
    return _html(_PAGES[name].substitute(said, colours=palette.both_themes()), status)


def _html(body: str, status: int) -> HTMLResponse:
    headers = {"Content-Security-Policy": _NOTHING_ELSE, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return HTMLResponse(body, status, headers)
