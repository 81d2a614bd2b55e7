"""The page The papers, reproduced, panel by panel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.papers import (
    comparison,
    exercises,
    flashattention,
    flashattention_figures,
    milakov,
    milakov_figures,
)
from explain.experiment import Experiment
from explain.figures import lines
from explain.figures.numbers import count, moved
from explain.kept import kept
from explain.records.model import Record, roof_name
from explain.records.registry import Entry
from explain.ui import layout
from explain.ui.charts import chart, image_format, sourced
from explain.ui.controls import pick
from explain.ui.exercises import ask
from explain.ui.records import records_choice
from explain.ui.repeat import repeated
from explain.ui.stepper import traces_of

COUNTERS = "GPU counters, from a cold L2"
_FIGURES = {figure.brief: figure for figure in milakov.FIGURES}


def choose() -> list[Entry]:
    """The records that the page shows beside the papers' figures."""
    chosen = records_choice(image_format)
    if not chosen:
        st.info(
            "No GPU's measurements are chosen. The page shows the papers' numbers, the formulas and the traces.",
            icon=":material/info:",
        )
    return chosen


def softmax_and_top_k(chosen: Sequence[Entry]) -> None:
    """Milakov & Gimelshein: accesses per element, and figures 1 to 4."""
    words, pictures = layout.sides("Figures 1 to 4, beside what the paper says about them")
    with words:
        figure = _FIGURES[pick("Figure · rows", _FIGURES, "figure", wrap=True)]
        _told(
            "Online softmax reads a row twice, safe softmax three times. Are fewer accesses faster?\n\n"
            f"The paper measured on a {milakov.THEIR_GPU}. It prints curves without numbers. V is the number of "
            "elements in a row. The dashed lines show what the paper says:\n\n"
            + "\n".join(f"- {said.words}, {said.where}" for said in figure.said)
            + "\n\n**What differs**\n\n"
            f"- *Program*: the paper's program has {milakov.THEIR_THREADS} threads per row, and each thread keeps its "
            f"own pair (m, ℓ) until the end. Ours has {milakov.THREADS} and merges them after each tile of up to "
            f"{count(milakov.LARGEST_TILE)} elements.\n"
            + "- *Top-k*: the paper's kernel inserts one element at a time and rejects most of them at once. Ours "
            "takes the K largest of every tile, at the same cost for any data.\n"
            * (figure.number > 2)
            + "- *PyTorch*: it keeps a row of up to 9,216 elements in registers. It reads a longer row again, with "
            "another kernel: its curve jumps.\n"
            * (figure.number == 1)
            + "- *Data*: the paper's is uniform between 0 and 1, ours is normally distributed. The work is the same.\n"
            f"- *V*: the paper's 63 · 2ᵏ. Our largest is {count(figure.lengths[-1])}, a matrix of "
            f"{moved(figure.largest_bytes)}."
        )
    shown = _measured(chosen, tuple(figure.experiments()), "milakov")
    _verdict(shown, partial(milakov_figures.softmax_verdict, figure))
    with pictures:
        _beside(
            shown, {f"figure {figure.number}": partial(_speedup_first, figure)}, "medians, L2 cleared before each run",
            together=True,
        )  # fmt: skip
    if figure.number == 1:
        for one in _measured(shown, milakov.COUNTED, "milakov-counters", counters=True):
            with _part(f"Where the speedup starts: {one.label}", milakov_figures.knee_words(one.record)):
                _beside([one], {"knee": milakov_figures.knee}, COUNTERS)
                with st.expander("L1: reads of each element from L2 by an SM"):
                    layout.prose(milakov_figures.near_words(one.record))
                    _beside([one], {"knee in L2": milakov_figures.knee_l2}, COUNTERS)
    if figure.number == 3 and shown:
        _larger_k(shown)
    with _part(
        "Memory accesses per element",
        "Milakov & Gimelshein describe a kernel by one number: its accesses to memory per element of the row. A "
        "formula gives this number. The trace counts it, load by load, while the kernel runs.",
    ):
        _accesses()


