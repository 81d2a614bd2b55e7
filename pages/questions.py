"""Hidden: What people ask. Questions from the field's repositories, and the screen that answers each live."""

import streamlit as st

from explain.chapters.questions import asked as questions
from explain.ui import layout

layout.chapter(__file__)
layout.prose(
    "Each question was asked in public; the number leads there. The screen answers it with a run, a count or a "
    "measurement."
)
st.markdown(questions.table())
