"""A run's messages go to its browser together: all of them, in their order, and with one call of the loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import Runtime
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.session_manager import SessionClientDisconnectedError
from uvicorn.protocols.utils import ClientDisconnected
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from explain import outbox

RUN: Any = "the run that goes on"


class Session:
    """What the outbox asks of Streamlit's session. Its loop does nothing until `turn`."""

    def __init__(self) -> None:
        self.id = "a reader"
        self._scriptrunner = RUN
        self._browser_queue = ForwardMsgQueue()
        self._message_enqueued_callback = lambda: self.told.append(len(self._browser_queue._queue))
        self.told: list[int] = []
        self.calls: deque[Any] = deque()

    def _call_soon_on_event_loop(self, call: Any) -> None:
        self.calls.append(call)

    def _handle_scriptrunner_event_on_event_loop(self, sender: Any, event: Any, **_: Any) -> None:
        if event == "fails":
            raise ValueError(event)
        self._browser_queue.enqueue(message(f"{sender}: {event}"))

    def flush_browser_queue(self) -> list[list[ForwardMsg]]:
        return outbox._in_parcels(lambda _: self._browser_queue.flush())(self)  # type: ignore[arg-type]

    def on_flushed_messages_sent(self) -> None:
        self.told.append(0)

    def turn(self) -> list[str]:
        """The loop makes all calls that wait; the texts that the browser then gets."""
        while self.calls:
            self.calls.popleft()()
        return [one.parent_message.message for one in self._browser_queue.flush()]


class Server:
    """What the outbox asks of Streamlit's runtime: one reader, who may be away, or leave as a message is sent."""

    def __init__(self, *, there: bool = True, leaves: bool = False) -> None:
        self._session_mgr = self
        self.there, self.leaves = there, leaves
        self.client, self.sent, self.gone = object(), list[str](), list[Any]()

    def get_active_session_info(self, _: str) -> Any:
        return self if self.there else None

    def _send_message(self, _: Any, parcel: list[ForwardMsg]) -> None:
        if self.leaves:
            raise SessionClientDisconnectedError
        self.sent += [one.parent_message.message for one in parcel]

    def disconnect_session(self, _: str, *, client: Any) -> None:
        self.gone.append(client)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The running server; its reader is away, so that what is sent stays where a test finds it."""
    server = Server(there=False)
    monkeypatch.setattr(Runtime, "instance", lambda: server)
    return server


def message(text: str) -> ForwardMsg:
    made = ForwardMsg()
    made.parent_message.message = text
    return made


def hand_over(session: Any, *texts: str, sender: Any = RUN) -> None:
    for text in texts:
        outbox._hand_over(session, sender, event="message", forward_msg=message(text))


def test_messages_and_events_keep_their_order_and_the_loop_is_woken_once():
    session: Any = Session()
    hand_over(session, "a", "b")
    outbox._hand_over(session, RUN, event="begins")
    hand_over(session, "c")
    assert len(session.calls) == 1
    assert session.turn() == ["a", "b", f"{RUN}: begins", "c"]
    assert session.told == [4]
    hand_over(session, "d")
    assert session.turn() == ["d"]


def test_messages_of_a_run_that_another_has_replaced_are_not_sent():
    """Streamlit's own function decides about them, as about each event that is no message."""
    session: Any = Session()
    hand_over(session, "late", sender="old")
    hand_over(session, "new")
    assert session.turn() == ["old: message", "new"]


def test_an_event_that_fails_keeps_nothing_else_from_the_browser():
    session: Any = Session()
    failed: list[BaseException] = []

    async def turn() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: failed.append(said["exception"]))
        return session.turn()

    hand_over(session, "before")
    outbox._hand_over(session, RUN, event="fails")
    hand_over(session, "after")
    assert _in_a_loop(turn()) == ["before", "after"]
    assert [str(error) for error in failed] == ["fails"]


def test_no_message_is_lost_between_a_script_and_the_loop():
    session: Any = Session()
    texts = [str(n) for n in range(5000)]
    script = threading.Thread(target=hand_over, args=(session, *texts))
    script.start()
    found: list[str] = []
    while script.is_alive():
        found += session.turn()
    script.join()
    assert found + session.turn() == texts


