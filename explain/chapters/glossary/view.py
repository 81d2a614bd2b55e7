"""The glossary's page, part by part."""

from __future__ import annotations

import streamlit as st

from explain import glossary
from explain.chapters.glossary import exercises, figures
from explain.ui import layout
from explain.ui.exercises import ask
from explain.ui.repeat import repeated


def linked_term() -> None:
    """A card with the term that the address names; a warning if there is no such term."""
    asked = st.query_params.get("term", "")
    if asked and (term := glossary.find(asked)):
        st.html(figures.card(term))
    elif asked:
        st.warning(f"`term={asked.replace('`', '')}`: there is no such term. Search below.", icon=":material/search:")


def search() -> str:
    """The search field. Returns its text."""
    return st.text_input(
        "Search",
        placeholder="running max, α, acc, spill …",
        icon=":material/search:",
        key="search",
        bind="query-params",
    )


def entries(words: str) -> None:
    """The list of terms: all of them by group, or those that contain `words`, or else the nearest ones."""
    if not words:
        _groups()
        return
    found = glossary.search(words)
    st.button("× Show all terms", on_click=_clear, type="tertiary")
    if found:
        st.html(figures.entries(found, words))
    else:
        near = glossary.nearest(words)
        told = "The nearest:" if near else "Try one word, or clear the search to see all terms."
        st.info(f"No term contains “{words}”. {told}")
        if near:
            st.html(figures.entries(near))


@repeated
def _groups() -> None:
    """All terms, by group."""
    layout.jumps(list(glossary.GROUPS))
    for group, terms in glossary.GROUPS.items():
        layout.header(group)
        st.html(figures.entries(terms))


def _clear() -> None:
    st.session_state["search"] = ""


def closing(words: str) -> None:
    """Questions and sources; nothing while the reader searches."""
    if words:
        return
    ask("glossary", exercises.QUESTIONS, glossary.TERMS, "")
    layout.closing("glossary")
