"""Chapter 2: Online softmax. One pass for the maximum and the sum: by elements, by tiles, merged, with top-k."""

from explain.chapters.online_softmax import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="find a row's maximum and its softmax sum in one pass over the row, and know why the result is exact.",
    words="Keep the maximum m and the sum ℓ of the elements read so far. The old sum was made with the old maximum: "
    "α = exp(old m − new m) corrects it. A second pass divides by ℓ.",
):
    way, beside = view.choose()
    row, whole = view.choose_row(way)
experiments, traces = view.run(way, beside, row, whole)
view.accesses(way, experiments, traces)
view.other_updates(experiments[-1])
view.closing(way, experiments, traces)
