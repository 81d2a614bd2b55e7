"""Chapter 6: FlashAttention. Tiles of Q, K and V stepped through, what a tile costs on a GPU, and whose loop is
outside.
"""

import streamlit as st

from explain.chapters.flash_attention import view
from explain.ui import controls, layout
from explain.ui.gpu import gpu_choice

layout.chapter(
    __file__,
    goal="compute attention without ever writing S = QKᵀ to memory, and know what that asks of the chip.",
)
views, gpus = st.columns(2, vertical_alignment="bottom")
with views:
    shown = controls.view("Step through", "Tile sizes", "Loop order", "The paper's algorithm")
match shown:
    case "Step through":
        questions = view.step_through()
    case "Tile sizes":
        with gpus:
            gpu = gpu_choice()
        questions = view.tile_sizes(gpu)
    case "Loop order":
        questions = view.loop_order()
    case _:
        questions = view.paper_algorithm()
view.closing(questions)
