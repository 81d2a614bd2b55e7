"""Chapter 7: Exactness. FlashAttention and standard attention against float64; other orders, other bits, same error."""

import streamlit as st

from explain.chapters.exactness import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="know what “exact” means: no score is dropped or approximated; the roundings fall in other places, and "
    "float64 says what they cost.",
):
    experiment = view.choose()
view.beside_each_other(experiment)
view.rounding()
st.header("In each dtype", anchor=False)
view.by_dtype(experiment)
view.other_orders(experiment)
view.growth(experiment)
view.base_2()
view.closing(experiment)
