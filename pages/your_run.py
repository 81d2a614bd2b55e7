"""Own: Your run. A trace file in the player: drop it here, or start the app with --trace FILE."""

from explain.chapters.your_run import view
from explain.ui import layout

with layout.chapter(__file__, goal=view.GOAL):
    runs = view.choose()
    view.told(runs)
view.play(runs)
view.how()
