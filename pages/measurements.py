"""Lab 5: Measurements. Where every measured number comes from, what is missing and why, and your own GPU beside it."""

import streamlit as st

from explain.chapters.measurements import view
from explain.ui import layout
from explain.ui.records import records_choice

with layout.chapter(
    __file__, goal="know where every measured number in this app comes from, and put your own GPU's beside it."
):
    shown = records_choice()
    view.headline(shown)
if shown:
    view.numbers(shown)
    view.roofs(shown)
    view.own_gpu(shown)
    view.predicted()
    view.closing(shown)
else:
    st.info("There is no GPU record here. Run `python -m explain measure` on a machine with an NVIDIA GPU to make one.")
