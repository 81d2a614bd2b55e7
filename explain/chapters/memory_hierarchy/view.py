"""The page Memory hierarchy, part by part."""

from __future__ import annotations

import psutil
import streamlit as st

from explain import lessons
from explain.chapters.memory_hierarchy import exercises, figures
from explain.experiment import Experiment
from explain.figures.numbers import capacity, count, moved, number, percent
from explain.gpus import LIMITS, Gpu
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from explain.ui.repeat import repeated
from explain.ui.rerun import following

HEADS = 16
"""How many heads the sizes of S and P are also given for."""


def choose() -> tuple[Gpu, bool]:
    """The GPU, and whether its sizes and times are drawn on a logarithmic scale."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
        gpu = gpu_choice()
        return gpu, controls.pick("Scale", ("To scale", "Logarithmic"), "scale") == "Logarithmic"


def capacities(gpu: Gpu, logarithmic: bool) -> None:
    """How many bytes fit at each level: the words below the page's goal, the picture below its controls."""
    with layout.below_goal():
        layout.header("Where does a number live?")
        layout.prose(
            f"The {gpu.name} computes in {gpu.sms} streaming multiprocessors (SMs). Each SM has its own registers and "
            "its own shared memory, which the papers call **SRAM**. Here **on chip** means these two. All SMs share "
            f"the L2 cache. {figures.farthest(gpu)} lies beside the chip.\n\n"
            "A kernel runs in many copies, called programs. Each runs on one SM and may use "
            f"**{moved(gpu.shared_bytes)}** ({capacity(gpu.shared_bytes)}) of its "
            f"{moved(gpu.shared_bytes_sm)} of shared memory; the system keeps the rest. So a program takes "
            "its matrices piece by piece. One piece, a tile, must fit there."
        )
    if logarithmic:
        pictures.drawing(figures.sizes_log(gpu))
    else:
        pictures.drawing(figures.sizes(gpu), figures.sizes(gpu, narrow=True))


@repeated
def load_times(gpu: Gpu, logarithmic: bool) -> None:
    """How long a load from each level takes."""
    how = (
        f"We slow the clock down: {number(figures.REGISTER_CYCLES)} cycles become 1 second. For each bar, one "
        "thread loads one value and waits for it; nothing else is under way. Registers need no load: their bar is one "
        "operation on them. Host memory is the RAM of the CPU.\n\n"
    )
    with layout.part(
        "How long does a load take?",
        f"{how if gpu.latencies else ''}A kernel hides much of the wait: other programs go on while one waits. "
        f"But the bytes still have to pass: at most {moved(gpu.hbm_bytes_per_second)} a second between {gpu.hbm} and "
        "the chip. **The fewer bytes cross, the faster a kernel can be.**",
    ):
        if gpu.latencies:
            bars = (figures.times(gpu, _host_bytes(), logarithmic=logarithmic, narrow=one) for one in (False, True))
            pictures.drawing(*bars)
            st.caption(figures.latency_sources(gpu))
        else:
            st.info(f"No latency of the {gpu.name} is published. Choose another GPU to see what a load costs.")


def choose_run() -> None:
    """Controls for one run of standard attention."""
    with layout.part(
        "Follow the bytes of one run",
        "S = QKᵀ / √d, P = softmax(S), O = PV. Standard attention does one after the other. Each of the three steps "
        "is one launch. Nothing stays in shared memory or registers from one launch to the next. A small S may "
        "stay in L2; a large one goes through HBM. Here are 64 tokens, to step through.",
    ):
        controls.controls(
            lessons.STANDARD,
            ["inputs", "seq_len", "block_m", "block_n"],
            controls.ATTENTION_PRESETS,
            folded=["kv_len", "dtype", "causal"],
            followed=True,
        )


