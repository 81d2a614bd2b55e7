"""The glossary's terms in a page's words: each carries its definition where the page says it first."""

from __future__ import annotations

import streamlit as st

from explain import glossary

_SAID = "the text that says each term first"


def new_page() -> None:
    """Begins a page on which no term was said yet."""
    st.session_state[_SAID] = {}


def marked(text: str) -> str:
    """Markdown with the definitions of the terms that the page says first in this text, as HTML.

    The same text has the same terms again: a fragment that runs alone changes no words.
    """
    said: dict[glossary.Term, str] = st.session_state.setdefault(_SAID, {})
    for term in glossary.terms_in(text):
        said.setdefault(term, text)
    return glossary.marked(text, frozenset(term for term, first in said.items() if first != text))
