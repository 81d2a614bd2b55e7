"""Chapter 8: What breaks. Bugs that shipped: one line of the real kernel each, an input that shows it, and a game."""

import streamlit as st

from explain.chapters.what_breaks import view
from explain.ui import layout

with layout.chapter(
    __file__, goal="see how one wrong line breaks a kernel, and why ordinary random numbers do not show it."
):
    exhibit = view.choose()
questions = view.run(exhibit)
with layout.part("The bug", exhibit.story):
    view.plaque(exhibit)
    view.verdicts(exhibit)
st.header("The game: find an input that breaks it", anchor=False)
layout.prose("The same two kernels, on your input. Change it until the broken kernel fails and the correct one passes.")
view.game(exhibit)
view.closing(questions)
