"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, with their first difference."""

from explain.chapters.side_by_side import pairs, view
from explain.ui import layout, stepper

layout.chapter(__file__, goal="step two runs together, and find the first place where they differ.")
left, right, ready = view.choose()
stepper.stepper([left, right], key="side by side", titles=pairs.titles([left, right]))
if ready:
    layout.prose(f"**To look for.** {ready.look}")
layout.prose(
    "The two meet at the start of each tile visit, and the one with fewer lines waits on its last. **≠** marks what "
    "differs at the step shown: a counter, or by more than rounding a row of the running state; a score that differs "
    "has a cut corner. Values are held against each other by row and column, and a maximum or a sum only where both "
    "runs have seen the same columns of its row."
)
