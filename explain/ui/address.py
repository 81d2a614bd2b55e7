"""The page that runs: which it is, and how the reader came to it."""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx


def returned() -> bool:
    """Whether this run answers the browser's Back or Forward: the address then says all that was shown."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def here() -> str:
    """A name for the page that runs, for the keys of its widgets.

    Two pages' widgets of one key are two widgets, but Streamlit takes the first one's value for the second one's.
    """
    context = get_script_run_ctx()
    return "" if context is None else context.page_script_hash
