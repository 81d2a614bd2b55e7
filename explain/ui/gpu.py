"""The choice of a GPU."""

from __future__ import annotations

from collections.abc import Collection

import streamlit as st

from explain.engine import engine
from explain.gpus import DEFAULT, GPUS, Gpu, known_as
from explain.ui.address import returned

KEY, CHOSEN = "gpu", "the reader's GPU"


def gpu_choice(label: str = "GPU", without: Collection[str] = ()) -> Gpu:
    """A control that chooses a GPU, one for all pages, kept in the address. It starts with this machine's GPU if known.

    Streamlit forgets a control when the page changes, so the choice is kept in the session too. A part of a page that
    has nothing to say of some GPUs is `without` them, and leaves the other pages' choice as it is.
    """
    options = [name for name in GPUS if name not in without]
    here = _here()
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


def chosen_instead() -> str | None:
    """The GPU that the reader chose, on any page; None if it is the one that pages start with."""
    chosen = st.query_params.get(KEY) or st.session_state.get(CHOSEN)
    return None if chosen == (_here() or DEFAULT) else chosen


def _here() -> str | None:
    """This machine's GPU; None if it is not known."""
    status = engine().device_if_known()
    return known_as(status.gpu) if status else None
