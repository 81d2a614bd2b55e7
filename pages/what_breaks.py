"""Chapter 8: What breaks. Real bugs, most of them shipped. For each: one wrong line, an input that shows it, a game."""

from explain.chapters.what_breaks import view
from explain.ui import layout

with layout.chapter(__file__, goal=view.GOAL):
    exhibit = view.choose()
    chain = view.plaque(exhibit)
questions = view.run(exhibit, chain)
view.verdicts(exhibit)
view.game(exhibit)
view.closing(exhibit, questions)
