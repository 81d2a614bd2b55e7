"""Chapter 5: Triton ladder. Softmax kernels in order, each with its one idea, its trace and what the next one fixes."""

from explain.chapters.triton_ladder import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="climb from a softmax for short rows to online softmax on tiles. Each kernel is a rung with one new idea.",
    words="**Press a rung** to step through its kernel. Read from the bottom: each rung fixes a fault of the one "
    "below. Rungs 2 and 3 each bring a new fault.\n\nAn arrow is one trip of the row between memory and the chip. ✓: "
    "the result is right on this row. On the six numbers rung 3 is right. Choose the input *up to 89*, and it is "
    "wrong.",
):
    at = view.choose()
    row, outcomes = view.climb(at)
view.idea(at)
runs = view.one_rung(at, row)
view.change(at)
view.closing(row, runs, outcomes)
