"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, and where they first part."""

import streamlit as st

from explain import lessons
from explain.chapters.side_by_side import pairs as side_by_side
from explain.experiment import Experiment
from explain.ui import controls, layout, stepper
from kernels.catalog import CATALOG

LABELS = {"a.": "Left kernel", "b.": "Right kernel"}


def show(pair: lessons.Pair) -> None:
    """A ready-made pair was pressed."""
    controls.choose(dict(zip(LABELS, (pair.left, pair.right), strict=True)), side_by_side.opening)


def side(prefix: str, start: Experiment) -> Experiment:
    """One side's kernel and parameters."""
    name, more = st.columns([3, 2], vertical_alignment="bottom")
    with name:
        kernel = controls.kernel(LABELS[prefix], start.kernel, f"{prefix}kernel")
    presets = controls.ROW_PRESETS if CATALOG[kernel].family == "softmax" else controls.ATTENTION_PRESETS
    with more.popover("Input and sizes", width="stretch"):
        return controls.controls(
            side_by_side.opening(kernel), side_by_side.controls_of(kernel), presets, prefix=prefix, a_row=2
        )


layout.chapter(__file__)
ready_made = st.container(horizontal=True)
left, right = st.columns(2, gap="large")
opening = lessons.PAIRS[0]
with left:
    a = side("a.", opening.left)
with right:
    b = side("b.", opening.right)
shown = next((pair for pair in lessons.PAIRS if (pair.left, pair.right) == (a, b)), None)
for pair in lessons.PAIRS:
    ready_made.button(pair.name, type="primary" if pair == shown else "secondary", on_click=show, args=(pair,))

stepper.stepper([a, b], key="side by side", titles=side_by_side.titles([a, b]))

if shown:
    layout.prose(f"**To look for.** {shown.look}")
layout.prose(
    "The two meet at the start of each tile visit, and the one with fewer lines waits on its last. **≠** marks what differs at the step "
    "shown: a counter, or by more than rounding a row of the running state; a score that differs has a cut corner. Values are held "
    "against each other by row and column, and a maximum or a sum only where both runs have seen the same columns of its row."
)
