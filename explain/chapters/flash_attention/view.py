"""The page FlashAttention, part by part: its four views."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explain import lessons
from explain.chapters.flash_attention import algorithm as paper
from explain.chapters.flash_attention import figures, gpu_view, tiles
from explain.chapters.flash_attention.exercises import ORDER, PAPER, QUESTIONS, SIZES, STEP, Shown
from explain.chapters.flash_attention.visits import visits
from explain.chapters.speed import lengths
from explain.compile.cost import LaunchCost
from explain.compile.service import Answer, compiler
from explain.exercises import Runs
from explain.experiment import Experiment
from explain.figures.formulas import formula
from explain.figures.numbers import count, ratio
from explain.gpus import Gpu, known_as
from explain.kept import kept
from explain.prediction import fitted
from explain.records import registry
from explain.records.model import Record
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.compiling import once_compiled, source
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from explain.ui.repeat import repeated
from explain.ui.rerun import following
from kernels.edits import source_of
from kernels.parameters import ITEM_BYTES

GOALS = {
    "Step through": "compute attention without ever writing the scores S to memory.",
    "Tile sizes": "know how large a tile may be, and what a larger one gains.",
    "Loop order": "see which loop should be the outer one, and what the other order costs.",
    "The paper's algorithm": "find each line of the paper in the kernel.",
}
WORDS = {
    "Step through": "A program keeps a tile of queries on chip, reads keys and values tile by tile, and drops each "
    "tile of S after use. Only the output O goes to memory, and for the backward pass one "
    "number per row: L\u00a0=\u00a0m\u00a0+\u00a0ln\u00a0ℓ.",
    "Tile sizes": "The tiles of one program must fit on chip: Q, K and V in shared memory, S and the output in "
    "registers.\n\n**How large may a tile be?** Press one, and see how full it makes the bars. **Formula** counts each "
    "array once. **Compiler** is what the compiled kernel really uses.",
    "Loop order": "Each square is a tile of S. Its number says when its program visits it.\n\n**FlashAttention-1** "
    "goes down the columns: it loads a tile of keys and values and visits all queries with it. **FlashAttention-2** "
    "goes along the rows: each program owns one row of tiles.\n\nBoth compute the same O. The first reads and writes "
    "O again for each tile of keys; the second reads K and V again for each tile of queries. With "
    "equal tiles the second moves fewer bytes, and its rows run at the same time.",
    "The paper's algorithm": "Algorithm 1 of FlashAttention-2, the forward pass, and the lines of "
    "`kernels/attention.py` that do it. The paper's `B_r` is `BLOCK_M`, its `B_c` is `BLOCK_N`. “…” stands for "
    "addresses and options; *see it* leads to the whole line in the player.",
}
"""The page's views: what each is for, and what it begins with."""


UPDATE = (
    "new m = max(m, largest of S)",
    "α = exp(m − new m)",
    "ℓ = α ℓ + Σ P̃",
    "Õ = α Õ + P̃ V",
    "O = Õ / ℓ   after the last tile",
)
"""What a tile does to each row, and what becomes of the row at the end."""


def introduce(view: str) -> None:
    """A view's goal and first words, below the page's title."""
    layout.introduce(f"**Goal: {GOALS[view]}**\n\n{WORDS[view]}")


def choose(*folded: str) -> None:
    """The attention to step through; its tile sizes and its `folded` parameters can be chosen behind a button."""
    sizes = ("block_m", "block_n", *folded)
    presets = controls.ATTENTION_PRESETS
    controls.controls(lessons.OPENING, ["inputs", "causal"], presets, folded=sizes, followed=True)
    if folded:
        pictures.drawing(formula(UPDATE))


def step_through() -> None:
    """One run in the player, its bytes counted twice, and the same kernel on the GPU."""
    _stepped()
    _faster_from()
    _things_to_try()


