"""The page The papers, reproduced, panel by panel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st

from explain.chapters.papers import exercises, figures, flashattention, milakov
from explain.experiment import Experiment
from explain.figures import lines
from explain.figures.numbers import count, moved
from explain.records.model import Record
from explain.records.registry import Shelved
from explain.ui import layout
from explain.ui.charts import chart, image_format
from explain.ui.exercises import ask
from explain.ui.records import records_choice
from explain.ui.stepper import traces_of

Drawing = TypeVar("Drawing")
COUNTERS = "GPU counters, from a cold L2"
_FIGURES = {f"{figure.number}: {figure.title}": figure for figure in milakov.FIGURES}


def choose() -> list[Shelved]:
    """The GPUs whose measurements the page shows beside the papers' figures."""
    records, pictures = st.columns([3, 1], vertical_alignment="top")
    with records:
        chosen = records_choice()
    with pictures:
        image_format()
    if not chosen:
        st.info(
            "No GPU's measurements are chosen. The page shows the papers' numbers, the formulas and the traces.",
            icon=":material/info:",
        )
    return chosen


def softmax_and_top_k(chosen: Sequence[Shelved]) -> None:
    """Milakov & Gimelshein: accesses per element, and figures 1 to 4."""
    st.header("Memory accesses per element", anchor=False)
    layout.prose(
        "Milakov & Gimelshein argue with one number per kernel: its memory accesses per element. A formula gives it, "
        "and the trace counts it, load by load, while the kernel runs."
    )
    _accesses()
    st.header("Figures 1 to 4: the speedup from fewer accesses", anchor=False)
    title = st.segmented_control(
        "Figure",
        list(_FIGURES),
        default=next(iter(_FIGURES)),
        required=True,
        key="figure",
        bind="query-params",
        wrap=True,
    )
    layout.prose(
        f"The paper measured on a {milakov.THEIR_GPU} and prints curves without numbers. These are its sentences. "
        "Where they state a speedup, it is drawn grey and dashed:"
    )
    figure = _FIGURES[str(title)]
    st.markdown("\n".join(f"- {said.words}, {said.where}" for said in figure.said))
    shown = _measured(chosen, tuple(figure.experiments()), "milakov")
    if shown:
        _pair(f"figure {figure.number}", shown, lambda records: figures.rates(figure, records))
        _source(shown, "medians, L2 cleared before each run")
    if figure.number == 1:
        _knee(shown)
    if figure.number == 3 and shown:
        _larger_k(shown)
    layout.prose(
        f"**What differs.** *The program*: the paper's has {milakov.THEIR_THREADS} threads per row, and each thread "
        f"keeps its own pair (m, ℓ) to the end. Ours has {milakov.THREADS} and joins them after every tile of up to "
        f"{count(milakov.LARGEST_TILE)} elements. *Top-k*: the paper's kernel inserts one element at a time and "
        "rejects most at once. Ours takes the K largest of every tile, at the same cost for any data. *The data*: the "
        "paper's is uniform between 0 and 1, ours is normal; our kernels do the same work on both. *The largest V*: "
        f"with 4,000 rows V = {count(milakov.FIGURES[0].lengths[-1])}, a matrix of "
        f"{moved(milakov.FIGURES[0].largest_bytes)}; with 10 rows V = {count(milakov.FIGURES[1].lengths[-1])}."
    )


def _accesses() -> None:
    """Accesses per element: the paper's, by formula, and counted in our kernels' traces."""
    with st.container(key="numbers of accesses"):
        st.markdown(figures.accesses(_counted_accesses()))
    st.caption(
        "formula and trace · one row of 64 elements in four tiles, K = 5 · loads and stores in HBM per element, "
        "without the final list of K weights and columns"
    )


