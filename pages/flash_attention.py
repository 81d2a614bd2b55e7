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
            experiment = view.choose("seq_len", "kv_len", "dtype")
        case "Loop order":
            experiment = view.choose()
            view.order_of_tiles(experiment)
        case "Tile sizes":
            tile, gpu = view.choose_tile()
match shown:
    case "Step through":
        questions = view.step_through(experiment)
    case "Tile sizes":
        questions = view.tile_sizes(tile, gpu)
    case "Loop order":
        questions = view.loop_order(experiment)
    case _:
        questions = view.paper_algorithm()
view.closing(questions)