def _speedup_first(figure: milakov.Figure, records: Mapping[str, Record]) -> comparison.Pair:
    rates, speedup = milakov_figures.rates(figure, records)
    return speedup, rates


def _accesses() -> None:
    """Accesses per element: the paper's, by formula, and counted in our kernels' traces."""
    with st.container(key="numbers of accesses"):
        st.markdown(milakov_figures.accesses(_counted_accesses()))
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


def _larger_k(shown: Sequence[Entry]) -> None:
    """Figure 3: what limits the fused kernels, and their speedup by K."""
    limits = "\n\n".join(filter(None, (milakov_figures.topk_words(one.record) for one in shown)))
    tiles = " ".join(filter(None, (milakov_figures.tiles_words(one.record) for one in shown)))
    with _part(
        "What limits the fused kernels, and larger K",
        f"{limits}\n\nThe paper's way of fusing takes the K largest of every tile: K times a maximum over all lanes. "
        "Lanes then wait for each other, not for bytes. In *lanes* each lane keeps its own list until the row ends."
        "\n\nA longer list costs more. In the paper's kernel, and in the one that fuses like it, this cost cancels the "
        "gain of fusing. *Lanes* makes the list once per row, so its speedup grows with K: the two launches that it is "
        "compared with become slower.",
    ):
        with st.container(key="numbers of larger k"):
            st.markdown(milakov_figures.larger_k(_records(shown)))
        st.caption(
            f"Speedup over safe softmax, then top-k. Ours: V = {count(milakov.LONG)}; the paper names none. {tiles}"
        )


def figure_2(chosen: Sequence[Entry]) -> None:
    """FlashAttention's figure 2: FLOPs, bytes and time of GPT-2 medium, the forward pass alone, the block sizes."""
    shown = _measured(chosen, flashattention.COUNTED, "flashattention")
    _verdict(shown, flashattention_figures.figure_2_verdict)
    with _part(
        "GPT-2 medium, forward and backward",
        "Figure 2 of FlashAttention makes the paper's point: more FLOPs, fewer bytes, less time. The paper measured "
        f"on an {flashattention.THEIR_GPU}. Ours are PyTorch's calls at the same sizes: matmul, softmax, matmul with "
        "their gradients, and PyTorch's FlashAttention-2.\n\n**What differs**\n\n"
        "- *Bytes*: at the **minimum** each step reads its operands once and writes its results once. The paper's "
        "40.3 GB include masking and dropout, which write more N² matrices. In the backward pass PyTorch's "
        "FlashAttention sums dQ in float32, which is more than the minimum.\n"
        f"{flashattention_figures.figure_2_time(shown[0].record) if shown else ''}"
        "- *Version*: the paper measured FlashAttention-1. PyTorch has FlashAttention-2, with queries in the outer "
        "loop.",
    ):
        _beside(
            shown,
            {
                "ratios": flashattention_figures.figure_2,
                "figure 2": flashattention_figures.table_2,
                "note": _table_2_note,
            },
            f"forward and backward, fp16, no mask, no dropout; DRAM by {COUNTERS}",
        )  # fmt: skip
    with _part(
        "The forward pass alone",
        "Our kernels beside PyTorch's. **Formula** is what the kernel's loads and stores request. A library's tiles "
        "are unknown, so its formula is a minimum (≥).\n\nFlashAttention-1 with tiles of 64 rows moves about as many "
        "bytes as standard attention: it loads and stores O in float32 at every tile of keys.",
    ):
        _beside(shown, {"forward": flashattention_figures.forward_table}, f"forward, the same sizes; {COUNTERS}")
    with _part(
        "Figure 2, middle: larger blocks, fewer bytes",
        "The paper's bytes fall from B = 64 to 512, and its time falls up to 256. Beyond that, the paper says (section "
        "3.2), other factors limit the time, such as arithmetic."
        f"{chr(10) * 2 + flashattention_figures.blocks_told(shown[0].record) if shown else ''}",
    ):
        _beside(
            shown, {"blocks": flashattention_figures.blocks},
            "our kernels, forward, figure 2's sizes; the tile's other side is B too, but at most d = 64",
        )  # fmt: skip


