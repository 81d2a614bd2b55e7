"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`."""

import streamlit as st

from explain.engine import engine

st.set_page_config(page_title="Tilescope", page_icon=":material/grid_view:", layout="wide")
engine().warm()

st.navigation(
    [
        st.Page("pages/home.py", title="Tilescope", icon=":material/grid_view:", default=True),
        st.Page("pages/online_softmax.py", title="Online softmax", icon=":material/stacked_line_chart:"),
        st.Page("pages/flash_attention.py", title="FlashAttention", icon=":material/blur_on:"),
    ],
    position="top",
).run()
