"""The page Your first Triton kernel, part by part."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import lessons
from explain.chapters.first_kernel import exercises, figures
from explain.chapters.first_kernel.programs import Program, programs
from explain.experiment import Experiment
from explain.figures.numbers import count
from explain.gpus import DEFAULT, GPUS
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.code import show_code
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from kernels.parameters import ITEM_BYTES

Run = tuple[Experiment, Trace]


TWO_SOURCES = (
    "Add two vectors, tile by tile. A **tile** is a short piece of the vectors. The number of tiles is n / block_n, "
    "rounded up: 27 elements in tiles of 8 are 4 tiles.\n\nPyTorch's loop takes one tile after another. In Triton you "
    "write only the body of the loop: the **kernel**. A **program** is one run of the kernel: it handles one tile. "
    "The GPU runs many programs at once. **Press a program**: *Tile*, *Pointer* and *Mask* below follow it."
)


@repeated
def two_sources() -> None:
    """The same addition as a PyTorch loop and as a Triton kernel, line beside line."""
    st.markdown(figures.side_by_side(), unsafe_allow_html=True)


def run(beside: DeltaGenerator) -> Run | None:
    """The programs `beside` the goal, what each word means, as pictures, then the kernel in the player, its sizes above
    it; None if it cannot run.
    """
    before = st.container()
    with layout.part(
        "Step through it",
        "The same run, line by line, from program 0 on. Choose other sizes: the pictures above follow.",
    ):
        experiment = controls.controls(lessons.VECTORS, ["n", "block_n", "dtype"], [])
    traces = stepper.stepper([experiment], key="first kernel", chapter="first_kernel")
    if not traces:
        return None
    shown = experiment, traces[0]
    with beside:
        each = programs(traces[0])
        pictures.pressable(figures.tiles(each, _chosen(each).number), "program")
    with before:
        _launch(len(each), experiment.values["n"], experiment.values["block_n"])
        _tile_pointer_mask(shown)
    return shown


def _chosen(each: tuple[Program, ...]) -> Program:
    return each[int(pictures.pressed("program", [str(one.number) for one in each], str(len(each) - 1)))]


def _tile_pointer_mask(shown: Run) -> None:
    """Tile, pointer and mask: each with what the trace has of it in the chosen program."""
    experiment, trace = shown
    p, chosen = experiment.values, _chosen(programs(trace))
    n, block = p["n"], p["block_n"]
    first, end = chosen.offsets[0], chosen.offsets[-1]
    with layout.part(
        "Tile",
        f"`tl.arange(0, {block})` makes {block} numbers at once, 0 to {block - 1}. Each number belongs to one "
        f"**lane**, a place in the tile. Program {chosen.number} adds {chosen.number} × {block} to each. "
        f"Its **offsets** are {first} to {end}: the numbers of the elements in its tile. Every line after this one "
        "works on the whole tile. The size of a tile is a power of two, and it is fixed when the kernel is compiled.",
    ):
        pictures.drawing(figures.offsets(chosen), figures.offsets(chosen, narrow=True))
    item = ITEM_BYTES[p["dtype"]]
    with layout.part(
        "Pointer",
        "You pass the tensors a, b and c. For each, the kernel gets a **pointer**: the address of its first element "
        f"in the GPU's memory, **HBM**. `a_ptr + offsets` makes {block} addresses. An element of {p['dtype']} has "
        f"{item} bytes, so lane 0 reads {count(int(first) * item)} bytes after the start of a. `tl.load` copies "
        "the tile from HBM onto the chip. `tl.store` copies a tile back.",
    ):
        pictures.drawing(figures.pointers(chosen, item), figures.pointers(chosen, item, narrow=True))
    off, filled, past = block - chosen.working, n // block, "The last program would read past the end."
    with layout.part(
        "Mask",
        f"{n} elements fill {filled} tile{'s' * (filled != 1)} of {block}"
        + (f", and {n % block} remain. {past} " if n % block else f". With one more, {past[0].lower()}{past[1:]} ")
        + f"The **mask** `offsets < {n}` turns off the lanes past the end: they load nothing, get `other` (here 0), "
        f"and store nothing. In program {chosen.number}, {off} of {block} lanes are off. A kernel without a mask reads "
        "memory that is not its own, and may crash or give wrong numbers.",
    ):
        pictures.drawing(figures.masked(chosen, n), figures.masked(chosen, n, narrow=True))


@repeated
def _launch(programs: int, n: int, block: int) -> None:
    """The line that starts the programs, and the size of its grid."""
    with layout.part(
        "Launch",
        "A **launch** starts a kernel on a **grid** of programs. PyTorch's loop is gone. The GPU may run the programs "
        "in any order, so no program may wait for the result of another. All run the same lines. `tl.program_id(0)` "
        "tells a program its number, and from the number it knows which elements are its own.",
    ):
        show_code(figures.launch_line(), "python")
        layout.prose(
            f"The square brackets hold the size of the grid: cdiv({n}, {block}) = ⌈{n} / {block}⌉ = {programs} "
            "programs. A grid has one to three sizes, here one. The comma makes it a tuple."
        )


def cost(shown: Run) -> None:
    """The bytes by formula and by trace, beside the FLOPs."""
    experiment, trace = shown
    work = experiment.traffic
    moved = work.read_bytes + work.written_bytes
    off = work.flops - experiment.values["n"]
    thrown = f" Lanes that are off add too: {count(off)} of the sums are thrown away." if off else ""
    gpu = GPUS[DEFAULT]
    with layout.part(
        "What it costs",
        f"The kernel moves {count(moved)} bytes and does {count(work.flops)} additions.{thrown} While HBM moves these "
        f"bytes, an {gpu.name} could compute far more.\n\n{figures.time_of(experiment, gpu)} The same holds for "
        "softmax, so these chapters count bytes.",
    ):
        pictures.drawing(figures.idle(experiment, gpu), figures.idle(experiment, gpu, narrow=True))
        stepper.traffic_table(experiment, trace)


def closing(shown: Run | None) -> None:
    """Things to try, questions, sources."""
    if shown:
        ask("first_kernel", exercises.QUESTIONS, [shown], shown[0].key)
    layout.closing("first_kernel")
