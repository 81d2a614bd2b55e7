"""Own: Your kernel. A Python file of your own, run line by line: paste it or drop it here."""

from explain.chapters.your_kernel import view
from explain.ui import layout

with layout.chapter(__file__, goal="step through a kernel of your own, from its source."):
    name, starter, function = view.choose()
    view.write(name, starter, function)
view.play(name, starter)
