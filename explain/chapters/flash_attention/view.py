"""The page FlashAttention, part by part: its four views."""

from __future__ import annotations

import streamlit as st

from explain import lessons
from explain.chapters.flash_attention import algorithm as paper
from explain.chapters.flash_attention import figures, tiles
from explain.chapters.flash_attention.exercises import ORDER, PAPER, QUESTIONS, SIZES, STEP, Shown
from explain.chapters.speed import lengths
from explain.chapters.tile_cost import view as tile_cost_view
from explain.compile.cost import LaunchCost
from explain.compile.service import compiler
from explain.experiment import Experiment
from explain.figures.numbers import capacity
from explain.gpus import Gpu, known_as
from explain.prediction import fitted
from explain.records import registry
from explain.ui import controls, device, layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from kernels.parameters import ITEM_BYTES


def choose(*names: str) -> Experiment:
    """The attention to step through, with these of its parameters to choose."""
    return controls.controls(lessons.OPENING, ["inputs", *names], controls.ATTENTION_PRESETS, a_row=4)


def step_through(experiment: Experiment) -> Shown:
    """One run in the player, its bytes counted twice, and the same kernel on the GPU."""
    traces = stepper.stepper([experiment], key="flash attention", chapter="flash_attention")
    with layout.part(
        "Bytes: formula and trace",
        "What stays on chip is the running maximum m, the running sum ℓ and the unfinished output Õ. Whenever a row's "
        "maximum moves, its ℓ and Õ shrink by α: online softmax with a matmul inside. S never goes to HBM, so the "
        "table has no row for it.",
    ):
        if traces:
            stepper.traffic_table(experiment, traces[0])
    if traces:
        st.header("On the GPU", anchor=False)
        device.on_device(experiment, traces[0])
    _faster_from()
    return Shown(STEP, tuple(zip([experiment], traces, strict=False)))


def _faster_from() -> None:
    """From which N on FlashAttention is faster on the chosen GPU: recorded there, or predicted."""
    if (recorded := registry.recorded()) is None:
        return
    st.header("From which N is it faster?", anchor=False)
    gpu = gpu_choice()
    records = [one.record for one in registry.shelved()[0] if known_as(one.record.gpu) == gpu.name]
    measured = next(filter(None, map(lengths.of, records)), None)
    if measured is not None:
        layout.prose(f"{lengths.answer(measured)}\n\n{lengths.table(measured)}")
        st.caption(measured.source)
    elif model := fitted(recorded):
        layout.prose(lengths.predicted_answer(lengths.predicted(model, gpu), gpu))
        st.caption(f"{model.told}. To measure your own GPU: `python -m explain measure`")
    layout.chapter_link("speed", "Speed answers it live where there is a GPU →", {"view": "From which N?"})


def choose_tile() -> Experiment:
    """The tile that is compiled."""
    tile, more = st.columns(2, gap="medium"), st.columns([2, 2, 1], gap="medium", vertical_alignment="bottom")
    sides = [16, 32, 64, 128, 256]
    block_m = tile[0].select_slider("BLOCK_M, queries in a tile", sides, value=64, key="tile block_m")
    block_n = tile[1].select_slider("BLOCK_N, keys in a tile", sides, value=64, key="tile block_n")
    head_dim = more[0].segmented_control("d", [32, 64, 128], default=64, required=True, key="tile head_dim")
    dtype = more[1].segmented_control("dtype", list(ITEM_BYTES), default="fp16", required=True, key="tile dtype")
    causal = more[2].toggle("Causal", key="tile causal")
    return tiles.tile(block_m, block_n, head_dim=int(head_dim), dtype=str(dtype), causal=causal)


