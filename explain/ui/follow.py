"""Follows a background job on a page."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st


def follow(
    draw: Callable[[], object],
    running: Callable[[], bool],
    seconds: float = 0.8,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Draws a part of the page, and draws it again every `seconds` while `running()`.

    The whole page runs again, once, when the job has ended, and each time that `progress()` has another value.
    """
    before = (running(), progress())
    st.fragment(_draw, run_every=seconds if before[0] else None)(draw, before, lambda: (running(), progress()))


def _draw(draw: Callable[[], object], before: tuple[bool, object], now: Callable[[], tuple[bool, object]]) -> None:
    if before[0] and now() != before:
        st.rerun()
    draw()
