"""The page's address: how the reader came to it."""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx


def returned() -> bool:
    """Whether this run answers the browser's Back or Forward: the address then says all that was shown."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation
