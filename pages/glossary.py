"""Tool: Glossary. Every term with its symbol, its name in the code, its colour and what it means."""

from explain.chapters.glossary import view
from explain.ui import layout

with layout.chapter(
    __file__, goal="find what a word, a symbol or a name in the code means, and the chapter where you meet it."
):
    words = view.search()
view.linked_term()
view.entries(words)
view.closing(words)
