"""Chapter 2: Online softmax. One row, element by element and tile by tile, and the wrong kernel beside the right one."""

from collections.abc import Callable

import streamlit as st

from explain import lessons, ui
from explain.experiment import Experiment

ui.chapter(__file__)
st.markdown(
    "**Goal: a row's maximum and its softmax sum in one pass.** Softmax divides each exp(x − m) by their sum ℓ, where m is the row's "
    "maximum. Keep m and ℓ of what was seen so far, and when a larger element moves m, shrink the old sum by "
    "α = exp(m − m_new): it was measured against the old maximum. A second pass writes the row."
)

WAYS: dict[str, Callable[[Experiment], list[Experiment]]] = {
    "Element by element": lambda row: [lessons.element_by_element(row)],
    "Tile by tile": lambda row: [row],
    "Wrong beside right": lambda row: [lessons.wrong_twin(row), row],
}
ways, sizes = st.columns([2, 3])
way = ways.segmented_control(
    "How to walk the row",
    list(WAYS),
    default="Element by element",
    required=True,
    key="walk",
    bind="query-params",
    wrap=True,
)
with sizes:
    tiled = ["block_n"] if way != "Element by element" else []
    row = ui.controls(lessons.ONLINE, ["inputs", "cols", *tiled], ui.ROW_PRESETS)
experiments = WAYS[way](row)

traces = ui.stepper(experiments, key="online softmax")
ui.row_sums(experiments, traces)

match way:
    case "Element by element":
        st.markdown(
            "Tiles of one element: algorithm 3 of Milakov & Gimelshein, who write d for ℓ. **The loop invariant:** after each "
            "element, m is the maximum of what was seen and ℓ = Σ exp(x − m) over it. If it holds before an element it holds after: "
            "the old sum times α is the same sum measured against the new maximum, and the element adds its own term. "
            "On the first element α = exp(−∞ − m) = 0, so what ℓ starts from does not matter."
        )
    case "Tile by tile":
        st.markdown(
            "The same update with a whole tile at a time: the tile's maximum and sum take the place of one element's. Any tile "
            "size gives the same m at the end, and the same ℓ up to rounding; try several. **To look for:** the tiles on which α < 1, and those on which "
            "nothing is rescaled."
        )
    case "Wrong beside right":
        st.markdown(
            "The wrong kernel takes a tempting shortcut: it normalises each tile by itself and writes it out at once. Each tile then sums "
            "to 1 (one of nothing but −∞ to 0), so the row sums to its number of tiles. What is missing is what tiles must share: the "
            "running m and ℓ that the right kernel carries from tile to tile."
        )

with st.expander("Three questions"):
    st.markdown(
        "1. *Why not ℓ ← ℓ + exp(x) with no maximum?* exp overflows: in float32 above x = 88.7.\n"
        "2. *On which order of elements would a forgotten α go unnoticed?* When the first is the largest: choose the "
        "**descending** input and watch α stay 1 after the first tile.\n"
        "3. *How often is an element read?* Twice, and written once: three accesses, where the safe softmax needs four. The table below counts them."
    )
if traces:
    st.subheader("Bytes: formula and trace")
    ui.traffic_table(experiments[-1], traces[-1])
st.caption("Source: M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018.")
