"""The page that runs: which it is, and how the reader came to it."""

from __future__ import annotations

from urllib.parse import urlsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def returned() -> bool:
    """Whether this run answers the browser's Back or Forward: the address then says all that was shown."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def asked(name: str) -> str | None:
    """The value of `name` in the page's address, None without one. A number may have a hyphen or a minus sign there:
    "-200" and "−200" are the same.
    """
    value = st.query_params.get(name)
    return None if value is None else value.replace("−", "-")


def here() -> str:
    """A name for the page that runs, for the keys of its widgets.

    Two pages' widgets of one key are two widgets, but Streamlit takes the first one's value for the second one's.
    """
    context = get_script_run_ctx()
    return "" if context is None else context.page_script_hash


def own_machine() -> bool:
    """Whether the reader sits at the server, so that what they write is their own code on their own machine."""
    headers = st.context.headers
    return is_loopback(str(st.get_option("server.address")), headers.get("Host", ""), headers.get("Origin", ""))


def is_loopback(address: str, host: str, origin: str) -> bool:
    """Whether the reader sits at the server: it listens on loopback only (`address`), was asked for there (`host`, the
    header Host), by a page of its own (`origin`, the header Origin).
    """
    names = (address, urlsplit(f"//{host}").hostname, urlsplit(origin).hostname)
    return all(name in LOOPBACK for name in names) and urlsplit(origin).netloc == host