def tile_sizes(experiment: Experiment, gpu: Gpu) -> Shown:
    """A tile in the shared memory and registers of a chosen GPU, by formula and as compiled; how often K and V are
    read.
    """
    head_dim, dtype = experiment.values["head_dim"], experiment.values["dtype"]
    tile_cost_view.tile_cost(experiment, gpu)
    own = {name: str(experiment.values[name]).lower() for name in ("block_m", "block_n", "head_dim", "dtype", "causal")}
    layout.chapter_link("tile_cost", "Read the instructions of this tile →", {**own, "gpu": gpu.name})
    with layout.part(
        f"Every tile, d = {head_dim}, {dtype}: programs per SM of the {gpu.name}",
        f"The top line is the most that one program may use on the {gpu.name}: {capacity(gpu.shared_bytes)} "
        "of shared memory, and 255 registers for each of its 128 threads. **Formula** counts each array once. "
        f"**Compiler** is the result of Triton and ptxas for this very kernel for {gpu.target}: copies of K and V that "
        "are fetched ahead, operands that a matmul wants in shared memory, addresses and masks in registers. It needs "
        "no GPU. What does not fit in the registers is spilled to memory and fetched back.",
    ):
        tile_cost_view.tile_grid(experiment, gpu)
    reads = tiles.reads(4096, int(head_dim), str(dtype))
    with layout.part(
        "Where N²d²/M comes from",
        "A tile of queries reads all of K and V once: 2Nd elements. There are N / BLOCK_M such tiles, so K and V cost "
        "2N²d / BLOCK_M. A larger tile reads less. The chip's memory of M elements limits it. Let four tiles of "
        "BLOCK_M × d fill it, of Q, K, V and O: BLOCK_M = M / 4d. Then **2N²d / BLOCK_M = 8N²d²/M**: the Θ(N²d²/M) of "
        "FlashAttention's theorem 2, with its constant.",
    ):
        pictures.drawing(figures.reads_chart(reads))
        st.caption(
            f"formula · N = 4,096, d = {head_dim}, {dtype}, one head, not causal. "
            "M is defined as 4 d BLOCK_M, so the dots lie on the line by definition; it is not a measurement."
        )
        st.markdown(figures.reads_table(reads))
    return Shown(SIZES, experiment=experiment, gpu=gpu, cost=lambda tile: _compiled(tile, gpu))


def _compiled(tile: Experiment, gpu: Gpu) -> LaunchCost:
    answer = compiler().look(tile, gpu.compute_capability)
    if answer is None or answer.cost is None:
        p = tile.values
        raise ValueError(f"The tile {p['block_m']} × {p['block_n']} is not compiled yet. Choose it, and compile it.")
    return answer.cost.launches[0]


def loop_order(experiment: Experiment) -> Shown:
    """The first FlashAttention beside the second on the same input, and what happens to O."""
    runs = [lessons.first_order(experiment), experiment]
    traces = stepper.stepper(runs, key="loop order", chapter="flash_attention")
    with layout.part(
        "What the order costs",
        "**Left, keys and values outside:** one program per head takes a tile of K and V and reads all queries. Each "
        "visit needs the unfinished O, m and ℓ of its rows. They are read from HBM and written back, once for each "
        "tile of keys.\n\n**Right, queries outside:** a program owns its queries, so O, m and ℓ stay on chip until "
        "they are done. Tiles of queries run at once. The price: K and V are read once for each tile of queries.",
    ):
        if len(traces) == len(runs):
            pairs = list(zip(runs, traces, strict=True))
            pictures.drawing(figures.shares_bars(pairs))
            st.markdown(figures.shares_table(pairs))
    return Shown(ORDER, tuple(zip(runs, traces, strict=False)))


def paper_algorithm() -> Shown:
    """FlashAttention-2's algorithm 1 beside the kernel."""
    layout.prose(
        "FlashAttention-2's forward pass, its algorithm 1, told in our words, and the lines of this kernel that do "
        "it. Its B_r is `BLOCK_M`, its B_c is `BLOCK_N`."
    )
    st.markdown(figures.algorithm_table(paper.ALGORITHM), unsafe_allow_html=True)
    layout.prose(paper.NOT_IN_THE_PAPER)
    return Shown(PAPER, experiment=lessons.OPENING)


def closing(shown: Shown) -> None:
    """Things to try, questions, sources."""
    if shown.runs or shown.experiment:
        keys = [one.key for one in [*(experiment for experiment, _ in shown.runs), shown.experiment] if one]
        ask("flash_attention", QUESTIONS, shown, f"{shown.view} {keys} {shown.gpu and shown.gpu.name}")
    layout.questions(
        (
            "Which loop is outside, and who owns O?",
            "In FlashAttention-2's forward pass the queries are outside: a program owns a tile of queries and their "
            "rows of O, and writes them once. In the first FlashAttention keys and values were outside, so O belonged "
            "to nobody and went to HBM and back at every visit. *Loop order* counts both.",
        ),
        (
            "Where does N²d²/M come from?",
            "K and V are read once for each tile of queries, N / BLOCK_M times 2Nd elements, and BLOCK_M can be no "
            "larger than the chip's memory allows: about M / 4d. *Tile sizes* works it out for each tile.",
        ),
        (
            "Why divide by ℓ only at the end?",
            "The first FlashAttention kept O normalised at every visit, which takes a multiplication and a division "
            "more for each element of the tile, to arrive at numbers that the next tile rescales anyway. Until the "
            "last tile only the ratio of Õ and ℓ matters.",
        ),
    )
    layout.sources(
        "T. Dao et al., FlashAttention, arXiv 2205.14135, 2022, algorithm 1 and theorem 2",
        "T. Dao, FlashAttention-2, arXiv 2307.08691, 2023, algorithm 1",
        "NVIDIA CUDA C++ Programming Guide, technical specifications per compute capability, and CUDA Occupancy "
        "Calculator",
    )
