"""The page Online softmax, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import lessons
from explain.chapters.online_softmax import exercises, figures, history, running_sum_demo
from explain.chapters.triton_ladder import ladder
from explain.experiment import Experiment
from explain.figures.numbers import fixed, number
from explain.kept import kept
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.rerun import following

ELEMENT, TILE, ROWS, MERGED, TOPK = (
    "Element by element",
    "Tile by tile",
    "Rows at once",
    "Tiles in parallel",
    "Keep the largest",
)


def choose() -> tuple[str, bool]:
    """The way to read the row, and whether a wrong kernel runs beside the right one."""
    with st.container(key="ways", horizontal=True, vertical_alignment="center"):
        every = (ELEMENT, TILE, ROWS, MERGED, TOPK)
        way = controls.pick("How to read the row", every, "read", wrap=True, label_visibility="collapsed")
        beside = way in (TILE, MERGED) and st.toggle("Wrong kernel beside it", key="beside", bind="query-params")
    st.caption(f"Begin with *{ELEMENT}*, then *{TILE}*: the next chapters need these two. The others go further.")
    layout.introduce("\n\n".join(words[way] for words in (WORDS, *[WRONG] * bool(beside))))
    return way, bool(beside)


ROW = {ELEMENT: lessons.ONLINE, TILE: lessons.ONLINE, ROWS: lessons.ROWS, MERGED: lessons.MERGED, TOPK: lessons.TOPK}
"""The experiment on which each way opens."""
_CHOICES = {
    ELEMENT: ["inputs", "cols"],
    TILE: ["inputs", "cols", "block_n"],
    ROWS: ["inputs", "rows", "cols", "block_m", "block_n"],
    MERGED: ["inputs", "cols", "block_n", "order"],
    TOPK: ["inputs", "cols", "k", "block_n"],
}
_WRONG = {TILE: lessons.wrong_twin, MERGED: lessons.added_twin}


def choose_row(way: str, beside: DeltaGenerator) -> None:
    """Controls for the row: below the goal where its words are few, else `beside` it."""
    with layout.below_goal() if way == ELEMENT else beside:
        controls.controls(ROW[way], _CHOICES[way], controls.ROW_PRESETS, followed=True)


def _experiments(way: str, wrong: bool) -> list[Experiment]:
    """The wrong kernel, if it runs too, and the right one."""
    row = controls.chosen(ROW[way])
    return [*([_WRONG[way](row)] if wrong else []), lessons.element_by_element(row) if way == ELEMENT else row]


@following
def run(way: str, wrong: bool) -> None:
    """One or two kernels in the player; below it what they cost, wrong updates, and questions."""
    experiments = _experiments(way, wrong)
    traces = stepper.stepper(experiments, key="online softmax", chapter="online_softmax")
    if way in (ELEMENT, TILE, MERGED):
        stepper.row_sums(experiments, traces)
    accesses(way, experiments, traces)
    other_updates(experiments[-1])
    things_to_try(way, experiments, traces)


@following
def whole_row(way: str, wrong: bool) -> None:
    """All tiles of the right run's row in one picture: m and ℓ after each, or their merges."""
    for row, trace in stepper.shown(_experiments(way, wrong))[-1:]:
        _whole_row(way, row, trace)


def _whole_row(way: str, row: Experiment, trace: Trace) -> None:
    if way == MERGED:
        if tree := figures.merge_tree(*history.merges(row, trace)):
            pictures.drawing(tree)
            st.caption("The pair (m, ℓ) of each tile, and of each merge, from the trace.")
        return
    tiles = history.tiles(row, trace)
    kept = row.values["k"] if way == TOPK else 0
    drawn, narrow = (figures.growth(tiles, kept, narrow=one) for one in (False, True))
    if not drawn:
        return
    first = f" The first {figures.MOST} of {len(tiles)} tiles are drawn." if len(tiles) > figures.MOST else ""
    largest = f" Framed x: the {kept} largest of the row." if kept else ""
    pictures.drawing(drawn, narrow)
    st.caption(
        f"When m rises, α shrinks the old sum (grey). Each load adds the top part{_update(tiles)}.{largest}{first}"
    )


def _update(tiles: Sequence[history.Tile]) -> str:
    """The first update that rescales, in numbers; empty where none does."""
    for before, tile in pairwise(tiles):
        if 0 < tile.alpha < 1:
            old, alpha, new = (fixed(value, 3) for value in (before.total, tile.alpha, tile.total))
            return f": {old} × {alpha} + {fixed(tile.total - before.total * tile.alpha, 3)} = {new}"
    return ""


