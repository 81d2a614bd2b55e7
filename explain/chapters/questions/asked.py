"""What people ask, and the screen that answers: the tables of docs/questions.md as values and as cards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from itertools import groupby
from urllib.parse import parse_qsl, urlsplit

from explain import ROOT
from explain.contents import Page, pages
from explain.figures.palette import SYMBOLS, css_ink
from explain.ui.terms import marked

DOCUMENT = ROOT / "docs" / "questions.md"
_SOURCES = re.compile(r" \((\[.+\))\)$")
_SYMBOL = re.compile(rf"(?<![\w̃])(?<!× )({'|'.join(sorted(SYMBOLS, key=len, reverse=True))})(?![A-Za-z̃]| ×)")
"""Not beside a ×: in "N × V", V is a size."""


@dataclass(frozen=True)
class Question:
    """A row under the heading `group`, in Markdown; `address` is relative to the app's, with the section's anchor;
    `line` is the answer in one line, plain; `words` are on that screen.
    """

    group: str
    question: str
    sources: str
    address: str
    answer: str
    line: str
    words: str

    @property
    def page(self) -> Page | None:
        """The page that the address leads to, if there is one."""
        stem = urlsplit(self.address).path.strip("/")
        return next((page for page in pages() if stem == ("" if page.kind == "home" else page.stem)), None)


def questions() -> tuple[Question, ...]:
    """Every row, in the document's order. Raises ValueError for a row without five cells or without a source."""
    found, group = [], ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| question |"):
            found.append(_question(group, line.strip("| ")))
    return tuple(found)


def _question(group: str, row: str) -> Question:
    cells = row.split(" | ")
    if len(cells) != 5:
        raise ValueError(f"docs/questions.md: {row!r} has {len(cells)} cells, not 5")
    asked, address, answer, line, words = cells
    if (sources := _SOURCES.search(asked)) is None:
        raise ValueError(f"docs/questions.md: {asked!r} does not say in brackets where it was asked")
    return Question(group, asked[: sources.start()], sources[1], address.strip("`"), answer, line, words)


def found(words: str) -> list[Question]:
    """The questions that contain all these words, in the question, its answer or its line; all without words."""
    wanted = words.casefold().split()
    texts = {one: f"{one.question} {one.line} {one.answer}".replace("*", "").casefold() for one in questions()}
    return [one for one, text in texts.items() if all(word in text for word in wanted)]


def cards(words: str = "") -> dict[str, str]:
    """Each group's questions that contain the words, as cards, in Markdown and HTML: the question, the line, its
    answer, the screen, sources.

    A Markdown link to the screen would open it in another tab.
    """
    groups = groupby(found(words), key=lambda one: one.group)
    return {group: f'<div class="asked">\n\n{"".join(map(_card, some))}</div>' for group, some in groups}


def _card(one: Question) -> str:
    link = f'<a href="{escape(one.address)}" target="_self">{_screen(one)} →</a>'
    return (
        f"<article>\n\n**{marked(one.question)}**\n\n<div class=line>{_coloured(one.line)}</div>\n\n"
        f"{marked(one.answer)}\n\n{link} :small[{one.sources}]\n\n</article>"
    )


def _coloured(line: str) -> str:
    """A formula as HTML, its symbols in their colours."""
    return _SYMBOL.sub(lambda found: f'<b style="color: {css_ink(SYMBOLS[found[1]])}">{found[1]}</b>', escape(line))


def _screen(question: Question) -> str:
    """The page's title, with the view that the address opens."""
    view = [value for name, value in parse_qsl(urlsplit(question.address).query) if name in ("view", "panel")]
    return ": ".join([question.page.title if question.page else "", *view])
