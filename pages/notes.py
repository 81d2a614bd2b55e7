"""Hidden: Lecturer's notes. The run sheet of a chapter's tour, what to say, common errors; for a second window."""

from explain.chapters.notes import view
from explain.ui import layout

with layout.chapter(__file__):
    page, tour = view.choose()
view.run_sheet(page, tour)
view.notes(page, tour)