@following
def one_run(gpu: Gpu) -> None:
    """The run in the player, every trip of its data to HBM, and what the page says and asks about it."""
    experiment = controls.chosen(lessons.STANDARD)
    traces = stepper.stepper([experiment], key="standard attention", chapter="memory_hierarchy")
    if traces:
        _trips(experiment, traces[0])
    tiled_reads(experiment, traces)
    closing(gpu, experiment, traces)


@repeated
def _trips(experiment: Experiment, trace: Trace) -> None:
    """Every trip to HBM, and which share of the bytes S and P are."""
    own, long = figures.share_of_scores(experiment), figures.share_of_scores(lessons.LONG)
    at = lessons.LONG.values
    with layout.part(
        "Every trip to HBM, counted",
        "Launch 1 writes S. Launch 2 reads S back, takes the softmax of its rows and writes P. Launch 3 reads P "
        "back. S and P have a row for each query and a column for each key. Each is written once, read once and "
        f"thrown away.\n\nIn this run, in {experiment.values['dtype']}, they are **{percent(own)}** of the bytes. "
        "Q, K, V and O are the rest: small tiles read Q, K and V again and again. Larger tiles read them less "
        f"often, and S and P move as before. At N = {count(at['seq_len'])}, d = {at['head_dim']}, {at['dtype']}, "
        f"with tiles of {at['block_m']} × {at['block_n']}, S and P are **{percent(long)}**.",
    ):
        wide, narrow = (figures.trips_picture(experiment, trace, narrow=one) for one in (False, True))
        pictures.drawing(wide, narrow)
        st.markdown(figures.trips_total(experiment, trace))


@repeated
def tiled_reads(experiment: Experiment, traces: list[Trace]) -> None:
    """How often a tiled matmul reads each element."""
    with layout.part(
        "How do tiles save trips?",
        "One program of launch 1 makes one tile of S. It needs some rows of Q and some rows of K, each with all d "
        "numbers. It loads both once, keeps them on chip, and uses each element many times. A row of Q is loaded again "
        "for every tile of keys, a row of K for every tile of queries, so **larger tiles read less**. With tiles of 1 "
        "× 1 a row of Q would be loaded once for every key, and a row of K once for every query.",
    ):
        pictures.drawing(figures.matmul(experiment.values))
        if traces:
            st.markdown(figures.product_reads(experiment, traces[0]))


@st.fragment
def scores(gpu: Gpu) -> None:
    """How S and P outgrow everything else as N grows."""
    words, drawn = layout.sides("What does this mean for attention?")
    with words:
        layout.prose(
            "Attention makes two large matrices, S and P. Q, K, V and O have a row for each token. S and P have a row "
            "and a column for each token, so they grow with N²."
        )
        seq_len = st.select_slider("N, tokens", exercises.LENGTHS, value=8192, key="scores of", format_func=count)
        layout.prose(figures.fate_of_scores(seq_len, "fp16", HEADS, gpu))
        st.markdown(figures.scores_table(seq_len, 64, "fp16", HEADS, gpu))
        st.caption(
            "formula · fp16, d = 64, one sequence · time: Q, K, V read once, O written once; S and P written and read"
        )
    with drawn:
        wide, narrow = (figures.scores(seq_len, 64, "fp16", gpu, narrow=one) for one in (False, True))
        pictures.drawing(wide, narrow)


def closing(gpu: Gpu, experiment: Experiment, traces: list[Trace]) -> None:
    """Things to try, questions, sources."""
    if traces:
        shown = exercises.Shown(gpu, experiment, traces[0])
        ask("memory_hierarchy", exercises.QUESTIONS, shown, f"{experiment.key} {gpu.name}")
    kilo = f"1 kB is 1,000 bytes; vendors write {capacity(gpu.shared_bytes)} for {moved(gpu.shared_bytes)}"
    layout.closing("memory_hierarchy", gpu.source, LIMITS, kilo)


def _host_bytes() -> int:
    """The memory of the machine that runs Tilescope."""
    return int(psutil.virtual_memory().total)
