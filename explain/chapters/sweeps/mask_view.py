"""What a causal mask costs, on the pages Sweeps and Speed."""

from __future__ import annotations

import streamlit as st

from explain.chapters.sweeps import masking
from explain.ui.code import show_code
from explain.ui.layout import part
from explain.ui.pictures import drawing


def mask_cost(told: str, pair: tuple[masking.Compiled, masking.Compiled]) -> None:
    """What a causal mask costs: times in words (`told`), the instructions of both loops, the lines that add most."""
    words = "\n\n".join(filter(None, [told, masking.explained(pair)]))
    with part("Why a tile costs more with the mask", words):
        drawing(masking.picture(pair))
        show_code("\n".join(pair[1].guards), "python")
        st.caption(masking.SOURCE)
