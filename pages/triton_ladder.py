"""Chapter 5: Triton ladder. Softmax kernels in order, each with its one idea, its trace and what the next one fixes."""

from explain.chapters.triton_ladder import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="build the softmax that attention needs, one kernel at a time.",
    words="**Press a rung** to step through its kernel. Each removes a limit of the one below. ✓: right for this "
    "input.",
):
    at = view.choose()
    view.idea(at)
    view.climb(at)
view.one_rung(at)
layout.closing("triton_ladder")
