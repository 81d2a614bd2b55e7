"""The page of questions, part by part."""

from __future__ import annotations

import streamlit as st

from explain.chapters.questions.asked import cards
from explain.ui import layout
from explain.ui.repeat import repeated


@repeated
def answers() -> None:
    """Every question with its answer, by group."""
    asked = cards()
    layout.jumps(list(asked))
    for group, shown in asked.items():
        layout.header(group)
        st.markdown(shown, unsafe_allow_html=True)
