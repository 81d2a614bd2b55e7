"""A lecturer's own tour: its file, and its run in the player."""

from __future__ import annotations

import streamlit as st

from explain import contents, tours
from explain.figures.numbers import count
from explain.ui import layout, stepper
from explain.workers import WorkerError

EXAMPLE = "online_softmax"
"""The chapter with the tour that plays where no file was given."""
GOAL = "lead a class through a run, caption by caption, in your own words."
FIELDS = "Every field of a tour file"
HOW = (
    "A **tour** is a text file: a kernel's run, and captions at some of its steps. Download the example below the "
    f"player, change it, and drop it into the field *A tour file*. [{FIELDS}](#{layout.anchor(FIELDS)}) is at the end."
)


def choose() -> tours.Tour | None:
    """The tour of the file that is dropped here, else the one that the app was started with, else the example; says
    what is wrong.
    """
    file = st.file_uploader("A tour file", type="toml")
    try:
        if file is not None:
            st.session_state[stepper.OWN_TOUR] = tours.parse(file.getvalue().decode(errors="replace"), file.name)
        own = st.session_state.get(stepper.OWN_TOUR) or tours.given()
        tour: tours.Tour = own or tours.named(EXAMPLE)
        stepper.toured(tour)
    except tours.TourError as error:
        st.error(f"This tour cannot be played. {error}.", icon=":material/error:")
        return None
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return None
    if own is None:
        st.markdown(f"**Below: an example**, the tour of {contents.page_of(tour.chapter).title}.")
    return tour


def _example_file(tour: tours.Tour) -> None:
    """The example's file to download, and its beginning: the run and the first caption."""
    text = next(path for path in tours.files().values() if path.name == tour.file).read_text(encoding="utf-8")
    with layout.part(
        "The file of this tour",
        f"Its title and its run come first, then its {count(len(tour.captions))} captions; here is the first. The "
        "player shows `text`; the run sheet shows `say` and `minutes`.",
    ):
        st.code("[[caption]]".join(text.split("[[caption]]")[:2]).strip(), language="toml", wrap_lines=True)
        st.download_button("Download the example", text, file_name=tour.file, icon=":material/download:")


def play(tour: tours.Tour) -> None:
    """The tour's run in the player, and where else it plays."""
    stepper.stepper(tour.runs, key="own tour", chapter=tour.chapter)
    if not stepper.own_tour():
        _example_file(tour)
    layout.header(FIELDS)
    layout.document("tours.md", "Fields, events and numbers, with their allowed values")
    title = contents.page_of(tour.chapter).title
    layout.chapter_link(tour.chapter, f"The same runs in their chapter: {title} →")
    layout.chapter_link("notes", "Run sheet, in the lecturer's notes →", {"chapter": tour.chapter})