@following
def _stepped() -> None:
    experiment = controls.chosen(lessons.OPENING)
    traces = stepper.stepper([experiment], key="flash attention", chapter="flash_attention")
    _bytes(experiment, traces)
    if traces:
        gpu_view.on_device(experiment, traces[0])


@following
def _things_to_try() -> None:
    _ask(Shown(STEP, tuple(stepper.shown([controls.chosen(lessons.OPENING)]))))


@repeated
def _bytes(experiment: Experiment, traces: Sequence[Trace]) -> None:
    """The bytes of standard attention and of FlashAttention, at this run's N and at a long text's."""
    words, picture = layout.sides("HBM bytes: standard attention and FlashAttention")
    with words:
        layout.prose(
            "Standard attention writes S, reads it, writes P and reads it: four trips of N² elements. FlashAttention "
            "never moves S and P. It reads Q once; standard attention reads Q once per tile of keys. The running "
            "maximum m, the running sum ℓ and the unfinished output Õ stay on chip.\n\n"
            "In a short text, standard attention moves mostly Q, K and V. In a long text it moves mostly S and P.\n\n"
            "Every load is counted, as if there were no cache."
        )
        layout.chapter_link("three_numbers", "Three numbers shows what caches save →")
    long = lessons.LONG.through(experiment.kernel).with_(causal=experiment.values["causal"])
    with picture:
        for own in (experiment, long):
            n, m, k, d, dtype = (own.values[name] for name in ("seq_len", "block_m", "block_n", "head_dim", "dtype"))
            both = [(one.entry.title, one.traffic) for one in (own.through("attention_standard"), own)]
            standard_bytes, own_bytes = (formula.read_bytes + formula.written_bytes for _, formula in both)
            more = ratio(standard_bytes / own_bytes)
            st.markdown(
                f"**N = {count(n)}**, d = {d}, {dtype}, tiles {m} × {k}  \n"
                f"Standard attention moves **{more}** the bytes."
            )
            bars = (figures.traffic_bars(both, figures.WITH_SCORES, narrow=one) for one in (False, True))
            pictures.drawing(*bars)
        st.caption(
            "formula · one head · all numbers of a bar are in the format named above it, L in fp32 · "
            "both bars of an N have one scale"
        )
        if traces:
            stepper.traffic_table(experiment, traces[0])


@st.fragment
def _faster_from() -> None:
    """From which N on FlashAttention is faster on the chosen GPU: recorded there, or predicted."""
    if not (shipped := registry.shipped()):
        return
    layout.header("From which length N is FlashAttention faster?")
    told, picture = st.columns([1, 2], gap="large")
    with told:
        gpu = gpu_choice()
    records = tuple(one.record for one in registry.entries()[0] if known_as(one.record.gpu) == gpu.name)
    if (found := _lengths(gpu, records, shipped)) is None:
        return
    answer, drawn, source = found
    with told:
        layout.prose(answer)
        layout.chapter_link("sweeps", "Sweeps: the bytes and times of every N →")
    with picture:
        if drawn:
            pictures.drawing(*drawn)
        st.caption(source)


@kept
def _lengths(gpu: Gpu, records: Sequence[Record], shipped: Sequence[Record]) -> tuple[str, Sequence[str], str] | None:
    """From which N on FlashAttention is faster, its pictures, and where the times come from: the first of `records`
    that has them, else a prediction from the `shipped` ones; None without either.
    """
    measured = next(filter(None, map(lengths.of, records)), None)
    model = fitted(*shipped)
    if measured is not None:
        seconds, source = measured.medians, measured.source
        answer = figures.faster(seconds, measured.setting, gpu)
    elif model is not None:
        seconds = lengths.predicted(model, gpu)
        answer = lengths.predicted_answer(seconds, gpu)
        told = model.told(one for kernel in seconds for one in lengths.experiments(kernel))
        source = f"{told}. To measure your own GPU: `python -m explain measure`"
    else:
        return None
    both = (False, True) if seconds else ()
    return answer, [figures.crossing_chart(seconds, measured is None, narrow=one) for one in both], source


