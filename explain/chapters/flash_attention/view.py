"""The page FlashAttention, part by part: its four views."""

from __future__ import annotations

import streamlit as st

from explain import lessons
from explain.chapters.flash_attention import algorithm as paper
from explain.chapters.flash_attention import figures, gpu_view, tiles
from explain.chapters.flash_attention.exercises import ORDER, PAPER, QUESTIONS, SIZES, STEP, Shown
from explain.chapters.flash_attention.visits import visits
from explain.chapters.speed import lengths
from explain.compile.cost import LaunchCost
from explain.compile.service import Answer, compiler
from explain.experiment import Experiment
from explain.figures.numbers import capacity, ratio
from explain.gpus import Gpu, known_as
from explain.prediction import fitted
from explain.records import registry
from explain.ui import controls, layout, pictures, stepper
from explain.ui.compiling import once_compiled, source
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from kernels.edits import source_of
from kernels.parameters import ITEM_BYTES

WORDS = {
    "Step through": "A program keeps a tile of queries on chip and reads keys and values tile by tile. It writes O "
    "once, and L (`lse`): the logsumexp, one number per query, which the backward pass needs.",
    "Tile sizes": "One program's tiles must fit on chip: Q, K and V in shared memory, S and the output in registers. "
    "**Formula** counts each array once. **Compiler** is what Triton and ptxas use.",
    "Loop order": "Left: keys and values in the outer loop, as in the first FlashAttention. Right: queries in the "
    "outer loop, as in FlashAttention-2. Both compute the same O.",
    "The paper's algorithm": "Algorithm 1 of FlashAttention-2, the forward pass, and the lines of "
    "`kernels/attention.py` that do it. The paper's `B_r` is `BLOCK_M`, its `B_c` is `BLOCK_N`.",
}
"""The page's views, and what each begins with."""


def choose(*folded: str) -> Experiment:
    """The attention to step through; its tile sizes and its `folded` parameters can be chosen behind a button."""
    sizes = ("block_m", "block_n", *folded)
    return controls.controls(lessons.OPENING, ["inputs", "causal"], controls.ATTENTION_PRESETS, folded=sizes)


def step_through(experiment: Experiment) -> Shown:
    """One run in the player, its bytes counted twice, and the same kernel on the GPU."""
    traces = stepper.stepper([experiment], key="flash attention", chapter="flash_attention")
    standard = experiment.through("attention_standard")
    words, picture = layout.sides("HBM bytes: standard attention and FlashAttention")
    with words:
        layout.prose(
            "Standard attention writes S, reads it, writes P and reads it: four trips of N² elements. FlashAttention "
            "moves neither S nor P. The running maximum m, the running sum ℓ and the unfinished output Õ stay on "
            "chip.\n\n"
            "Every load is counted, as if there were no cache."
        )
        layout.chapter_link("three_numbers", "Three numbers shows what caches save →")
    with picture:
        both = [(one.entry.title, one.entry.formula(one.values)) for one in (standard, experiment)]
        pictures.drawing(figures.traffic_bars(both, figures.WITH_SCORES))
        standard_bytes, own_bytes = (formula.read_bytes + formula.written_bytes for _, formula in both)
        st.caption(f"formula · standard attention ÷ FlashAttention: {ratio(standard_bytes / own_bytes)}")
        if traces:
            stepper.traffic_table(experiment, traces[0])
    if traces:
        st.header("On the GPU", anchor=False)
        gpu_view.on_device(experiment, traces[0])
    _faster_from()
    return Shown(STEP, tuple(zip([experiment], traces, strict=False)))


def _faster_from() -> None:
    """From which N on FlashAttention is faster on the chosen GPU: recorded there, or predicted."""
    if (recorded := registry.recorded()) is None:
        return
    st.header("From which N is it faster?", anchor=False)
    told, picture = st.columns([1, 2], gap="large")
    with told:
        gpu = gpu_choice()
    records = [one.record for one in registry.entries()[0] if known_as(one.record.gpu) == gpu.name]
    measured = next(filter(None, map(lengths.of, records)), None)
    model = fitted(recorded)
    if measured is not None:
        seconds, answer, source = measured.medians, lengths.answer(measured), measured.source
    elif model is not None:
        seconds = lengths.predicted(model, gpu)
        answer = lengths.predicted_answer(seconds, gpu)
        source = f"{model.told}. To measure your own GPU: `python -m explain measure`"
    else:
        return
    with told:
        layout.prose(answer)
        layout.chapter_link("speed", "Speed measures it where there is a GPU →", {"view": "From which N?"})
    with picture:
        if seconds:
            pictures.drawing(figures.crossing_chart(seconds, measured is None))
        st.caption(source)


