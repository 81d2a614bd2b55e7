"""Chapter 8: Speed. Attention from online softmax in fp32 to a persistent Hopper kernel, one idea at a time."""

import streamlit as st

from explain.chapters.speed import view
from explain.ui import controls, layout

layout.chapter(
    __file__,
    goal="follow attention from a slow kernel to one near the hardware's limit; name each step's idea and speedup.",
)
match controls.view("The climb", "Tuning", "From which N?", "Other kernels"):
    case "The climb":
        shown = view.chosen("attention")
        view.climb(shown)
        if shown:
            view.climb_roofline(shown)
            view.climb_counters(shown)
            st.header("What the warps do, cycle by cycle", anchor=False)
            view.warps()
            view.curve(shown)
            view.shapes(shown)
    case "Tuning":
        view.tuned()
    case "From which N?":
        view.faster_from()
        view.first_call()
    case _:
        view.others()
view.closing()
