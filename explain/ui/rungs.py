"""The climb on a page: the rungs of attention side by side, and the one that was chosen, with its idea, its number and its code."""

from __future__ import annotations

import streamlit as st

from explain import rungs, speed
from explain.figures import rungs as figures
from explain.rungs import BY_NAME, RUNGS, Rung, Step
from explain.speed import Case, Limit, Result
from explain.ui.layout import chapter_link, prose
from explain.ui.pictures import pressable, pressed
from explain.ui.speed import record_of

OPENING = "bf16"
"""The first rung that has one below to be compared with."""
TIMED_BY = "python benchmarks/speed.py attention --out benchmarks/results/speed.json"


@st.fragment  # another rung redraws this and nothing else
def climb(result: Result | None, case: Case | None) -> None:
    """The rungs as columns on one shape, and the rung that was pressed below them."""
    steps = rungs.climb(case)
    peers = rungs.beside(case) if case else ()
    peak = speed.roof(case, record_of(result)) if result and case else None
    name = pressed("rung", BY_NAME, OPENING)
    if (asked := st.query_params.get("rung", name)) != name:
        st.markdown(f":small[:red[**rung={asked}: must be one of {', '.join(BY_NAME)}**]]")
    prose(" ".join(figures.told(steps, peers, peak)))
    pressable(figures.climb(steps, peers, peak, case.words if case else "no shape", name), "rung")
    if result and case:
        st.caption(" · ".join(filter(None, (case.words, result.source, result.state))))
        if peak:
            st.caption(
                f"The peak is no datasheet's: it is what a large matrix product reached on the same GPU, by {peak.source}. The top rung's time is our "
                "dispatcher's, which runs it at these shapes."
            )
        if any(step.variant is None for step in steps):
            st.caption(f"On a machine with a Hopper GPU, `{TIMED_BY}` times the rungs.")
    _rung(next(step for step in steps if step.rung.name == name), peak)


def _rung(step: Step, peak: Limit | None) -> None:
    """One rung, as a student reads it: what is new, the number, why, the code."""
    rung, lower = step.rung, rungs.below(step.rung)
    at = RUNGS.index(rung)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader(f"{at + 1}. {rung.title}", anchor=False, width="content")
        with st.container(horizontal=True, width="content"):
            _step_to("The rung below", ":material/south:", at - 1)
            _step_to("The rung above", ":material/north:", at + 1)
    words, code = st.columns([2, 3], gap="large")
    with words:
        prose(f"**The idea.** {rung.idea}")
        prose(f"**The number.** {figures.number(step, peak, lower)}")
        prose(f"**The reason.** {rung.why}")
        if rung.line:
            st.code(rung.line, language="python", wrap_lines=True)
            st.caption(f"{rung.file}, line {rung.line_number}")
        prose(f"**It takes** {rung.takes[0].lower()}{rung.takes[1:]}")
        _stepped(rung)
    with code:
        new, whole = st.tabs(["What is new", "The whole kernel"] if lower else ["The whole kernel", "What is new"])
        with new if lower else whole:
            if lower:
                st.code(rungs.difference(rung), language="diff", height=520)
                st.caption(f"{rung.file} beside {lower.file}: green lines are new, red ones are gone.")
            else:
                prose("This is the lowest rung: all of it is new.")
        with whole if lower else new:
            st.code(rung.source, language="python", height=520)
            st.caption(f"{rung.file}, without its imports")


def _step_to(label: str, icon: str, at: int) -> None:
    """A button that goes to the rung at this place."""
    name = RUNGS[at].name if 0 <= at < len(RUNGS) else ""
    st.button(label, icon=icon, type="tertiary", disabled=not name, on_click=_choose, args=(name,))


def _choose(name: str) -> None:
    st.query_params["rung"] = name


def _stepped(rung: Rung) -> None:
    """Whether the interpreter runs it, and where the same arithmetic can be stepped through."""
    if rung.gluon:
        prose(
            "It is written in Gluon, where a program says which warp does what. Triton's interpreter cannot run Gluon, so this rung is measured and not traced."
        )
    else:
        prose("It is plain Triton: the tests run it in the interpreter, against float64.")
    chapter_link("side_by_side", rung.twin.words, rung.twin.query)
