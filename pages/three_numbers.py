"""Lab 1: Three numbers. Formula, trace and the GPU's own counters of one run, level by level, and why they differ."""

from explain.chapters.three_numbers import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see three numbers for the same bytes (formula, trace, GPU counters) and where the caches make them differ.",
    words="- **Formula**: counted by hand, term by term.\n"
    "- **Traced**: counted at every load and store of the real kernel. So do the players: no cache is between.\n"
    "- **Measured**: the GPU's own counters, at each level. Here the caches count too.",
):
    choice = view.choose()
shown, records = view.hierarchy(choice)
view.gaps(choice, shown, records)
view.terms(choice, shown)
view.ratios(records)
view.every_kernel(records)
view.closing(choice, shown)
