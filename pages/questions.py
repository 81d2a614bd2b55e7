"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions import asked as questions
from explain.ui import layout

with layout.chapter(__file__, goal="find the screen that answers a question which people asked in public."):
    layout.prose(
        "The small links open the discussions on GitHub. The screens answer with a run, a count or a measurement."
    )
with st.container(key="asked"):
    st.markdown(questions.table())
