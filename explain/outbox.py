"""A run's messages on their way to the browser: many together.

A page has a message for each of its elements. Streamlit wakes the server's loop for each message, and sends each in a
turn of its own.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.session_manager import ActiveSessionInfo

AT_ONCE = 100
"""How many messages are sent before another reader's turn. Streamlit disconnects a browser if 500 wait for it."""
_LOCK = threading.Lock()
_WAITING = "_events_that_wait"


def together() -> None:
    """Makes Streamlit send the messages of each session together, from now on."""
    AppSession._on_scriptrunner_event = _hand_over  # type: ignore[method-assign, assignment]
    AppSession.flush_browser_queue = _in_parcels(AppSession.flush_browser_queue)  # type: ignore[method-assign, assignment]
    Runtime._send_message = _unpacked(Runtime._send_message)  # type: ignore[method-assign, assignment]


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
    for sender, event in waiting:
        try:
            if (message := event.get("forward_msg")) is not None and sender is session._scriptrunner:
                session._browser_queue.enqueue(message)
            else:
                session._handle_scriptrunner_event_on_event_loop(sender, **event)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "An event of a run", "exception": error})
    if session._message_enqueued_callback:
        session._message_enqueued_callback()


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
