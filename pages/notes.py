"""Hidden: Lecturer's notes. The run sheet of a chapter's tour, what to say, common errors; for a second window."""

from explain.chapters.notes import view
from explain.ui import layout

layout.chapter(__file__)
page = view.choose()
view.run_sheet(page)
view.notes(page)
view.hall()