def choose_tile() -> tuple[Experiment, Gpu]:
    """The tile that is compiled, and the GPU that it is compiled for. The address holds the tile's sides."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        gpu = gpu_choice()
        head_dim = st.segmented_control("d", [32, 64, 128], default=64, required=True, key="tile head_dim")
        dtype = st.segmented_control("dtype", list(ITEM_BYTES), default="fp16", required=True, key="tile dtype")
        causal = st.toggle("Causal", key="tile causal")
    of_key = {f"{m}x{n}": (m, n) for m in tiles.SIDES for n in tiles.SIDES}
    block_m, block_n = of_key[pictures.pressed("tile", of_key, "64x64")]
    experiment = tiles.tile(block_m, block_n, head_dim=int(head_dim), dtype=str(dtype), causal=causal)
    pictures.pressable(_tile_grid(experiment, gpu), "tile")
    return experiment, gpu


def tile_sizes(experiment: Experiment, gpu: Gpu) -> None:
    """A tile in a GPU's shared memory and registers, by formula and as compiled; how often K and V are read."""
    head_dim, dtype = experiment.values["head_dim"], experiment.values["dtype"]
    once_compiled(experiment, gpu, lambda answer: _tile_cost(experiment, gpu, answer))
    layout.prose(
        "A program has 4 warps here; with 8 warps a tile has twice the registers. More programs per SM hide waiting, "
        "but with a larger BLOCK_M, K and V are read less often, as the next picture shows."
    )
    own = {one: str(experiment.values[one]).lower() for one in ("block_m", "block_n", "head_dim", "dtype", "causal")}
    layout.chapter_link("tile_cost", "Read the instructions of this tile →", {**own, "gpu": gpu.name})
    reads = tiles.reads(4096, int(head_dim), str(dtype))
    with layout.part(
        "Where N²d²/M comes from",
        "A tile of queries reads all of K and V once: 2Nd elements. There are N / BLOCK_M such tiles.\n\n"
        "M is what fits on chip, in elements. Let BLOCK_N be equal to BLOCK_M, and let the four tiles of Q, K, V and O "
        "take all of it: M = 4 d BLOCK_M. Then K and V cost\n\n"
        "**N / BLOCK_M × 2Nd = 8N²d²/M**\n\n"
        "The tile of S comes on top: BLOCK_M² elements. The paper keeps BLOCK_M ≤ d, so S needs at most M / 4 more. "
        "That changes only the factor 8: theorem 2 of FlashAttention has the same order, Θ(N²d²/M). "
        "With keys in the outer loop the factor is another: Q and O are moved again and again instead.",
    ):
        pictures.drawing(figures.reads_chart(reads))
        st.caption(
            f"formula · N = 4,096, d = {head_dim}, {dtype}, one head, not causal. "
            "M is defined as 4 d BLOCK_M, so the dots lie on the line by definition; it is not a measurement. "
            f"Where BLOCK_M is above d = {head_dim}, S needs more than a quarter of M."
        )
    _ask(Shown(SIZES, experiment=experiment, gpu=gpu, cost=lambda tile: _compiled(tile, gpu)))


def _tile_cost(experiment: Experiment, gpu: Gpu, answer: Answer | None) -> None:
    """A tile in an SM's shared memory and registers by formula, beside the compiler's numbers."""
    cost = answer.cost if answer else None
    drawn = figures.tanks(experiment.values, gpu, cost.launches[0] if cost else None)
    for picture, column in zip(drawn, st.columns(2, gap="large"), strict=True):
        with column:
            pictures.drawing(picture)
    if answer and cost:
        st.markdown(f"{figures.verdict(cost, gpu)}\n\n{figures.registers_told(cost.launches[0], gpu)}")
        st.caption(source(answer))


