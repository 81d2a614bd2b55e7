"""Chapter 5: Triton ladder. Softmax kernels in order, each with its one idea, its trace and what the next one fixes."""

from explain.chapters.triton_ladder import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="climb from a softmax for short rows to online softmax on tiles. Each kernel is a rung with one new idea.",
    words="Each program computes one row. On the last rung it computes a tile of rows.",
):
    at = view.choose()
    row = view.choose_row(at)
    view.idea(at)
runs = view.one_rung(at, row)
outcomes = view.all_rungs(at, row)
view.change(at)
view.closing(row, runs, outcomes)
