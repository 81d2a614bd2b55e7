"""What the warps do, cycle by cycle."""

from __future__ import annotations

import functools

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.speed import timeline, timeline_figures
from explain.chapters.speed.rungs import RUNGS
from explain.chapters.speed.timeline import Timeline
from explain.figures.plot import kept
from explain.records.results import ResultFileError
from explain.ui.charts import chart
from explain.ui.controls import option
from explain.ui.layout import prose, sides
from kernels.digest import digest_of


def warps(name: str = "") -> None:
    """The timelines recorded of the kernel of this name, or of all; or how to record them."""
    ladder = [rung.entry.module for rung in RUNGS]
    try:
        runs = [run for run in timeline.recorded() if name in ("", run.name)]
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return
    if not runs:
        what = name or "any kernel"
        st.info(f"No timeline of {what} is recorded. On a machine with a Hopper GPU: `{timeline.COMMAND}`")
        return
    _lanes(tuple(sorted(runs, key=lambda run: ladder.index(run.module) if run.module in ladder else -1)))


@st.fragment
def _lanes(runs: tuple[Timeline, ...]) -> None:
    named = {run.key: run for run in runs}
    words, picture = sides("What the warps do, cycle by cycle")
    with words:
        run = named[option("Run", {key: one.title for key, one in named.items()}, "run", next(iter(named)))]
        programs = {str(one.program): one for one in run.programs}
        places = {number: f"program {number}, on SM {one.sm}" for number, one in programs.items()}
        number = option("Program", places, "program", next(iter(programs)))
        prose(
            "The **producer** warp asks the TMA for tiles. **Consumer** warpgroups run the matmuls and the softmax. "
            "Where a softmax overlaps with a matmul of its own group or of the other, the tensor cores do not wait."
            f"\n\n{timeline_figures.timeline_told(run, programs[number])}"
        )
    with picture:
        name = f"timeline of {run.key}"
        chart(_lanes_figure(run, int(number)), name, alt=f"What the warps of {run.title} do over time")
        st.caption(
            f"{run.source}. One warp stands for each warpgroup. A matmul runs while its group continues; its bar ends "
            "when the group has waited for it. Drag the picture or the strip below it to move; point at a bar for its "
            "cycles."
        )
        if len(runs) > 1:
            with st.container(key="numbers of timelines"):
                st.markdown(timeline_figures.compared(runs))
            st.caption("Means over the recorded programs. ≤: only the wait for a matmul is recorded, not its end.")
        if run.code != digest_of(run.module, run.function):
            again = f"{timeline.COMMAND} {run.name}"
            st.caption(f"Stale: the kernel has changed since this was recorded. To repeat: `{again}`")


@functools.lru_cache(maxsize=32)
def _lanes_figure(run: Timeline, number: int) -> go.Figure:
    return kept(timeline_figures.lanes(run, next(program for program in run.programs if program.program == number)))
