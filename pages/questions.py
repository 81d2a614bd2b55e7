"""Tool: What people ask. Questions from the field's repositories, and the screen that answers each."""

from explain.chapters.questions import view
from explain.ui import layout

with layout.chapter(__file__, goal="see short answers to questions from GitHub, and the pages that show why."):
    words = view.search()
view.answers(words)
