"""A tile's bytes by formula, and its compiled cost for a GPU you don't have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from explain.chapters.flash_attention import figures, tiles
from explain.chapters.flash_attention.tiles import SIDES
from explain.chapters.tile_cost import exercises
from explain.chapters.tile_cost.figures import compiled, sm
from explain.chapters.tile_cost.listing_view import listing
from explain.compile.cost import Cost, reserved
from explain.compile.service import Answer, compiler, provenance
from explain.experiment import Experiment, ParameterError
from explain.figures.numbers import capacity, fixed
from explain.gpus import Gpu
from explain.records import registry
from explain.ui import layout
from explain.ui.controls import LABELS, ROW_LABELS
from explain.ui.exercises import ask
from explain.ui.follow import follow
from explain.ui.pictures import drawing
from kernels.catalog import KERNELS, TAUGHT
from kernels.parameters import Value

OPENING = "flash_attention"
READING = """
- A line that calls a function, such as `tl.max`, has the instructions of that function too.
- The compiler moves instructions, so neighbours may come from lines far apart.
- The counts are of the program text: an instruction in a loop counts once, and runs once per iteration.
"""


def tile_cost(experiment: Experiment, gpu: Gpu) -> None:
    """A tile of flash_attention in its SRAM beside the compiler's numbers; or the progress of its compilation."""
    follow(lambda: _tile_cost(experiment, gpu), lambda: _working(experiment, gpu))


def _working(experiment: Experiment, gpu: Gpu) -> bool:
    answer = compiler().look(experiment, gpu.compute_capability)
    return bool(answer and answer.working)


def _tile_cost(experiment: Experiment, gpu: Gpu) -> None:
    answer = compiler().look(experiment, gpu.compute_capability)
    cost = answer.cost if answer else None
    pictures = figures.tanks(experiment.values, gpu, cost.launches[0] if cost else None)
    for picture, column in zip(pictures, st.columns(2, gap="large"), strict=True):
        with column:
            drawing(picture)
    if answer is not None and cost is not None:
        st.markdown(f"**{figures.verdict(cost, gpu)}**")
        st.markdown(figures.cost_table(cost, gpu))
        st.caption(_source(cost, answer.origin))
        return
    _ask(experiment, gpu, answer)


def _source(cost: Cost, origin: str) -> str:
    """Where a cost is from, and which other compiler made the kernels that were timed."""
    record = registry.recorded()
    timed = record.provenance.triton if record else cost.triton
    other = f" · the kernels timed in this app: triton {timed}; their registers can differ"
    return provenance(cost, origin) + other * (timed != cost.triton)


def compiling(experiment: Experiment, gpu: Gpu) -> None:
    """A button that compiles a tile, and the progress; nothing if it is compiled already."""
    answer = compiler().look(experiment, gpu.compute_capability)
    if answer is None or answer.cost is None:
        follow(
            lambda: _ask(experiment, gpu, compiler().look(experiment, gpu.compute_capability)),
            lambda: _working(experiment, gpu),
        )


def _ask(experiment: Experiment, gpu: Gpu, answer: Answer | None) -> None:
    """The progress of a compilation with a button to stop it; or its error, and a button to start it."""
    if answer is not None and answer.working:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f":material/hourglass_top: {answer.working}, {fixed(answer.seconds, 0)} s. The page stays usable."
            )
            if st.button("Stop", icon=":material/stop:", key="stop compiling"):
                compiler().cancel(experiment, gpu.compute_capability)
        return
    if answer is not None and answer.error:
        st.error(answer.error, icon=":material/error:")
    if st.button(f"Compile this tile for {gpu.target}", icon=":material/memory:", key="compile tile"):
        compiler().start(experiment, gpu.compute_capability)
        st.rerun()


