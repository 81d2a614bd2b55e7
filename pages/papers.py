"""Lab 4: The papers, reproduced. What each paper states, beside our measurements of the same work; every difference
explained.
"""

from explain.chapters.papers import view
from explain.ui import controls, layout

PANELS = {
    "Softmax and top-k": view.softmax_and_top_k,
    "FlashAttention, figure 2": view.figure_2,
    "Theorem 2": view.theorem_2,
    "Time and memory": view.time_and_memory,
    "Memory hierarchy": view.memory_hierarchy,
}

with layout.chapter(__file__, goal="compare the papers' numbers with a modern GPU's, and explain each difference."):
    panel = controls.pick("Result", PANELS, "panel", wrap=True)
    chosen = view.choose()
PANELS[panel](chosen)
view.closing(panel, chosen)
