"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, with their first difference."""

from explain.chapters.side_by_side import view
from explain.ui import layout

with layout.chapter(__file__, goal="run two kernels in step and find where they first differ. ≠ marks what differs."):
    chosen = view.choose()
with layout.below_goal():
    view.introduce(chosen)
view.step_through(chosen)
