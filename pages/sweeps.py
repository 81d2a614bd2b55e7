"""Lab 2: Sweeps and roofline. How bytes and time scale, where two kernels cross, and what limits each of them."""

from explain.chapters.sweeps import growth, roofline_view, view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see how bytes and time scale, where one kernel beats another, and what limits each kernel.",
    words="A **sweep** runs the same kernels many times and changes one parameter: a length, a head dimension, a tile. "
    "All others stay fixed. The kernels are our teaching kernels in Triton, not the authors' libraries.",
):
    shown = view.choices()
if shown and shown.readings:
    growth.sweep_growth(shown)
    roofline_view.sweep_roofline(shown)
    view.sweep_points(shown)
view.closing(shown)
