"""The choice of a GPU."""

from __future__ import annotations

import psutil
import streamlit as st

from explain.engine import engine
from explain.gpus import DEFAULT, GPUS, Gpu, known_as
from explain.ui.controls import pick

_CHOSEN = "the reader's GPU"


def gpu_choice(key: str = "gpu") -> Gpu:
    """A control that chooses a GPU, one for all pages, kept in the address. It starts with this machine's GPU if known.

    Streamlit forgets a control when the page changes, so the choice is kept in the session too.
    """
    status = engine().device_if_known()
    here = known_as(status.provenance["gpu"]) if status and status.available and status.provenance else None
    if key not in st.session_state and key not in st.query_params and _CHOSEN in st.session_state:
        st.session_state[key] = st.session_state[_CHOSEN]
    chosen = pick(
        "GPU", GPUS, key, here or DEFAULT, format_func=lambda name: f"{name} (this machine)" if name == here else name
    )
    st.session_state[_CHOSEN] = chosen
    return GPUS[chosen]


def host_bytes() -> int:
    """The memory of the machine that runs Tilescope."""
    return int(psutil.virtual_memory().total)
