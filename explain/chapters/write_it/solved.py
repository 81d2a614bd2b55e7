"""What was solved, where many readers share a server: each reader's browser keeps it and tells it to a new session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from explain.puzzles.progress import Progress
from explain.puzzles.puzzles import ladder

KEY = "solved puzzles"
_COMPONENT = st.components.v2.component(
    "tilescope_solved", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
)


def keep(known: Progress) -> None:
    """The browser keeps what this session's reader solved, and adds to `known` what it kept before."""

    def remembered() -> None:
        add(known, st.session_state[KEY].remembered)

    solved = {name: done.solved for name, done in known.puzzles.items() if done.solved}
    data = {"solved": json.dumps(solved), "puzzles": json.dumps([*ladder()])}
    _COMPONENT(key=KEY, data=data, on_remembered_change=remembered)


def add(known: Progress, kept: Mapping[str, Any]) -> None:
    """Adds the puzzles that a browser kept: the day that each was solved, by name. It may send anything."""
    for name, day in kept.items():
        if name in ladder() and isinstance(day, str) and not known.of(name).solved:
            known.of(name).solved = day
