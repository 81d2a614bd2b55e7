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
    """The run sheet: the tour's captions, what to say, and a clock. It follows the player in another window of this
    browser, whatever tour plays there. Its keys turn the player's captions.
    """
    told = f"About {page.minutes} minutes, without a tour: show the page from top to bottom, with the points below."
    if tour:
        minutes, seconds = divmod(round(60 * tour.minutes), 60)
        long = f"{minutes} minutes" if not seconds else f"{minutes}:{seconds:02} minutes"
        told = f"The tour takes {long}, with questions about {page.minutes}. "
        told += "The clock starts when the player shows a caption."
    with st.container(horizontal=True, key="about the tour"):
        layout.chapter_link("home", "← Tilescope")
        layout.chapter_link(page.stem, f"Open **{page.title}** →")
        st.markdown(told)
        layout.chapter_link("your_tour", "Play a tour from a file of your own →")
    sheet = None
    if tour:
        with suppress(tours.TourError, WorkerError):  # the player says why; the sheet still follows other tours
            sheet = stepper.toured(tour)
    _RUN_SHEET(key="run sheet", data=sheet)


def _tour(page: contents.Page) -> tours.Tour | None:
    """The tour that the reader chose among the page's tours; None if the page has none."""
    own = stepper.own_tour()
    given = {tour.title: tour for tour in (own, *tours.of(page.stem)) if tour and tour.chapter == page.stem}
    if len(given) < 2:
        return next(iter(given.values()), None)
    title = st.selectbox(
        "Tour",
        list(given),
        format_func=lambda title: f"{title}, {given[title].minutes:g} min",
        key=f"tour {page.stem}",
        label_visibility="collapsed",
    )
    return given[title]


def notes(page: contents.Page, tour: tours.Tour | None) -> None:
    """The page's notes, a column for each section: what to say, common errors, what to show if there is time."""
    _, say, *rest = _curly(page.notes.read_text(encoding="utf-8")).split("\n## ")
    if tour:
        say = say.replace("Say", "If you teach without the tour", 1)
    with st.container(key="notes"):
        for column, section in zip(st.columns(1 + len(rest), gap="large"), [say, *rest], strict=True):
            column.markdown(f"## {section}")


def _curly(words: str) -> str:
    """The text with curly quotes, like a tour's captions. Quotes in code stay straight."""
    return re.sub(r'(`[^`\n]*`)|"([^"`\n]*)"', lambda found: found[1] or f"“{found[2]}”", words)


def hall() -> None:
    """How many students one server takes, folded until it is opened."""
    if said := figures.lecture_hall():
        with st.expander("How many students one server takes"):
            st.markdown(said)