def _tile_grid(experiment: Experiment, gpu: Gpu) -> str:
    """Programs per SM and spills of every compiled tile with the same dtype, head_dim and mask."""
    answers = {
        (m, n): compiler().look(experiment.with_(block_m=m, block_n=n), gpu.compute_capability)
        for m in tiles.SIDES
        for n in tiles.SIDES
    }
    costs = {side: answer.cost for side, answer in answers.items() if answer and answer.cost}
    p = experiment.values
    wide, narrow = (figures.grid(costs, gpu, (p["block_m"], p["block_n"]), narrow=narrow) for narrow in (False, True))
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def _compiled(tile: Experiment, gpu: Gpu) -> LaunchCost:
    answer = compiler().look(tile, gpu.compute_capability)
    if answer is None or answer.cost is None:
        p = tile.values
        raise ValueError(f"The tile {p['block_m']} × {p['block_n']} is not compiled yet. Choose it, and compile it.")
    return answer.cost.launches[0]


ORDERS = ("FlashAttention-1: outer loop over keys", "FlashAttention-2: outer loop over queries")


def _both_orders() -> list[Experiment]:
    """The chosen run and the first FlashAttention's before it."""
    experiment = controls.chosen(lessons.OPENING)
    return [lessons.first_order(experiment), experiment]


@following
def order_of_tiles() -> None:
    """The order in which both kernels visit the tiles of S."""
    runs = _both_orders()
    traced = stepper.traced(runs)
    if len(traced) == len(runs):
        found = [(title, visits(*one)) for title, one in zip(ORDERS, traced, strict=True)]
        pictures.drawing(figures.visit_grids(found), figures.visit_grids(found, narrow=True))
        st.caption(
            "trace · order and writes of O, read from both runs; the small grid in the player shows the tile now"
        )


@following
def loop_order() -> None:
    """The first FlashAttention beside the second on the same input, and what happens to O."""
    runs = _both_orders()
    traces = stepper.stepper(runs, key="loop order", chapter="flash_attention", titles=list(ORDERS))
    pairs = tuple(zip(runs, traces, strict=False))
    if len(pairs) == len(runs):
        _cost_of_order(runs, pairs)
    _ask(Shown(ORDER, pairs))


def _cost_of_order(runs: Sequence[Experiment], pairs: Runs) -> None:
    with layout.part(
        "What the order costs",
        "**Outer loop over keys:** each column visits the same rows again. So O, m and ℓ of a row are read from HBM "
        "and written back once per tile of keys. After the last tile lse is written instead of m and ℓ.\n\n"
        "**Outer loop over queries:** O, m and ℓ stay on chip until they are done. The price: K and V are read once "
        "per tile of queries.\n\nBefore the launch, FlashAttention-1 also sets O and ℓ to 0 and m to −∞ in HBM. These "
        "writes are not counted here.",
    ):
        formulas = [(one.entry.title, one.traffic) for one in runs]
        bars = (figures.traffic_bars(formulas, figures.GROUPS, narrow=one) for one in (False, True))
        pictures.drawing(*bars)
        with st.expander("The same in numbers, by formula and by trace"):
            st.markdown(figures.shares_table(pairs))


def paper_algorithm() -> None:
    """FlashAttention-2's algorithm 1 beside the kernel."""
    (run,) = stepper.traces_of([lessons.OPENING])
    table = figures.algorithm_table(
        paper.ALGORITHM, source_of("kernels.attention"), lambda lines: paper.steps(run, lines) if run else {}
    )
    with st.container(key="lines of code"):
        st.markdown(table, unsafe_allow_html=True)
    layout.header("Not in the paper")
    for column, words in zip(st.columns(3, gap="large"), paper.NOT_IN_THE_PAPER, strict=True):
        with column:
            layout.prose(words)
    _ask(Shown(PAPER, experiment=lessons.OPENING))


def _ask(shown: Shown) -> None:
    """Things to try."""
    if shown.runs or shown.experiment:
        keys = [one.key for one in [*(experiment for experiment, _ in shown.runs), shown.experiment] if one]
        ask("flash_attention", QUESTIONS, shown, f"{shown.view} {keys} {shown.gpu and shown.gpu.name}")