def theorem_2(chosen: Sequence[Entry]) -> None:
    """FlashAttention's theorem 2, as measured slopes of bytes."""
    shown = _measured(chosen, flashattention.COUNTED, "flashattention", counters=True)
    _verdict(shown, flashattention_figures.theorem_verdict)
    with _part(
        "Theorem 2 as slopes",
        "With M elements of on-chip memory, standard attention needs Θ(Nd + N²) accesses to HBM, FlashAttention "
        "Θ(N² d² / M). On logarithmic axes a power is a slope: −1 over M at a fixed N, 2 over N at a fixed M. The "
        "proof uses tiles of B = M / 4d rows, so B stands for M.\n\n**What differs**\n\n"
        "The theorem has two levels of memory. A GPU also has caches.\n\n"
        "- The theorem's accesses to HBM are the kernel's loads and stores. They appear **between L2 and the SMs**, "
        "and there the slopes are the theorem's.\n"
        "- **DRAM** sees fewer bytes. L2 keeps K and V, which all programs of a head read. So FlashAttention-2 reads "
        "Q, K and V from DRAM once: its DRAM bytes grow with N, not N², and do not depend on the tile.\n"
        "- FlashAttention-1 loads and stores O at every visit. While O fits L2 the slope is 1. Then all of O goes to "
        "DRAM: the bytes jump, and no slope describes them.\n"
        "- Standard attention's S and P exceed L2 early.\n"
        "- On the shortest sequences L1 saves reads too, so a slope can exceed 2.\n"
        "- Each curve includes bytes that are read or written once. Θ leaves them out.",
    ):
        _beside(
            shown,
            {
                "theorem 2": flashattention_figures.theorem,
                "slopes": flashattention_figures.slopes,
                "slopes in words": flashattention_figures.slopes_words,
                "spills": flashattention_figures.spills_words,
            },
            f"{COUNTERS}; slope of a line fitted to the logarithms",
        )


def _table_2_note(_: Record) -> str:
    return flashattention_figures.table_2_note()


def time_and_memory(chosen: Sequence[Entry]) -> None:
    """FlashAttention's tables 20 and 21."""
    shown = _measured(chosen, flashattention.TIMED, "flashattention-memory")
    _verdict(shown, flashattention_figures.tables_verdict)
    with _part(
        "Tables 20 and 21: time and memory over N",
        f"Forward and backward pass, 16 sequences of 8 heads, d = 64. The paper's GPU is an {flashattention.THEIR_GPU}."
        "\n\nStandard attention keeps N² matrices for the backward pass, so its memory has slope 2. FlashAttention "
        "keeps O and one logsumexp per row: slope 1.\n\n**What differs**\n\n"
        "- *Time*: a newer GPU has more bandwidth and more FLOP/s, so both lines move down. On "
        "short sequences the launches of standard attention take longer than their work, so its lines are flat.\n"
        "- *Memory*: the paper's GPU was full after N = 4,096. A larger GPU continues with the same slope. Both counts "
        "include Q, K, V and the gradient of O. The framework decides how many N² matrices exist at once. Where both "
        "GPUs' lines coincide, its versions agree.",
    ):
        _beside(
            shown, {"tables 20 and 21": flashattention_figures.tables},
            "16 sequences, 8 heads, d = 64, fp16, forward and backward; memory: torch's allocator, with Q, K, V and dO",
        )  # fmt: skip


