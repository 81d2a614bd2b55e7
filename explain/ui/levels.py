"""Whose bytes a page of the lab shows: counted on this machine's GPU, recorded on another, or by formula alone; and why."""

from __future__ import annotations

import streamlit as st

from explain.counters.model import Counters
from explain.engine import engine
from explain.experiment import Experiment
from explain.levels import WAYS, Traced, Witness, recorded_trace, whole_trace, witness
from explain.ui.runs import failure, traces_of
from explain.workers import WorkerError

_WHAT = {
    "CUPTI": "NVIDIA's library, in the process that runs the kernel, on the GPU at hand",
    "ncu": "Nsight Compute's command line, in a process of its own, where CUPTI cannot",
    "recorded": "counted beforehand, on a GPU that is named, and shown wherever nothing can be counted",
    "formula only": "for sizes that nobody counted: formula and trace",
}


def counted_here(experiment: Experiment, recorded: Counters | None) -> Witness:
    """The run's counters: a button counts it where there is a GPU; what cannot be counted is said, and the next way taken."""
    kept: dict[str, Counters | str] = st.session_state.setdefault("counted here", {})
    status = engine().device_if_known()
    if status is None:
        st.caption("Looking for a GPU…")
    elif status.available and st.button("Count on this GPU", icon=":material/memory:"):
        kept[experiment.key] = _count(experiment)
    here = kept.get(experiment.key)
    if status is not None and not status.available:
        why = f"Nothing is counted here: {status.reason}"
    else:
        why = here if isinstance(here, str) else "" if status is None else "Not counted on this GPU yet."
    if isinstance(here, str):
        st.warning(here, icon=":material/warning:")
    return witness(here if isinstance(here, Counters) else None, recorded, why)


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
