"""The GPU's word on an experiment, and what runs the kernels here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from explain import recordings
from explain.device.measurement import Measurement
from explain.device.prefixes import compare_prefixes
from explain.engine import DeviceStatus, engine, has_triton, scratch
from explain.experiment import Experiment
from explain.trace.model import Trace
from explain.ui.stepper import failure
from explain.workers import WorkerError


def on_device(experiment: Experiment, trace: Trace) -> None:
    """The same experiment compiled, on this machine's GPU: right, how fast, and through the same states; or why not."""
    status = engine().device_if_known()
    if status is None:
        st.caption("Looking for a GPU…")
        return
    if not status.available:
        st.markdown(f"None is in use: {status.reason}")
        _recorded_on_device(experiment)
        return
    if not st.button("Run it compiled, on the GPU", icon=":material/memory:"):
        key, *measured = st.session_state.get("measured", ("",))
        if key == experiment.key:  # shown again by a rerun, not run again
            _show(*measured)
        return
    try:
        with st.spinner("Compiling and running…", show_time=True), scratch() as folder:
            prefixes = Path(folder) / "prefixes.npz"
            measurement = engine().measure(experiment, prefixes=prefixes)
            states = compare_prefixes(trace, experiment, prefixes) if measurement.prefixes else []
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    st.session_state["measured"] = (experiment.key, measurement, states)
    _show(measurement, states)


def _recorded_on_device(experiment: Experiment) -> None:
    record = recordings.measured("verification-h200")
    if record is not None and record["opening"]["experiment"] == experiment.to_json():
        _show(Measurement.from_json(record["opening"]), record["states"], source="recorded")
    else:
        st.markdown("The experiment that this page opens on was recorded on a GPU; this one was not.")


def _show(measurement: Measurement, states: Sequence[Mapping[str, Any]], source: str = "hardware") -> None:
    where, timing = measurement.provenance, measurement.timing
    st.caption(
        f"{source} · {where.gpu}, driver {where.driver}, CUDA {where.cuda}, torch {where.torch}, triton {where.triton}, {where.date}"
    )
    verdict = "within its budget" if measurement.within_budget else "**over** its budget"
    said = [
        f"Largest error against float64: `{measurement.error:.3g}` of `{measurement.budget:.3g}` allowed, {verdict}."
    ]
    if timing:
        said.append(
            f"Median time: **{1e3 * timing.median_ms:.1f} µs** over {timing.launches} launches ({1e3 * timing.p20_ms:.1f} to "
            f"{1e3 * timing.p80_ms:.1f} µs from the 20th to the 80th percentile). The first call, compilation included: {timing.first_call_ms:.0f} ms."
        )
    if states:
        said.append(
            "Launched on its first tiles of keys alone, the compiled kernel must come to the traced run's states:"
        )
        lines = ["| tiles | keys | largest difference in O | largest difference in lse |", "|---:|---:|---:|---:|"]
        lines += [
            f"| {s['tiles']} | {s['keys']} | {s['largest difference in O']:.1e} | {s['largest difference in lse']:.1e} |"
            for s in states
        ]
        said.append("\n".join(lines))
    st.markdown("\n\n".join(said))


def engine_status() -> None:
    """What runs the kernels on this machine, and what does not and why."""
    if has_triton():
        st.markdown(":green[●] **Triton's CPU interpreter** runs and records the kernels, here on this machine.")
    else:
        st.markdown(
            ":orange[●] **Recorded runs.** Triton runs on Linux only; the chapters open on traces recorded there."
        )
    once_known(_gpu_status)


def once_known(show: Callable[[DeviceStatus], None]) -> None:
    """Shows what is to be said of this machine's GPU as soon as it is known whether there is one; until then, that it is looked for."""
    searching = engine().device_if_known() is None
    st.fragment(_once_known, run_every=2.0 if searching else None)(show, searching)


def _once_known(show: Callable[[DeviceStatus], None], searching: bool) -> None:
    status = engine().device_if_known()
    if status is None:
        st.markdown(":gray[●] Looking for a GPU…")
        return
    if searching:
        st.rerun()  # the whole page, once: a page that is done looking asks no more
    show(status)


def _gpu_status(status: DeviceStatus) -> None:
    if status.available and status.provenance:
        st.markdown(f":green[●] **{status.provenance['gpu']}** runs them compiled.")
    else:
        st.markdown(f":gray[●] No GPU in use: {status.reason}")
