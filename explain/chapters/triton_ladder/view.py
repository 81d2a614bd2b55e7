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


def choose() -> int:
    """The rung that the reader chose, by its place."""
    names = [rung.name for rung in ladder.RUNGS]
    chosen = st.segmented_control(
        "Rung", names, default=names[0], required=True, key="rung", bind="query-params", wrap=True
    )
    return names.index(chosen)


def one_rung(at: int) -> tuple[Experiment, Runs]:
    """One rung in the player, its idea before and what it lacks after, its bytes.

    Returns the row that all rungs get, and the run.
    """
    rung = ladder.RUNGS[at]
    row = controls.controls(lessons.ONLINE, ["inputs", "cols", "block_n"], controls.ROW_PRESETS)
    experiment = rung.experiment(row)

    layout.prose(f"**{at + 1}. {experiment.entry.title}.** {rung.idea}")
    if experiment.entry.wrong:
        st.warning(f"Wrong on purpose: {experiment.entry.wrong}.", icon=":material/warning:")
    traces = stepper.stepper([experiment], key="ladder", chapter="triton_ladder")
    layout.prose(
        f"**What {'is still missing' if at + 1 == len(ladder.RUNGS) else 'the next kernel fixes'}.** {rung.lacks}"
    )
    if traces:
        st.header("This rung's bytes: formula and trace", anchor=False)
        stepper.traffic_table(experiment, traces[0])
    return row, tuple(zip([experiment], traces, strict=False))


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
