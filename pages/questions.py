"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions.asked import tables
from explain.ui import layout

layout.chapter(__file__, goal="see short answers to questions from GitHub, and the pages that show why.")
asked = tables()
layout.jumps(asked)
with st.container(key="asked"):
    for group, table in asked.items():
        layout.header(group)
        st.markdown(table, unsafe_allow_html=True)
