"""What a causal mask costs, on Sweeps and on Speed."""

from __future__ import annotations

import streamlit as st

from explain.chapters.sweeps import masking
from explain.ui.layout import part
from explain.ui.pictures import drawing


def shown(told: str, pair: tuple[masking.Compiled, masking.Compiled]) -> None:
    """The measured times in words, the instructions of both loops as bars, and the lines that add most of them."""
    with part("Why a tile costs more with the mask", "\n\n".join(filter(None, [told, masking.explained(pair)]))):
        drawing(masking.picture(pair))
        st.code("\n".join(pair[1].guards), language="python", wrap_lines=True)
        st.caption(masking.SOURCE)
