"""Chapter 8: What breaks. Bugs that shipped: one line of the real kernel each, an input that shows it, and a game."""

from explain.chapters.what_breaks import view
from explain.ui import layout

with layout.chapter(
    __file__, goal="see how one wrong line breaks a kernel, and why ordinary random numbers do not show it."
):
    exhibit = view.choose()
view.plaque(exhibit)
questions = view.run(exhibit)
view.verdicts(exhibit)
view.game(exhibit)
view.closing(questions)
