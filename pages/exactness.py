"""Chapter 7: Exactness. FlashAttention and standard attention against float64: different bits, similar error."""

from explain.chapters.exactness import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="know what “exact” means: no score is left out or approximated. Only the rounding and the order of the "
    "additions differ.",
):
    view.choose()
    view.where_rounded()
with layout.below_goal():
    view.introduce()
view.size_of_errors()
view.other_orders()
view.merging_orders()
view.growth()
view.base_2()
view.things_to_try()
layout.closing("exactness")
