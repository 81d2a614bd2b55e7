"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, with their first difference."""

from explain.chapters.side_by_side import view
from explain.ui import layout

with layout.chapter(
    __file__, goal="step two kernels together and find their first difference. ≠\u00a0marks what differs."
):
    chosen = view.choose()
with layout.below_goal():
    view.introduce(chosen)
view.step_through(chosen)
