"""Chapter 2: Online softmax. One pass finds the maximum and the sum: by element, by tile, merged, with top-k."""

from explain.chapters.online_softmax import view
from explain.ui import layout

beside = layout.chapter(
    __file__,
    goal="find a row's maximum and its softmax sum in one pass, and know why that is exact.",
    words="Keep the maximum m and the sum ℓ of the elements read so far. When m rises, one factor α corrects every "
    "term of the old sum, so it corrects the sum:\n\n**exp(x − old m) · exp(old m − new m) = exp(x − new m)**\n\n"
    "m and ℓ take one pass; safe softmax takes two. "
    "Writing the result y takes one more pass in both.",
)
with beside:
    way, wrong = view.choose()
    row = view.choose_row(way)
experiments, traces = view.run(way, wrong, row)
view.whole_row(way, experiments[-1], traces, beside)
view.accesses(way, experiments, traces)
view.other_updates(experiments[-1])
view.closing(way, experiments, traces)
