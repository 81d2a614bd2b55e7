"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions import asked as questions
from explain.ui import layout

layout.chapter(__file__, goal="find the screen that answers a question which people asked in public.")
layout.prose(
    "The number leads to the place where it was asked. The screen answers with a run, a count or a measurement."
)
st.markdown(questions.table())
