"""A browser's tab without the browser: speaks Streamlit's protocol over a websocket, and moves a page's controls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import DoubleArray, StringArray
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

FINISHED = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
PATIENCE_S = 30.0  # a longer wait counts as a lost connection
NEXT = 3
"""So many other choices of a control are tried at random."""


class PageFailedError(Exception):
    """The page showed an exception or was not found."""


@dataclass(frozen=True)
class Control:
    """A control on the page, at `path`. `states` are what it can be moved to, its own first; the browser keeps it in
    the address under `name`, if it has one. Moving it reruns its `fragment`, "" for the whole page.
    """

    label: str
    states: tuple[WidgetState, ...]
    name: str
    fragment: str
    path: tuple[int, ...]


class Tab:
    """One reader's browser tab."""

    def __init__(self, socket: ClientConnection, page: str, patience_s: float = PATIENCE_S) -> None:
        self._socket, self._patience_s = socket, patience_s
        address = urlsplit(page)
        self._page_name, self._query = address.path.strip("/"), address.query
        self._page_hash = ""
        self._kept: set[str] = set()
        self._states: dict[str, WidgetState] = {}
        self._containers: dict[tuple[int, ...], str] = {}  # by path: the fragment that draws it
        self._again: Container[str] = ()  # the fragments that run
        self._drawn: set[str] = set()  # the controls that this run has drawn
        self.controls: dict[str, Control] = {}
        """By the control's id, in the order of the page."""
        self.session = ""

    async def turn(self, page: str) -> None:
        """Goes to another page, as a link in the app does. Raises as `rerun`."""
        address = urlsplit(page)
        self._page_name, self._query, self._page_hash = address.path.strip("/"), address.query, ""
        self._states, self.controls = {}, {}
        await self.rerun()

    async def reconnect(self, socket: ClientConnection) -> None:
        """Goes on over another connection, which was opened for this tab's session. Raises as `rerun`."""
        self._socket = socket
        await self.rerun()

    async def move(self, state: WidgetState) -> None:
        """Moves a control to one of its states, and receives what the page answers. Raises as `rerun`."""
        control = self.controls[state.id]
        others = (one for one in control.states if one != state)
        self.controls[state.id] = replace(control, states=(state, *others))  # it may not be drawn again
        self._states[state.id] = state
        if control.name:
            self._query = urlencode({**dict(parse_qsl(self._query)), control.name: _written(state)})
        await self.rerun(control.fragment)

    async def move_at_random(self, rng: random.Random) -> None:
        """Moves one of the page's controls to one of its next choices; a page without any runs again. Raises as
        `rerun`.
        """
        able = [control for control in self.controls.values() if len(control.states) > 1]
        if able:
            await self.move(rng.choice(rng.choice(able).states[1 : NEXT + 1]))
        else:
            await self.rerun()

    async def rerun(self, fragment: str = "") -> None:
        """Asks for a run of the page, as a control does, and receives all of its messages.

        Raises:
            PageFailedError: the page raised an error or does not exist.
            TimeoutError: the run does not end within the tab's patience.
        """
        request = BackMsg()
        request.rerun_script.query_string = self._query
        request.rerun_script.page_script_hash = self._page_hash
        request.rerun_script.page_name = "" if self._page_hash else self._page_name
        request.rerun_script.fragment_id = fragment
        request.rerun_script.cached_message_hashes.extend(self._kept)
        request.rerun_script.widget_states.widgets.extend(self._states.values())
        async with asyncio.timeout(self._patience_s):
            await self._socket.send(request.SerializeToString())
            while not self._take(ForwardMsg.FromString(await self._socket.recv(decode=False))):
                pass

    def _take(self, message: Any) -> bool:
        """Handles a message as a browser does; True if the run has ended."""
        kind = message.WhichOneof("type")
        if message.metadata.cacheable and kind != "ref_hash":
            self._kept.add(message.hash)
        if kind == "new_session":
            self.session = message.new_session.initialize.session_id
            self._drawn = set()
            self._again = message.metadata.run.fragment_ids  # none: the whole page runs again
        elif kind == "navigation":
            self._page_hash = message.navigation.page_script_hash
        elif kind == "page_info_changed":
            self._query = message.page_info_changed.query_string
        elif kind == "page_not_found":
            raise PageFailedError(f"no page {self._page_name!r}")
        elif kind == "delta":
            self._draw(message.delta, tuple(message.metadata.delta_path))
        elif kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
            raise PageFailedError(f"{self._page_name!r} does not compile")
        finished = kind == "script_finished" and message.script_finished in FINISHED
        if finished:
            old = {id: one for id, one in self.controls.items() if id not in self._drawn}
            gone = {id for id, one in old.items() if not self._again or self._within(one, self._again)}
            self.controls = {id: one for id, one in self.controls.items() if id not in gone}
            self._states = {id: state for id, state in self._states.items() if id in self.controls}
        return bool(finished)

    def _within(self, control: Control, fragments: Container[str]) -> bool:
        """Whether one of the fragments draws it, or draws a container where a fragment of its own draws it."""
        containers = (self._containers.get(control.path[:length], "") for length in range(len(control.path)))
        return control.fragment in fragments or any(one in fragments for one in containers)

    def _draw(self, delta: Any, path: tuple[int, ...]) -> None:
        if delta.WhichOneof("type") == "add_block":
            self._containers[path] = delta.fragment_id
        kind = delta.new_element.WhichOneof("type")
        if kind == "exception":
            raise PageFailedError(f"{self._page_name!r}: {delta.new_element.exception.message}")
        if kind not in _MOVABLE:
            return
        element = getattr(delta.new_element, kind)
        kept = None if element.set_value else self._states.get(element.id)
        states = tuple(WidgetState(id=element.id, **state) for state in _states(kind, element, kept))
        self._states[element.id] = states[0]
        self._drawn.add(element.id)
        self.controls[element.id] = Control(element.label, states, element.query_param_key, delta.fragment_id, path)


