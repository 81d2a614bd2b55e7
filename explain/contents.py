"""The pages there are, found in `pages/`: a page says what it is in the first line of its docstring, and nowhere else.

    \"\"\"Home: what this is.\"\"\"
    \"\"\"Chapter 6: FlashAttention. The stepper on tiles of Q, K and V.\"\"\"       the number is its place
    \"\"\"Lab 1: Three numbers. Formula, trace and hardware, side by side.\"\"\"     after the chapters
    \"\"\"Tool: Side by side. Any two runs, stepped together.\"\"\"                  after those
    \"\"\"Own: Your run. A trace file of your own in the player.\"\"\"                for what readers bring
    \"\"\"Hidden: Lecturer's notes. One chapter's, in a second window.\"\"\"        has an address, no entry in the bar

Imports no streamlit.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

from explain import ROOT

PAGES = ROOT / "pages"
NOTES = ROOT / "docs" / "lecturer"

KINDS = ("home", "chapter", "lab", "tool", "own", "hidden")

_HEADING = re.compile(r"(?:(Home)|Chapter (\d+)|(Lab) (\d+)|(Tool)|(Own)|(Hidden)): ([^.?]+\??)\.? *(.*)", re.DOTALL)


@dataclass(frozen=True, order=True)
class Page:
    """One page. `kind` is one of KINDS; `number` a chapter's or a lab page's, else 0."""

    rank: int
    number: int
    stem: str
    title: str
    about: str
    kind: str

    @property
    def path(self) -> Path:
        return PAGES / f"{self.stem}.py"

    @property
    def short(self) -> str:
        """The title where there is little room: a chapter's file may have a shorter name."""
        words = self.stem.replace("_", " ").capitalize()
        return words if self.kind == "chapter" and len(words) < len(self.title) else self.title

    @property
    def notes(self) -> Path:
        """The lecturer's notes; a page may have none."""
        return NOTES / f"{self.stem}.md"

    @functools.cached_property
    def has_notes(self) -> bool:
        return self.notes.exists()

    @property
    def icon(self) -> str:
        """A Material symbol: a chapter's is its number, as far as there are such symbols."""
        if self.kind == "chapter" and self.number < 10:
            return f":material/counter_{self.number}:"
        return {"home": ":material/grid_view:", "lab": ":material/experiment:", "tool": ":material/build:"}.get(
            self.kind, ":material/article:"
        )

    @functools.cached_property
    def minutes(self) -> int | None:
        """How long a lecture spends here, as the notes' first line has it; None without notes."""
        found = re.match(r"Minutes: (\d+)", self.notes.read_text(encoding="utf-8")) if self.has_notes else None
        return int(found[1]) if found else None


@functools.cache
def pages() -> tuple[Page, ...]:
    """Every page, in the order of the navigation. Raises ValueError naming a page that does not say what it is."""
    return tuple(sorted(_page(path) for path in PAGES.glob("*.py")))


def of_kind(kind: str) -> tuple[Page, ...]:
    """The pages of one of KINDS, in their order."""
    return tuple(page for page in pages() if page.kind == kind)


def chapters() -> tuple[Page, ...]:
    """The numbered ones."""
    return of_kind("chapter")


@functools.cache
def page_of(file: str) -> Page:
    """The page of a source file."""
    return next(page for page in pages() if page.stem == Path(file).stem)


def _page(path: Path) -> Page:
    heading = _HEADING.match(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    if heading is None:
        raise ValueError(
            f"pages/{path.name}: the docstring must begin with 'Home: …', 'Chapter N: Title. …', 'Lab N: Title. …', "
            "'Tool: Title. …', 'Own: Title. …' or 'Hidden: Title. …'"
        )
    home, chapter, lab, place, tool, own, hidden, title, about = heading.groups()
    kind = (home or lab or tool or own or hidden or "chapter").lower()
    return Page(KINDS.index(kind), int(chapter or place or 0), path.stem, title.strip(), " ".join(about.split()), kind)
