"""Chapter 6: FlashAttention. Tiles of Q, K and V stepped through, what a tile costs on a GPU, and which loop is the
outer one.
"""

from explain.chapters.flash_attention import view
from explain.ui import controls, layout

with layout.chapter(__file__):
    shown = controls.view(*view.WORDS)
    view.introduce(shown)
    match shown:
        case "Step through":
            view.choose("seq_len", "kv_len", "dtype")
        case "Loop order":
            view.choose()
            view.order_of_tiles()
        case "Tile sizes":
            tile, gpu = view.choose_tile()
match shown:
    case "Step through":
        view.step_through()
    case "Tile sizes":
        view.tile_sizes(tile, gpu)
    case "Loop order":
        view.loop_order()
    case _:
        view.paper_algorithm()
layout.closing("flash_attention")
