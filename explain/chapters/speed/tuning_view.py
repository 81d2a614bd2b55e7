"""One kernel at many settings."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import tuning, tuning_figures
from explain.gpus import GPUS, known_as
from explain.records.results import ResultFileError
from explain.ui.controls import pick
from explain.ui.layout import chapter_link, prose, sides
from explain.ui.pictures import drawing
from kernels.catalog import KERNELS


def settings() -> None:
    """One rung at every setting of tile, warps and stages: timed, or else compiled."""
    try:
        timed, compiled = tuning.load(tuning.FILE), tuning.load(tuning.COMPILED)
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return
    shown = timed if timed and any(grid.timed for grid in timed.grids) else compiled
    if shown is None or not shown.grids:
        st.info(f"No setting has been measured here. On a machine with a GPU: `{tuning.COMMAND}`")
        return
    grids = {KERNELS[f"rung:{grid.rung}"].short: grid for grid in shown.grids}
    name = next(iter(grids))
    words, picture = sides("One kernel, many settings")
    with words:
        own = grids[pick("Kernel", grids, "tuned", wrap=True) if len(grids) > 1 else name]
        grid = tuning.completed(own, compiled.of(own.rung) if compiled else None)
        entry, gpu, where = KERNELS[f"rung:{own.rung}"], known_as(shown.provenance.gpu), shown.provenance
        prose(
            f"{tuning_figures.grid_told(grid, GPUS[gpu] if gpu else None)}\n\n"
            "The same source, compiled with other tile sizes, warps and stages, is another kernel:\n\n"
            "- A **large tile** reads K and V less often and needs more registers.\n"
            "- **More warps** spread a tile over more threads.\n"
            "- **More stages** load further ahead and hold more tiles in shared memory.\n\n"
            "No formula says which setting is fastest, so one tries them: autotuning."
        )
    with picture:
        drawing(tuning_figures.grid(grid, entry.hue))
        if grid.timed:
            st.caption(f"{grid.words} · {shown.source}")
        else:
            st.caption(f"{shown.method} · triton {where.triton}, {where.date} · d = {grid.shape[3]}, {grid.dtype}")
            st.caption(f"Each cell: registers per thread, shared memory per program. For times: `{tuning.COMMAND}`")
        if grid.code != entry.code:
            st.caption("Stale: the kernel's code has changed since.")
        st.caption(f"{tuning_figures.SPILLED} spills registers. Point at a cell for all its numbers.")
    st.download_button(
        "All settings as CSV", grid.csv, f"tilescope-tuning-{grid.rung}.csv", "text/csv", key="csv of the settings",
        icon=":material/download:", type="tertiary", on_click="ignore",
    )  # fmt: skip
    chapter_link("tile_cost", "What one tile costs, and its instructions →")
