"""A chapter's questions on its page, and the reader's progress, which stays in the reader's browser."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from explain import contents
from explain.exercises import C, Question, Verdict, check, of_room
from explain.ui import terms
from explain.ui.repeat import repeated
from explain.workers import WorkerError

_LOOK = Path(__file__).parent.parent / "look"
_COMPONENT = st.components.v2.component(
    "tilescope_exercises",
    html='<div class="exercises"></div>',
    css=(_LOOK / "exercises.css").read_text(encoding="utf-8"),
    js=(_LOOK / "exercises.js").read_text(encoding="utf-8"),
    isolate_styles=False,  # the glossary's terms are styled by the page
)


def ask(
    room: str, questions: Sequence[Question[C]], context: C, shown: str,
    otherwise: str = "This page's questions are about another tab or choice.",
) -> None:  # fmt: skip
    """Shows the questions that fit `context`, checks answers, and explains them.

    `shown` names the context, such as the keys of its experiments: a verdict disappears when it changes. Where none
    fits, `otherwise` says where there are some.
    """
    _heading()
    if fitting := [question for question in questions if question.asked(context)]:
        _ask(room, fitting, context, shown)
    else:
        st.caption(otherwise)


def progress() -> None:
    """How many questions the reader has answered, for every page; and a button that forgets it.

    `mark` puts a page's own count anywhere else on the same page.
    """
    _COMPONENT(key="progress", data={"totals": _totals(), "html": ""})


def mark(room: str) -> str:
    """HTML in which the browser shows how many of the room's questions are answered; empty for a room without any."""
    return f'<span data-progress="{room}"></span>' if of_room(room) else ""


@functools.cache
def _totals() -> str:
    """Each room's number of questions, as JSON: for a mapping within the data Streamlit would import pandas."""
    return json.dumps({page.stem: total for page in contents.pages() if (total := len(of_room(page.stem)))})


@repeated
def _heading() -> None:
    st.header("Things to try", anchor=False)


@st.fragment
def _ask(room: str, questions: Sequence[Question[Any]], context: Any, shown: str) -> None:
    key = f"exercises {room}"
    verdicts: dict[str, tuple[str, str, Verdict | str]] = st.session_state.setdefault(f"{key}: verdicts", {})

    def checked() -> None:
        """Keeps the verdict. A second wrong answer tells the right one, and so does the button after the first."""
        answer: Mapping[str, str] = st.session_state[key].checked
        question = next((one for one in questions if one.name == answer["name"]), None)
        if question is None:
            return
        known, given, before = verdicts.get(question.name, ("", "", ""))
        tells = known == shown and isinstance(before, Verdict) and not before.right
        if not answer.get("show"):
            if (known, given) == (shown, answer["given"]):
                return
            given = answer["given"]
            before = _verdict(question, context, given)
        if tells and isinstance(before, Verdict):
            before = before.answer or before
        verdicts[question.name] = shown, given, before

    items = []
    for question in questions:
        known, given, verdict = verdicts.get(question.name, ("", "", ""))
        if known != shown:
            given, verdict = "", ""
        items.append(_item(room, question, context, given, verdict))
    html = f'<ol data-about="{escape(shown)}">{"".join(items)}</ol>'
    _COMPONENT(key=key, data={"totals": _totals(), "room": room, "html": html}, on_checked_change=checked)


def _verdict(question: Question[C], context: C, given: str) -> Verdict | str:
    try:
        return check(question, context, given)
    except WorkerError as error:
        return error.words
    except ValueError as error:
        return str(error)


def _item(room: str, question: Question[C], context: C, given: str, verdict: Verdict | str) -> str:
    """One question as HTML: `data-name`, its field, and the verdict with `data-right` once it is answered."""
    field = f"{room} {question.name}"
    match question.kind:
        case "number":
            fields = (
                f'<input type="text" inputmode="decimal" autocomplete="off" aria-label="Answer" '
                f'value="{escape(given)}"><span>{escape(question.unit_of(context))}</span>'
            )
        case "choice":
            fields = "".join(
                f'<label><input type="radio" name="{escape(field)}" value="{escape(option)}"'
                f"{' checked' if option == given else ''}> <span>{inline(option)}</span></label>"
                for option in question.options_of(context)
            )
        case _:
            fields = ""
    button = "I am at the step" if question.kind == "step" else "Check"
    up = '<button type="button" data-up>To the player ↑</button>' if question.kind == "step" else ""
    said = ""
    if isinstance(verdict, Verdict):
        state = "right" if verdict.right else "wrong"
        go = ""
        if verdict.step is not None:
            to = f'data-step="{verdict.step}" data-run="{verdict.run}"'
            go = f'<button type="button" {to}>Show it</button>'
        if verdict.answer:
            go += ' <button type="button" data-show>Show me the answer</button>'
        said = f'<p class="verdict" role="status" data-verdict="{state}">{inline(verdict.words)} {go}</p>'
    elif verdict:
        said = f'<p class="verdict" role="status" data-verdict="none">{inline(verdict)}</p>'
    return (
        f'<li data-name="{question.name}" data-kind="{question.kind}" data-run="{question.run}">'
        f"<p>{inline(question.prompt_of(context))}</p>"
        f'<div><form><div class="fields">{fields}</div>{up}<button type="submit">{button}</button></form>{said}</div>'
        "</li>"
    )


_INLINE = re.compile(r"(<[^>]*>)|`([^`]+)`|\*\*(.+?)\*\*|\*(.+?)\*|\[([^\]]+)\]\(([^)\s]+)\)")


def inline(text: str) -> str:
    """Inline Markdown as HTML: bold, italic, code, links; the glossary's terms are marked."""
    return _inline(terms.marked(text))


def _inline(text: str) -> str:
    def part(found: re.Match[str]) -> str:
        tag, code, bold, italic, words, address = found.groups()
        if tag:
            return tag
        if code:
            return f"<code>{escape(code, quote=False)}</code>"
        if address:
            return f'<a href="{escape(address)}">{_inline(words)}</a>'
        return f"<b>{_inline(bold)}</b>" if bold else f"<i>{_inline(italic)}</i>"

    return _INLINE.sub(part, text)
