"""Home: Tilescope. FlashAttention as a film, three ways on, every chapter, and what runs it here."""

from explain.chapters.home import view
from explain.ui import layout

view.step_of_an_old_link()
with layout.chapter(__file__, wide=5):
    view.tagline()
made = view.opening()
view.doors()
view.where_to_start(made)
view.what_you_see(made)
