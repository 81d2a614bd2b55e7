"""The lecturer's notes, part by part."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import streamlit as st

from explain import contents, tours
from explain.chapters.notes import figures
from explain.ui import controls, layout, stepper
from explain.workers import WorkerError

_HERE = Path(__file__).parent
_RUN_SHEET = st.components.v2.component(
    "tilescope_run_sheet",
    html=(_HERE / "run_sheet.html").read_text(encoding="utf-8"),
    css=(_HERE / "run_sheet.css").read_text(encoding="utf-8"),
    js=(_HERE / "run_sheet.js").read_text(encoding="utf-8"),
)
ACTIONS = (
    "Ask", "Choose", "Click", "Compare", "Drag", "End on", "Follow", "Go", "Move", "Open", "Point", "Press", "Read",
    "Scroll", "Set", "Show", "Start", "Stop", "Switch", "Take", "Unfold", "Wait", "Write",
)  # fmt: skip
"""What a lecturer does. A sentence of the notes or of a tour that begins so is not spoken."""


def choose() -> tuple[contents.Page, tours.Tour | None]:
    """The page that the reader chose among those with notes, and its tour or None. The address keeps the page."""
    chapter, tour = st.columns(2)
    with chapter:
        page = _page()
    with tour:
        return page, _tour(page)


def _page() -> contents.Page:
    with_notes = {page.stem: page for page in contents.pages() if page.has_notes}
    titles = {stem: page.title for stem, page in with_notes.items()}
    return with_notes[controls.option("Chapter", titles, "chapter", next(iter(titles)), labelled=False)]


def run_sheet(page: contents.Page, tour: tours.Tour | None) -> None:
    """The run sheet: the tour's captions, or the notes' points; what to say, and a clock. It follows a player of the
    page in another window of this browser. Its keys turn the player's captions.
    """
    told = f"{page.minutes} min, without a tour. The clock starts with **Start** or →."
    if tour:
        told = f"The tour takes {figures.minutes(tour.minutes)} minutes; plan {page.minutes} with questions. "
        told += "The clock starts at the first caption."
    with st.container(horizontal=True, key="about the tour"):
        layout.chapter_link("home", "← Tilescope")
        st.markdown(told)
        layout.chapter_link("your_tour", "Play a tour from a file of your own →")
    sheet = {"chapter": page.stem, "title": page.title, "minutes": page.minutes, "captions": _points(page)}
    if tour:
        with suppress(tours.TourError, WorkerError):  # the player says why
            sheet = stepper.toured(tour)
    titles = {one.stem: one.title for one in contents.pages()}
    _RUN_SHEET(key="run sheet", data={"sheet": sheet, "titles": titles, "actions": ACTIONS})


def _points(page: contents.Page) -> list[dict[str, str]]:
    """What to say without a tour, point by point, like captions without a text."""
    _, say, *_ = _sections(page)
    points = re.split(r"^- ", say, flags=re.MULTILINE)[1:]
    plain = (re.sub(r"[*`]", "", re.sub(r"^ +- ", "· ", one, flags=re.MULTILINE)) for one in points)
    return [{"text": "", "say": " ".join(one.split())} for one in plain]


def _sections(page: contents.Page) -> list[str]:
    """The notes: what stands before their sections, then each section with its title."""
    return _curly(page.notes.read_text(encoding="utf-8")).split("\n## ")


def _tour(page: contents.Page) -> tours.Tour | None:
    """The tour that the reader chose among the page's tours; None if the page has none."""
    own = stepper.own_tour()
    given = {tour.title: tour for tour in (own, *tours.of(page.stem)) if tour and tour.chapter == page.stem}
    if len(given) < 2:
        return next(iter(given.values()), None)
    title = st.selectbox(
        "Tour",
        list(given),
        format_func=lambda title: f"{title}, {figures.minutes(given[title].minutes)} min",
        key=f"tour {page.stem}",
        label_visibility="collapsed",
    )
    return given[title]


def notes(page: contents.Page, tour: tours.Tour | None) -> None:
    """The page's notes, a column for each section: common errors, what to show if there is time, and last what to say
    without the tour. Where there is no tour the run sheet has what to say.
    """
    _, say, *rest = _sections(page)
    shown = rest + [say.replace("Say", "If you teach without the tour", 1)] * bool(tour)
    with st.container(key="notes"):
        for column, section in zip(st.columns(len(shown), gap="large"), shown, strict=True):
            column.markdown(f"## {_acted(section)}")


def _acted(words: str) -> str:
    """Markdown with what the lecturer does in bold, unlike what they say."""
    return re.sub(rf"(?m)(^ *- |[.?!:”] )({'|'.join(ACTIONS)})\b", r"\1**\2**", words)


def _curly(words: str) -> str:
    """The text with curly quotes, like a tour's captions. Quotes in code stay straight."""
    return re.sub(r'(`[^`\n]*`)|"((?:`[^`\n]*`|[^"`\n])*)"', lambda found: found[1] or f"“{found[2]}”", words)
