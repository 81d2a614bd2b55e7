"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`."""

from pathlib import Path

import streamlit as st

from explain.engine import engine

LOOK = Path(__file__).parent / "explain" / "look"

st.set_page_config(page_title="Tilescope", page_icon=LOOK / "icon.svg", layout="wide")
st.html(LOOK / "app.css")
engine().warm()

st.navigation(
    [
        st.Page("pages/home.py", title="Tilescope", icon=":material/grid_view:", default=True),
        st.Page("pages/online_softmax.py", title="Online softmax", icon=":material/stacked_line_chart:"),
        st.Page("pages/flash_attention.py", title="FlashAttention", icon=":material/blur_on:"),
    ],
    position="top",
).run()
