"""Pictures that are drawn as SVG."""

from __future__ import annotations

import streamlit as st


def drawing(svg: str) -> None:
    """An SVG in the page itself, so that its text takes the page's colour and font. `st.html` would take it out."""
    st.markdown(svg, unsafe_allow_html=True)
