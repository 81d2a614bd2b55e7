"""The glossary's page, part by part."""

from __future__ import annotations

import streamlit as st

from explain import glossary
from explain.chapters.glossary import exercises, figures
from explain.ui import layout
from explain.ui.exercises import ask


def linked_term() -> None:
    """The term named in the address, on a card."""
    asked = st.query_params.get("term", "")
    if asked and (term := glossary.find(asked)):
        st.html(figures.card(term))
    elif asked:
        st.warning(f"`term={asked.replace('`', '')}`: there is no such term. Search below.", icon=":material/search:")


def search() -> str:
    """The words that the reader looks for."""
    return st.text_input(
        "Search",
        placeholder="running max, α, acc, spill …",
        icon=":material/search:",
        key="search",
        bind="query-params",
    )


def entries(words: str) -> None:
    """All entries by group, or those that the search finds."""
    found = glossary.search(words)
    if found and words:
        st.html(figures.entries(found))
    elif words:
        near = glossary.nearest(words)
        told = "The nearest:" if near else "Try one word, or clear the search to see all terms."
        st.info(f"No term contains “{words}”. {told}")
        if near:
            st.html(figures.entries(near))
    else:
        with st.container(key="groups"):  # it stays in sight
            st.markdown(" · ".join(f"[{group}](#{figures.anchor(group)})" for group in glossary.GROUPS))
        for group, terms in glossary.GROUPS.items():
            st.header(group, anchor=figures.anchor(group))
            st.html(figures.entries(terms))


def closing(words: str) -> None:
    """Things to try, questions, sources; nothing below the results of a search."""
    if words:
        return
    ask("glossary", exercises.QUESTIONS, glossary.TERMS, "")
    layout.closing("glossary")
