"""Chapter 7: Exactness. FlashAttention and standard attention against float64: different bits, similar error."""

from explain.chapters.exactness import view
from explain.ui import layout

beside = layout.chapter(
    __file__,
    goal="know what “exact” means: no score is left out or approximated. Only the rounding and the order of the "
    "additions differ.",
)
with beside:
    experiment = view.choose()
view.size_of_errors(experiment, beside)
view.other_orders(experiment)
view.merging_orders()
view.growth()
view.base_2()
view.closing(experiment)
