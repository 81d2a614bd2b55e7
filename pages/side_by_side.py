"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, with their first difference."""

from explain.chapters.side_by_side import view
from explain.ui import layout, stepper

with layout.chapter(__file__, goal="see the step at which two runs part, and what it costs. ≠ marks what differs."):
    left, right, ready = view.choose()
    layout.introduce(ready.look if ready else view.ANY_TWO)
traces = stepper.stepper([left, right], key="side by side")
view.how_to_read()
view.closing([left, right], traces)
