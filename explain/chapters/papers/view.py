"""The papers' panels on a page: what one of the shown GPUs' records says, beside what the paper does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st

from explain.chapters.papers import figures, flashattention, milakov
from explain.experiment import Experiment
from explain.figures import lines
from explain.records.model import Record
from explain.records.registry import Shelved
from explain.ui.charts import chart, image_format
from explain.ui.layout import prose
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
            prose(f"**The knee moves.** {figures.knee_words(one.record)}")
            _pair("knee", [one], lambda records: figures.knee(*records.values()))
            _source([one], "counters of the GPU, L2 cold at first")
    if figure.number == 3 and shown:
        for words in filter(None, (figures.topk_words(one.record) for one in shown)):
            prose(
                f"**What holds it back.** {words} The ladder's kernels take the K largest of every tile, K times a maximum over all its lanes: they wait for one another, not for bytes, and so "
                "does the two-launch kernel that they are compared with. In *lanes* each lane keeps to itself until the row has ended."
            )
        prose(
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
        prose("**The forward pass by itself**, where our own kernels stand beside PyTorch's.")
        with st.container(key=f"numbers of forward {one.key}"):
            st.markdown(figures.forward_table(one.record))
        prose(
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
