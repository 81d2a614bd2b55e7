"""Login by OpenID Connect. If the server's secrets name a provider, only logged-in readers get a page.

Streamlit does it (`st.login`); docs/hall.md says what the secrets are.
"""

from __future__ import annotations

from functools import cache

import streamlit as st


@cache
def wanted() -> bool:
    """Whether the secrets name a provider, in `[auth]`."""
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def need() -> None:
    """If a login is needed and the reader has not logged in: shows a *Log in* button and ends the run."""
    if wanted() and not st.user.is_logged_in:
        st.title("Tilescope")
        st.markdown("Please log in to read on.")
        st.button("Log in", type="primary", icon=":material/login:", on_click=st.login)
        st.stop()


def leave() -> None:
    """A *Log out* button, if a login is needed."""
    if wanted():
        st.button("Log out", type="tertiary", icon=":material/logout:", on_click=st.logout)
