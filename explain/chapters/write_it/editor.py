"""The editor of a kernel: Ace, from its Python package, with Triton's names. It keeps each text in the browser."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from explain import scripts
from explain.puzzles import language

HERE = Path(__file__).parent
ACE = ("ace.js", "mode-python.js", "ext-language_tools.js")


def _script() -> str:
    """Ace's scripts and ours, as one."""
    spec = importlib.util.find_spec("django_ace")  # found, not imported: only its files are used
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the editor's files are missing: pip install -r requirements.txt")
    folder = Path(spec.origin).parent / "static" / "django_ace" / "ace"
    ace = "\n".join((folder / name).read_text(encoding="utf-8") for name in ACE)
    return f"function defineAce() {{\n{ace}\n}}\n" + (HERE / "editor.js").read_text(encoding="utf-8")


_COMPONENT = st.components.v2.component(
    "tilescope_editor",
    html='<div class="kernel-editor"></div>',
    css=(HERE / "editor.css").read_text(encoding="utf-8"),
    js=scripts.loader(scripts.served("editor", _script())),
    isolate_styles=False,  # Ace puts its styles into the document
)


def editor(
    key: str,
    name: str,
    starter: str,
    errors: Mapping[int, str],
    on_begin: Callable[[], object],
    on_check: Callable[[str], None],
    *,
    busy: bool,
    verdict: bool = False,
    label: str = "Check",
) -> None:
    """Shows the text that the browser keeps under `name`, at first `starter`, with each line's error beside it.

    `on_begin` is called when the reader begins to write, `on_check` gets the text when they press the button, `label`.
    With a `verdict` below it the editor is lower, so that both are on one screen.
    """

    def checked() -> None:
        sent: Any = st.session_state[key].checked
        st.session_state[f"turn of {key}"] = st.session_state.get(f"turn of {key}", 0) + 1
        on_check(str(sent["text"]))

    def began() -> None:
        on_begin()

    said = json.dumps([{"row": line - 1, "column": 0, "type": "error", "text": text} for line, text in errors.items()])
    words = json.dumps([f"tl.{word}" for word in sorted(language.names())])
    data = {
        "name": name,
        "starter": starter,
        "errors": said,
        "words": words,
        "label": label,
        "busy": "yes" if busy else "",
        "verdict": "yes" if verdict else "",
        "turn": st.session_state.get(f"turn of {key}", 0),  # another number frees the button
    }
    _COMPONENT(key=key, data=data, on_began_change=began, on_checked_change=checked)
