"""Hidden: Your run. A trace file of your own in the player: drop it here, or start the app with --trace FILE."""

from explain.chapters.your_run import view
from explain.ui import layout

layout.chapter(__file__)
if runs := view.choose():
    view.play(runs)
else:
    layout.prose(view.HOW)
