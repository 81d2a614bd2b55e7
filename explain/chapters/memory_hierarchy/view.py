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


def choose() -> tuple[Gpu, bool]:
    """The GPU, and whether its sizes and times are drawn on a logarithmic scale."""
    gpu_side, scale_side = st.columns([3, 1])
    with gpu_side:
        gpu = gpu_choice()
    return gpu, controls.pick("Scale", ("To scale", "Logarithmic"), "scale", place=scale_side) == "Logarithmic"


def capacities(gpu: Gpu, logarithmic: bool) -> None:
    """How many bytes fit at each level."""
    with layout.part(
        "Where does a number live?",
        f"The {gpu.name} computes in {gpu.sms} SMs. Each SM has its own registers and its own shared memory: "
        f"**{moved(gpu.shared_bytes_all)}** of shared memory in all, which the papers call **SRAM**. All SMs share "
        f"the L2 cache. {gpu.hbm} lies outside the chip.\n\n"
        "A kernel runs in many copies, called programs. Each runs on one SM and may use up to "
        f"**{moved(gpu.shared_bytes)}** of shared memory. So a program takes its matrices piece by piece. One "
        "piece, a tile, must fit there.\n\n"
        "Here 1 kB is 1,000 bytes. Makers give on-chip sizes in KiB: "
        f"{capacity(gpu.shared_bytes)} is {moved(gpu.shared_bytes)}.",
    ):
        if logarithmic:
            pictures.drawing(figures.sizes_log(gpu, _host_bytes()))
        else:
            pictures.drawing(figures.sizes(gpu), figures.sizes(gpu, narrow=True))


def load_times(gpu: Gpu, logarithmic: bool) -> None:
    """How long a load from each level takes."""
    how = (
        f"Here {number(figures.REGISTER_CYCLES)} clock cycles count as one second: the time of one operation on "
        "registers that needs the result of the one before. One thread loads a value and waits for it; nothing else "
        "is under way.\n\n"
    )
    with layout.part(
        "How long does a load take?",
        f"{how if gpu.latencies else ''}A kernel hides much of the wait: other programs go on while one waits. "
        f"It cannot hide the bytes: at most {moved(gpu.hbm_bytes_per_second)} pass between {gpu.hbm} and "
        "the chip in a second. **The fewer bytes go to HBM, the faster a kernel can be.**",
    ):
        if gpu.latencies:
            pictures.drawing(figures.times(gpu, _host_bytes(), logarithmic=logarithmic))
            st.caption(figures.latency_sources(gpu))
        else:
            st.info(f"No latency of the {gpu.name} is published. Choose another GPU to see what a load costs.")


def standard_attention() -> tuple[Experiment, list[Trace]]:
    """Standard attention in the player, and every trip of its data to HBM."""
    with layout.part(
        "Follow the bytes of one run",
        "Attention gives each query a mean of all values, weighted by the softmax of its scores: S = QKᵀ / √d, P = "
        "softmax(S), O = PV. Standard attention does one after the other, each in a launch of its own. Nothing stays "
        "on chip from one launch to the next: S and P go through HBM. Here are 64 tokens, to step through.",
    ):
        experiment = controls.controls(
            lessons.STANDARD,
            ["inputs", "seq_len", "block_m", "block_n"],
            controls.ATTENTION_PRESETS,
            folded=["kv_len", "dtype", "causal"],
        )
    traces = stepper.stepper([experiment], key="standard attention", chapter="memory_hierarchy")
    if traces:
        terms = experiment.entry.formula(experiment.values).terms
        share = sum(term.bytes for term in terms if term.buffer in "sp") / sum(term.bytes for term in terms)
        with layout.part(
            "Every trip to HBM, counted",
            "Launch 1 multiplies and writes S. Launch 2 reads S back, takes the softmax of its rows and writes P. "
            "Launch 3 reads P back and multiplies it by V. S and P have a row for each query and a column for each "
            "key. Each is written once, read once and thrown away.\n\nOf the bytes that this run moves, S and P are "
            f"**{percent(share)}**. Q, K and V take the rest, because every tile reads them again: larger tiles read "
            "them less often, S and P move as before.",
        ):
            st.markdown(figures.trips_table(experiment, traces[0]))
    return experiment, traces


def tiled_reads(experiment: Experiment, traces: list[Trace]) -> None:
    """How often a tiled matmul reads each element."""
    st.header("How do tiles save trips?", anchor=False)
    tiled, table = st.columns([2, 3], gap="large")
    with tiled:
        pictures.drawing(figures.matmul(experiment.values))
    with table:
        layout.prose(
            "One program of launch 1 makes one tile of S. It needs a tile of Q and a tile of K, whole along d: it "
            "loads both once, keeps them on chip, and uses each element many times. A row of Q is loaded again for "
            "every tile of keys, a row of K for every tile of queries, so **larger tiles read less**. With tiles of 1 "
            "× 1 a row of Q would be loaded once for every key, and a row of K once for every query."
        )
        if traces:
            st.markdown(figures.product_reads(experiment, traces[0]))


@st.fragment
def scores(gpu: Gpu) -> None:
    """How S and P outgrow everything else as N grows."""
    words, drawn = layout.sides("What does this mean for attention?")
    with words:
        layout.prose(
            "Attention makes two large matrices, S and P. Q, K, V and O have a row for each token. S and P have a row "
            "and a column for each token, so they grow with N². They do not fit on the chip, and standard attention "
            "sends both through HBM."
        )
        seq_len = st.select_slider("N, tokens", exercises.LENGTHS, value=4096, key="scores of", format_func=count)
        st.markdown(figures.scores_table(seq_len, 64, "fp16", 16, gpu))
        st.caption("formula · fp16, d = 64, one sequence")
    with drawn:
        wide, narrow = (figures.scores(seq_len, 64, "fp16", gpu, narrow=one) for one in (False, True))
        pictures.drawing(wide, narrow)


def closing(gpu: Gpu, experiment: Experiment, traces: list[Trace]) -> None:
    """Things to try, questions, sources."""
    if traces:
        shown = exercises.Shown(gpu, experiment, traces[0])
        ask("memory_hierarchy", exercises.QUESTIONS, shown, f"{experiment.key} {gpu.name}")
    layout.closing("memory_hierarchy", gpu.source, LIMITS)


def _host_bytes() -> int:
    """The memory of the machine that runs Tilescope."""
    return int(psutil.virtual_memory().total)
