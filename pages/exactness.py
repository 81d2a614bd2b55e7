"""Chapter 7: Exactness. FlashAttention and standard attention against float64; other orders, other bits, same error."""

from explain.chapters.exactness import view
from explain.ui import layout

beside = layout.chapter(
    __file__,
    goal="know what “exact” means: every score is used. Only the roundings differ, and this page measures them.",
)
with beside:
    experiment = view.choose()
view.size_of_errors(experiment, beside)
view.other_orders(experiment)
view.growth()
view.base_2()
view.closing(experiment)
