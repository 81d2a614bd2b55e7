"""Shows a background job on a page as it goes on."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st


def follow(
    draw: Callable[[], object],
    running: Callable[[], bool],
    seconds: float = 0.8,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Draws a part of the page, and again every `seconds` while `running()`.

    The whole page reruns once when the job ends, and each time `progress()` changes.
    """
    before = (running(), progress())
    st.fragment(_draw, run_every=seconds if before[0] else None)(draw, before, lambda: (running(), progress()))


def _draw(draw: Callable[[], object], before: tuple[bool, object], now: Callable[[], tuple[bool, object]]) -> None:
    if before[0] and now() != before:
        st.rerun()
    draw()
