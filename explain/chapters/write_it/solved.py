"""What was solved, and how, where many readers share a server: each reader's browser keeps it and tells it to a new
session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from explain.puzzles.answer import LONGEST
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

    solved = {name: [done.solved, done.answer] for name, done in known.puzzles.items() if done.solved}
    data = {"solved": json.dumps(solved), "puzzles": json.dumps([*ladder()])}
    _COMPONENT(key=KEY, data=data, on_remembered_change=remembered)


def add(known: Progress, kept: Mapping[str, Any]) -> None:
    """Adds the puzzles that a browser kept: of each, by name, the day that it was solved and the answer; an older
    version kept the day alone. It may send anything.
    """
    for name, one in kept.items():
        day, answer = one if isinstance(one, list) and len(one) == 2 else (one, "")
        if name in ladder() and isinstance(day, str) and isinstance(answer, str) and not known.of(name).solved:
            known.of(name).solved, known.of(name).answer = day, answer[:LONGEST]
