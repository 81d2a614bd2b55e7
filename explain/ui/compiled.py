"""A tile on a page: its bytes by formula, and what the compiler makes of it for a GPU that need not be there."""

from __future__ import annotations

import streamlit as st

from explain.compile.service import compiler, provenance
from explain.experiment import Experiment
from explain.figures import flash_attention as figures
from explain.gpus import Gpu
from explain.tiles import SIDES
from explain.ui.pictures import drawing

POLL_SECONDS = 0.8


def tile_cost(experiment: Experiment, gpu: Gpu) -> None:
    """The tank of a tile of flash_attention with the compiler's own numbers beside it; while it compiles, how far it is."""
    answer = compiler().look(experiment, gpu.compute_capability)
    working = bool(answer and answer.working)
    st.fragment(_tile_cost, run_every=POLL_SECONDS if working else None)(experiment, gpu, working)


def _tile_cost(experiment: Experiment, gpu: Gpu, was_working: bool) -> None:
    capability = gpu.compute_capability
    answer = compiler().look(experiment, capability)
    if was_working and not (answer and answer.working):
        st.rerun()  # the whole page, once: a page that is done waiting polls no more
    cost = answer.cost if answer else None
    pictures = figures.tanks(experiment.values, gpu, cost.launches[0] if cost else None)
    for picture, column in zip(pictures, st.columns(2, gap="large"), strict=True):
        with column:
            drawing(picture)
    if answer is not None and cost is not None:
        st.markdown(f"**{figures.verdict(cost, gpu)}**")
        st.markdown(figures.cost_table(cost, gpu))
        st.caption(provenance(cost, answer.origin))
        return
    if answer is not None and answer.working:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f":material/hourglass_top: {answer.working}, since {answer.seconds:.0f} s. The page stays usable."
            )
            if st.button("Stop", icon=":material/stop:", key="stop compiling"):
                compiler().cancel(experiment, capability)
        return
    if answer is not None:
        st.error(answer.trouble, icon=":material/error:")
    if st.button(f"Compile this tile for {gpu.target}", icon=":material/memory:", key="compile tile"):
        compiler().start(experiment, capability)
        st.rerun()


def tile_grid(experiment: Experiment, gpu: Gpu) -> None:
    """What the compiler said of each tile of the same dtype, head_dim and mask, for as many as it was asked of."""
    answers = {
        (m, n): compiler().look(experiment.with_(block_m=m, block_n=n), gpu.compute_capability)
        for m in SIDES
        for n in SIDES
    }
    costs = {side: answer.cost for side, answer in answers.items() if answer and answer.cost}
    p = experiment.values
    drawing(figures.grid(costs, gpu, (p["block_m"], p["block_n"])))
