"""The part On the GPU: the experiment compiled and run there, its error, its time, its states after each tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from explain import recordings
from explain.device.measurement import Measurement
from explain.device.prefixes import compare_prefixes
from explain.engine import engine, scratch
from explain.experiment import Experiment
from explain.figures import numbers
from explain.figures.tables import Column, markdown
from explain.jobs import Job
from explain.plain import made
from explain.trace.model import Trace
from explain.ui.follow import on_request
from explain.ui.layout import prose
from explain.ui.repeat import repeated


def on_device(experiment: Experiment, trace: Trace) -> None:
    """The experiment on this machine's GPU: its error, its time, its states after each tile; or why not."""
    status = engine().device_if_known()
    if status is None:
        st.caption("Looking for a GPU…")
        return
    if not status.available:
        _recorded_on_device(experiment)
        return

    def measure(job: Job[tuple[Measurement, list[dict[str, Any]]]]) -> tuple[Measurement, list[dict[str, Any]]]:
        with scratch() as folder:
            prefixes = Path(folder) / "prefixes.npz"
            measurement = engine().measure(experiment, prefixes=prefixes, cancel=job.cancel)
            return measurement, compare_prefixes(trace, experiment, prefixes) if measurement.prefixes else []

    label, doing = "Run it compiled, on the GPU", "compiling and running"
    job = on_request(label, f"measured {experiment.key}", doing, measure, ":material/memory:")
    if job and job.result:
        _show(*job.result)


@repeated
def _recorded_on_device(experiment: Experiment) -> None:
    """What the shipped record says of it."""
    record = recordings.measured("verification-h200")
    if record is not None and record["opening"]["experiment"] == experiment.to_json():
        _show(made(Measurement, record["opening"]), record["states"], source="recorded")
    else:
        st.markdown("This experiment was not recorded on a GPU. The one that this page opens on was.")


def _show(measurement: Measurement, states: Sequence[Mapping[str, Any]], source: str = "hardware") -> None:
    """A line that opens: whether the compiled kernel computes what the trace does, and within it the numbers."""
    timing, gpu = measurement.timing, measurement.provenance.gpu
    verdict = "within its tolerance" if measurement.within_tolerance else "**exceeds** its tolerance"
    done = "recorded on" if source == "recorded" else "run on"
    said = f"The same kernel, compiled: {done} an {gpu}. Its error is {verdict}."
    differences = [state[name] for state in states for name in state if name.startswith("largest difference")]
    if differences:
        said += (
            " After each tile of keys, O and L on the GPU equal the trace within "
            f"{numbers.scientific(max(differences))}."
        )
    with st.expander(f"**On the GPU.** {said}"):
        told, states_table = st.columns([1, 2], gap="large")
        error, tolerance = numbers.scientific(measurement.error), numbers.scientific(measurement.tolerance)
        more = [f"Largest error against float64: **{error}**, tolerance {tolerance}."]
        if timing:
            each = (timing.median_ms, timing.p20_ms, timing.p80_ms, timing.first_call_ms)
            median, fast, slow, first = (numbers.duration(ms / 1e3) for ms in each)
            more.append(
                f"Median time: **{median}** over {numbers.count(timing.launches)} launches; 20th to 80th percentile: "
                f"{fast} to {slow}. First call, with compilation: {first}."
            )
        if states:
            more.append("For this table the compiled kernel ran on the first tiles of keys only.")
            names = ("tiles", "keys", "largest difference in O", "largest difference in lse")
            columns = [
                Column(name.replace("lse", "L"), numbers.scientific if name.startswith("largest") else None)
                for name in names
            ]
            states_table.markdown(markdown(columns, [[state[name] for name in names] for state in states]))
        with told:
            prose("\n\n".join(more))
        st.caption(f"{source} · {measurement.provenance.words}")
