"""Lab 5: Measurements. Where every measured number comes from, what is missing and why, and your own GPU beside it."""

import streamlit as st

from explain.chapters.measurements import view
from explain.ui import controls, layout
from explain.ui.records import records_choice

beside = layout.chapter(__file__)
with beside:
    part = controls.view(*view.WORDS)
    shown = records_choice() if part in view.OF_RECORDS else []
    chosen = view.choice(shown) if shown and part == "Look up a number" else None
    view.introduce(part)
match part:
    case "How good are predictions?":
        view.predicted(beside)
    case "Your own GPU":
        view.own_gpu(beside)
    case _ if not shown:
        st.info(
            "There is no GPU record here. Run `python -m explain measure` on a machine with an NVIDIA GPU to make one."
        )
    case "Where numbers come from":
        view.sources(shown, beside)
    case "Limits of a GPU":
        view.roofs(shown, beside)
    case _ if chosen:
        view.numbers(shown, chosen, beside)
