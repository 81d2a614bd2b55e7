"""Chapter 5: Triton ladder. Softmax kernels in order, each with its one idea, its trace and what the next one mends."""

from explain.chapters.triton_ladder import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="climb from a softmax for short rows to online softmax on tiles, one idea a step, and count bytes.",
    words="Each program has one row; on the last rung, a tile of rows.",
):
    at = view.choose()
    row = view.choose_row()
    view.idea(at)
runs = view.one_rung(at, row)
outcomes = view.all_rungs(row)
view.change(at)
view.closing(row, runs, outcomes)