def _counted_accesses() -> dict[str, float | None]:
    """Accesses per element of each of the paper's kernels, from its trace; None without a trace."""
    experiments = {kernel: milakov.counting(kernel) for kernel in milakov.PAPERS_ACCESSES}
    traces = traces_of(list(experiments.values()))
    return {
        kernel: None if trace is None else milakov.accesses(experiment, trace.traffic())
        for (kernel, experiment), trace in zip(experiments.items(), traces, strict=True)
    }


def _knee(shown: Sequence[Shelved]) -> None:
    """Figure 1: from which V on fewer passes are faster, and the reads from DRAM and L2 that explain it."""
    for one in _measured(shown, milakov.COUNTED, "milakov-counters", counters=True):
        layout.prose(f"**The knee moves.** {figures.knee_words(one.record)}")
        _pair("knee", [one], lambda records: figures.knee(*records.values()))
        _source([one], COUNTERS)


def _larger_k(shown: Sequence[Shelved]) -> None:
    """Figure 3: what limits the fused kernels, and their speedup by K."""
    for words in filter(None, (figures.topk_words(one.record) for one in shown)):
        layout.prose(
            f"**The limit.** {words} The paper's way of fusing, and safe softmax, then top-k, take the K largest of "
            "every tile: K times a maximum over all lanes. Lanes wait for each other, not for bytes. In *lanes* each "
            "lane keeps its own list until the row ends."
        )
    layout.prose(
        "**Larger K.** A longer list costs more. In the paper's kernel, and in the one that fuses like it, this cost "
        "cancels the gain of fusing. *Lanes* makes the list once per row, so its speedup grows: the two launches it is "
        "compared with become slower."
    )
    with st.container(key="numbers of larger k"):
        st.markdown(figures.larger_k(_records(shown)))
    tiles = " ".join(filter(None, (figures.tiles_words(one.record) for one in shown)))
    st.caption(f"Speedup over safe softmax, then top-k. Ours: V = {count(milakov.LONG)}; the paper names no V. {tiles}")