@pytest.mark.parametrize("many", [0, 1, outbox.AT_ONCE, outbox.AT_ONCE + 1, 3 * outbox.AT_ONCE - 1])
def test_what_is_sent_at_once_is_all_that_waits_in_parcels_that_no_browser_is_given_up_for(many):
    messages = [message(str(n)) for n in range(many)]
    parcels = outbox._in_parcels(lambda _: messages)(Session())  # type: ignore[arg-type]
    assert all(0 < len(parcel) <= outbox.AT_ONCE for parcel in parcels)
    sent: list[ForwardMsg] = []
    for parcel in parcels:
        outbox._unpacked(lambda _, __, one: sent.append(one))(None, None, parcel)  # type: ignore[arg-type]
    assert sent == messages


@pytest.mark.parametrize("many", [1, outbox.AT_ONCE])
def test_a_parcel_goes_to_the_browser_at_once(server: Server, many: int):
    server.there = True
    session: Any = Session()
    hand_over(session, *map(str, range(many)))
    assert session.turn() == []
    assert server.sent == [str(n) for n in range(many)]
    assert session.told == [0], "Streamlit's loop need not look; what is sent is settled"


def test_more_than_a_parcel_waits_for_the_loop_which_gives_others_their_turns(server: Server):
    server.there = True
    session: Any = Session()
    texts = [str(n) for n in range(outbox.AT_ONCE + 1)]
    hand_over(session, *texts)
    assert session.turn() == texts
    assert not server.sent
    assert session.told == [len(texts)]


def test_a_browser_that_is_gone_is_disconnected_and_nobody_else_notices(server: Server):
    server.there, server.leaves = True, True
    session: Any = Session()
    hand_over(session, "a")
    session.turn()
    assert server.gone == [server.client]


class Wire:
    """uvicorn's protocol of one websocket, as far as the outbox knows it."""

    def __init__(self) -> None:
        self.conn = Protocol(Side.SERVER, state=State.OPEN)
        self.written: list[list[bytes]] = []

    async def send(self, message: dict[str, Any]) -> None:
        if self.conn.state is not State.OPEN:
            raise ClientDisconnected
        self.conn.send_binary(message["bytes"])
        self.written.append([_payload(one) for one in self.conn.data_to_send()])


def _payload(written: bytes) -> bytes:
    """What a short frame of a server holds: two bytes stand before it."""
    assert written[:2] == Frame(Opcode.BINARY, written[2:]).serialize(mask=False)[:2]
    return written[2:]


class Client:
    """Streamlit's connection to one browser: messages wait, and `wire` has them at last."""

    def __init__(self, wire: Wire) -> None:
        self._send_queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed = asyncio.Event()
        self._websocket, self._wire = self, wire

    async def send(self, message: dict[str, Any]) -> None:
        try:
            await outbox._after_those(Wire.send)(self._wire, message)
        except OSError as error:  # as Starlette's websocket says it
            raise WebSocketDisconnect(1006) from error


def _in_a_loop(what: Any) -> Any:
    with ThreadPoolExecutor(1) as thread:  # a browser test leaves a loop in this one
        return thread.submit(asyncio.run, what).result()


def test_all_that_wait_are_written_to_the_network_at_once_each_a_message_of_its_own():
    async def sent() -> tuple[list[list[bytes]], bool]:
        wire = Wire()
        client: Any = Client(wire)
        task = asyncio.create_task(outbox._send_all(client))
        for texts in ([b"a", b"b", b"c"], [b"d"], []):
            for text in texts:
                client._send_queue.put_nowait(text)
            await asyncio.sleep(0.01)
        open_ = not client._closed.is_set()
        wire.conn.state = State.CLOSED
        client._send_queue.put_nowait(b"late")
        client._send_queue.put_nowait(b"later")
        await asyncio.wait_for(task, 5)
        return wire.written, open_ and client._closed.is_set()

    assert _in_a_loop(sent()) == ([[b"a", b"b", b"c"], [b"d"]], True)
