"""Chapter 2: Online softmax. One pass finds the maximum and the sum: by element, by tile, merged, with top-k."""

from explain.chapters.online_softmax import view
from explain.ui import layout

beside = layout.chapter(
    __file__,
    goal="find a row's maximum and its softmax sum in one pass, and know why the result is exact.",
    words="Keep the running max m and the running sum ℓ of the elements read so far. When m rises, multiply the old "
    "sum by the rescale factor **α = exp(old m − new m)**.",
)
with beside:
    way, wrong = view.choose()
view.choose_row(way, beside)
view.run(way, wrong)
with beside:
    view.whole_row(way, wrong)
layout.closing("online_softmax")
