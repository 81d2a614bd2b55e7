"""The page Online softmax, part by part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from explain import lessons
from explain.chapters.online_softmax import exercises, running_sum_demo
from explain.chapters.triton_ladder import ladder
from explain.experiment import Experiment
from explain.trace.model import Trace
from explain.ui import controls, layout, stepper
from explain.ui.exercises import ask

ELEMENT, TILE, ROWS, MERGED, TOPK = (
    "Element by element",
    "Tile by tile",
    "Rows at once",
    "Tiles in parallel",
    "With top-k",
)


def choose() -> tuple[str, bool]:
    """The way to read the row, and whether a wrong kernel runs beside the right one."""
    with st.container(horizontal=True, vertical_alignment="center"):
        way = st.segmented_control(
            "How to read the row", [ELEMENT, TILE, ROWS, MERGED, TOPK], default=ELEMENT, required=True, key="walk",
            bind="query-params", wrap=True, label_visibility="collapsed",
        )  # fmt: skip
        beside = way in (TILE, MERGED) and st.toggle("Wrong kernel beside it", key="beside", bind="query-params")
    return str(way), bool(beside)


def choose_row(way: str) -> Experiment:
    """The input and the sizes of the right kernel."""
    default, names = {
        ELEMENT: (lessons.ONLINE, ["inputs", "cols"]),
        TILE: (lessons.ONLINE, ["inputs", "cols", "block_n"]),
        ROWS: (lessons.ROWS, ["inputs", "rows", "cols", "block_m", "block_n"]),
        MERGED: (lessons.MERGED, ["inputs", "cols", "block_n", "order"]),
        TOPK: (lessons.TOPK, ["inputs", "cols", "k", "block_n"]),
    }[way]
    return controls.controls(default, names, controls.ROW_PRESETS)


def run(way: str, beside: bool, row: Experiment) -> tuple[list[Experiment], list[Trace]]:
    """One or two kernels in the player, and what to see; the experiments, the right one last, with their traces."""
    wrong = {TILE: lessons.wrong_twin, MERGED: lessons.added_twin}
    right = lessons.element_by_element(row) if way == ELEMENT else row
    experiments = [wrong[way](row), right] if beside else [right]
    traces = stepper.stepper(experiments, key="online softmax", chapter="online_softmax")
    if way in (ELEMENT, TILE, MERGED):
        stepper.row_sums(experiments, traces)

    match way:
        case "Element by element":
            layout.prose(
                "Tiles of one element: algorithm 3 of Milakov & Gimelshein, who write d for ℓ. Under the equation "
                "stands the **loop invariant**, checked at every step: m is the maximum of the elements seen so far "
                "and ℓ is Σ exp(x − m) over them, recomputed in float64 beside the kernel's own float32. Its proof by "
                "induction stands beside it, the part at work marked."
            )
            layout.prose(
                "On the first element α = exp(−∞ − m) = 0, so what ℓ starts from does not matter. From then on 1 ≤ ℓ "
                "≤ the number of elements seen: the largest adds exactly 1, and no other adds more."
            )
        case "Tile by tile":
            layout.prose(
                "The same update with a whole tile at a time: the tile's maximum and sum take the place of one "
                "element's. Any tile size gives the same m, and the same ℓ up to rounding. **To look for:** the tiles "
                "on which α < 1, and those on which nothing is rescaled."
            )
            if beside:
                layout.prose(
                    "The wrong kernel normalises each tile by itself and writes it out at once. Each tile then sums "
                    "to 1 (one of nothing but −∞ to 0), so the row sums to its number of tiles, and the loop "
                    "invariant breaks at the second tile."
                )
        case "Rows at once":
            layout.prose(
                "A tile of several rows: m, ℓ and α become columns M, L and α with one number a row, and the maximum "
                "of a tile becomes the maximum of each of its rows. The update is the same line of code. Click a row "
                "to follow it: rows rescale at different tiles. FlashAttention is this loop with a matmul "
                "inside."
            )
        case "Tiles in parallel":
            layout.prose(
                "Here no program reads the whole row. Each tile gives its own pair (m, ℓ); then pairs are merged: m = "
                "max(m₁, m₂) and ℓ = ℓ₁ exp(m₁ − m) + ℓ₂ exp(m₂ − m). One factor is always 1. The merge is associative "
                "and commutative, so the pairs may come from the left, from the right or as a tree: the same m, and "
                "the same ℓ up to rounding, though its last bits may differ."
            )
            layout.prose(
                "A row of T tiles takes T − 1 merges in any order. In a line they wait for one another; as a tree they "
                "take ⌈log₂ T⌉ launches, and each launch sends its pairs through HBM. The table below counts both."
            )
            if beside:
                layout.prose(
                    "The wrong kernel adds ℓ₁ + ℓ₂ as they are. They count in different units, exp(m₁) and exp(m₂), "
                    "so the sum is too large and the row adds up to less than 1. It is right only where all tiles "
                    "have the same maximum: choose **constant**."
                )
        case _:
            layout.prose(
                "Algorithm 4 of Milakov & Gimelshein: beside m and ℓ keep the K largest elements. After one pass "
                "those K have all they need: y = exp(x − m) / ℓ. The other weights are never written, so the second "
                "pass goes. Of equal elements the one further left comes first, and −∞ is never listed."
            )
    return experiments, traces


def accesses(way: str, experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Loads and stores per element, by formula and by trace."""
    if traces:
        right, trace = experiments[-1], traces[-1]
        st.header("Accesses: formula and trace", anchor=False)
        if way == TOPK:
            long = right.with_(inputs="normal", cols=25_000, block_n=1024)
            by_formula = ladder.accesses(long, long.entry.formula(long.values).totals())
            layout.prose(
                f"Counted in this run: each element of x is read **{ladder.reads_of_x(right, trace):g}** time, and "
                "only K weights and K columns are written. On a row of 25,000 elements the formula makes that "
                f"**{by_formula:.4f}** accesses per element. Softmax and then a separate top-k take 5 with the safe "
                "softmax and 4 with the online one."
            )
        else:
            layout.prose(
                f"Counted in this run: **{ladder.accesses(right, trace.traffic()):.3g}** reads and writes for each "
                f"element of x, {ladder.reads_of_x(right, trace):g} of them reads of x. The safe softmax in three "
                "passes takes 4."
            )
        stepper.traffic_table(right, trace)


