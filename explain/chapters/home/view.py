"""The first page, part by part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import streamlit as st

from explain import contents, lessons, scripts
from explain.chapters.home import figures
from explain.chapters.home import opening as values
from explain.engine import DeviceStatus, engine, has_triton
from explain.player import files
from explain.ui import exercises, layout
from explain.ui.follow import once_known
from explain.ui.pictures import drawing
from explain.ui.repeat import repeated
from explain.workers import WorkerError

_HERE = Path(__file__).parent
_PLAYERS = ("numbers.js", "palette.js", "surface.js", "terms.js")
_OWN = ("layouts.js", "pen.js", "scenes.js", "opening.js")
ACROSS = 5
"""Cards in a row."""


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


_MODULES = [*map(files.module, _PLAYERS), *(files.joinable(_text(name)) for name in _OWN)]
SCRIPT = scripts.served("opening", "".join([*_MODULES, "export default mount;\n"]))
"""The address of the opening's script."""
_OPENING = st.components.v2.component(
    "tilescope_opening",
    html=_text("opening.html"),
    css=files.colours(".opening") + layout.TERMS + _text("opening.css"),
    js=scripts.loader(SCRIPT),
)


def opening() -> Opening | None:
    """The run of the first chapters as an animation; a scene leads to its line in a chapter's player."""
    try:
        made = ready()
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return None
    _play(made.packet)
    return made


@repeated
def _play(packet: str) -> None:
    _OPENING(key="opening", data={"packet": packet})  # a text alone makes Streamlit import pandas and pyarrow


@dataclass(frozen=True)
class Opening:
    """The opening's packet, the run in it, and the run's date."""

    packet: str
    run: values.Run
    recorded: str


@st.cache_resource(show_spinner=False)
def ready() -> Opening:
    """The opening, ready to show. The server calls it as it starts. Raises WorkerError."""
    flash, standard = (engine().trace(one).trace for one in (lessons.OPENING, lessons.STANDARD))
    run = values.run_of(flash, lessons.OPENING)
    return Opening(values.packet(run, flash, standard), run, flash.created[:10])


@st.cache_resource(show_spinner=False)
def _pictures() -> dict[str, str]:
    from explain.chapters.home import pictures  # what it imports would keep the opening waiting

    return pictures.of_chapters(ready().run, values.words())


@repeated
def tagline() -> None:
    """What Tilescope is and for whom, in a few sentences, and three ways to begin."""
    first = contents.chapters()[0]
    online, flash = (contents.page_of(stem) for stem in ("online_softmax", "flash_attention"))
    film = sum(values.SECONDS.values()) / 60
    minutes = 5 * math.ceil((film + (online.minutes or 0)) / 5)
    with st.container(key="tagline", gap="small"):
        layout.prose(
            "FlashAttention computes attention without writing the scores to GPU memory. Watch a real kernel run on a "
            "real paragraph."
        )
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(
                f":small[For PyTorch users. No GPU is needed. The film takes {figures.in_minutes(film)}.]",
                width="content",
                unsafe_allow_html=True,
            )
            with st.container(horizontal=True, width="content"):
                layout.chapter_link(first.stem, f"**New to attention: chapter {first.number} →**")
                layout.chapter_link(online.stem, f"{minutes} minutes: film and chapter {online.number} →")
                layout.chapter_link(flash.stem, f"You know attention: chapter {flash.number} →")


def step_of_an_old_link() -> None:
    """A link to a step of this page, which had a player, leads to the same run's step in its chapter."""
    if step := st.query_params.get("step"):
        st.switch_page("pages/flash_attention.py", query_params={"step": step})


@repeated
def doors() -> None:
    """Three ways on: learn, teach, use."""
    chapters = contents.chapters()
    first, minutes = chapters[0], sum(page.minutes or 0 for page in chapters)
    learn, teach, use = (
        column.container(border=True, height="stretch", key=f"door {name}")
        for name, column in zip(("learn", "teach", "use"), st.columns(3, gap="medium"), strict=True)
    )
    with learn:
        layout.header("Learn it")
        layout.prose(
            f"{len(chapters)} chapters, each with a real run to step through: {figures.about(minutes)} in all. "
            "No GPU is needed."
        )
        with st.container(gap="small"):
            layout.chapter_link(first.stem, f"**Begin: {first.title} →**")
            layout.chapter_link("write_it", "**Write the kernels yourself →**")
    with teach:
        layout.header("Teach it")
        layout.prose(
            "Each chapter has a tour of its run. Open the run sheet in a second window: what to say, minute by minute. "
            "In a chapter, **P** shows the run large, for a projector."
        )
        layout.chapter_link("notes", "**Run sheets and notes →**")
    with use:
        layout.header("Use it on your own kernel")
        layout.prose(
            "Paste a Triton kernel and step through it line by line, on a CPU. `python -m explain` traces, checks and "
            "compares kernels from the command line."
        )
        layout.chapter_link("your_kernel", "**Your kernel →**")


def where_to_start(made: Opening | None) -> None:
    """A card with a picture for each chapter; the pages of the lab and the tools, in words."""
    layout.header("The chapters")
    layout.prose("You can read each chapter on its own.")
    _cards(contents.chapters(), _pictures() if made else {})
    layout.header("The lab")
    _cards(contents.of_kind("lab"))
    layout.header("Tools")
    _cards(contents.of_kind("tool"))
    exercises.progress()


@repeated
def _cards(pages: Sequence[contents.Page], drawn: Mapping[str, str] = MappingProxyType({})) -> None:
    """For each page its picture, where it leads, what it is about, how long a lecture spends there."""
    for first in range(0, len(pages), ACROSS):
        for page, column in zip(pages[first : first + ACROSS], st.columns(ACROSS, gap="medium"), strict=False):
            with column.container(height="stretch", key=f"card {page.stem}"):
                if page.stem in drawn:
                    drawing(drawn[page.stem])
                number = f"{page.number} · " if page.kind == "chapter" else ""
                layout.chapter_link(page.stem, f"**{number}{page.title}**")
                minutes = f"\n\n:small[{page.minutes} minutes{exercises.mark(page.stem)}]" if page.minutes else ""
                st.markdown(f"{page.about}{minutes}", unsafe_allow_html=True)


def what_you_see(made: Opening | None) -> None:
    """Where the numbers come from, the date of the run above, and what runs the kernels on this machine."""
    when = f" on {made.recorded}" if made else ""
    what, live = st.columns(2, gap="large")
    with what:
        layout.header("Where the numbers come from")
        layout.prose(
            "The kernels here are written in Triton. A GPU runs them compiled. For the player, Triton's interpreter "
            f"ran them line by line on a CPU and recorded each variable, load and store{when}. "
            "Two other sources check the recording: a formula for every byte and FLOP, and the compiled kernel on a "
            "GPU. If two of them differ, the page says so."
        )
    with live:
        layout.header("What runs it here")
        _engine_status()
        if verified := figures.verified():
            st.caption(verified)


def _engine_status() -> None:
    """What runs the kernels on this machine, and why something else does not."""
    if has_triton():
        st.markdown(":green[●] **Triton's CPU interpreter** runs and records the kernels, here on this machine.")
    else:
        st.markdown(":orange[●] **Recorded runs.** Triton runs on Linux only; the chapters open on recorded traces.")
    once_known(_gpu_status)


def _gpu_status(status: DeviceStatus) -> None:
    if status.available and status.provenance:
        st.markdown(f":green[●] **{status.provenance['gpu']}** runs them compiled.")
    else:
        st.markdown(f":gray[●] No GPU available. {status.reason}")