_MOVABLE = ("selectbox", "button_group", "checkbox", "number_input", "slider")


def _states(kind: str, element: Any, kept: WidgetState | None) -> list[dict[str, Any]]:
    """The states that an element can have, as fields of WidgetState. The first is its present one.

    That is `kept`, if there is one, else what the server says.
    """
    given = element.set_value
    match kind:
        case "selectbox":
            field, others = "string_value", list(element.options)
            now = element.raw_value if given else others[element.default]
        case "checkbox":
            field, others = "bool_value", [False, True]
            now = element.value if given else element.default
        case "number_input":
            field, now = "double_value", element.value if given else element.default
            others = [now + element.step]
        case "slider" if not element.options:
            field, now = "double_array_value", DoubleArray(data=element.value if given else element.default)
            step = element.step if now.data[0] < element.max else -element.step
            others = [DoubleArray(data=[now.data[0] + step, *now.data[1:]])]
        case _:
            names = [option if kind == "slider" else option.content for option in element.options]
            at = element.raw_value if kind == "slider" else element.raw_values
            field, others = "string_array_value", [StringArray(data=[name]) for name in names]
            now = StringArray(data=at if given else [names[int(i)] for i in element.default])
    if kept is not None:
        now = getattr(kept, field)
    return [{field: value} for value in (now, *(one for one in others if one != now))]


def _written(state: WidgetState) -> str:
    """A control's state, written as a browser writes it into the address."""
    value = getattr(state, state.WhichOneof("value") or "")
    return ",".join(str(one) for one in getattr(value, "data", [value]))


def open_socket(url: str, origin: str = "", session: str = "", cookies: str = "", **more: Any) -> connect:
    """A connection like a browser's: same origin, unless one is given, and subprotocol; no proxy. `session`: one that
    was cut, to go on with; `cookies`: `cookies_of` its connection.
    """
    return connect(
        url.replace("http", "ws", 1) + "/_stcore/stream",
        origin=origin or url,  # type: ignore[arg-type]  # websockets has its own NewType of str
        subprotocols=["streamlit", "PLACEHOLDER_AUTH_TOKEN", *filter(None, [session])],  # type: ignore[list-item]
        additional_headers={"Cookie": cookies} if cookies else None,
        compression=None,
        max_size=None,
        proxy=None,
        **more,
    )


def cookies_of(socket: ClientConnection) -> str:
    """What a browser keeps of a connection: behind a proxy, the process that has its session."""
    given = socket.response.headers.get_all("Set-Cookie") if socket.response else []
    return "; ".join(one.partition(";")[0] for one in given)
