"""Which parts of a page run again when a control of the page was moved: all of it, or those that follow the control."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import streamlit as st

from explain.ui import terms

P = ParamSpec("P")
_FOLLOWING = "what follows the controls"
_DRAWN = "when the page was drawn"
_SAME = "the page is drawn again for its following parts"
SENT_AFTER_S = 0.05
"""Until then a new run may drop what the page's has drawn and not sent yet."""


@contextmanager
def drawing() -> Iterator[None]:
    """The page is drawn. Until all of it is drawn and sent, a control that is moved draws all of it again."""
    before = st.session_state.pop(_DRAWN, None)
    same = st.session_state.pop(_SAME, False)
    yield
    st.session_state[_DRAWN] = before if same and before else time.monotonic()


def following(draw: Callable[P, object]) -> Callable[P, None]:
    """A part of the page that asks for what it shows, such as `controls.chosen`: it may run without the page."""

    @functools.wraps(draw)
    def part(*values: P.args, **named: P.kwargs) -> None:
        _part(draw.__qualname__, functools.partial(draw, *values, **named))

    return part


@st.fragment(key=_FOLLOWING)  # one function, since Streamlit refuses a key of two
def _part(name: str, draw: Callable[[], object]) -> None:
    with terms.said().part(name):
        draw()


def follow() -> None:
    """In a control's callback that changes nothing else: the `following` parts run without the page, if it is there."""
    if drawn := st.session_state.get(_DRAWN):
        if time.monotonic() > drawn + SENT_AFTER_S:
            st.rerun(_FOLLOWING)
        st.session_state[_SAME] = True
