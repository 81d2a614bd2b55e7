"""Chapter 9: Speed. Attention from online softmax in fp32 to a persistent Hopper kernel, one idea at a time."""

from explain.chapters.speed import climb_view, kernels_view, lengths_view, timeline_view, tuning_view, view
from explain.chapters.speed.chosen import chosen
from explain.ui import controls, layout

with layout.chapter(
    __file__,
    goal="follow attention from a slow kernel to one near the hardware's limit; name each step's idea and speedup.",
    words="For readers who write kernels. Press a column to see its code and what is new in it.",
):
    part = controls.view("The climb", "Tuning", "From which N?", "Other kernels")
    shown = chosen("attention") if part == "The climb" else None
match part:
    case "The climb":
        climb_view.climb(shown)
        if shown:
            climb_view.under_the_roofline(shown)
            climb_view.counted(shown)
            timeline_view.warps()
            kernels_view.curve(shown)
            kernels_view.shapes(shown)
    case "Tuning":
        tuning_view.settings()
    case "From which N?":
        lengths_view.faster_from()
        lengths_view.first_call()
    case _:
        kernels_view.others()
view.closing(shown)