def tile_choice() -> Experiment:
    """Controls for a kernel and its compile-time parameters, kept in the address; a wrong value is reported."""
    kernels = [name for name, entry in KERNELS.items() if entry.steppable]
    query = st.query_params
    kernel = query.get("kernel", OPENING)
    refused = "" if kernel in kernels else f"kernel={kernel}: must be one of {', '.join(TAUGHT)}"
    kernel = kernel if kernel in kernels else OPENING
    allowed, start = tiles.settings(kernel), tiles.opening(kernel)
    columns = st.columns([5, *[2] * len(allowed)], vertical_alignment="bottom")
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
            labels = {**LABELS, "head_dim": "d"} if KERNELS[kernel].family == "attention" else ROW_LABELS
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
    """A control for the address's value of `name`; a new choice removes the names in `forget` from the address."""
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
    """A tile's compiled launches, occupancy and instructions; or the progress of the compilation."""
    follow(lambda: _tile_report(experiment, gpu), lambda: _working(experiment, gpu))


def _tile_report(experiment: Experiment, gpu: Gpu) -> None:
    answer = compiler().look(experiment, gpu.compute_capability)
    if answer is None or answer.cost is None:
        _ask(experiment, gpu, answer)
        return
    names = [f"{number}. {launch.kernel}" for number, launch in enumerate(answer.cost.launches, start=1)]
    at = 0
    words, picture = layout.sides(f"What the programs use of an SM of the {gpu.name}")
    with words:
        if len(names) > 1:
            chosen = st.segmented_control(
                "Launch", names, default=names[0], required=True, key=f"launch of {experiment.kernel}", wrap=True
            )
            at = names.index(str(chosen))
        kept = f" CUDA keeps {capacity(reserved(gpu))} of it for itself, counted here." if reserved(gpu) else ""
        layout.prose(
            f"**{figures.verdict(answer.cost, gpu)}**\n\nRegisters belong to a thread, shared memory to a program."
            f"{kept} An SM gives both to programs until one of them is used up. That one limits how many programs an "
            "SM holds at a time, the **occupancy**. A thread that needs more than 255 registers **spills**: it stores "
            "the rest to memory that lies in HBM behind the caches, and loads it again."
        )
    with picture:
        drawing(sm(answer.cost.launches[at], gpu))
        st.markdown(compiled(answer.cost.launches[at]))
        st.caption(_source(answer.cost, answer.origin))
    st.header("Instructions, and the lines they come from", anchor=False)
    layout.prose(
        "**PTX** is what Triton writes. ptxas makes **SASS** of it, which the GPU runs. Each instruction is marked "
        "with the kernel's line that it comes from."
    )
    if not st.toggle("Show instructions", key="instructions", bind="query-params"):
        return
    listings = compiler().listings(experiment, gpu.compute_capability)
    if at < len(listings):
        listing(listings[at], key=f"listing {experiment.key} {gpu.target} {at}")
        if listings[at].error:
            st.caption(listings[at].error)
        with st.expander("How to read the instructions"):
            layout.prose(READING)
        return
    st.markdown("The numbers above were compiled beforehand, without the instructions of this tile.")
    _ask(experiment, gpu, None)


def tile_grid(experiment: Experiment, gpu: Gpu) -> None:
    """Programs per SM and spills of every compiled tile with the same dtype, head_dim and mask."""
    answers = {
        (m, n): compiler().look(experiment.with_(block_m=m, block_n=n), gpu.compute_capability)
        for m in SIDES
        for n in SIDES
    }
    costs = {side: answer.cost for side, answer in answers.items() if answer and answer.cost}
    p = experiment.values
    drawing(figures.grid(costs, gpu, (p["block_m"], p["block_n"])))


def closing(experiment: Experiment, gpu: Gpu) -> None:
    """Things to try, a link to FlashAttention, sources."""
    answer = compiler().look(experiment, gpu.compute_capability)
    if answer is not None and answer.cost is not None:
        listings = compiler().listings(experiment, gpu.compute_capability)
        shown = exercises.Shown(experiment, gpu, answer.cost.launches[0], listings)
        ask("tile_cost", exercises.QUESTIONS, shown, f"{experiment.key} {gpu.name}")
    layout.chapter_link("flash_attention", "See how full this tile makes an SM →", {"view": "Tile sizes"})
    layout.closing("tile_cost")
