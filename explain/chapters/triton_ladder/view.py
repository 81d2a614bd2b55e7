"""The page Triton ladder, part by part."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explain import lessons
from explain.chapters.triton_ladder import exercises, ladder
from explain.exercises import Runs
from explain.experiment import Experiment
from explain.ui import controls, layout, stepper
from explain.ui.exercises import ask
from kernels.catalog import KERNELS


def choose() -> int:
    """The rung that the reader chose, by its place."""
    names = [rung.name for rung in ladder.RUNGS]
    chosen = st.segmented_control(
        "Rung",
        names,
        default=names[0],
        required=True,
        key="rung",
        bind="query-params",
        wrap=True,
        label_visibility="collapsed",
    )
    return names.index(chosen)


def choose_row() -> Experiment:
    """The row that all rungs get."""
    return controls.controls(lessons.ONLINE, ["inputs", "cols", "block_n"], controls.ROW_PRESETS)


def idea(at: int) -> None:
    """A rung's one idea; and its mistake, if it is wrong on purpose."""
    rung = ladder.RUNGS[at]
    entry = KERNELS[rung.kernel]
    wrong = f" :red[**Wrong on purpose:** {entry.wrong}.]" if entry.wrong else ""
    layout.prose(f"**{at + 1}. {entry.title}.** {rung.idea}{wrong}")


def one_rung(at: int, row: Experiment) -> Runs:
    """One rung in the player, what it lacks, its bytes. Returns the run."""
    rung = ladder.RUNGS[at]
    experiment = rung.experiment(row)
    traces = stepper.stepper([experiment], key="ladder", chapter="triton_ladder")
    heading = "Still missing" if at + 1 == len(ladder.RUNGS) else "What the next kernel fixes"
    with layout.part(f"{heading}; this kernel's bytes", rung.lacks):
        if traces:
            stepper.traffic_table(experiment, traces[0])
    return tuple(zip([experiment], traces, strict=False))


def all_rungs(row: Experiment) -> Sequence[ladder.Outcome]:
    """Every rung on one input, as a table."""
    st.header("All rungs on this input", anchor=False)
    layout.prose(
        "Every number is from a run: reads and writes per element counted in the trace, the error against float64 "
        "from what the kernel stored. Milakov & Gimelshein count the same: naive 3, safe 4, online 3. The last rung "
        "runs on four rows, the others on one."
    )
    rungs = [(one, one.experiment(row)) for one in ladder.RUNGS]
    found = zip(rungs, stepper.traces_of([own for _, own in rungs]), strict=True)
    outcomes = [ladder.outcome(one, own, trace) for (one, own), trace in found if trace is not None]
    st.markdown(ladder.table(outcomes))
    if len(outcomes) < len(rungs):
        st.caption("Some rungs were not recorded on this input, and this machine has no Triton to run them.")
    return outcomes


def change(at: int) -> None:
    """The diff from the rung below."""
    if at:
        below = ladder.RUNGS[at - 1]
        st.header(f"Diff from “{below.name}”", anchor=False)
        st.code(ladder.difference(below.kernel, ladder.RUNGS[at].kernel), language="diff", wrap_lines=True)


def closing(row: Experiment, runs: Runs, outcomes: Sequence[ladder.Outcome]) -> None:
    """Things to try, questions, sources."""
    shown = exercises.Shown(row, runs, outcomes)
    ask("triton_ladder", exercises.QUESTIONS, shown, f"{row.key} {[one.key for one, _ in runs]}")
    layout.questions(
        (
            "The whole-row kernel reads each element once, the online one twice. Why not always the first?",
            "It holds the row in one program's registers. A tile of 65,536 float32 values fills the whole register "
            "file of a GPU's multiprocessor, so longer rows cannot be held. While rows fit, it is the best of the "
            "ladder.",
        ),
        (
            "Online softmax moves as many bytes as the naive kernel. What was gained?",
            "Safety. The naive kernel overflows above x = 88.7; the safe one pays a third read to avoid it; the "
            "online one avoids it with two.",
        ),
        (
            "Rows and columns: why does a column of maxima help?",
            "One program then updates many rows with the same instructions, which keeps its lanes at work where rows "
            "are short, and it is the shape of attention: a tile of queries against a tile of keys.",
        ),
    )
    layout.sources(
        "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018.",
        "Triton tutorial 02, Fused softmax: the whole-row kernel.",
        "S. Rush, Triton-Puzzles: softmax over long rows as an exercise.",
    )
