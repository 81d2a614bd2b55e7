"""Login by OpenID Connect: where the server's secrets name a provider, only who has logged in there gets a page.

Streamlit does it (`st.login`); docs/hall.md says what the secrets are.
"""

from __future__ import annotations

from functools import cache

import streamlit as st


@cache
def wanted() -> bool:
    """Whether the secrets have a provider, `[auth]`."""
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def need() -> None:
    """Ends the run with a button to log in, unless the reader has logged in or nobody has to."""
    if wanted() and not st.user.is_logged_in:
        st.title("Tilescope")
        st.markdown("Please log in to read on.")
        st.button("Log in", type="primary", icon=":material/login:", on_click=st.login)
        st.stop()


def leave() -> None:
    """A button to log out, where readers log in."""
    if wanted():
        st.button("Log out", type="tertiary", icon=":material/logout:", on_click=st.logout)
