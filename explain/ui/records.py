"""The GPU records that a page shows, and the counters of this machine."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explain.chapters.measurements import figures
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.records import file, registry
from explain.records.registry import Entry
from explain.ui.follow import on_request, once_known

SHOWN, YOURS, CHOICE = "records shown", "records of yours", "records choice"
SAMPLE = Experiment.of("softmax_online", {"rows": 4096, "cols": 8192, "block_n": 4096}, "normal")
"""Counted to test whether counters can be read here: 134 MB, larger than any L2."""


def records_choice(*beside: Callable[[], None]) -> list[Entry]:
    """A control for the measurements that a page shows: this machine's, those shipped, a reader's files. At least one,
    if any exist. `beside` draws further controls in its row.

    A reader's files stay in their session: nothing is written to the server's disk.
    """
    options = records_there()
    if options and not set(st.session_state.get(CHOICE) or ()) & set(options):
        before = [key for key in st.session_state.get(SHOWN, ()) if key in options]
        st.session_state[CHOICE] = before or [next(iter(options))]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if options:
            st.pills(
                "Measured on",
                list(options),
                selection_mode="multi",
                key=CHOICE,
                format_func=lambda key: options[key].label,
                help="Where the numbers come from. Choose several GPUs to compare them.",
                width="content",
            )
        another_record()
        for draw in beside:
            draw()
    chosen = [options[key] for key in options if key in (st.session_state.get(CHOICE) or ())]
    st.session_state[SHOWN] = [one.key for one in chosen]
    return chosen


def records_there() -> dict[str, Entry]:
    """All records by key: this machine's, those shipped, the reader's. Warns of a damaged file."""
    found, refused = registry.entries()
    for name, why in refused.items():
        st.warning(f"`{name}`, measured on this machine, is not shown: {why}", icon=":material/warning:")
    return {one.key: one for one in [*found, *_yours().values()]}


def another_record() -> None:
    """A button to upload a reader's own file; every page of the session then has it."""
    with st.popover("Another GPU's file", icon=":material/upload_file:"):
        _load(_yours())


def _yours() -> dict[str, Entry]:
    yours: dict[str, Entry] = st.session_state.setdefault(YOURS, {})
    return yours


def _load(yours: dict[str, Entry]) -> None:
    """Takes a reader's file, or says why it is refused."""
    st.markdown("A file written by `python -m explain measure`. It stays in this session only.")
    brought = st.file_uploader("Record", type="json", key="record file", label_visibility="collapsed")
    if brought is None:
        st.session_state.pop("record taken", None)
    elif st.session_state.get("record taken") != brought.file_id:
        try:
            one = registry.uploaded(brought.getvalue())
        except file.RecordFileError as error:
            st.error(f"{brought.name} is refused: {error}", icon=":material/error:")
            return
        yours[one.key] = one
        st.session_state["record taken"] = brought.file_id
        st.session_state[SHOWN] = [*st.session_state.get(SHOWN, ()), one.key]
        st.session_state.pop(CHOICE, None)  # chosen again, with this one
        st.rerun()
    if yours and st.button("Forget my files", icon=":material/delete:"):
        yours.clear()
        st.rerun()


def counters_here() -> None:
    """Whether the counters of this machine's GPU can be read; if not, why and what to do. A button counts a kernel."""
    once_known(_counters_here)


def _counters_here(status: DeviceStatus) -> None:
    if not status.available:
        st.markdown(
            f":gray[●] This machine has no counters to read. {status.reason} The numbers shown were measured "
            "elsewhere; each says where."
        )
        return
    gpu = status.provenance["gpu"] if status.provenance else "GPU"
    st.markdown(f":green[●] **{gpu}** is here. Count one kernel to see whether its counters can be read.")
    job = on_request(
        "Count one kernel now",
        "counters sample",
        "checking the counters with a copy, then counting",
        lambda job: engine().point(SAMPLE, timing=False, cancel=job.cancel),
        ":material/speed:",
    )
    said = job.result if job else None
    if said is None:
        return
    if (counters := said.counters) is None:
        st.warning(f"{said.why} The recorded measurements stay on the page.", icon=":material/warning:")
    else:
        formula = SAMPLE.entry.formula(SAMPLE.values)
        st.markdown(figures.counts_table(counters, formula.read_bytes, formula.written_bytes))
        st.caption(
            f"hardware · {counters.provenance.gpu}, {counters.method} · `{' '.join(SAMPLE.to_arguments())}` · copy "
            f"check {figures.copy_words(counters.copy)}"
            + (f" · not by CUPTI: {counters.fallback}" if counters.fallback else "")
        )
