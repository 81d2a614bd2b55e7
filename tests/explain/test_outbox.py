"""A run's messages go to its browser together: all of them, in their order, and with one call of the loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

from explain import outbox

RUN: Any = "the run that goes on"


class Session:
    """What the outbox asks of Streamlit's session. Its loop does nothing until `turn`."""

    def __init__(self) -> None:
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

    def turn(self) -> list[str]:
        """The loop makes all calls that wait; the texts that the browser then gets."""
        while self.calls:
            self.calls.popleft()()
        return [one.parent_message.message for one in self._browser_queue.flush()]


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
    with ThreadPoolExecutor(1) as thread:  # a browser test leaves a loop in this one
        assert thread.submit(asyncio.run, turn()).result() == ["before", "after"]
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
