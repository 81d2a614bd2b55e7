"""Own: Your tour. A tour file in the player: drop it here, or start the app with --tour FILE."""

from explain.chapters.your_tour import view
from explain.ui import layout

with layout.chapter(__file__, goal=view.GOAL, words=view.HOW):
    tour = view.choose()
if tour:
    view.play(tour)
