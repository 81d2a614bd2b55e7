"""Chapter 11: Cross entropy. A language model's loss without its largest tensor, the logits; forward and backward."""

from explain.chapters.cross_entropy import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="compute the loss without ever holding all logits: with none in memory, or a chunk at a time.",
    words=view.introduced(),
):
    way = view.choose()
view.step_through(way)
view.three_designs()
view.largest_tensor()
view.of_the_run(way)
view.which_token_counts(way)
view.how_fast()
view.closing(way)
