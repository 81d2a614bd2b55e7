"""Lab 2: Sweeps and roofline. How bytes and time scale, where two kernels cross, and what limits each of them."""

from explain.chapters.sweeps import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see how bytes and time scale, from which N one kernel beats another, and what limits each kernel.",
    words="N is the length of a sequence in tokens. A **sweep** runs the same kernels at many lengths N, or with other "
    "sizes, and draws what changes.",
):
    sweep = view.sweep_choice()
    shown = view.sweep_readings(sweep) if sweep else None
    level = view.level_choice(shown) if shown else ""
if shown and shown.readings:
    view.sweep_growth(shown, level)
    view.sweep_roofline(shown)
    view.sweep_points(shown)
view.closing(shown)
