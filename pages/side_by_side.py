"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, with their first difference."""

from explain.chapters.side_by_side import pairs, view
from explain.ui import layout, stepper

with layout.chapter(__file__, goal="compare two runs, and find the first step where they differ (≠)."):
    left, right, ready = view.choose()
    layout.introduce(ready.look if ready else view.ANY_TWO)
stepper.stepper([left, right], key="side by side", titles=pairs.titles([left, right]))
view.how_to_read()
