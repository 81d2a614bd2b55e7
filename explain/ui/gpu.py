"""The choice of a GPU."""

from __future__ import annotations

import streamlit as st

from explain.engine import engine
from explain.gpus import DEFAULT, GPUS, Gpu, known_as
from explain.ui.address import returned

KEY, CHOSEN = "gpu", "the reader's GPU"


def gpu_choice(label: str = "GPU", without: str = "") -> Gpu:
    """A control that chooses a GPU, one for all pages, kept in the address. It starts with this machine's GPU if known.

    Streamlit forgets a control when the page changes, so the choice is kept in the session too. A part of a page that
    has nothing to say of one GPU is `without` it, and leaves the other pages' choice as it is.
    """
    options = [name for name in GPUS if name != without]
    status = engine().device_if_known()
    here = known_as(status.gpu) if status else None
    own = next(one for one in (here, DEFAULT, *options) if one in options)
    kept = own if returned() else st.session_state.get(CHOSEN, own)
    asked = st.query_params.get(KEY)
    wanted = kept if asked is None else asked
    chosen = st.session_state[KEY] = wanted if wanted in options else own
    if wanted == chosen and (not without or asked is not None):
        st.session_state[CHOSEN] = chosen
    if chosen != (own if asked is None else asked):
        st.query_params[KEY] = chosen
    st.segmented_control(
        label, options, required=True, key=KEY, on_change=lambda: st.query_params.update({KEY: st.session_state[KEY]}),
        format_func=lambda name: f"{name} (this machine)" if name == here else name,
    )  # fmt: skip
    return GPUS[chosen]