def figure_2(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's figure 2: FLOPs, bytes and time of GPT-2 medium, the forward pass alone, the block sizes."""
    st.header("GPT-2 medium, forward and backward", anchor=False)
    layout.prose(
        "Figure 2 of FlashAttention makes the paper's point: more FLOPs, fewer bytes, less time. The paper measured "
        f"on an {flashattention.THEIR_GPU}. Here are the same sizes with PyTorch's own calls: matmul, softmax, matmul "
        "with their gradients, and its FlashAttention-2."
    )
    for one in _measured(chosen, flashattention.COUNTED, "flashattention"):
        with st.container(key=f"numbers of figure 2 {one.key}"):
            st.markdown(figures.table_2(one.record))
        _source([one], f"forward and backward, fp16, no mask, no dropout; DRAM by {COUNTERS}")
        layout.prose("**The forward pass alone**, our kernels beside PyTorch's.")
        with st.container(key=f"numbers of forward {one.key}"):
            st.markdown(figures.forward_table(one.record))
        layout.prose(
            "**Figure 2, middle: larger blocks, fewer bytes.** The paper's bytes fall from B = 64 to 512, and its time "
            "up to 256. Beyond that, the paper says (section 3.2), other factors limit the time, such as arithmetic."
        )
        _pair("blocks", [one], lambda records: figures.blocks(*records.values()))
        _source([one], "our kernels, forward, figure 2's sizes; the tile's other side is B too, but at most d = 64")
    layout.prose(
        "**What differs.** ¹ *FLOPs*: each matmul has 2 N² d per head. Standard attention has 6 of them, "
        "FlashAttention has 7, because it recomputes S in the backward pass. The paper's column is about 12 times "
        "lower for both; its author said that it may be off by a factor (github.com/Dao-AILab/flash-attention, issue "
        "741). The ratio 7 to 6 is close to the paper's. *Bytes*: **minimum** means that each step reads its operands "
        "once and writes its results once. The paper's 40.3 GB includes masking and dropout, which write more N² "
        "matrices. In the backward pass PyTorch's FlashAttention sums dQ in float32, which is more than the minimum. "
        "*FlashAttention-1 at B = 64* moves about as many bytes as standard attention: it loads and stores O in "
        "float32 at every tile of keys. The middle figure shows that larger tiles move fewer bytes; above 128 rows our "
        "tile no longer fits the registers. *The version*: PyTorch has FlashAttention-2, with queries in the outer "
        "loop. The paper measured FlashAttention-1."
    )


def theorem_2(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's theorem 2, as measured slopes of bytes."""
    st.header("Theorem 2 as slopes", anchor=False)
    layout.prose(
        "Theorem 2: with an on-chip memory of M elements, standard attention needs Θ(Nd + N²) accesses to HBM, "
        "FlashAttention Θ(N² d² / M). On logarithmic axes a power is a slope: −1 over M at a fixed N, 2 over N at a "
        "fixed M. The proof takes tiles of B = M / 4d rows, so B stands for M."
    )
    for one in _measured(chosen, flashattention.COUNTED, "flashattention", counters=True):
        _pair("theorem 2", [one], lambda records: figures.theorem(*records.values()))
        with st.container(key=f"numbers of slopes {one.key}"):
            st.markdown(figures.slopes(one.record))
        _source([one], f"{COUNTERS}; slope of a line fitted to the logarithms. {figures.spills_words(one.record)}")
    layout.prose(
        "**What differs.** The theorem has two levels of memory; a GPU also has caches. The theorem's accesses to HBM "
        "are the kernel's loads and stores. They show **between L2 and the SMs**, and there the slopes are the "
        "theorem's. **DRAM** sees less. L2 keeps K and V, which all programs of a head read, so FlashAttention-2 "
        "reads Q, K and V from DRAM once: its DRAM bytes grow with N, not N², and do not depend on the tile. "
        "FlashAttention-1 loads and stores O at every visit. While O fits L2 the slope is 1; beyond that all of it "
        "goes to DRAM: the bytes jump, and no slope describes them. Standard attention's S and P exceed L2 "
        "early. On the shortest sequences L1 also saves some reads, so a slope can exceed 2. Each curve also has "
        "bytes that are read or written once, which Θ leaves out."
    )


def time_and_memory(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's tables 20 and 21."""
    st.header("Tables 20 and 21: time and memory over N", anchor=False)
    layout.prose(
        f"Forward and backward pass, 16 sequences of 8 heads, d = 64, on an {flashattention.THEIR_GPU}. Standard "
        "attention keeps N² matrices for the backward pass, so its memory has slope 2. FlashAttention keeps O and one "
        "logsumexp per row: slope 1."
    )
    for one in _measured(chosen, flashattention.TIMED, "flashattention-memory"):
        _pair("tables 20 and 21", [one], lambda records: figures.tables(*records.values()))
        _source(
            [one],
            "16 sequences, 8 heads, d = 64, fp16, forward and backward; memory: torch's allocator, with Q, K, V and dO",
        )
    layout.prose(
        "**What differs.** *Memory*: the paper's GPU was full after N = 4,096. A larger GPU continues with the same "
        "slope. Both counts include Q, K, V and the gradient of O. The framework decides how many N² matrices exist "
        "at once; where both GPUs' lines coincide, its versions agree. *Time*: a newer GPU has more bandwidth and "
        "more FLOP/s, so both lines move down; the paper is about the distance between them. On short sequences the "
        "launches of standard attention take longer than their work, and its lines are flat."
    )


def memory_hierarchy(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's figure 1, left, beside the measured roofs."""
    st.header("Figure 1: the memory hierarchy", anchor=False)
    layout.prose(
        "The pyramid on FlashAttention's first page: 20 MB of SRAM at 19 TB/s, 40 GB of HBM at 1.5 TB/s, host memory "
        "at 12.8 GB/s. The paper's numbers are an A100's specifications. Ours are measured with kernels that only "
        "move bytes. Each mark of the axis is ten times the previous one."
    )
    shown = [one for one in chosen if one.record.roofs]
    if chosen and not shown:
        _not_measured("Roofs are not measured on this GPU.", "roofs")
    for one in shown:
        picture = _drawn("hierarchy", [one], lambda records: figures.hierarchy(*records.values()))
        chart(picture, f"memory hierarchy, {one.label}", lines.as_csv(picture), alt="Bandwidth and size of each level")
        _source([one], "micro-benchmarks")
        with st.expander("How each bandwidth was measured"):
            st.markdown("\n".join(f"- **{roof.level}**: {roof.method}" for roof in one.record.roofs.values()))
    layout.prose(
        "**What differs.** The pyramid leaves out L2. L2 is between SRAM and HBM in size and bandwidth, and in the "
        "other panels it explains why a kernel requests more bytes than DRAM delivers. SRAM is the shared memory of "
        "all SMs together. The paper's 20 MB are an A100's shared memory and L1, which are one memory: 108 × 192 KiB "
        "= 20.3 MiB."
    )


def closing(panel: str, chosen: Sequence[Shelved]) -> None:
    """Things to try, sources."""
    record = chosen[0].record if chosen else None
    known = {} if panel != exercises.SOFTMAX else {k: found for k, found in _counted_accesses().items() if found}
    ask("papers", exercises.QUESTIONS, exercises.Shown(panel, record, known), f"{panel} {chosen and chosen[0].key}")
    layout.sources(milakov.SOURCE, f"{flashattention.SOURCE}, figures 1 and 2, theorem 2, appendix E.6")


def _measured(
    chosen: Iterable[Shelved], experiments: Sequence[Experiment], plan: str, *, counters: bool = False
) -> list[Shelved]:
    """The records that have some of the experiments. Names the others, and the command that measures them."""
    shown = []
    for one in chosen:
        points = filter(None, (one.record.point(experiment) for experiment in experiments))
        if any(point.counters if counters else point.timing or point.counters for point in points):
            shown.append(one)
        else:
            _not_measured(f"Not measured: {one.label}.", plan)
    return shown


def _not_measured(what: str, plan: str) -> None:
    st.info(f"{what} To measure: `python -m explain measure --plan {plan}`", icon=":material/info:")


def _records(shown: Sequence[Shelved]) -> dict[str, Record]:
    names = [figures.short(one.record) for one in shown]
    alone = len(set(names)) == len(names)
    return {name if alone else one.label: one.record for name, one in zip(names, shown, strict=True)}


def _pair(name: str, shown: Sequence[Shelved], draw: Callable[[dict[str, Record]], figures.Pair]) -> None:
    """Two charts beside each other."""
    labels = ", ".join(one.label for one in shown)
    for picture, column in zip(_drawn(name, shown, draw), st.columns(2, gap="large"), strict=True):
        with column:
            title = picture.layout.title.text
            chart(picture, f"{name}, {title}, {labels}", lines.as_csv(picture), alt=title)


def _drawn(name: str, shown: Sequence[Shelved], draw: Callable[[dict[str, Record]], Drawing]) -> Drawing:
    """A drawing of these records, made once for all sessions."""
    records = _records(shown)
    drawing: Drawing = _kept(name, tuple(records), tuple(map(id, records.values())), records, draw)[1]
    return drawing


@st.cache_resource(max_entries=64, show_spinner=False)
def _kept(
    name: str, labels: Sequence[str], ids: Sequence[int], _records: dict[str, Record], _draw: Callable[..., Any]
) -> Any:
    return _records, _draw(_records)  # the cache holds the records, so no other record gets their ids


def _source(shown: Sequence[Shelved], how: str) -> None:
    st.caption(f"{'; '.join(one.source for one in shown)} · {how}")