def other_updates(row: Experiment) -> None:
    """Tempting updates of the running sum, and what becomes of them on this row."""
    x: np.ndarray = row.entry.make_inputs(row.preset, row.values, row.seed)["x"][0]
    with layout.part(
        "Why ℓ ← ℓ + x does not work",
        "Softmax does not change when the same number is added to the whole row, so a right update gives the same "
        "weights for this row and for this row + 100. Each update below was run on both in float32, element by "
        "element.",
    ):
        st.markdown(running_sum_demo.table(x))


def closing(way: str, experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Things to try, questions, sources."""
    if traces:
        runs = tuple(zip(experiments, traces, strict=True))
        ask("online_softmax", exercises.QUESTIONS, runs, f"{way} {[one.key for one in experiments]}")
    layout.questions(
        (
            "Why may ℓ start from any number?",
            "On the first element α = exp(−∞ − m) = 0, and 0 times any finite number is 0. Starting from 0 says what "
            "is meant.",
        ),
        (
            "On which order of elements would a forgotten α go unnoticed?",
            "When the largest comes first: m never moves again, so α is 1 at every later step. A test on such rows "
            "alone would pass.",
        ),
        (
            "Tiles are merged in parallel, in any order. Why is the result the same?",
            "A pair (m, ℓ) stands for the number ℓ · exp(m), the true sum of exp(x) over its elements. Merging adds "
            "these numbers, and addition is associative and commutative; the maximum only chooses the unit they are "
            "written in. In floating point each addition rounds, so the last bits may depend on the order.",
        ),
    )
    layout.sources(
        "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018, algorithms "
        "3 and 4.",
    )
