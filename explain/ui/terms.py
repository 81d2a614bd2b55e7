"""The glossary's terms in a page's words: each carries its definition where the page says it first."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext

from explain import glossary

_SAID = "the terms that the running page has said"

Asked = tuple[str, str, bool]
"""A term's name, a text that says it, and whether the page says it first there."""


class Said:
    """The text in which a page says each term first."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._noted: list[Asked] | None = None
        self._parts: dict[str, set[str]] = {}

    def first(self, term: str, text: str) -> bool:
        """Whether the page says a term first in this text. If no text has said it yet, this one does now."""
        first = self._first.setdefault(term, text) == text
        if self._noted is not None:
            self._noted.append((term, text, first))
        return first

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the page that runs again alone, with other words: it forgets what it said before."""
        for term in self._parts.pop(name, ()):
            self._first.pop(term, None)
        above = set(self._first)
        try:
            yield
        finally:
            self._parts[name] = self._first.keys() - above

    @contextmanager
    def noted(self) -> Iterator[list[Asked]]:
        """What is asked from here on."""
        outer, mine = self._noted, list[Asked]()
        self._noted = mine
        try:
            yield mine
        finally:
            self._noted = outer
            if outer is not None:
                outer += mine

    def again(self, asked: Iterable[Asked]) -> bool:
        """Asks the same again. If an answer differs, returns False and changes nothing."""
        said = self._first.copy()
        if any((said.setdefault(term, text) == text) is not first for term, text, first in asked):
            return False
        self._first = said
        if self._noted is not None:
            self._noted += asked
        return True


class _Run(threading.local):
    """The run that a thread is in, and what its page has said. Each part of a page asks, and the session is slow."""

    context: ScriptRunContext | None = None
    said = Said()


_RUN = _Run()


def new_page() -> None:
    """Begins a page on which no term was said yet."""
    _RUN.context, _RUN.said = get_script_run_ctx(), Said()
    st.session_state[_SAID] = _RUN.said


def said() -> Said:
    """The terms that the running page has said so far. `marked` adds to it."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or context is not _RUN.context:
        _RUN.context, _RUN.said = context, st.session_state.setdefault(_SAID, Said())
    return _RUN.said


def marked(text: str) -> str:
    """Markdown with the definitions of the terms that the page says first in this text, as HTML.

    The same text has the same terms again: a fragment that runs alone changes no words.
    """
    page = said()
    return glossary.marked(text, frozenset(term for term in glossary.terms_in(text) if not page.first(term.name, text)))
