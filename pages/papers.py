"""Lab 4: The papers, reproduced. Each paper's figure beside ours: the same work, the same axes, the differences
explained.
"""

import streamlit as st

from explain.chapters.papers import flashattention, milakov, view
from explain.ui import layout

PANELS = {
    "Softmax and top-k": view.softmax_and_top_k,
    "FlashAttention, figure 2": view.figure_2,
    "Theorem 2": view.theorem_2,
    "Time and memory": view.time_and_memory,
    "Memory hierarchy": view.memory_hierarchy,
}

layout.chapter(
    __file__, goal="check the papers' numbers against a GPU of today, and know why each differs where it does."
)
panel = st.segmented_control(
    "What to repeat",
    list(PANELS),
    default=next(iter(PANELS)),
    required=True,
    key="panel",
    bind="query-params",
    wrap=True,
)
PANELS[str(panel)](view.paper_records())
layout.sources(milakov.SOURCE, f"{flashattention.SOURCE}, figures 1 and 2, theorem 2, appendix E.6")
