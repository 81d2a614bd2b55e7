"""The climb on a page: the rungs of attention side by side, and the one that was chosen, with its idea, its number and its code."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import climb_figures as figures
from explain.chapters.speed import results as speed
from explain.chapters.speed import rungs
from explain.chapters.speed import stalls_figures as stall_figures
from explain.chapters.speed.results import TABLES, Case, Limit, Result
from explain.chapters.speed.results_figures import rate
from explain.chapters.speed.results_view import record_of
from explain.chapters.speed.rungs import BY_NAME, RUNGS, Rung, Step
from explain.chapters.sweeps.figures import roofline
from explain.counters.stalls import Stalls
from explain.device.measurement import Timing
from explain.engine import engine
from explain.gpus import GPUS, known_as
from explain.records.code import is_stale
from explain.records.model import Point
from explain.ui.charts import chart
from explain.ui.layout import chapter_link, prose
from explain.ui.pictures import drawing, pressable, pressed
from explain.ui.stepper import failure
from explain.workers import WorkerError

OPENING = "bf16"
"""The first rung that has one below to be compared with."""
IDLE = (
    "A launch in Gluon has three idle warps, of 12, or of 16 where three groups share the work: Triton fills up to a multiple of four. They stand at a barrier "
    "all the time, so that much of its share is no waiting."
)
COUNTED_BY = "python -m explain measure --plan rungs"


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
        both = " Rungs 1 to 3 compute the hidden half as well, uncounted." if case.causal else ""
        measured = (
            f" The peak is no datasheet's: a large matrix product reached it on the same GPU, by {peak.source}."
            if peak
            else ""
        )
        top = steps[-1].variant
        dispatched = top is not None and top.function in speed.DISPATCHERS
        whose = " The top rung's time is our dispatcher's, which runs it at these shapes." if dispatched else ""
        st.caption(f"Counted: {TABLES[case.table].work}.{both}{measured}{whose}")
        if any(step.variant is None for step in steps):
            st.caption(f"On a machine with a Hopper GPU, `{speed.COMMAND}` times the rungs.")
    _rung(next(step for step in steps if step.rung.name == name), peak, case)


def climb_counters(result: Result, case: Case) -> None:
    """What the GPU counted of the rungs: tensor-core use, bytes, and what warps waited for; or that it has not been asked."""
    st.subheader("What the hardware did", anchor=False)
    found = rungs.counted(record_of(result), case)
    if not found:
        prose("No GPU has counted the rungs yet.")
        st.caption(f"On a machine with a Hopper GPU, `{COUNTED_BY}` counts each: tensor-core use, bytes, and why its warps wait.")  # fmt: skip
        return
    first = next(iter(found.values()))
    prose(
        "A kernel is fast when the **tensor cores** are at work. Each rung takes one thing away that kept them waiting; what is left to wait for is below."
    )
    waits = [(figures.spoken(rung), stalls) for rung in RUNGS if (stalls := _stalls(found.get(rung.name)))]
    counts, why = st.columns([2, 3], gap="large") if waits else (st.container(), None)
    with counts:
        st.markdown(figures.counters_table(found, RUNGS))
    if why:
        with why:
            drawing(stall_figures.bars(waits))
            prose(f"**{waits[-1][0]}**: {stall_figures.told(waits[-1][1])}")
            if any(rung.gluon and rung.name in found for rung in RUNGS):
                st.caption(IDLE)
    where, p = first.origin.provenance if first.origin else None, first.experiment.values
    said = f"{where.gpu}, {where.date}" if where else "hardware"
    st.caption(
        f"recorded · {said} · batch {p['batch']}, {p['heads']} heads, N = {p['seq_len']:,}, d = {p['head_dim']}{', causal' if p['causal'] else ''} · L2 cold, in runs of their own · tensor cores: of their peak, while an SM has work"
    )
    older = [figures.spoken(BY_NAME[name]) for name, point in found.items() if is_stale(point)]
    if older:
        st.caption(f"The code of {', '.join(older)} has changed since it was counted. `{COUNTED_BY}` counts it anew.")


def _stalls(point: Point | None) -> Stalls | None:
    return point.counters.stalls if point and point.counters else None


@st.fragment
def climb_roofline(result: Result, case: Case) -> None:
    """The timed rungs under the GPU's roofs."""
    record = record_of(result)
    points = rungs.under_roofs(rungs.climb(case), case, record.roofs) if record else []
    if not points or record is None:
        return
    st.subheader("Under the roofline", anchor=False)
    prose(
        f"Every rung computes the same and must move the same bytes, Q, K and V in and O out, so all stand at one **arithmetic intensity**: {points[-1].intensity:,.0f} FLOPs a byte, "
        "far to the right of where HBM is the limit. The climb is straight up, towards the flat roof of the tensor cores. What holds a rung back is not memory, but waiting."
    )
    gpu = known_as(record.gpu)
    picture = roofline(points, record.roofs, GPUS[gpu] if gpu else None, room=80)
    chart(picture, "roofline of the rungs", alt="The rungs of attention under the roofs of memory and arithmetic")
    st.caption(f"FLOPs and bytes by formula, {case.words} · times: {result.source} · roofs measured on the same GPU, {record.provenance.date}")  # fmt: skip


def _rung(step: Step, peak: Limit | None, case: Case | None) -> None:
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
        if case:
            _timed_here(rung, case)
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


def _timed_here(rung: Rung, case: Case) -> None:
    """The rung on this shape, timed on this machine's GPU when asked, if there is one."""
    status = engine().device_if_known()
    if not (status and status.available and status.provenance):
        return
    experiment, gpu = rungs.experiment(rung, case), status.provenance["gpu"]
    kept: dict[str, Timing | str] = st.session_state.setdefault("rungs timed here", {})
    if st.button(f"Time it on this machine's {gpu}", icon=":material/timer:"):
        try:
            with st.spinner("Compiling and running…", show_time=True):
                point = engine().point(experiment, counters=False)
            kept[experiment.key] = point.timing or point.why
        except WorkerError as error:
            kept[experiment.key] = failure(error)
    timing = kept.get(experiment.key)
    if isinstance(timing, Timing):
        prose(f"Here: **{rate(case.work / timing.median_ms * 1e3, case.unit)}**.")
        st.caption(f"hardware · {gpu}, now · {timing.method}; not in turn with the others")
    elif timing:
        st.error(timing, icon=":material/error:")


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
