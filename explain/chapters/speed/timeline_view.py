"""A kernel's timeline on a page: which run, which of its programs, the lanes, and what they come to."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.speed import timeline as timelines
from explain.chapters.speed import timeline_figures as figures
from explain.chapters.speed.rungs import RUNGS
from explain.chapters.speed.timeline import Timeline
from explain.records.results import ResultFileError
from explain.ui.charts import chart
from explain.ui.controls import option
from explain.ui.layout import prose
from kernels.digest import digest_of

LADDER = [rung.module for rung in RUNGS]


def timeline(name: str = "") -> None:
    """The timelines recorded of the kernel of this name, or of all; says so where there is none, and why."""
    try:
        runs = [run for run in timelines.recorded() if name in ("", run.name)]
        runs.sort(key=lambda run: LADDER.index(run.module) if run.module in LADDER else -1)
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return
    if not runs:
        st.info(
            f"No timeline of {name or 'a kernel'} has been recorded with this copy of Tilescope. On a machine with a Hopper GPU, `{timelines.COMMAND}` makes "
            "one, and this page shows it.",
            icon=":material/info:",
        )
        return
    _shown(tuple(runs))


@st.fragment
def _shown(runs: tuple[Timeline, ...]) -> None:
    named = {run.key: run for run in runs}
    which, of = st.columns([3, 2])
    with which:
        run = named[option("Run", {key: one.title for key, one in named.items()}, "run", next(iter(named)))]
    programs = {str(one.program): one for one in run.programs}
    with of:
        words = {number: f"program {number}, on SM {one.sm}" for number, one in programs.items()}
        program = programs[option("Program", words, "program", next(iter(programs)))]
    prose(
        "One warp asks TMA for tiles; **groups** of warps multiply them and take the softmax. Where a group's softmax lies under a product, its own or another group's, the tensor cores do not wait."
    )
    prose(figures.told(run, program))
    chart(
        _lanes(run.key, program.program, run),
        f"timeline of {run.key}",
        alt=f"What the warps of {run.title} do over time",
    )
    st.caption(
        f"{run.source}. One warp stands for each group. A product runs on the tensor cores while its group goes on; its bar ends where the group has waited for "
        "it. Drag the picture, or its window in the strip below, to go along; hold the pointer over a piece for its cycles."
    )
    if len(runs) > 1:
        st.markdown(figures.compared(runs))
        st.caption(
            "The mean of the programs that were kept of each run; at most, since when a product is done is not seen, only when its group has waited for it. A visit is one tile of keys by all groups."
        )
    if run.code != digest_of(run.module, run.function):
        st.caption(f"The kernel has changed since this was recorded. `{timelines.COMMAND} {run.name}` records it anew.")


@st.cache_data(show_spinner=False, max_entries=32)
def _lanes(key: str, number: int, _run: Timeline) -> go.Figure:
    return figures.lanes(_run, next(program for program in _run.programs if program.program == number))
