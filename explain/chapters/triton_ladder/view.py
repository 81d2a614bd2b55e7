"""The page Triton ladder, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from explain import contents, lessons
from explain.chapters.triton_ladder import exercises, figures, ladder
from explain.exercises import Runs
from explain.experiment import Experiment
from explain.ui import controls, layout, pictures, stepper
from explain.ui.code import show_code
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from kernels.catalog import KERNELS
from kernels.parameters import WHOLE_ROW_TILE

COUNTED = (
    "Counted in real runs. Milakov & Gimelshein count the same: 3 accesses per element for naive softmax (*Two passes, "
    "naive*), 4 for safe softmax (*Three passes*), 3 for online softmax."
)


def choose() -> int:
    """The rung that the reader chose, by its place. The address holds its name."""
    names = [rung.name for rung in ladder.RUNGS]
    return names.index(pictures.pressed("rung", names, names[0]))


def choose_row(at: int) -> Experiment:
    """The row that all rungs get; and the size of its tiles, if the rung `at` has tiles."""
    whole = WHOLE_ROW_TILE in KERNELS[ladder.RUNGS[at].kernel].parameters
    names = ["inputs", "cols", *["block_n"] * (not whole)]
    return controls.controls(lessons.ONLINE, names, controls.ROW_PRESETS)


def _break_rung_3(row: Experiment) -> None:
    """A button that leads to the naive rung with the input on which it overflows, and one back to the first input."""
    large = lessons.ONLINE.with_(inputs="edge")
    there = row.inputs == large.inputs

    def choose() -> None:
        controls.choose({"": lessons.ONLINE if there else large}, lambda _: lessons.ONLINE)
        if not there:
            st.query_params["rung"] = next(one.name for one in ladder.RUNGS if one.kernel == "softmax_naive")

    st.button("Back to six numbers" if there else "Up to 89: rung 3 breaks", on_click=choose)


def idea(at: int) -> None:
    """A rung's one idea, and what goes wrong in it."""
    rung = ladder.RUNGS[at]
    entry = KERNELS[rung.kernel]
    wrong = f" :red[**What goes wrong:** {entry.wrong}.]" if entry.wrong else ""
    layout.introduce(f"**{at + 1}. {entry.title}.** {rung.idea}{wrong}")


def one_rung(at: int, row: Experiment) -> Runs:
    """One rung in the player, what it lacks, its bytes. Returns the run."""
    rung = ladder.RUNGS[at]
    experiment = rung.experiment(row)
    traces = stepper.stepper(
        [experiment], key="ladder", reveal=pictures.presses("rung"), chapter="triton_ladder", onward=_after(at)
    )
    last = at + 1 == len(ladder.RUNGS)
    words, beside = layout.sides("Still missing" if last else "What the next kernel fixes")
    with words:
        layout.prose(rung.lacks)
        if not last:
            following = ladder.RUNGS[at + 1].name
            st.button(f"Next rung: {following} →", on_click=st.query_params.update, args=({"rung": following},))
    with beside:
        if traces:
            stepper.traffic_table(experiment, traces[0])
    return tuple(zip([experiment], traces, strict=False))


def _after(at: int) -> tuple[str, str]:
    """The next kernel and its address; after the last one the next chapter's."""
    if at + 1 < len(ladder.RUNGS):
        following = ladder.RUNGS[at + 1]
        return following.name, f"triton_ladder?{urlencode({'rung': following.name})}"
    pages = contents.chapters()
    page = pages[[one.stem for one in pages].index("triton_ladder") + 1]
    return page.title, page.stem


def climb(at: int) -> tuple[Experiment, Sequence[ladder.Outcome]]:
    """The ladder, and beside it the controls of its row. Returns the row and what each rung made of it. A press chooses
    a rung; `at` is the chosen one: the lines that carry its idea stand below the ladder.
    """
    with layout.below_goal():
        row = choose_row(at)
    rungs = [(one, one.experiment(row)) for one in ladder.RUNGS]
    found = zip(rungs, stepper.traces_of([own for _, own in rungs]), strict=True)
    outcomes = [ladder.outcome(one, own, trace) for (one, own), trace in found if trace is not None]
    wide, narrow = (figures.ladder(outcomes, at, narrow=narrow) for narrow in (False, True))
    with st.container(key="rung"):
        pictures.pressable(f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>', "rung")
    lines, button = st.columns([3, 1])
    with lines:
        show_code("\n".join(ladder.RUNGS[at].lines), "diff")
    with button:
        _break_rung_3(row)
    if len(outcomes) < len(rungs):
        st.caption("Some rungs were not recorded on this input, and this machine has no Triton to run them.")
    return row, outcomes


def counted(outcomes: Sequence[ladder.Outcome]) -> None:
    """Every rung's bytes and error, folded away."""
    folded = f"<details><summary>Bytes and errors</summary>\n\n{ladder.table(outcomes)}\n\n{COUNTED}\n\n</details>"
    st.markdown(folded, unsafe_allow_html=True)


@repeated
def change(at: int) -> None:
    """The diff from the rung below."""
    if at:
        below = ladder.RUNGS[at - 1]
        layout.header(f"Diff from “{below.name}”")
        show_code(ladder.difference(below.kernel, ladder.RUNGS[at].kernel), "diff")


def closing(row: Experiment, runs: Runs, outcomes: Sequence[ladder.Outcome]) -> None:
    """Things to try, questions, sources."""
    shown = exercises.Shown(row, runs, outcomes)
    ask("triton_ladder", exercises.QUESTIONS, shown, f"{row.key} {[one.key for one, _ in runs]}")
    layout.closing("triton_ladder")
