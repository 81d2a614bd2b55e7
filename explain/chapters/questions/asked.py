"""What people ask, and the screen that answers: the table of docs/questions.md as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from explain import ROOT
from explain.contents import Page, pages
from explain.figures.tables import markdown

DOCUMENT = ROOT / "docs" / "questions.md"


@dataclass(frozen=True)
class Question:
    """One row. `question` and `look` are Markdown; `address` is relative to the app's; `words` stand on that screen."""

    question: str
    address: str
    look: str
    words: str

    @property
    def page(self) -> Page | None:
        """The page that the address leads to, if there is one."""
        stem = self.address.partition("?")[0].strip("/")
        return next((page for page in pages() if stem == ("" if page.kind == "home" else page.stem)), None)


def questions() -> tuple[Question, ...]:
    """Every row, in the document's order. Raises ValueError for a row without four cells."""
    _, _, *rows = re.findall(r"^\| (.+) \|$|^\|-.*$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple(_question(row) for row in rows)


def _question(row: str) -> Question:
    cells = row.split(" | ")
    if len(cells) != 4:
        raise ValueError(f"docs/questions.md: {row!r} has {len(cells)} cells, not 4")
    question, address, look, words = cells
    return Question(question, address.strip("`"), look, words)


def table() -> str:
    """The rows as Markdown, with a link to each screen."""
    rows = [(one.question, f"[{one.page.title}]({one.address})", one.look) for one in questions() if one.page]
    return markdown(("question", "screen", "what to look at"), rows)
