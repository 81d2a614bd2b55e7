"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, with their first difference."""

import streamlit as st

from explain.chapters.side_by_side import pairs, view
from explain.ui import layout, stepper

with layout.chapter(__file__, goal="step two runs together, and find the first place where they differ."):
    left, right, ready = view.choose()
stepper.stepper([left, right], key="side by side", chapter="side_by_side", titles=pairs.titles([left, right]))
look, signs = st.columns(2, gap="large")
with look:
    layout.prose(f"**To look for.** {ready.look}" if ready else "")
with signs:
    layout.prose(
        "The runs meet at the start of each tile visit. The run with fewer lines waits on its last. **≠** marks what "
        "differs at this step: a counter, or a row of the running state by more than rounding. A score that differs "
        "has a cut corner. Values are compared by row and column; a maximum or a sum only where both runs have seen "
        "the same columns of its row."
    )
