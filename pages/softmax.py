"""Chapter 1: Softmax. From logits to weights: where exp overflows, and why subtracting the maximum is safe."""

from explain.chapters.softmax import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="turn any row of numbers into weights that sum to 1, without overflow, and count what that costs.",
    words=view.FORMULA,
):
    charts = view.charts()
with layout.below_goal():
    view.six_logits(charts)
runs = view.two_kernels()
view.same_answer()
view.overflow(runs)
view.cost(runs)
view.closing(runs)
