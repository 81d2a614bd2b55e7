"""Tool: Side by side. Any two runs stepped together, tile visit by tile visit, and where they first part."""

import streamlit as st

from explain import side_by_side, ui
from explain.experiment import Experiment
from kernels.catalog import CATALOG

LABELS = {"a.": "Left kernel", "b.": "Right kernel"}


def show(pair: side_by_side.Pair) -> None:
    """A ready-made pair was pressed."""
    for prefix, experiment in zip(LABELS, (pair.left, pair.right), strict=True):
        st.session_state[f"{prefix}kernel"] = experiment.kernel
        ui.choose(experiment, side_by_side.opening(experiment.kernel), prefix)


def side(prefix: str, start: Experiment) -> Experiment:
    """One side's kernel and parameters."""
    name, more = st.columns([3, 2], vertical_alignment="bottom")
    kernel = name.selectbox(
        LABELS[prefix],
        list(CATALOG),
        index=list(CATALOG).index(start.kernel),
        format_func=lambda kernel: CATALOG[kernel].title,
        key=f"{prefix}kernel",
        bind="query-params",
    )
    presets = ui.ROW_PRESETS if CATALOG[kernel].family == "softmax" else ui.ATTENTION_PRESETS
    with more.popover("Input and sizes", width="stretch"):
        return ui.controls(
            side_by_side.opening(kernel), side_by_side.controls_of(kernel), presets, prefix=prefix, a_row=2
        )


ui.chapter(__file__, "see two runs take the same steps, and find the first value in which they part.")
ready_made = st.container(horizontal=True)
left, right = st.columns(2, gap="large")
opening = side_by_side.PAIRS[0]
with left:
    a = side("a.", opening.left)
with right:
    b = side("b.", opening.right)
shown = next((pair for pair in side_by_side.PAIRS if (pair.left, pair.right) == (a, b)), None)
for pair in side_by_side.PAIRS:
    ready_made.button(pair.name, type="primary" if pair == shown else "secondary", on_click=show, args=(pair,))

ui.stepper([a, b], key="side by side", titles=side_by_side.titles([a, b]))

if shown:
    ui.prose(f"**To look for.** {shown.look}")
ui.prose(
    "The two meet at the start of each tile visit, and the one with fewer lines waits on its last. **≠** marks what differs by more "
    "than rounding at the step shown: a row of the running state, a counter, and with a cut corner a score. Values are held against "
    "each other by their row and column, also where the tiles are of different sizes."
)
