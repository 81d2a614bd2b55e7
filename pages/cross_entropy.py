"""Chapter 11: Cross entropy. A language model's loss without its largest tensor, the logits; forward and backward."""

from explain.chapters.cross_entropy import view
from explain.ui import layout

with layout.chapter(
    __file__, goal="compute a language model's loss without ever writing its logits to memory.", words=view.INTRODUCED
):
    way, chosen = view.choose()
experiment, traces = view.step_through(way, chosen)
view.largest_tensor()
view.online(experiment, traces)
view.never_written(experiment, traces)
view.backward(experiment)
view.which_token_counts()
view.how_fast()
view.closing(way, experiment, traces)
