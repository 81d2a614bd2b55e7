"""Which parts of a page run again when a control of the page was moved: all of it, or those that follow the control."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import streamlit as st

from explain.ui import terms

P = ParamSpec("P")
_FOLLOWING = "what follows the controls"
_DRAWN = "the page is drawn"


@contextmanager
def drawing() -> Iterator[None]:
    """The page is drawn. Until all of it is there, a control that is moved draws all of it again."""
    st.session_state.pop(_DRAWN, None)
    yield
    st.session_state[_DRAWN] = True


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
    if st.session_state.get(_DRAWN):
        st.rerun(_FOLLOWING)
