"""A lecturer's own tour: its file, and its run in the player."""

from __future__ import annotations

import streamlit as st

from explain import tours
from explain.ui import layout, stepper
from explain.workers import WorkerError


def choose() -> tours.Tour | None:
    """The tour of the file that is dropped here, else the one that the app was started with; says what is wrong."""
    file = st.file_uploader("A tour file", type="toml")
    try:
        if file is not None:
            st.session_state[stepper.OWN_TOUR] = tours.parse(file.getvalue().decode(errors="replace"), file.name)
        tour = st.session_state.get(stepper.OWN_TOUR) or tours.given()
        if tour:
            stepper.toured(tour)
    except tours.TourError as error:
        st.error(f"This tour cannot be played. {error}.", icon=":material/error:")
        return None
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return None
    return tour


def play(tour: tours.Tour) -> None:
    """The tour's run in the player, and where else it plays."""
    stepper.stepper(tour.runs, key="own tour", chapter=tour.chapter)
    layout.chapter_link(tour.chapter, f"Its chapter also begins with it, on the same runs: {tour.chapter}")
    layout.chapter_link("notes", "Run sheet, in the lecturer's notes", {"chapter": tour.chapter})
