"""The page Triton ladder, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from explain import contents, lessons
from explain.chapters.triton_ladder import exercises, figures, ladder
from explain.experiment import Experiment
from explain.kept import kept
from explain.ui import controls, layout, pictures, stepper
from explain.ui.code import show_code
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from explain.ui.rerun import following
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


def _choose_row(at: int) -> None:
    """Controls for the row, the same for all rungs, and for the size of its tiles, if the rung `at` has tiles."""
    whole = WHOLE_ROW_TILE in KERNELS[ladder.RUNGS[at].kernel].parameters
    names = ["inputs", "cols", *["block_n"] * (not whole)]
    controls.controls(lessons.ONLINE, names, controls.ROW_PRESETS, followed=True)


def _row() -> Experiment:
    return controls.chosen(lessons.ONLINE)


def _outcomes() -> list[ladder.Outcome]:
    """The outcome of each rung on the row, but for those that were not recorded and cannot run here."""
    own = _on_each(_row())
    found = zip(ladder.RUNGS, own, stepper.traces_of(own), strict=True)
    return [ladder.outcome(rung, one, trace) for rung, one, trace in found if trace is not None]


@kept
def _on_each(row: Experiment) -> list[Experiment]:
    """The row on each rung."""
    return [rung.experiment(row) for rung in ladder.RUNGS]


def _break_rung_3(row: Experiment) -> None:
    """A button that leads to the naive rung with the input on which it overflows, and one back to the first input."""
    large = lessons.ONLINE.with_(inputs="edge")
    there = row.inputs == large.inputs

    def choose() -> None:
        controls.choose({"": lessons.ONLINE if there else large}, lambda _: lessons.ONLINE)
        if not there:
            st.query_params["rung"] = next(one.name for one in ladder.RUNGS if one.kernel == "softmax_naive")
        st.rerun()  # the controls too, which are not where the button is

    st.button("Back to six numbers" if there else "Up to 89: rung 3 breaks", on_click=choose)


def idea(at: int) -> None:
    """A rung's one idea, and what goes wrong in it."""
    rung = ladder.RUNGS[at]
    entry = KERNELS[rung.kernel]
    wrong = f" :red[**What goes wrong:** {entry.wrong}.]" if entry.wrong else ""
    layout.introduce(f"**{at + 1}. {entry.title}.** {rung.idea}{wrong}")


@following
def one_rung(at: int) -> None:
    """One rung in the player, what it lacks, its bytes and those of all rungs, its diff, and questions."""
    rung, row = ladder.RUNGS[at], _row()
    experiment = rung.experiment(row)
    reveal = pictures.presses("rung") if layout.narrow() else 0  # a phone shows the ladder or the player
    traces = stepper.stepper([experiment], key="ladder", reveal=reveal, chapter="triton_ladder", onward=_after(at))
    last = at + 1 == len(ladder.RUNGS)
    words, beside = layout.sides("Still missing" if last else "What the next kernel fixes")
    with words:
        layout.prose(rung.lacks)
        if not last:
            after = ladder.RUNGS[at + 1].name
            st.button(f"Next rung: {after} →", on_click=_climb_to, args=(after,))
    with beside:
        if traces:
            stepper.traffic_table(experiment, traces[0])
    outcomes = _outcomes()
    _counted(outcomes)
    _change(at)
    shown = exercises.Shown(row, tuple(zip([experiment], traces, strict=False)), outcomes)
    ask("triton_ladder", exercises.QUESTIONS, shown, f"{row.key} {[one.key for one, _ in shown.runs]}")


def _climb_to(rung: str) -> None:
    st.query_params["rung"] = rung
    st.rerun()  # the whole page, of which the button is a part


def _after(at: int) -> tuple[str, str]:
    """The next kernel and its address; after the last one the next chapter's."""
    if at + 1 < len(ladder.RUNGS):
        after = ladder.RUNGS[at + 1]
        return after.name, f"triton_ladder?{urlencode({'rung': after.name})}"
    pages = contents.chapters()
    page = pages[[one.stem for one in pages].index("triton_ladder") + 1]
    return page.title, page.stem


def climb(at: int) -> None:
    """The ladder, and beside it the controls of its row. A press chooses a rung; `at` is the chosen one."""
    with layout.below_goal():
        _choose_row(at)
    _ladder(at)


@following
def _ladder(at: int) -> None:
    """What each rung makes of the row; below it the lines that carry the idea of the rung `at`."""
    outcomes = _outcomes()
    wide, narrow = (figures.ladder(outcomes, at, narrow=narrow) for narrow in (False, True))
    with st.container(key="rung"):
        pictures.pressable(f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>', "rung", of_page=True)
    lines, button = st.columns([3, 1])
    with lines:
        show_code("\n".join(ladder.RUNGS[at].lines), "diff")
    with button:
        _break_rung_3(_row())
    if len(outcomes) < len(ladder.RUNGS):
        st.caption("Some rungs were not recorded on this input, and this machine has no Triton to run them.")


@repeated
def _counted(outcomes: Sequence[ladder.Outcome]) -> None:
    """Every rung's bytes and error, folded away."""
    folded = f"<details><summary>Bytes and errors</summary>\n\n{ladder.table(outcomes)}\n\n{COUNTED}\n\n</details>"
    st.markdown(folded, unsafe_allow_html=True)


@repeated
def _change(at: int) -> None:
    """The diff from the rung below."""
    if at:
        below = ladder.RUNGS[at - 1]
        layout.header(f"Diff from “{below.name}”")
        show_code(ladder.difference(below.kernel, ladder.RUNGS[at].kernel), "diff")
