"""Autotuning on a page: a rung over tile sizes, warps and stages, timed where a GPU did, else as the compiler has it."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import tuning_figures as figures
from explain.chapters.speed import tuning_grid
from explain.chapters.speed.rungs import BY_NAME
from explain.chapters.speed.tuning_grid import Grid, Tuning
from explain.gpus import GPUS, known_as
from explain.records.results import ResultFileError
from explain.ui.layout import prose
from explain.ui.pictures import drawing
from kernels.catalog import KERNELS


def tuning() -> None:
    """The grid of settings, what it comes to, and where its numbers come from."""
    try:
        timed, compiled = tuning_grid.load(tuning_grid.FILE), tuning_grid.load(tuning_grid.COMPILED)
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return
    shown = timed if timed and any(grid.timed for grid in timed.grids) else compiled
    if shown is None or not shown.grids:
        st.info(
            f"No settings have been tried with this copy of Tilescope: `{tuning_grid.COMMAND}`", icon=":material/info:"
        )
        return
    names = [grid.rung for grid in shown.grids]
    name = names[0]
    if len(names) > 1:
        name = str(st.segmented_control("Rung", names, default=name, required=True, key="tuned", bind="query-params"))
    grid = next(grid for grid in shown.grids if grid.rung == name)
    _grid(tuning_grid.completed(grid, compiled.of(name) if compiled else None), shown)


def _grid(grid: Grid, shown: Tuning) -> None:
    gpu = known_as(shown.provenance.gpu)
    prose(" ".join(figures.told(grid, GPUS[gpu] if gpu else None)))
    drawing(figures.grid(grid))
    if grid.timed:
        st.caption(f"{grid.words} · {shown.source}")
    else:
        where = shown.provenance
        st.caption(f"{shown.method} · triton {where.triton}, {where.date} · d = {grid.shape[3]}, {grid.dtype}")
        st.caption(
            f"A cell has what the compiler says: registers a thread, shared memory a program. Times need a GPU: `{tuning_grid.COMMAND}` takes them."
        )
    if grid.rung in BY_NAME and grid.code != KERNELS[BY_NAME[grid.rung].kernel].code:
        st.caption(f"The code of {BY_NAME[grid.rung].file} has changed since.")
    st.caption(
        f"{figures.SPILLED} marks a setting that spills. Hold the pointer over a cell for all that is known of it."
    )
    st.download_button(
        "All settings as CSV",
        figures.table(grid),
        f"tilescope-tuning-{grid.rung}.csv",
        "text/csv",
        key="csv of the settings",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )
