"""Hidden: Your tour. A tour file of your own in the player: drop it here, or start the app with --tour FILE."""

from explain.chapters.tour import view
from explain.ui import layout

layout.chapter(__file__)
layout.prose(
    "Copy a chapter's tour, `explain/chapters/<chapter>/tours/`, and change it. `docs/tours.md` describes the file."
)
if tour := view.choose():
    view.play(tour)
