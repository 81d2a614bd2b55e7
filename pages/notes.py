"""Hidden: Lecturer's notes. What to say in a chapter, common student errors, and the time; for a second window."""

import streamlit as st

from explain import contents as chapters
from explain.ui import layout

layout.chapter(__file__)
with_notes = {page.stem: page for page in chapters.pages() if page.notes.exists()}
if not with_notes:
    st.info("No chapter has notes yet.")
    st.stop()
asked = st.query_params.get("chapter")
stem = st.selectbox(
    "Chapter",
    list(with_notes),
    index=list(with_notes).index(asked) if asked in with_notes else 0,
    format_func=lambda stem: with_notes[stem].title,
)
st.query_params["chapter"] = stem
page = with_notes[stem]
_, _, notes = page.notes.read_text(encoding="utf-8").partition("\n")
layout.chapter_link(page.stem, f"Open **{page.title}**, about {page.minutes} minutes")
with st.container(key="notes"):
    st.markdown(notes)
