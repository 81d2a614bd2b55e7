"""Chapter 6: FlashAttention. Tiles of Q, K and V stepped through, what a tile costs on a GPU, and whose loop is
outside.
"""

from explain.chapters.flash_attention import view
from explain.ui import controls, layout
from explain.ui.gpu import gpu_choice

with layout.chapter(
    __file__,
    goal="compute attention without ever writing S = QKᵀ to memory, and know how much on-chip memory that needs.",
    words="A program keeps one tile of queries on chip and reads the tiles of keys and values one after another. Each "
    "tile of S is made, used and dropped.",
):
    shown = controls.view("Step through", "Tile sizes", "Loop order", "The paper's algorithm")
    match shown:
        case "Step through":
            experiment = view.choose("seq_len", "kv_len", "dtype")
        case "Loop order":
            experiment = view.choose()
            view.which_loop()
        case "Tile sizes":
            gpu = gpu_choice()
            tile = view.choose_tile()
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
