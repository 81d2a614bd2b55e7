"""Chapter 5: Triton ladder. Softmax kernels in order, each with its one idea, its trace and what the next one fixes."""

from explain.chapters.triton_ladder import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="climb from a softmax for short rows to online softmax on tiles. Each kernel is a rung with one new idea.",
    words="Each program computes one row. On the last rung it computes a tile of rows.\n\n"
    "**Press a rung** to step through its kernel. An arrow is one trip of the row to or from memory: filled for a "
    "read, hollow for a write.\n\nThe first rung has the fewest trips, but its whole row must fit on chip. The rungs "
    "above pay for longer rows with more reads. Online softmax saves one of them again.\n\nThe trips were counted in "
    "real runs. Milakov & Gimelshein count the same: 3 accesses per element for naive softmax (*Two passes, naive*), "
    "4 for safe softmax (*Three passes*), 3 for online softmax. A rung with a fault can still be right on some rows.",
):
    at = view.choose()
    row = view.choose_row(at)
    outcomes = view.all_rungs(at, row)
view.idea(at)
runs = view.one_rung(at, row)
view.change(at)
view.closing(row, runs, outcomes)
