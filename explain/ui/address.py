"""The page that runs: which it is, and how the reader came to it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explain.door import LOOPBACK


def returned() -> bool:
    """Whether this run answers the browser's Back or Forward: the address then says all that was shown."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def query() -> dict[str, str]:
    """The values in the page's address, by name, read at once: Streamlit takes a while for each question.

    A number may have a hyphen or a minus sign there: "-200" and "−200" are the same.
    """
    return {name: value.replace("−", "-") for name, value in st.query_params.to_dict().items()}


def here() -> str:
    """A name for the page that runs, for the keys of its widgets.

    Two pages' widgets of one key are two widgets, but Streamlit takes the first one's value for the second one's.
    """
    context = get_script_run_ctx()
    return "" if context is None else context.page_script_hash


def own_machine() -> bool:
    """Whether the reader sits at the server, so that what they write is their own code on their own machine."""
    return is_loopback(str(st.get_option("server.address")), st.context.headers)


def is_loopback(address: str, headers: Mapping[str, str]) -> bool:
    """Whether the reader sits at the server: it listens on loopback only (`address`), was asked for there (Host), by a
    page of its own (Origin), and by no proxy, as it would ask for anyone.
    """
    host, origin = headers.get("Host", ""), headers.get("Origin", "")
    names = (address, urlsplit(f"//{host}").hostname, urlsplit(origin).hostname)
    direct = urlsplit(origin).netloc == host and "X-Forwarded-For" not in headers
    return direct and all(name in LOOPBACK for name in names)
