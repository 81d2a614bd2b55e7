"""The page of questions, part by part."""

from __future__ import annotations

import streamlit as st

from explain.chapters.questions.asked import cards, found
from explain.ui import layout
from explain.ui.repeat import repeated


def search() -> str:
    """The search field. Returns its text."""
    return st.text_input(
        "Search", placeholder="bf16, causal, atomics …", icon=":material/search:", key="question", bind="query-params"
    )


def answers(words: str) -> None:
    """The questions with their answers: all of them, or those that contain `words`."""
    if words:
        st.button("× Show all questions", on_click=_clear, type="tertiary")
        if not found(words):
            st.info(f"No question contains “{words}”. Try one word, or clear the search to see all questions.")
    _groups(words)


@repeated
def _groups(words: str) -> None:
    """The questions that contain the words, by group."""
    asked = cards(words)
    if not words:
        layout.jumps(list(asked))
    for group, shown in asked.items():
        layout.header(group)
        st.markdown(shown, unsafe_allow_html=True)


def _clear() -> None:
    st.session_state["question"] = ""
