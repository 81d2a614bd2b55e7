"""Chapter 4: Your first Triton kernel. Ten lines of PyTorch become ten of Triton: launch, program, tile, mask."""

from explain.chapters.first_kernel import view
from explain.ui import layout

layout.chapter(
    __file__, goal="read a Triton kernel, and know what a launch, a program, a tile, a pointer and a mask are."
)
view.two_sources()
run = view.run()
if run:
    view.five_words(run)
    view.cost(run)
view.closing(run)
