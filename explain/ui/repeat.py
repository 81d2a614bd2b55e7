"""What a page draws from its values alone is drawn once for all readers; later its messages are sent again.

A rerun sends every element of its page again; to make the elements and their texts costs more than to send them.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.cursor import RunningCursor
from streamlit.delta_generator import DeltaGenerator
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext, ThreadState, get_script_run_ctx

from explain.kept import Call
from explain.ui import terms

MOST = 512
"""Calls kept for one function; the one unused for longest is forgotten first."""
WAYS = 8
"""Drawings kept of one call: each follows other terms that the page had said before."""
P = ParamSpec("P")
R = TypeVar("R", bound=DeltaGenerator | tuple[DeltaGenerator, ...] | None)


@dataclass(frozen=True)
class _Drawn:
    """What a call sent, the places it took, the terms it asked for, and the containers it returned."""

    messages: list[ForwardMsg]
    places: int
    asked: list[terms.Asked]
    containers: Any


def repeated(draw: Callable[P, R]) -> Callable[P, R]:
    """A function that draws from its values alone, without controls, fragments, session or address.

    What it drew for the same values, at the same place of the same page, is sent again, if the page says the same of
    its terms there for the first time. It draws at the place where it
    is called, and returns nothing, or one or more containers that it made.
    """
    known: OrderedDict[Hashable, list[_Drawn]] = OrderedDict()

    @functools.wraps(draw)
    def once(*values: P.args, **named: P.kwargs) -> Any:
        context, place = get_script_run_ctx(suppress_warning=True), st._main._active_dg
        cursor: Any = place._cursor
        if context is None or not isinstance(cursor, RunningCursor):
            return draw(*values, **named)
        thread, said, path = ThreadState.get(), terms.said(), tuple(cursor.delta_path)
        if thread.delta_path and path[: len(thread.delta_path)] != thread.delta_path:
            return draw(*values, **named)  # outside the fragment that runs: Streamlit makes a container for it
        asked_with = Call(values, named)
        call = path, thread.fragment_id, thread.active_script_hash, asked_with
        ways = known.get(call, [])
        for drawn in ways:
            if said.again(drawn.asked):
                with suppress(KeyError):  # forgotten meanwhile, in another reader's thread
                    known.move_to_end(call)
                for message in drawn.messages:
                    context.enqueue(message)
                for _ in range(drawn.places):
                    cursor.lock_element()
                return _each(drawn.containers, lambda one: one.within(place))
        first = cursor.index
        with _noted(context) as messages, said.noted() as asked:
            result = draw(*values, **named)
        drawn = _Drawn(messages, cursor.index - first, asked, _each(result, _Container.of))
        asked_with.let_go()
        known[call] = [*ways[1 - WAYS :], drawn]
        if len(known) > MOST:
            known.popitem(last=False)
        return result

    return once


@contextmanager
def _noted(context: ScriptRunContext) -> Iterator[list[ForwardMsg]]:
    """The messages that are sent from here on."""
    messages: list[ForwardMsg] = []
    send = context.enqueue

    def note(msg: ForwardMsg) -> None:
        messages.append(msg)
        send(msg)

    context.enqueue = note  # type: ignore[method-assign]
    try:
        yield messages
    finally:
        context.enqueue = send  # type: ignore[method-assign]


def _each(result: Any, make: Callable[[Any], Any]) -> Any:
    """`make` of a function's result, or of each where they are several."""
    return None if result is None else tuple(map(make, result)) if isinstance(result, tuple) else make(result)


@dataclass(frozen=True)
class _Container:
    """A container that stands on the page: its path, its kind, how many places in it are taken."""

    path: tuple[int, ...]
    kind: str | None
    taken: int

    @classmethod
    def of(cls, made: DeltaGenerator) -> _Container:
        cursor: Any = made._cursor
        return cls(cursor.parent_path, made._block_type, cursor.index)

    def within(self, place: DeltaGenerator) -> DeltaGenerator:
        """It, ready for the next element."""
        cursor = RunningCursor(place._root_container or 0, self.path)
        for _ in range(self.taken):
            cursor.lock_element()
        found = DeltaGenerator(place._root_container, cursor, place, self.kind)
        found._form_data, found._creating_fragment_id = place._form_data, ThreadState.get().fragment_id
        return found
