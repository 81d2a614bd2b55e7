"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions.asked import cards
from explain.ui import layout

layout.chapter(__file__, goal="see short answers to questions from GitHub, and the pages that show why.")
asked = cards()
layout.jumps(asked)
for group, shown in asked.items():
    layout.header(group)
    st.markdown(shown, unsafe_allow_html=True)
