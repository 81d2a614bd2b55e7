"""The glossary's terms in a page's words: each carries its definition where the page says it first."""

from __future__ import annotations

import streamlit as st

from explain import glossary

_SAID = "the text that says each term first"

Said = dict[str, str]
"""The text that says each term first, by the term's name."""


def new_page() -> None:
    """Begins a page on which no term was said yet."""
    st.session_state[_SAID] = {}


def said() -> Said:
    """The terms that the running page has explained so far. `marked` adds to it."""
    found: Said = st.session_state.setdefault(_SAID, {})
    return found


def marked(text: str) -> str:
    """Markdown with the definitions of the terms that the page says first in this text, as HTML.

    The same text has the same terms again: a fragment that runs alone changes no words.
    """
    page = said()
    here = glossary.terms_in(text)
    for term in here:
        page.setdefault(term.name, text)
    return glossary.marked(text, frozenset(term for term in here if page[term.name] != text))
