"""Lab 1: Three numbers. Formula, trace and the GPU's own counters of one run, level by level, and why they differ."""

from explain.chapters.three_numbers import view
from explain.ui import layout

lead = layout.chapter(
    __file__,
    goal="count the same bytes in three ways, and see what the caches save.",
    words="○ **Formula**: counted by hand, term by term.\n\n"
    "◉ **Trace**: counted at every load and store of the real kernel, without caches. The players count this way.\n\n"
    "● **Hardware**: the GPU's own counters, with its caches.",
)
with lead:
    choice = view.choose()
shown, records = view.hierarchy(choice, lead)
view.gaps(choice, shown, records)
view.ratios(choice, records)
view.terms(choice, shown)
view.every_kernel(records)
view.closing(choice, shown)
