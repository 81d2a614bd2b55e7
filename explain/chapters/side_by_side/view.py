"""The two runs of the page: chosen from the ready pairs or one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from explain.chapters.side_by_side import exercises, pairs
from explain.chapters.side_by_side.pairs import PAIRS, Pair
from explain.experiment import Experiment
from explain.trace.model import Trace
from explain.ui import controls, layout, stepper
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from explain.ui.rerun import following
from kernels.catalog import KERNELS

LABELS = {"a.": "Left kernel", "b.": "Right kernel"}
ANY_TWO = "Choose any two kernels and inputs. Both players step together, one tile visit after another."
Chosen = Callable[[], list[Experiment]]
"""Both runs; a part of the page that runs alone asks again."""


def choose() -> Chosen:
    """Controls for both runs, and the ready pairs above them."""
    ready_made = st.container()
    openings = {}
    for prefix, column, start in zip(LABELS, st.columns(2, gap="large"), (PAIRS[0].left, PAIRS[0].right), strict=True):
        with column:
            openings[prefix] = _side(prefix, start)

    def chosen() -> list[Experiment]:
        return [controls.chosen(opening, prefix) for prefix, opening in openings.items()]

    with ready_made:
        _pairs(chosen)
    return chosen


def _shown(chosen: Chosen) -> Pair | None:
    """The ready pair that both runs are, if they are one."""
    runs = chosen()
    return next((pair for pair in PAIRS if [pair.left, pair.right] == runs), None)


@following
def _pairs(chosen: Chosen) -> None:
    shown = _shown(chosen)
    with st.container(horizontal=True):
        for pair in PAIRS:
            st.button(pair.name, type="primary" if pair == shown else "secondary", on_click=_show, args=(pair,))


def _show(pair: Pair) -> None:
    """A ready pair was pressed."""
    controls.choose(dict(zip(LABELS, (pair.left, pair.right), strict=True)), pairs.opening)
    st.rerun()  # the controls too, which are not where the button is


def _side(prefix: str, start: Experiment) -> Experiment:
    """Controls for one side's kernel and its parameters; returns the experiment that they open on."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kernel = controls.kernel(LABELS[prefix], start.kernel, f"{prefix}kernel")
        more = st.popover("Input, sizes")
    presets = controls.ATTENTION_PRESETS if KERNELS[kernel].family == "attention" else controls.ROW_PRESETS
    opening = pairs.opening(kernel)
    with more:
        controls.controls(opening, pairs.controls_of(kernel), presets, prefix=prefix, a_row=2, followed=True)
    return opening


@following
def introduce(chosen: Chosen) -> None:
    """What to look for in a ready pair."""
    pair = _shown(chosen)
    layout.prose(pair.look if pair else ANY_TWO)


@following
def step_through(chosen: Chosen) -> None:
    """Both runs in one player, how to read it, and questions."""
    runs = chosen()
    traces = stepper.stepper(runs, key="side by side")
    _how_to_read()
    _closing(runs, traces)


@repeated
def _how_to_read() -> None:
    """What the marks mean, and how two runs of different length step together."""
    with layout.part(
        "How two runs step together",
        "Both runs start a tile together. The one that ends it first waits for the other. A run with larger tiles "
        "waits until the other has read the same columns.",
        wide=1,
    ):
        layout.prose(
            "**≠** marks what differs by more than rounding: m, α, ℓ, scores and outputs. In the map of S such a score "
            "has a cut corner. m and ℓ are compared only where both runs have read the same columns of the row."
        )
        layout.prose(
            "**First difference** (key D) goes to the first value that differs, or to the first access to a buffer in "
            "HBM that only one run uses. Steps are not time: both runs advance line by line, whatever a line costs."
        )
        layout.chapter_link("your_run", "Two trace files of your own →")


def _closing(experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Questions about the two runs, if both are of one family."""
    if traces and len({experiment.entry.family for experiment in experiments}) == 1:
        runs = list(zip(experiments, traces, strict=True))
        ask("side_by_side", exercises.QUESTIONS, runs, str([experiment.key for experiment in experiments]))
