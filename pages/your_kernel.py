"""Own: Your kernel. A Python file of your own, run line by line: paste it, drop it here, or name its path."""

from explain.chapters.your_kernel import view
from explain.ui import layout

with layout.chapter(__file__, goal="step through a kernel of your own, from its source."):
    source = view.choose()
    view.write(source)
view.play(source)
