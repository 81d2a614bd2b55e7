"""Lab 3: What does a tile cost? Any kernel and tile compiled for a GPU you don't have, with the instructions of each
line.
"""

from explain.chapters.tile_cost import view
from explain.ui import layout
from explain.ui.gpu import gpu_choice

with layout.chapter(
    __file__, goal="see what a tile takes of an SM, how many programs then fit, and whether a larger tile is faster."
):
    gpu = gpu_choice()
    experiment = view.tile_choice()
    known = view.costs(experiment, gpu)
    view.compiled_with(experiment, known.get(experiment))
    view.introduce(experiment, gpu, known)
view.tile_report(experiment, gpu, known)
view.closing(experiment, gpu, known.get(experiment))
