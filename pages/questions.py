"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions import asked as questions
from explain.ui import layout

with layout.chapter(__file__, goal="find the page that answers a question people really asked."):
    layout.prose(
        "Each page answers with a run, a count or a measurement. The small links open the discussions on GitHub."
    )
with st.container(key="asked"):
    st.markdown(questions.table())
