"""Chapter 5: Triton ladder. Softmax kernels in order, each with its one idea, its trace and what the next one mends."""

from explain.chapters.triton_ladder import view
from explain.ui import layout

layout.chapter(
    __file__,
    goal=(
        "climb from a softmax that only fits short rows to online softmax on tiles, one idea a step, and count what "
        "each step moves."
    ),
)
layout.prose(
    "A GPU runs a Triton kernel as many programs at once; here each program has a row of its own, on the last rung a "
    "tile of several rows. A tile is what a program holds on chip at a time."
)
at = view.choose()
row, runs = view.one_rung(at)
outcomes = view.all_rungs(row)
view.change(at)
view.closing(row, runs, outcomes)