def memory_hierarchy(chosen: Sequence[Entry]) -> None:
    """FlashAttention's figure 1, left, beside the measured roofs."""
    shown = [one for one in chosen if one.record.roofs]
    if chosen and not shown:
        _not_measured("Roofs are not measured on this GPU.", "roofs")
    _verdict(shown, flashattention_figures.hierarchy_verdict)
    with _part(
        "Figure 1: the memory hierarchy",
        "The pyramid on FlashAttention's first page has three levels: SRAM, HBM and host memory. The paper's numbers "
        "are an A100's specifications. Ours are measured with kernels that only move bytes.\n\n**What differs**\n\n"
        "- *L2*: the pyramid leaves it out. L2 is between SRAM and HBM in size and bandwidth. It explains why a "
        "kernel requests more bytes than DRAM delivers.\n"
        "- *SRAM*: ours is the shared memory of all SMs together. The paper's 20 MB are an A100's shared memory and "
        "L1, which are one memory: 108 × 192 KiB = 20.3 MiB.",
    ):
        _beside(shown, {"memory hierarchy": flashattention_figures.hierarchy}, "micro-benchmarks; logarithmic axis")
        for one in shown:
            with st.expander(f"How each bandwidth was measured: {one.label}"):
                st.markdown(
                    "\n".join(f"- **{roof_name(roof.level)}**: {roof.method}" for roof in one.record.roofs.values())
                )


def closing(panel: str, chosen: Sequence[Entry]) -> None:
    """Things to try, sources."""
    record = chosen[0].record if chosen else None
    known = {} if panel != exercises.SOFTMAX else {k: found for k, found in _counted_accesses().items() if found}
    ask("papers", exercises.QUESTIONS, exercises.Shown(panel, record, known), f"{panel} {chosen and chosen[0].key}")
    layout.closing("papers")


_DIFFERS = "\n\n**What differs**\n\n"
"""Stands between what a part is about and how our work differs from the paper's."""


def _part(heading: str, words: str) -> DeltaGenerator:
    """A heading and its words; returns the place for the picture beside them."""
    column, picture = layout.sides(heading)
    with column:
        _told(words)
    return picture


@repeated
def _told(words: str) -> None:
    """A part's words; what differs from the paper stands in a box below them."""
    about, _, differs = words.partition(_DIFFERS)
    layout.prose(about)
    if differs:
        with st.expander("What differs from the paper"):
            layout.prose(differs)


def _verdict(shown: Sequence[Entry], told: Callable[[Record], str]) -> None:
    """Under the page's goal: whether the first record repeats the paper's result."""
    if shown and (words := told(shown[0].record)):
        layout.introduce(words)


def _measured(
    chosen: Iterable[Entry], experiments: Sequence[Experiment], plan: str, *, counters: bool = False
) -> list[Entry]:
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


def _records(shown: Sequence[Entry]) -> dict[str, Record]:
    names = [comparison.short(one.record) for one in shown]
    alone = len(set(names)) == len(names)
    return {name if alone else one.label: one.record for name, one in zip(names, shown, strict=True)}


def _beside(
    shown: Sequence[Entry], draws: Mapping[str, Callable[..., Any]], how: str, *, together: bool = False
) -> None:  # fmt: skip
    """What the records show, beside a part's words: charts or Markdown, and their source.

    Each of `draws` takes one record; with `together` it takes all of them, by name.
    """
    for group in [shown] if together and shown else [[one] for one in shown]:
        labels = ", ".join(one.label for one in group)
        for name, draw in draws.items():
            drawn = _drawn(draw if together else partial(_alone, draw), _records(group))
            if isinstance(drawn, str):
                with st.container(key=f"numbers of {name} {labels}"):
                    st.markdown(drawn)
                continue
            for picture in drawn if isinstance(drawn, tuple) else (drawn,):
                title = picture.layout.title.text or ""
                chart(picture, f"{name}, {title}, {labels}", partial(lines.as_csv, picture), alt=title or name)
        sourced(f"{'; '.join(one.source for one in group)} · {how}")


def _alone(draw: Callable[[Record], Any], records: dict[str, Record]) -> Any:
    """A drawing of the one record."""
    return draw(*records.values())


@kept
def _drawn(draw: Callable[[dict[str, Record]], Any], records: dict[str, Record]) -> Any:
    """A drawing of these records."""
    return draw(records)
