"""A lecturer's own tour: its file, and its run in the player."""

from __future__ import annotations

import streamlit as st

from explain import contents, tours
from explain.figures.labels import begun
from explain.figures.numbers import count
from explain.ui import layout, stepper
from explain.ui.code import show_code
from explain.ui.controls import ATTENTION_PRESETS, ROW_PRESETS
from explain.workers import WorkerError

EXAMPLE = "online_softmax"
"""The chapter with the tour that plays where no file was given."""
GOAL = "lead a class through a run, caption by caption, in your own words."
FIELDS = "Every field of a tour file"
HOW = """Write your own captions for a run. A **tour** is a text file: it names a kernel's run, then each caption and
the step where it stands.

1. Download the example, the button beside this.
2. Change its captions.
3. Drop it into the field *A tour file*. Each player with the same run then shows your tour: in this tab, until it is
   reloaded. For all readers, start the app with `--tour FILE`."""
FIRST = """
| field | what an author needs first |
|---|---|
| `[[run]]`, `[[caption]]` | a run of a kernel, and a caption at one of its steps |
| `at` | a number, then an event: `first load of x`, `second rescale`, `third new maximum`, `last tile` |
| `depth` | {depths} |
| `text` | what the class reads, {words} words at most; `{{m_new}}` is the value of `m_new` at this step |
| `say`, `minutes` | what you say, and for how long: on the run sheet |
"""


def choose() -> tours.Tour | None:
    """The tour of the file that is dropped here, else the one that the app was started with, else the example, also
    below what is wrong with a file. None if its run cannot be traced.
    """
    file = st.file_uploader("A tour file", type="toml")
    tour, own, refused = tours.named(EXAMPLE), None, False
    try:
        if file is not None:
            st.session_state[stepper.OWN_TOUR] = tours.parse(file.getvalue().decode(errors="replace"), file.name)
        own = st.session_state.get(stepper.OWN_TOUR) or tours.given()
        stepper.toured(own or tour)
        tour = own or tour
    except tours.TourError as error:
        st.error(_told(error), icon=":material/error:")
        st.session_state.pop(stepper.OWN_TOUR, None)
        own, refused = None, True
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return None
    if own is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.download_button("Download the example", _text(tour), file_name=tour.file, icon=":material/download:")
            title = contents.page_of(tour.chapter).title
            again = "Your file was not loaded. The example still plays below."
            st.markdown(again if refused else f"It plays below: the tour of {title}.")
    else:
        st.markdown(f"**Your tour plays below**: {count(len(tour.captions))} captions.")
    return tour


def _told(error: tours.TourError) -> str:
    """All faults of a file, as a Markdown list."""
    faults = "\n".join(f"- {begun(fault)}." for fault in error.faults)
    return f"**{error.file}** cannot be played:\n\n{faults}"


def _text(tour: tours.Tour) -> str:
    """The text of a tour that ships with the app."""
    return next(path for path in tours.files().values() if path.name == tour.file).read_text(encoding="utf-8")


def _example_file(tour: tours.Tour) -> None:
    """The beginning of the example's file, the run and the first caption, and what may stand in it."""
    words, code = layout.sides("The file of this tour", wide=1)
    with words:
        layout.prose(
            f"Its title and its run come first, then its {count(len(tour.captions))} captions; here is the first. All "
            f"fields: [{FIELDS}](#{layout.anchor(FIELDS)})."
        )
        presets = ATTENTION_PRESETS if tour.runs[0].entry.family == "attention" else ROW_PRESETS
        named = {"presets": presets, "depths": tours.DEPTHS}
        lists = {name: ", ".join(f"`{one}`" for one in values) for name, values in named.items()}
        st.markdown(FIRST.format(**lists, words=tours.MOST_WORDS))
        with st.expander("`inputs`: the names of the inputs"):
            st.markdown(lists["presets"])
    with code:
        show_code("[[caption]]".join(_text(tour).split("[[caption]]")[:2]).strip(), "toml")


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
