"""The two runs of the page: chosen from the ready pairs or one by one."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explain.chapters.side_by_side import exercises, pairs
from explain.chapters.side_by_side.pairs import PAIRS, Pair
from explain.experiment import Experiment
from explain.trace.model import Trace
from explain.ui import controls, layout
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from kernels.catalog import KERNELS

LABELS = {"a.": "Left kernel", "b.": "Right kernel"}
ANY_TWO = "Choose any two kernels and inputs. Both players step together, one tile visit after another."


def choose() -> tuple[Experiment, Experiment, Pair | None]:
    """Both runs, and the ready pair that they are, if they are one."""
    ready_made = st.container(horizontal=True)
    left, right = st.columns(2, gap="large")
    opening = PAIRS[0]
    with left:
        a = _side("a.", opening.left)
    with right:
        b = _side("b.", opening.right)
    shown = next((pair for pair in PAIRS if (pair.left, pair.right) == (a, b)), None)
    for pair in PAIRS:
        ready_made.button(pair.name, type="primary" if pair == shown else "secondary", on_click=_show, args=(pair,))
    return a, b, shown


def _show(pair: Pair) -> None:
    """A ready pair was pressed."""
    controls.choose(dict(zip(LABELS, (pair.left, pair.right), strict=True)), pairs.opening)


def _side(prefix: str, start: Experiment) -> Experiment:
    """One side's kernel and parameters."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kernel = controls.kernel(LABELS[prefix], start.kernel, f"{prefix}kernel")
        more = st.popover("Input, sizes")
    presets = controls.ATTENTION_PRESETS if KERNELS[kernel].family == "attention" else controls.ROW_PRESETS
    with more:
        return controls.controls(pairs.opening(kernel), pairs.controls_of(kernel), presets, prefix=prefix, a_row=2)


@repeated
def how_to_read() -> None:
    """What the marks mean, and how two runs of different length step together."""
    with layout.part(
        "How two runs step together",
        "Both runs start a tile of S together. The one that ends it first waits for the other. A run with larger tiles "
        "waits until the other has read the same columns.",
        wide=1,
    ):
        layout.prose(
            "**≠** marks what differs: bytes moved so far, and m, α, ℓ, scores and outputs that differ by more than "
            "rounding. In the map of S such a score has a cut corner. m and ℓ are compared only where both runs have "
            "read the same columns of the row."
        )
        layout.prose(
            "**First difference** (key D) goes to the first value that differs, or to the first access to a buffer in "
            "HBM that only one run uses. Steps are not time: both runs advance line by line, whatever a line costs."
        )
        layout.chapter_link("your_run", "Two trace files of your own →")


def closing(experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Questions about the two runs, if both are of one family."""
    if traces and len({experiment.entry.family for experiment in experiments}) == 1:
        runs = list(zip(experiments, traces, strict=True))
        ask("side_by_side", exercises.QUESTIONS, runs, str([experiment.key for experiment in experiments]))
