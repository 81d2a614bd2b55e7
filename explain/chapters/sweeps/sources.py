"""The source of a sweep's readings: the reader chooses it, and runs it here if it is no record. This GPU's roofs."""

from __future__ import annotations

import streamlit as st

from explain.chapters.sweeps.model import READY, Sweep, predicted, recorded
from explain.chapters.sweeps.runner import State, runner
from explain.chapters.sweeps.shown import Shown, shown
from explain.engine import engine
from explain.figures.numbers import fixed
from explain.gpus import known_as
from explain.prediction import Model, fitted
from explain.records import registry
from explain.records.model import Roof
from explain.ui import layout
from explain.ui.charts import image_format
from explain.ui.follow import follow, on_request
from explain.ui.gpu import gpu_choice
from explain.ui.records import another_record, opening, records_there

CHOSEN = "sources of sweeps"
"""In the session: the source that the reader chose for ready-made sweeps (True), and for an own one (False)."""
OPEN = "source box open"


def sweep_readings(sweep: Sweep) -> Shown:
    """The reader chooses a source; returns its readings so far. Missing points can be run, followed and cancelled here.

    Sources are "hardware", "formula", "trace", and each record by its key. The last choice for a ready-made sweep, and
    that for an own one, stay where another sweep lacks this source.
    """
    there = records_there()
    records = {key: one for key, one in there.items() if recorded(sweep, one.record)}
    status = engine().device_if_known()
    here = status.gpu if status else ""
    names = {
        **{key: one.label for key, one in records.items()},
        **({"hardware": f"{here}, this machine"} if here else {}),
        "formula": "Formula",
        "trace": "Trace, in this machine's interpreter",
        **({"predicted": "Predicted for a GPU you choose"} if _model() else {}),
    }
    ready = sweep in READY.values()
    if "witness" not in st.session_state:  # the page opens
        st.session_state[CHOSEN] = {ready: st.query_params.get("witness")}
        st.session_state[OPEN] = False
    before = st.session_state[CHOSEN].get(ready)
    st.session_state["witness"] = before if before in names else opening(records) if records else next(iter(names))
    with (
        st.expander(f"Source: {names[st.session_state['witness']]}", expanded=st.session_state[OPEN]),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        chosen = st.segmented_control(
            "Source",
            list(names),
            required=True,
            key="witness",
            on_change=lambda: _choose_another(ready),
            format_func=names.__getitem__,
            wrap=True,
            width="content",
        )
        another_record()
        image_format()
    witness = str(chosen)
    if st.query_params.get("witness") != witness:
        st.query_params["witness"] = witness
    if silent := ", ".join(one.label for key, one in there.items() if key not in records):
        st.caption(f"{silent}: no data for this sweep.")
    if witness in records:
        record = records[witness].record
        found, total = recorded(sweep, record), len(sweep.experiments)
        return shown(sweep, found, total, records[witness].source, "", record.gpu, record.roofs)
    if witness == "predicted" and (model := _model()):
        return _predicted(sweep, model)
    if witness != "formula":
        follow(
            lambda: _progress(sweep, witness),
            lambda: bool(runner().look(sweep, witness).working),
            progress=lambda: len(runner().look(sweep, witness).readings),
        )
    state = runner().look(sweep, witness)  # after `follow`: what ends in between is then shown, not missed
    sources = " and ".join(dict.fromkeys(reading.source for reading in state.readings))
    if witness == "hardware":
        return shown(sweep, state.readings, state.total, f"hardware · {sources}", witness, here, _roofs_kept())
    return shown(sweep, state.readings, state.total, sources, witness)


def _choose_another(ready: bool) -> None:
    """Takes the source that the reader chose. Its box stays open: who compares sources chooses again."""
    choose_source(ready, st.session_state["witness"])
    st.session_state[OPEN] = True


def choose_source(ready: bool, key: str) -> None:
    """Sets the source of the `ready`-made sweeps, or of the reader's own."""
    st.session_state[CHOSEN][ready] = key


def _predicted(sweep: Sweep, model: Model) -> Shown:
    """Predicted times on the GPU that the reader chooses among those without a shipped record of the sweep; says why a
    time is missing.
    """
    measured = (known_as(record.gpu) for record in registry.shipped() if recorded(sweep, record))
    gpu = gpu_choice(without={model.gpu, *filter(None, measured)})
    for why in dict.fromkeys(model.refusal(one, gpu) for one in sweep.experiments):
        if why:
            st.info(f"{why} Choose another GPU or another sweep.", icon=":material/info:")
    found = predicted(sweep, model, gpu)
    if found:
        layout.prose(f"**Predicted, not measured.** {model.test(one.experiment for one in found).told}.")
    source = f"{gpu.name}, {next((one.source for one in found), '')}"
    return shown(sweep, found, len(sweep.experiments), source, "", gpu.name)


def _model() -> Model | None:
    """The model that predicts times, fitted to the first shipped record; None if none is shipped."""
    return fitted(*registry.shipped())


def _progress(sweep: Sweep, witness: str) -> None:
    """The progress of a run, and the buttons that start and stop it."""
    state = runner().look(sweep, witness)
    have = f"{len(state.readings)} of {state.total} points"
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.working:
            st.progress(len(state.readings) / state.total, f"{have} · {state.working} · {fixed(state.seconds, 0)} s")
            cancel = runner().cancel
            st.button("Cancel", icon=":material/stop:", key="cancel sweep", on_click=cancel, args=(sweep, witness))
            return
        _offer(sweep, witness, state, have)
    if state.error:
        st.error(state.error, icon=":material/error:")


def _offer(sweep: Sweep, witness: str, state: State, have: str) -> None:
    if not state.done:
        label = "Resume" if state.readings else f"Run {state.total} points"
        icon, start = ":material/play_arrow:", runner().start
        st.button(label, icon=icon, type="primary", key="run sweep", on_click=start, args=(sweep, witness))
    if state.readings:
        st.markdown(f"{have}, saved on this machine.")
        icon, again = ":material/replay:", runner().start_over
        st.button("Start over", icon=icon, type="tertiary", key="forget sweep", on_click=again, args=(sweep, witness))


def measure_roofs() -> None:
    job = on_request(
        "Measure this GPU's roofs",
        "measure roofs",
        "measuring, about 10 seconds",
        lambda job: engine().roofs(cancel=job.cancel),
        ":material/roofing:",
    )
    if job and job.result and not _roofs_kept():
        _roofs_kept().update(job.result)
        st.rerun()


@st.cache_resource(show_spinner=False)
def _roofs_kept() -> dict[str, Roof]:
    """This machine's roofs, if they were measured."""
    return {}
