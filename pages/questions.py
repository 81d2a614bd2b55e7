"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

import streamlit as st

from explain.chapters.questions import asked as questions
from explain.ui import layout

layout.chapter(__file__, goal="see the short answer to a question from GitHub, and open the page that shows why.")
with st.container(key="asked"):
    st.markdown(questions.table(), unsafe_allow_html=True)
