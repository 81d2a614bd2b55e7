"""Tool: Write it. Write the kernels yourself; each is checked on inputs that bite."""

from explain.chapters.write_it import view
from explain.ui import layout

with layout.chapter(__file__, goal="write the body of a Triton kernel, and see where it first differs from ours."):
    puzzle = view.choose()
task, editor = view.columns()
with editor:
    view.write(puzzle)
with task:
    view.explain(puzzle)
view.compare(puzzle)
