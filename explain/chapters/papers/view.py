"""The papers' panels on a page: what one of the shown GPUs' records says, beside what the paper does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st

from explain.chapters.papers import figures, flashattention, milakov
from explain.chapters.three_numbers.levels import amount
from explain.experiment import Experiment
from explain.figures import lines
from explain.records.model import Record
from explain.records.registry import Shelved
from explain.ui import layout
from explain.ui.charts import chart, image_format
from explain.ui.records import records_choice
from explain.ui.stepper import traces_of

Drawing = TypeVar("Drawing")
MEASURE = "python -m explain measure --plan {}"


def paper_records() -> list[Shelved]:
    """The GPUs whose measurements stand beside the papers' figures; says so where there is none."""
    records, pictures = st.columns([3, 1], vertical_alignment="top")
    with records:
        chosen = records_choice()
    with pictures:
        image_format()
    if not chosen:
        st.info(
            "No GPU's measurements are shown, so what follows is the papers' side, the formulas and the traces.",
            icon=":material/info:",
        )
    return chosen


def paper_accesses() -> None:
    """Milakov & Gimelshein's accesses an element, counted on our kernels."""
    kernels = list(milakov.PAPERS_ACCESSES)
    experiments = [milakov.counting(kernel) for kernel in kernels]
    traces = traces_of(experiments)
    counted = {
        kernel: None if trace is None else milakov.accesses(experiment, trace.traffic())
        for kernel, experiment, trace in zip(kernels, experiments, traces, strict=True)
    }
    with st.container(key="numbers of accesses"):
        st.markdown(figures.accesses(counted))
    st.caption(
        "formula and trace · one row of 64 elements in four tiles, K = 5; loads from and stores to HBM for each element, without the list of K weights and "
        "columns that is stored in the end"
    )


def paper_figure(figure: milakov.Figure, chosen: Sequence[Shelved]) -> None:
    """One of Milakov & Gimelshein's figures, its sentences, and what the counters say of it."""
    st.markdown("\n".join(f"- {said.words}, {said.where}" for said in figure.said))
    wanted = tuple(figure.experiments())
    shown = _with_points(chosen, wanted, "milakov")
    if shown:
        _pair(f"figure {figure.number}", shown, lambda records: figures.rates(figure, records))
        _source(shown, "medians, L2 cleared before each run")
    if figure.number == 1:
        for one in _with_points(shown, milakov.COUNTED, "milakov-counters", counters=True):
            layout.prose(f"**The knee moves.** {figures.knee_words(one.record)}")
            _pair("knee", [one], lambda records: figures.knee(*records.values()))
            _source([one], "counters of the GPU, L2 cold at first")
    if figure.number == 3 and shown:
        for words in filter(None, (figures.topk_words(one.record) for one in shown)):
            layout.prose(
                f"**What holds it back.** {words} The ladder's kernels take the K largest of every tile, K times a maximum over all its lanes: they wait for one another, not for bytes, and so "
                "does the two-launch kernel that they are compared with. In *lanes* each lane keeps to itself until the row has ended."
            )
        layout.prose(
            "**Larger K.** A list costs more the longer it is. In the paper's kernel, and in the ladder's, that eats up the gain of fusing. In *lanes* the list is made once a row, so that the gain "
            "grows: it is the two launches beside it that slow down."
        )
        with st.container(key="numbers of larger k"):
            st.markdown(figures.larger_k(_records(shown)))
        said = " ".join(filter(None, (figures.tiles_words(one.record) for one in shown)))
        st.caption(f"V = {milakov.LONG:,} on our side; the paper does not say at which V. {said}")


