"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions import asked as questions
from explain.ui import layout

with layout.chapter(__file__, goal="find the screen that answers a question which people asked in public."):
    layout.prose(
        "The small links open the discussions on GitHub. The screens answer with a run, a count or a measurement."
    )
for group in dict.fromkeys(one.group for one in questions.questions()):
    st.header(group, anchor=False)
    with st.container(key=f"asked: {group}"):
        st.markdown(questions.table(group))
