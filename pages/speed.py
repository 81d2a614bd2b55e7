"""Chapter 9: Speed. Attention from online softmax in fp32 to a persistent Hopper kernel, one idea at a time."""

from explain.chapters.speed import climb_view, view
from explain.ui import controls, layout

with layout.chapter(__file__):
    part = controls.view(*view.TABS)
    shown = view.chosen("attention") if part == "The climb" else None
    view.introduce(part, shown)
    if part == "The climb":
        climb_view.introduce(shown)
    elif part == "Other kernels":
        work, compared = view.work()
match part:
    case "The climb":
        climb_view.climb(shown)
        if shown:
            climb_view.under_the_roofline(shown)
            climb_view.counted(shown)
            climb_view.warps()
            view.curve(shown)
            view.shapes(shown)
    case "Tuning":
        view.settings()
        view.first_call()
    case _:
        view.others(work, compared)
view.closing(shown)
