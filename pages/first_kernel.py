"""Chapter 4: Your first Triton kernel. A loop in PyTorch becomes a kernel in Triton: launch, program, tile, mask."""

from explain.chapters.first_kernel import view
from explain.ui import layout

beside = layout.chapter(
    __file__,
    goal="read a Triton kernel, and know what a launch, a program, a tile, a pointer and a mask are.",
    words=view.TWO_SOURCES,
)
view.two_sources()
run = view.run(beside)
if run:
    view.cost(run)
view.closing(run)