def paper_figure_2(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's figure 2: its table, the forward pass by itself, the block sizes."""
    for one in _with_points(chosen, flashattention.COUNTED, "flashattention"):
        with st.container(key=f"numbers of figure 2 {one.key}"):
            st.markdown(figures.table_2(one.record))
        _source(
            [one], "forward and backward, fp16, no mask and no dropout; DRAM by the GPU's counters, L2 cold at first"
        )
        layout.prose("**The forward pass by itself**, where our own kernels stand beside PyTorch's.")
        with st.container(key=f"numbers of forward {one.key}"):
            st.markdown(figures.forward_table(one.record))
        layout.prose(
            "**Figure 2, middle: larger blocks, fewer bytes.** The paper's curve falls from B = 64 to 512, and its time with it up to 256; "
            "beyond, the paper says (section 3.2), the time is bottlenecked by other factors, such as arithmetic."
        )
        _pair("blocks", [one], lambda records: figures.blocks(*records.values()))
        _source([one], "our kernels, forward, at figure 2's sizes; the other side of the tile is B too, at most d = 64")


def paper_theorem(chosen: Sequence[Shelved]) -> None:
    """Theorem 2 as measured slopes."""
    for one in _with_points(chosen, flashattention.COUNTED, "flashattention", counters=True):
        _pair("theorem 2", [one], lambda records: figures.theorem(*records.values()))
        with st.container(key=f"numbers of slopes {one.key}"):
            st.markdown(figures.slopes(one.record))
        _source(
            [one],
            f"counters of the GPU, L2 cold at first; a slope is that of the line through the logarithms. {figures.spills_words(one.record)}",
        )


def paper_tables(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's tables 20 and 21."""
    for one in _with_points(chosen, flashattention.TIMED, "flashattention-memory"):
        _pair("tables 20 and 21", [one], lambda records: figures.tables(*records.values()))
        _source(
            [one],
            "16 sequences, 8 heads, d = 64, fp16, forward and backward; memory of torch's allocator with Q, K, V and dO",
        )


def paper_hierarchy(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's figure 1, left, beside the measured roofs."""
    shown = [one for one in chosen if one.record.roofs]
    if chosen and not shown:
        st.info(f"The roofs were not measured on this GPU: `{MEASURE.format('roofs')}` does.", icon=":material/info:")
    for one in shown:
        picture = _drawn("hierarchy", [one], lambda records: figures.hierarchy(*records.values()))
        chart(picture, f"memory hierarchy, {figures.short(one.record)}", lines.as_csv(picture))
        _source([one], "micro-benchmarks")
        with st.expander("How each was measured"):
            st.markdown("\n".join(f"- **{roof.level}**: {roof.method}" for roof in one.record.roofs.values()))


def _with_points(
    chosen: Iterable[Shelved], experiments: Sequence[Experiment], plan: str, *, counters: bool = False
) -> list[Shelved]:
    """Those whose record has some of the experiments; says which do not, and what would measure them."""
    shown = []
    for one in chosen:
        points = filter(None, (one.record.point(experiment) for experiment in experiments))
        if any(point.counters if counters else point.timing or point.counters for point in points):
            shown.append(one)
        else:
            st.info(f"Not measured on the {one.label} yet: `{MEASURE.format(plan)}` does.", icon=":material/info:")
    return shown


def _records(shown: Sequence[Shelved]) -> dict[str, Record]:
    names = [figures.short(one.record) for one in shown]
    alone = len(set(names)) == len(names)
    return {name if alone else one.label: one.record for name, one in zip(names, shown, strict=True)}


def _pair(name: str, shown: Sequence[Shelved], draw: Callable[[dict[str, Record]], figures.Pair]) -> None:
    """Two charts beside each other."""
    gpus = " ".join(_records(shown))
    for picture, column in zip(_drawn(name, shown, draw), st.columns(2, gap="large"), strict=True):
        with column:
            title = picture.layout.title.text
            chart(picture, f"{name}, {title}, {gpus}", lines.as_csv(picture), alt=title)


def _drawn(name: str, shown: Sequence[Shelved], draw: Callable[[dict[str, Record]], Drawing]) -> Drawing:
    """A drawing of these records, made once for all sessions."""
    labels = tuple(one.label for one in shown)
    records = _records(shown)
    drawing: Drawing = _kept(name, labels, tuple(map(id, records.values())), records, draw)[1]
    return drawing


@st.cache_resource(max_entries=64, show_spinner=False)
def _kept(
    name: str, labels: Sequence[str], ids: Sequence[int], _records: dict[str, Record], _draw: Callable[..., Any]
) -> Any:
    return _records, _draw(_records)  # kept with its records, so that their ids stay theirs


def _source(shown: Sequence[Shelved], how: str) -> None:
    st.caption(f"{'; '.join(one.source for one in shown)} · {how}")


_FIGURES = {f"{figure.number}: {figure.title}": figure for figure in milakov.FIGURES}


def softmax_and_top_k(chosen: Sequence[Shelved]) -> None:
    """Milakov & Gimelshein: accesses per element, and figures 1 to 4."""
    st.header("Accesses to memory for each element", anchor=False)
    layout.prose(
        "Milakov & Gimelshein argue with one number a kernel: how often it goes to memory for each element. A formula gives it, and the trace counts it, "
        "load by load, while the kernel runs."
    )
    paper_accesses()
    st.header("Figures 1 to 4: what fewer accesses are worth", anchor=False)
    figure = st.segmented_control(
        "Figure",
        list(_FIGURES),
        default=next(iter(_FIGURES)),
        required=True,
        key="figure",
        bind="query-params",
        wrap=True,
    )
    layout.prose(
        f"The paper measured on a {milakov.THEIR_GPU} and prints curves without their numbers. Here are its sentences, drawn grey and dashed where they name a ratio:"
    )
    paper_figure(_FIGURES[str(figure)], chosen)
    layout.prose(
        f"**What differs.** *The program*: theirs has {milakov.THEIR_THREADS} threads a row, and each thread keeps a pair (m, ℓ) of its own until the end; ours has {milakov.THREADS}, and joins them at every tile "
        f"of up to {milakov.LARGEST_TILE:,} elements. *Top-k*: theirs inserts one element at a time and most are turned away at once; ours takes the K largest of every tile, "
        "which costs the same whatever the data. *The data*: theirs is uniform between 0 and 1, ours normal; our kernels do the same work on any. "
        f"*How far*: 4,000 rows end at V = {milakov.FIGURES[0].lengths[-1]:,}, where a matrix has {amount(milakov.FIGURES[0].largest_bytes)}; "
        f"10 rows at V = {milakov.FIGURES[1].lengths[-1]:,}."
    )

    layout.try_this(
        "Figure 1: find the V at which the curves of safe and online softmax part, and then the V from which the safe one's reads from DRAM rise. Are they the same?",
        "Figure 2: ten rows, ten programs, and more than a hundred SMs. What is the fused kernel short of there, if not of bandwidth?",
        "Figure 3: the fused kernel makes one access where the other makes five. From which V on does that show, and what holds it back before?",
    )


def figure_2(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's figure 2: FLOPs, bytes and time of GPT-2 medium."""
    st.header("GPT-2 medium, forward and backward", anchor=False)
    layout.prose(
        f"Figure 2 of FlashAttention makes the paper's point: more FLOPs, fewer bytes, less time. It measured on an {flashattention.THEIR_GPU}; here, the same sizes through PyTorch's own "
        "calls: matmul, softmax, matmul with their gradients, and its FlashAttention-2."
    )
    paper_figure_2(chosen)
    layout.prose(
        "**What differs.** *FLOPs*: count 2 N² d for each matmul and head, and there are 6 of them in standard attention and 7 in FlashAttention, which makes S again on the way back. "
        "The paper's column is about 12 times lower for both; its author said that it may be off by a factor (github.com/Dao-AILab/flash-attention, issue 741). The ratio of the two, 7 to 6, "
        "is close to the paper's. *Bytes*: **least** is each step's operands read once and results written once; the paper's 40.3 GB has masking and dropout too, which write more matrices of N². On the way back "
        "PyTorch's FlashAttention adds up dQ in float32, which is more than the least. *FlashAttention-1 at B = 64* moves about as much as standard attention: its O goes out and in, in float32, at every tile of keys. Larger tiles pay, "
        "which is what the middle figure is about; past 128 rows our tile no longer fits the registers. *Which FlashAttention*: PyTorch's is the second version, with the queries outside; the paper measured the first."
    )

    layout.try_this(
        "Divide the FLOPs that are counted by the time measured. How far is each from what the GPU can do, and which of the two is nearer?",
        "Find the block size from which the bytes still fall and the time no longer does. What has the time been spent on since?",
    )


def theorem_2(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's theorem 2, as slopes of bytes."""
    st.header("Theorem 2 as slopes", anchor=False)
    layout.prose(
        "Theorem 2: with an on-chip memory of M elements, standard attention needs Θ(Nd + N²) accesses to HBM and FlashAttention Θ(N² d² / M). On logarithmic axes a power is a slope: "
        "−1 against M at a fixed N, and 2 against N at a fixed M. The proof takes tiles of B = M / 4d rows, so B stands for M."
    )
    paper_theorem(chosen)
    layout.prose(
        "**What differs.** The theorem knows two memories, a GPU has a cache between them. What the theorem calls an access to HBM is a load or a store of the kernel, and these show "
        "**between L2 and the SMs**: there the slopes are the theorem's. **DRAM** sees less. L2 keeps K and V, which all programs of a head read, so FlashAttention-2 reads Q, K and V once: its DRAM bytes "
        "grow with N, not with N², and do not depend on the tile. FlashAttention-1's O goes out and in at every visit; while it fits L2 the slope is 1, beyond that all of it goes to DRAM, and one line through "
        "both is steeper than either. Standard attention's S and P outgrow L2 early. On the shortest sequences L1 spares some trips too, so that a slope may exceed 2; and each curve has a part that is read or written "
        "once, which the theorem's Θ leaves out."
    )
    layout.try_this(
        "Double the rows of the tile that stays on chip. By how much do the bytes fall between L2 and the SMs, and in DRAM?",
        "The dashed line of FlashAttention-2 against N has half the slope of the solid one. At which N would its K and V no longer fit in L2?",
    )


def time_and_memory(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's tables 20 and 21."""
    st.header("Tables 20 and 21: time and memory as N grows", anchor=False)
    layout.prose(
        f"Forward and backward pass, 16 sequences of 8 heads, d = 64, on an {flashattention.THEIR_GPU}. Standard attention keeps matrices of N² for the way back, so its memory has the slope 2; "
        "FlashAttention keeps O and the logsumexp of each row: slope 1."
    )
    paper_tables(chosen)
    layout.prose(
        "**What differs.** *Memory*: the paper's GPU was full after N = 4,096; a larger one goes on, with the same slope. Both counts have Q, K, V and the gradient of O in them; how many matrices of N² are "
        "alive at once is up to the framework, and where the lines of both GPUs lie on each other its versions have not changed it. *Time*: a newer GPU has more bandwidth and more FLOPs a second, so both lines move down; the distance between them is what the paper is about. "
        "On short sequences the launches of standard attention take longer than their work, and its lines are flat."
    )

    layout.try_this(
        "Read off how much longer a sequence may be, with FlashAttention, in the memory that standard attention takes for N = 4,096.",
        "Four matrices of N² a head in fp16: compute their bytes at N = 4,096 and compare with table 21.",
    )


def memory_hierarchy(chosen: Sequence[Shelved]) -> None:
    """FlashAttention's figure 1: sizes and bandwidths."""
    st.header("Figure 1: the memory hierarchy", anchor=False)
    layout.prose(
        "The pyramid on FlashAttention's first page: 20 MB of SRAM at 19 TB/s, 40 GB of HBM at 1.5 TB/s, the host's memory at 12.8 GB/s. The paper's figures are what an A100 should give; ours are measured, "
        "by kernels that do nothing else than move bytes. Each mark of the axis is ten times the one before."
    )
    paper_hierarchy(chosen)
    layout.prose(
        "**What differs.** The pyramid leaves L2 out: it stands between SRAM and HBM in size and in bandwidth, and in the other panels here it is what makes the difference between what a kernel asks for and what DRAM gives. "
        "SRAM is the shared memory of all SMs together; the paper's 20 MB are an A100's shared memory and L1, which are one memory."
    )
    layout.try_this(
        "Divide each bar by the one below it. Which step down costs most, and which of the two a kernel avoids when its rows fit L2?",
        "How many FLOPs could the GPU do in the time in which one number comes from HBM? The page of sweeps draws that as a roof.",
    )
