"""Whose bytes a page of the lab shows: counted on this machine's GPU, recorded on another, or by formula alone; and why."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explain.chapters.three_numbers.levels import WAYS, Traced, Witness, recorded_trace, whole_trace, witness
from explain.counters.model import Counters
from explain.engine import engine
from explain.experiment import Experiment
from explain.records.registry import Shelved
from explain.ui.stepper import failure, traces_of
from explain.workers import WorkerError

_WHAT = {
    "CUPTI": "NVIDIA's library, in the process that runs the kernel, on the GPU at hand",
    "ncu": "Nsight Compute's command line, in a process of its own, where CUPTI cannot",
    "recorded": "counted beforehand, on a GPU that is named, and shown wherever nothing can be counted",
    "formula only": "for sizes that nobody counted: formula and trace",
}


def counted_here(experiment: Experiment, shown: Sequence[Shelved]) -> Witness:
    """The run's counters: of this machine's GPU, which a button counts it on, or else of the first of the records that has them; and why."""
    kept: dict[str, Counters | str] = st.session_state.setdefault("counted here", {})
    status = engine().device_if_known()
    if status is None:
        st.fragment(_look_for_a_gpu, run_every=2.0)()
        why = "Whether there is a GPU here is not known yet."
    elif status.available:
        if st.button("Count on this GPU", icon=":material/memory:"):
            kept[experiment.key] = _count(experiment)
        why = "Not counted on this machine's GPU yet."
    else:
        why = f"Nothing is counted here: {status.reason}"
    here = kept.get(experiment.key)
    if isinstance(here, str):
        st.warning(here, icon=":material/warning:")
        why = here
    points = ((one, one.record.point(experiment)) for one in shown)
    found = next(((one, point.counters) for one, point in points if point and point.counters), None)
    if isinstance(here, Counters):
        return witness(here, None, "")
    return witness(None, found[1], why, found[0].origin) if found else witness(None, None, why)


def _look_for_a_gpu() -> None:
    if engine().device_if_known() is not None:
        st.rerun()  # the whole page, once
    st.caption("Looking for a GPU…")


def _count(experiment: Experiment) -> Counters | str:
    """The counters, or why there are none, in words."""
    try:
        with st.spinner("Compiling, checking the counters with a copy, counting…", show_time=True):
            point = engine().point(experiment, timing=False)
    except WorkerError as error:
        return failure(error)
    return point.counters or point.why


def ways(chosen: Witness) -> None:
    """Whose counters these are, and the other ways in their order."""
    if chosen.counters is not None:
        st.caption(f"{chosen.source}. {chosen.why}")
    else:
        st.caption(f"formula only. {chosen.why}")
    with st.expander("Where the numbers can come from"):
        st.markdown(
            "The first of these that there is:\n\n"
            + "\n".join(f"1. {f'**{way}** (shown now)' if way == chosen.way else way}: {_WHAT[way]}." for way in WAYS)
        )
        if chosen.counters is not None:
            copy = chosen.counters.copy
            st.markdown(
                f"Before any counter was believed, a copy of {copy.copied_bytes:,} bytes was counted: {copy.read_bytes:,} read"
                + (f" and {copy.written_bytes:,} written" if copy.written_bytes is not None else "")
                + f" at DRAM. Each count took {chosen.counters.passes or 'several'} passes. A run that is counted is never timed."
            )
            if chosen.counters.lacking:
                st.markdown(f"This GPU has no counter for: {', '.join(chosen.counters.lacking)}.")


def traced_bytes(experiment: Experiment, small: bool) -> Traced | None:
    """What the kernel asked for: recorded beforehand, or, of a `small` run, traced here and now; None where neither is there."""
    if not small:
        return recorded_trace(experiment)
    (trace,) = traces_of([experiment])
    return whole_trace(experiment, trace) if trace else None