WORDS = {
    ELEMENT: "So each old term exp(x − old m) becomes **exp(x − new m)**.\n\n"
    "Safe softmax reads the row three times, online softmax twice: once for m and ℓ together, once for the weights y.",
    TILE: "The same update with a whole tile at a time: the tile's maximum and sum take the place of one element's. "
    "Any tile size gives the same m, and the same ℓ up to rounding.\n\n**To look for:** the tiles at which α is "
    "below 1, and the tiles at which nothing is rescaled.",
    ROWS: "A tile of several rows: m, ℓ and α become columns with one number for each row. The update is the same "
    "line of code. Click a row in the player to follow it: each row rescales at other tiles.\n\nFlashAttention is "
    "this loop with a matmul inside.",
    MERGED: "No program reads the whole row. Each tile gives its own pair (m, ℓ). Then pairs are merged:\n\n"
    "**m = max(m₁, m₂)**\n\n**ℓ = ℓ₁ exp(m₁ − m) + ℓ₂ exp(m₂ − m)**\n\n"
    "The first factor is α, `alpha` in the code; the second is `beta`. One of the two is always 1.\n\n"
    "The merge is associative and commutative. So every order gives the same m, and the same ℓ up to rounding. "
    "T tiles take T − 1 merges. In a line each waits for the one before. A tree takes ⌈log₂ T⌉ launches.",
    TOPK: "Algorithm 4 of Milakov & Gimelshein: beside m and ℓ the kernel keeps the K largest elements. After one "
    "pass it divides only those: y = exp(x − m) / ℓ. It never writes the other weights, so it needs no second pass. "
    "Of equal elements the one further left comes first, and −∞ is never listed.",
}
"""What to see, for each way to read the row."""
WRONG = {
    TILE: "**The wrong kernel** normalises each tile by itself and writes it at once. Each tile then sums to 1, so the "
    "row sums to its number of tiles. The loop invariant fails at the second tile.",
    MERGED: "**The wrong kernel** adds ℓ₁ + ℓ₂ as they are. They have different units, exp(m₁) and exp(m₂), so the sum "
    "is too large and the weights add up to less than 1. It is right only where all tiles have the same maximum: "
    "choose **constant**.",
}
"""What the wrong kernel does, where there is one."""


NAIVE, SAFE = 3, 4
"""Accesses per element of naive softmax, and of safe softmax in three passes."""


def accesses(way: str, experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Loads and stores per element, by formula and by trace."""
    if traces:
        right, trace = experiments[-1], traces[-1]
        reads = ladder.reads_of_x(right, trace)
        if way == TOPK:
            long = right.with_(inputs="normal", cols=25_000, block_n=1024)
            by_formula = ladder.accesses(long, long.traffic.totals())
            words = (
                f"In this run each element of x is read **{number(reads)}** time, and only K "
                "weights and K columns are written. For a row of 25,000 elements the formula gives "
                f"**{fixed(by_formula, 4)}** accesses per element. Softmax and then a separate top-k take 5 with safe "
                "softmax and 4 with online softmax."
            )
        else:
            words = (
                f"In this run each element of x is read **{number(reads)}** times and written once: "
                f"{number(reads + 1)} accesses. Naive softmax takes {NAIVE}, safe softmax in three passes {SAFE}."
            )
            pairs = ladder.accesses(right, trace.traffic()) - reads - 1
            if reads + 1 == NAIVE and pairs == 0:
                words += " Online softmax reads as little as naive softmax and is as safe as safe softmax."
            if pairs > 0:
                long = right.with_(inputs="normal", cols=25_000, block_n=1024)
                then = ladder.accesses(long, long.traffic.totals()) - reads - 1
                words += (
                    f"\n\nThe pairs (m, ℓ) of the tiles add {number(pairs)} accesses per element in this short row. "
                    f"In a row of 25,000 elements in tiles of 1,024 the formula adds {number(then)}."
                )
        with layout.part("What it costs", words):
            stepper.traffic_table(right, trace)


def other_updates(row: Experiment) -> None:
    """Tempting updates of the running sum, and what becomes of them on this row."""
    with layout.part(
        "Wrong updates, and the right one",
        "Adding one number to a whole row leaves its softmax unchanged. So a right update gives the same weights "
        "for this row and for this row + 100. Each update was run on both, in float32, element by element.",
    ):
        st.markdown(_updates(row), unsafe_allow_html=True)


@kept
def _updates(row: Experiment) -> str:
    x: np.ndarray = row.make_inputs()["x"][0]
    return running_sum_demo.table(x)


def things_to_try(way: str, experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Questions about the runs."""
    if traces:
        runs = tuple(zip(experiments, traces, strict=True))
        ask("online_softmax", exercises.QUESTIONS, runs, f"{way} {[one.key for one in experiments]}")
