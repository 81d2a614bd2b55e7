"""The GPU records that a page shows, and the counters of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from explain.gpus import known_as
from explain.records import file, registry
from explain.records.registry import Entry
from explain.ui.address import here
from explain.ui.gpu import chosen_instead

SHOWN, YOURS = "records shown", "records of yours"
IN_ADDRESS = "records"
"""The part of a page's address that names GPUs: the page shows their records."""


def choice() -> str:
    """The key of the control on the page that runs."""
    return f"records choice {here()}"


def records_choice(*beside: Callable[[], None]) -> list[Entry]:
    """A control for the measurements that a page shows: this machine's, those shipped, a reader's files. At least one,
    if any exist. `beside` draws further controls in its row.

    A reader's files stay in their session: nothing is written to the server's disk.
    """
    options = records_there()
    key = choice()
    if options and not set(st.session_state.get(key) or ()) & set(options):
        gpu, before = _shown_before()
        kept = [one for one in before if one in options and gpu == chosen_instead()]
        st.session_state[key] = _in_address(options) or kept or [opening(options)]
    with st.container(horizontal=True, vertical_alignment="bottom", key="records"):
        if options:
            st.pills(
                "Measured on",
                list(options),
                selection_mode="multi",
                key=key,
                format_func=lambda key: options[key].label,
                help="Where the numbers come from. Choose several GPUs to compare them.",
                width="content",
                on_change=lambda: _to_address(options, st.session_state[key]),
            )
        another_record()
        for draw in beside:
            draw()
    chosen = [options[one] for one in options if one in (st.session_state.get(key) or ())]
    st.session_state[SHOWN] = chosen_instead(), [one.key for one in chosen]
    return chosen


def _in_address(options: Mapping[str, Entry]) -> list[str]:
    """The records of the GPUs that the page's address names."""
    named = st.query_params.get(IN_ADDRESS, "").split(",")
    return [key for key, one in options.items() if known_as(one.record.gpu) in named]


def _to_address(options: Mapping[str, Entry], chosen: Sequence[str]) -> None:
    """Writes the GPUs of the chosen records into the page's address, so that a link shows the same."""
    st.query_params[IN_ADDRESS] = ",".join(known_as(options[one].record.gpu) or "" for one in chosen if one in options)


def _shown_before() -> tuple[str | None, list[str]]:
    """The GPU that the reader had chosen when a page last showed records, and the records' keys."""
    before: tuple[str | None, list[str]] = st.session_state.get(SHOWN, (None, []))
    return before


def opening(records: Mapping[str, Entry]) -> str:
    """The key of the record that a page opens on: the first one, or of the GPU that the reader chose instead."""
    chosen = chosen_instead()
    own = (key for key, one in records.items() if chosen and known_as(one.record.gpu) == chosen)
    return next(own, next(iter(records)))


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
        st.session_state[SHOWN] = chosen_instead(), [*_shown_before()[1], one.key]
        st.session_state.pop(choice(), None)  # chosen again, with this one
        st.rerun()
    if yours and st.button("Forget my files", icon=":material/delete:"):
        yours.clear()
        st.rerun()