def choose_tile() -> tuple[Experiment, Gpu]:
    """The tile that is compiled, and the GPU that it is compiled for."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        gpu = gpu_choice()
        head_dim = st.segmented_control("d", [32, 64, 128], default=64, required=True, key="tile head_dim")
        dtype = st.segmented_control("dtype", list(ITEM_BYTES), default="fp16", required=True, key="tile dtype")
        causal = st.toggle("Causal", key="tile causal")
    sides = [16, 32, 64, 128, 256]
    queries, keys = st.columns(2, gap="medium")
    block_m = queries.select_slider("BLOCK_M, queries in a tile", sides, value=64, key="tile block_m")
    block_n = keys.select_slider("BLOCK_N, keys in a tile", sides, value=64, key="tile block_n")
    return tiles.tile(block_m, block_n, head_dim=int(head_dim), dtype=str(dtype), causal=causal), gpu


def tile_sizes(experiment: Experiment, gpu: Gpu) -> Shown:
    """A tile in a GPU's shared memory and registers, by formula and as compiled; how often K and V are read."""
    head_dim, dtype = experiment.values["head_dim"], experiment.values["dtype"]
    once_compiled(experiment, gpu, lambda answer: _tile_cost(experiment, gpu, answer))
    own = {name: str(experiment.values[name]).lower() for name in ("block_m", "block_n", "head_dim", "dtype", "causal")}
    layout.chapter_link("tile_cost", "Read the instructions of this tile →", {**own, "gpu": gpu.name})
    with layout.part(
        f"Every tile with 4 warps, d = {head_dim}, {dtype}: programs per SM of the {gpu.name}",
        f"In the picture above, a full bar is the most that one program may use on the {gpu.name}: "
        f"{capacity(gpu.shared_bytes)} of shared memory, and 255 registers for each of its 128 threads (4 warps).\n\n"
        f"The compiler, here for {gpu.target}, needs more than the formula: it loads the next K and V ahead, a matmul "
        "reads its operands from shared memory, and addresses and masks take registers. Registers that are missing "
        "spill: their values go to memory and come back. With 8 warps a tile has twice the "
        "registers.\n\nMore programs per SM are not the goal. They hide waiting, but a larger BLOCK_M reads K and V "
        "less often.",
    ):
        _tile_grid(experiment, gpu)
    reads = tiles.reads(4096, int(head_dim), str(dtype))
    with layout.part(
        "Where N²d²/M comes from",
        "A tile of queries reads all of K and V once: 2Nd elements. There are N / BLOCK_M such tiles, so K and V cost "
        "2N²d / BLOCK_M. A larger tile reads less, but the chip's memory of M elements limits it. Let BLOCK_N be equal "
        "to BLOCK_M, and let Q, K, V and O fill the chip: 4 d BLOCK_M = M. Then **2N²d / BLOCK_M = 8N²d²/M**.\n\n"
        "The tile of S needs room too. So the paper keeps BLOCK_M ≤ d: then S takes at most a quarter of M. "
        "FlashAttention's theorem 2 has the same order, Θ(N²d²/M). The 8 belongs to this loop order: with keys in the "
        "outer loop, Q and O are moved again and again instead.",
    ):
        pictures.drawing(figures.reads_chart(reads))
        st.caption(
            f"formula · N = 4,096, d = {head_dim}, {dtype}, one head, not causal. "
            "M is defined as 4 d BLOCK_M, so the dots lie on the line by definition; it is not a measurement. "
            f"Where BLOCK_M is above d = {head_dim}, S would need more than a quarter of M."
        )
        st.markdown(figures.reads_table(reads))
    return Shown(SIZES, experiment=experiment, gpu=gpu, cost=lambda tile: _compiled(tile, gpu))


