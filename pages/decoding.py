"""Chapter 12: Decoding. One query over a long cache: split the keys, merge the parts, and count the bytes."""

from explain.chapters.decoding import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see why one query needs other ideas than many: split the keys among programs, and merge the parts.",
    words="A model that writes a text adds one token at a time. Its query attends to the keys and values of all tokens "
    "before it, the KV cache.",
):
    experiment = view.choose()
traces = view.step_through(experiment)
gpu = view.choose_gpu()
view.programs(gpu)
view.bandwidth(gpu)
view.caches(gpu)
view.no_help()
view.masks()
view.measured()
view.closing(experiment, traces, gpu)
