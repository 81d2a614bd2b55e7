"""Lab 2: Sweeps and roofline. How bytes and time grow, where two kernels cross, and what holds each of them back."""

import streamlit as st

from explain.chapters.sweeps import view as sweeps_view
from explain.ui import layout

layout.chapter(
    __file__,
    goal=("see how bytes and time scale, from where on one kernel beats another, and which roof limits it."),
)
sweep = sweeps_view.sweep_choice()
if sweep is not None:
    shown = sweeps_view.sweep_readings(sweep)
if sweep is not None and shown.readings:
    st.header("How it grows", anchor=False)
    sweeps_view.sweep_growth(shown)

    st.header("Roofline", anchor=False)
    layout.prose(
        "A kernel can be no faster than its arithmetic units, the flat roof, and no faster than its bytes arrive, a "
        "slanted roof for each level of memory: bandwidth times **arithmetic intensity**, the FLOPs it does for each "
        "byte that passes there. Each kernel stands here once a level, always at the same height: it has one speed, "
        "and moves different numbers of bytes between the levels. The roof that it nearly touches is the one that "
        "holds it back."
    )
    sweeps_view.sweep_roofline(shown)
    sweeps_view.sweep_points(shown)

layout.try_this(
    "Standard and flash, over N: choose *at HBM*, then *requested by loads and stores*. FlashAttention asks for bytes "
    "that grow with N² too; L2 answers most of them.",
    "FlashAttention-1 keeps its unfinished O, of all heads and in float32, in HBM. Its bytes *at HBM* leap at one N: "
    "compare that O's size with L2's.",
    "Time is flat at first: there the launch takes longer than the work. From which N on does it follow the dots?",
    "Put a sweep of your own together, small enough for the interpreter, and let the trace count it: it must lie on "
    "the formula's dots.",
    "Move the roofline's slider from the shortest to the longest sequence. Which kernels rise to a roof, and which "
    "stay where they are?",
    "Save a plot: its camera makes a PNG or an SVG, the button under it a CSV.",
)
layout.sources(
    "S. Williams, A. Waterman, D. Patterson, Roofline: an insightful visual performance model for multicore "
    "architectures, CACM 52(4), 2009",
    "T. Dao et al., FlashAttention, arXiv 2205.14135, 2022, theorem 2",
)