def _tile_cost(experiment: Experiment, gpu: Gpu, answer: Answer | None) -> None:
    """A tile in an SM's shared memory and registers by formula, beside the compiler's numbers."""
    cost = answer.cost if answer else None
    drawn = figures.tanks(experiment.values, gpu, cost.launches[0] if cost else None)
    for picture, column in zip(drawn, st.columns(2, gap="large"), strict=True):
        with column:
            pictures.drawing(picture)
    if answer and cost:
        st.markdown(f"**{figures.verdict(cost, gpu)}**")
        st.markdown(figures.cost_table(cost, gpu))
        st.caption(source(answer))


def _tile_grid(experiment: Experiment, gpu: Gpu) -> None:
    """Programs per SM and spills of every compiled tile with the same dtype, head_dim and mask."""
    answers = {
        (m, n): compiler().look(experiment.with_(block_m=m, block_n=n), gpu.compute_capability)
        for m in tiles.SIDES
        for n in tiles.SIDES
    }
    costs = {side: answer.cost for side, answer in answers.items() if answer and answer.cost}
    p = experiment.values
    pictures.drawing(figures.grid(costs, gpu, (p["block_m"], p["block_n"])))


def _compiled(tile: Experiment, gpu: Gpu) -> LaunchCost:
    answer = compiler().look(tile, gpu.compute_capability)
    if answer is None or answer.cost is None:
        p = tile.values
        raise ValueError(f"The tile {p['block_m']} × {p['block_n']} is not compiled yet. Choose it, and compile it.")
    return answer.cost.launches[0]


def loop_order(experiment: Experiment) -> Shown:
    """The first FlashAttention beside the second on the same input, and what happens to O."""
    runs = [lessons.first_order(experiment), experiment]
    titles = ["FlashAttention-1: keys and values outside", "FlashAttention-2: queries outside"]
    traces = stepper.stepper(runs, key="loop order", chapter="flash_attention", titles=titles)
    pairs = tuple(zip(runs, traces, strict=False))
    if len(pairs) < len(runs):
        return Shown(ORDER, pairs)
    with layout.part(
        "The order of the tiles",
        "Each square is a tile of S. Its number says when its program visits it.\n\n**FlashAttention-1** goes down "
        "the columns: it loads a tile of keys and values and visits all queries with it.\n\n**FlashAttention-2** goes "
        "along the rows: each program owns one row of tiles, and the rows run at the same time.",
    ):
        found = [visits(*pair) for pair in pairs]
        pictures.drawing(figures.visit_grids(list(zip(titles, found, strict=True))))
        st.caption("trace · the order and the writes of O are read from both runs")
    with layout.part(
        "What the order costs",
        "**Keys outside:** the next column comes back to the same rows. So O, m and ℓ of a row are read from HBM and "
        "written back once for each tile of keys.\n\n**Queries outside:** O, m and ℓ stay on chip until they are done. "
        "The price: K and V are read once for each tile of queries.",
    ):
        formulas = [(one.entry.title, one.entry.formula(one.values)) for one in runs]
        pictures.drawing(figures.traffic_bars(formulas, figures.GROUPS))
        with st.expander("The same in numbers, by formula and by trace"):
            st.markdown(figures.shares_table(pairs))
    return Shown(ORDER, pairs)


def paper_algorithm() -> Shown:
    """FlashAttention-2's algorithm 1 beside the kernel."""
    with st.container(key="lines of code"):
        st.markdown(figures.algorithm_table(paper.ALGORITHM, source_of("kernels.attention")), unsafe_allow_html=True)
    layout.prose(paper.NOT_IN_THE_PAPER)
    return Shown(PAPER, experiment=lessons.OPENING)


def closing(shown: Shown) -> None:
    """Things to try, questions, sources."""
    if shown.runs or shown.experiment:
        keys = [one.key for one in [*(experiment for experiment, _ in shown.runs), shown.experiment] if one]
        ask("flash_attention", QUESTIONS, shown, f"{shown.view} {keys} {shown.gpu and shown.gpu.name}")
    layout.closing("flash_attention")
