"""Chapter 3: Memory hierarchy. A GPU's memory to scale, and every trip that standard attention makes to HBM."""

from explain.chapters.memory_hierarchy import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see where a number lives on a GPU, what it costs to fetch, and why standard attention fetches so many.",
):
    gpu, logarithmic = view.choose()
    view.capacities(gpu, logarithmic)
view.load_times(gpu, logarithmic)
view.scores(gpu)
view.choose_run()
view.one_run(gpu)
