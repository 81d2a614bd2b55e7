"""A tile on a page: its bytes by formula, and what the compiler makes of it for a GPU that need not be there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from explain.chapters.flash_attention import figures, tiles
from explain.chapters.flash_attention.tiles import SIDES
from explain.chapters.tile_cost.figures import limits
from explain.chapters.tile_cost.listing_view import listing
from explain.compile.service import Answer, compiler, provenance
from explain.experiment import Experiment, ParameterError
from explain.gpus import Gpu
from explain.ui.controls import LABELS, ROW_LABELS
from explain.ui.pictures import drawing
from kernels.catalog import CATALOG
from kernels.known import KERNELS
from kernels.parameters import Value
from kernels.peers import PEERS

POLL_SECONDS = 0.8
OPENING = "flash_attention"


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
    _ask(experiment, gpu, answer)


def compiling(experiment: Experiment, gpu: Gpu) -> None:
    """What asks the compiler for a tile, and follows it; nothing where it has answered."""
    answer = compiler().look(experiment, gpu.compute_capability)
    if answer is None or answer.cost is None:
        working = bool(answer and answer.working)
        st.fragment(_compiling, run_every=POLL_SECONDS if working else None)(experiment, gpu, working)


def _compiling(experiment: Experiment, gpu: Gpu, was_working: bool) -> None:
    answer = compiler().look(experiment, gpu.compute_capability)
    if was_working and not (answer and answer.working):
        st.rerun()  # the whole page, once: a page that is done waiting polls no more
    _ask(experiment, gpu, answer)


def _ask(experiment: Experiment, gpu: Gpu, answer: Answer | None) -> None:
    """How far the compilation is, with a way to stop it; or what went wrong, and a way to begin."""
    if answer is not None and answer.working:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f":material/hourglass_top: {answer.working}, since {answer.seconds:.0f} s. The page stays usable."
            )
            if st.button("Stop", icon=":material/stop:", key="stop compiling"):
                compiler().cancel(experiment, gpu.compute_capability)
        return
    if answer is not None and answer.trouble:
        st.error(answer.trouble, icon=":material/error:")
    if st.button(f"Compile this tile for {gpu.target}", icon=":material/memory:", key="compile tile"):
        compiler().start(experiment, gpu.compute_capability)
        st.rerun()


def tile_choice() -> Experiment:
    """Controls for a kernel and what its compilation depends on, kept in the page's address; what is not allowed there is said."""
    kernels = [name for name in KERNELS if name not in PEERS]
    query = st.query_params
    kernel = query.get("kernel", OPENING)
    refused = "" if kernel in kernels else f"kernel={kernel}: must be one of {', '.join(CATALOG)}"
    kernel = kernel if kernel in kernels else OPENING
    allowed, start = tiles.settings(kernel), tiles.opening(kernel)
    columns = st.columns([3, *[2] * len(allowed)], vertical_alignment="bottom")
    with columns[0]:
        _choice("Kernel", kernels, kernel, "kernel", _kernel_title, forget=[*start])
    chosen = dict(start)
    for (name, values), column in zip(allowed.items(), columns[1:], strict=True):
        texts = {str(value).lower(): value for value in values}
        asked = query.get(name, str(start[name])).lower()
        if asked in texts:
            chosen[name] = texts[asked]
        else:
            refused = f"{name}={asked}: must be one of {', '.join(texts)}"
        with column:
            labels = ROW_LABELS if KERNELS[kernel].family == "softmax" else {**LABELS, "head_dim": "d"}
            _choice(labels[name], values, chosen[name], name, _plain)
    try:
        experiment = tiles.compiled_as(kernel, chosen)
    except ParameterError as error:
        refused, experiment = str(error), tiles.compiled_as(kernel, start)
    if refused:
        st.markdown(f":small[:red[**{refused}**]]")
    return experiment


def _choice(
    label: str,
    options: Sequence[Value],
    value: Value,
    name: str,
    words: Callable[[Any], str],
    forget: Sequence[str] = (),
) -> None:
    """A control for what the address has under `name`; choosing anew takes out of it what is to be forgotten."""
    key = f"tile: {name}"
    st.session_state[key] = value

    def put() -> None:
        for other in forget:
            st.query_params.pop(other, None)
        st.query_params[name] = str(st.session_state[key]).lower()

    st.selectbox(label, options, key=key, on_change=put, format_func=words)


def _kernel_title(name: str) -> str:
    entry = KERNELS[name]
    return entry.title if not entry.edit else f"{KERNELS[entry.base].title}, {entry.title}: {entry.idea}"


def _plain(value: Value) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def tile_report(experiment: Experiment, gpu: Gpu) -> None:
    """What the compiler says of every launch of a tile, what an SM holds of it, and its instructions; while it compiles, how far it is."""
    answer = compiler().look(experiment, gpu.compute_capability)
    working = bool(answer and answer.working)
    st.fragment(_tile_report, run_every=POLL_SECONDS if working else None)(experiment, gpu, working)


def _tile_report(experiment: Experiment, gpu: Gpu, was_working: bool) -> None:
    answer = compiler().look(experiment, gpu.compute_capability)
    if was_working and not (answer and answer.working):
        st.rerun()  # the whole page, once: a page that is done waiting polls no more
    if answer is None or answer.cost is None:
        _ask(experiment, gpu, answer)
        return
    st.markdown(f"**{figures.verdict(answer.cost, gpu)}**")
    with st.container(key="numbers of tile"):
        st.markdown(figures.cost_table(answer.cost, gpu))
    st.caption(provenance(answer.cost, answer.origin))
    names = [f"{number}. {launch.kernel}" for number, launch in enumerate(answer.cost.launches, start=1)]
    at = 0
    if len(names) > 1:
        chosen = st.segmented_control(
            "Launch", names, default=names[0], required=True, key=f"launch of {experiment.kernel}"
        )
        at = names.index(str(chosen))
    st.subheader(f"What allows no more programs on an SM of the {gpu.name}", anchor=False)
    drawing(limits(answer.cost.launches[at], gpu))
    st.subheader("Its instructions, and the lines they come from", anchor=False)
    listings = compiler().listings(experiment, gpu.compute_capability)
    if at < len(listings):
        listing(listings[at], key=f"listing {experiment.key} {gpu.target} {at}")
        if listings[at].trouble:
            st.caption(listings[at].trouble)
        return
    st.markdown("The numbers above were compiled beforehand; the instructions of this tile were not kept.")
    _ask(experiment, gpu, None)


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
