"""The first page, part by part."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from explain import contents, lessons
from explain.chapters.home import figures
from explain.chapters.home import opening as values
from explain.player import files
from explain.ui import device, layout, stepper
from explain.workers import WorkerError

_HERE = Path(__file__).parent
_PLAYERS = ("numbers.js", "palette.js", "surface.js")
_OWN = ("scenes.js", "opening.js")


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


_OPENING = st.components.v2.component(
    "tilescope_opening",
    html=_text("opening.html"),
    css=files.colours(".opening") + _text("opening.css"),
    js="".join(
        [*map(files.module, _PLAYERS), *(files.joinable(_text(name)) for name in _OWN), "export default mount;\n"]
    ),
)


def opening() -> None:
    """The run of the first chapters as an animation; a scene leads to its line in a chapter's player."""
    try:
        (run, flash), (_, standard) = (stepper.lesson(one.key) for one in (lessons.OPENING, lessons.STANDARD))
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    source = f"{run.view['badge']} · HBM bytes: formula"
    line = _OPENING(key="opening", data=values.packet(flash, standard, source), on_line_change=lambda: None).line
    if line:
        st.switch_page(f"pages/{line['page']}.py", query_params={"step": str(line["step"])})


def step_of_an_old_link() -> None:
    """A link to a step of this page, which had a player, leads to the same run's step in its chapter."""
    if step := st.query_params.get("step"):
        st.switch_page("pages/flash_attention.py", query_params={"step": step})


def where_to_start() -> None:
    """A card for each chapter, for each page of the lab, and for the tools."""
    st.header("Where to start", anchor=False)
    minutes = sum(page.minutes or 0 for page in contents.chapters())
    layout.prose(
        f"New to softmax? Begin at 1 and go on in order: about {minutes} minutes in all. If you know attention and its "
        "cost, begin at 5. Each chapter stands by itself and opens on an example at work."
    )
    layout.cards(contents.chapters())
    if lab := contents.of_kind("lab"):
        st.header("The lab", anchor=False)
        layout.cards(lab)
    st.header("Tools", anchor=False)
    layout.cards([*contents.of_kind("tool"), contents.page_of("questions.py")])


def what_you_see() -> None:
    """Where the numbers come from, and what runs the kernels on this machine."""
    what, live = st.columns(2, gap="large")
    with what:
        st.header("What you see", anchor=False)
        layout.prose(
            "A GPU runs this very source, compiled. For the player, Triton's interpreter executed it line by line on "
            "the CPU, and recorded each line's variables, loads and stores: every number in the player is from that "
            "recording. Two more witnesses stand beside it, a formula for every byte and FLOP, and the compiled "
            "kernel on a GPU. Where they differ, you are told."
        )
    with live:
        st.header("What runs it here", anchor=False)
        device.engine_status()
        for sentence in filter(None, (figures.verified(), figures.lecture_hall())):
            st.caption(sentence)
