"""Tool: Write it. Write the kernels yourself; each is checked on hard inputs."""

from explain.chapters.write_it import view
from explain.ui import layout

layout.chapter(
    __file__, goal="write Triton kernels and predict their numbers; see where yours first differs from ours."
)
path, task, answer = view.columns()
with path:
    puzzle = view.chosen()
with task:
    view.explain(puzzle)
with answer:
    view.answer(puzzle)  # waits for a verdict, when all else but the path is drawn
with path:
    view.path(puzzle)
view.compare(puzzle)
