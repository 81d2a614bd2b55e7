"""A run's messages on their way to the browser: many together.

A page has a message for each of its elements. Streamlit wakes the server's loop for each message, sends each in a turn
of its own, and writes each to the network by itself.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.websockets import WebSocketDisconnect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import ScriptRunner, ScriptRunnerEvent
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType
from streamlit.runtime.session_manager import ActiveSessionInfo, SessionClientDisconnectedError
from streamlit.web.server.starlette.starlette_server import _get_websocket_protocol
from streamlit.web.server.starlette.starlette_websocket import StarletteSessionClient
from websockets.protocol import State

AT_ONCE = 200
"""How many messages are sent before another reader's turn. Streamlit disconnects a browser if 500 wait for it."""
_LOCK = threading.Lock()
_WAITING = "_events_that_wait"
_LISTENER = "_listener"
_BEFORE = "before"


def together() -> None:
    """Makes Streamlit send the messages of each session together, from now on."""
    AppSession._on_scriptrunner_event = _hand_over  # type: ignore[method-assign, assignment]
    AppSession.flush_browser_queue = _in_parcels(AppSession.flush_browser_queue)  # type: ignore[method-assign, assignment]
    Runtime._send_message = _unpacked(Runtime._send_message)  # type: ignore[method-assign, assignment]
    ScriptRunner._enqueue_forward_msg = _enqueue  # type: ignore[method-assign, assignment]
    if _get_websocket_protocol() == "websockets-sansio":  # an older uvicorn has another
        from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

        WebSocketsSansIOProtocol.send = _after_those(WebSocketsSansIOProtocol.send)
        StarletteSessionClient._sender = _send_all  # type: ignore[method-assign, assignment]


def _enqueue(run: ScriptRunner, message: ForwardMsg) -> None:
    """Streamlit's function that a script hands a message to. Each time it asks all threads of the run whether it shall
    end, and looks for those who listen to it; here a run has one thread and one listener.
    """
    if run._requests._state != ScriptRequestType.CONTINUE:
        run._maybe_handle_execution_control_request()
    if (listener := run.__dict__.get(_LISTENER)) is None:
        (listener,) = run.on_event._get_live_receivers()
        run.__dict__[_LISTENER] = listener
    listener(run, event=ScriptRunnerEvent.ENQUEUE_FORWARD_MSG, forward_msg=message)


def _hand_over(session: AppSession, sender: ScriptRunner | None, **event: Any) -> None:
    """A script's message, or another event of its run, waits for the loop, which is woken for the first that waits. Any
    thread may call it.
    """
    with _LOCK:
        waiting = session.__dict__.setdefault(_WAITING, [])
        waiting.append((sender, event))
        first = len(waiting) == 1
    if first:
        session._call_soon_on_event_loop(functools.partial(_handle, session))


def _handle(session: AppSession) -> None:
    """Handles on the loop all that waits, in its order. What fails keeps nothing else from being handled."""
    with _LOCK:
        waiting = session.__dict__.pop(_WAITING)
    tell, session._message_enqueued_callback = session._message_enqueued_callback, None
    for sender, event in waiting:
        try:
            if (message := event.get("forward_msg")) is not None and sender is session._scriptrunner:
                session._browser_queue._queue.append(message)  # which leaves at once: no later one takes its place
            else:
                session._handle_scriptrunner_event_on_event_loop(sender, **event)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "An event of a run", "exception": error})
    session._message_enqueued_callback = tell
    if tell and not _sent(session):
        tell()


def _sent(session: AppSession) -> bool:
    """Sends what waits for the session's browser, if the browser is there and that is one parcel. The rest is left to
    Streamlit's loop, which gives the others their turns; it looks at every session and waits before it does.
    """
    runtime = Runtime.instance()
    reader = runtime._session_mgr.get_active_session_info(session.id)
    if reader is None or len(session._browser_queue) > AT_ONCE:
        return False
    try:
        for parcel in session.flush_browser_queue():
            runtime._send_message(reader, parcel)
    except SessionClientDisconnectedError:
        runtime.disconnect_session(session.id, client=reader.client)
    session.on_flushed_messages_sent()
    return True


def _in_parcels(flush: Callable[[AppSession], list[ForwardMsg]]) -> Callable[[AppSession], list[list[ForwardMsg]]]:
    """Streamlit's function that takes what a session has to send: it sends what this returns one by one."""

    def parcels(session: AppSession) -> list[list[ForwardMsg]]:
        messages = flush(session)
        return [messages[start : start + AT_ONCE] for start in range(0, len(messages), AT_ONCE)]

    return parcels


def _unpacked(
    send: Callable[[Runtime, ActiveSessionInfo, ForwardMsg], None],
) -> Callable[[Runtime, ActiveSessionInfo, Sequence[ForwardMsg]], None]:
    """Streamlit's function that sends one message, for all of a parcel."""

    def parcel(runtime: Runtime, session: ActiveSessionInfo, messages: Sequence[ForwardMsg]) -> None:
        for message in messages:
            send(runtime, session, message)

    return parcel


async def _send_all(client: StarletteSessionClient) -> None:
    """Streamlit's task that sends one message after another to a browser: all that wait leave at once."""
    waiting = client._send_queue
    try:
        while True:
            before, last = [], await waiting.get()
            while not waiting.empty():
                before.append(last)
                last = waiting.get_nowait()
            await client._websocket.send({"type": "websocket.send", "bytes": last, _BEFORE: before})
    except WebSocketDisconnect:
        pass
    except Exception:
        logging.getLogger(__name__).exception("A browser's messages could not be sent")
    finally:
        client._closed.set()


def _after_those(send: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any, Any], Awaitable[None]]:
    """uvicorn's function that sends a message of a websocket, after those `before` it: the connection keeps them, and
    writes them to the network with it.
    """

    async def together(protocol: Any, message: Any) -> None:
        if protocol.conn.state is State.OPEN:  # else uvicorn says that the browser is gone
            for one in message.get(_BEFORE, ()):
                protocol.conn.send_binary(one)
        await send(protocol, message)

    return together
