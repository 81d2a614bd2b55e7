"""An experiment's run on a page: the player, its bytes counted twice, what its row adds up to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from explain import lessons
from explain.engine import engine
from explain.experiment import Experiment
from explain.player import Run, player
from explain.trace.model import Tile, Trace
from explain.workers import WorkerError, WorkerFailed

Step = int | Callable[[Sequence[Trace]], int | None]


def stepper(
    experiments: Sequence[Experiment],
    key: str,
    step: Step | None = None,
    titles: Sequence[str] | None = None,
    request: int = 0,
    watch: str | None = None,
) -> list[Trace]:
    """The player for one run, or two side by side; their traces. Says in words why there is none.

    `step` is where to start, and where to go when it or `request` changes, or says so of the traces. `titles` replace
    the kernels' own; `watch` is what the player marks on its timeline.
    """
    try:
        with st.spinner("Running the kernel line by line…", show_time=True):
            runs = [lesson(experiment.key) for experiment in experiments]
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return []
    shown = [run for run, _ in runs]
    if titles is not None:
        shown = [replace(run, view={**run.view, "title": title}) for run, title in zip(shown, titles, strict=True)]
    traces = [trace for _, trace in runs]
    at = step(traces) if callable(step) else step
    player(shown, key=key, step=at, request=request, worked=True, watch=watch)
    return traces


@st.cache_resource(max_entries=64, show_spinner=False)
def lesson(key: str) -> tuple[Run, Trace]:
    """One experiment's trace, decoded and ready for the player; shared by all sessions. Raises WorkerError."""
    experiment = Experiment.from_json(json.loads(key))
    run = engine().trace(experiment)
    return Run(run, lessons.view(experiment, run.trace, run.origin)), run.trace


def traces_of(experiments: Sequence[Experiment]) -> list[Trace | None]:
    """Each experiment's trace, None where there is none: not recorded, and nothing here to run it."""
    found: list[Trace | None] = []
    for experiment in experiments:
        try:
            found.append(lesson(experiment.key)[1])
        except WorkerError:
            found.append(None)
    return found


def traced(experiments: Sequence[Experiment]) -> list[tuple[Experiment, Trace]]:
    """These experiments with their traces; without those that have none."""
    found = zip(experiments, traces_of(experiments), strict=True)
    return [(experiment, trace) for experiment, trace in found if trace is not None]


def failure(error: WorkerError) -> str:
    """What happened, for a reader of the page."""
    return error.message if isinstance(error, WorkerFailed) else str(error)


def traffic_table(experiment: Experiment, trace: Trace) -> None:
    """Formula and trace side by side, buffer by buffer: two counts that must agree to the byte."""
    traffic = experiment.entry.formula(experiment.values)
    traced = [launch.totals for launch in trace.launches]
    rows = []
    for term in traffic.terms:
        way = "written" if term.written else "read"
        counts = [c.written_bytes if term.written else c.read_bytes for c in traced]
        total = sum(count.get(f"{term.buffer}_ptr", 0) for count in counts)
        rows.append(
            (term.buffer, way, f"{term.elements:,} × {term.times} × {term.item_bytes} B", term.bytes, total, term.why)
        )
    lines = ["| buffer | | formula | formula, bytes | trace, bytes | why |", "|---|---|---|---:|---:|---|"]
    lines += [
        f"| `{b}` | {way} | {formula} | {size:,} | {total:,} | {why} |" for b, way, formula, size, total, why in rows
    ]
    got = trace.traffic()
    lines.append(f"| **read** | | | **{traffic.read_bytes:,}** | **{got['read_bytes']:,}** | |")
    lines.append(f"| **written** | | | **{traffic.written_bytes:,}** | **{got['written_bytes']:,}** | |")
    lines.append(
        f"| **FLOPs** | | | **{traffic.flops:,}** | **{got['flops']:,}** | {traffic.flops_of('matmul'):,} of them in matrix products |"
    )
    st.markdown("\n".join(lines))
    if got != traffic.totals():
        st.error(
            "Formula and trace disagree: one of them is wrong. Please report this experiment.", icon=":material/error:"
        )


def row_sums(experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """What each kernel's row adds up to, from the values it stored: 1, or 0 for a row of nothing but −∞, unless something is wrong."""
    for experiment, trace, column in zip(experiments, traces, st.columns(len(experiments)), strict=False):
        loaded, stored = ([v.numpy() for _, v in trace.history(name) if isinstance(v, Tile)] for name in ("x", "y"))
        total = float(sum(tile.sum() for tile in stored))
        right = float(any((tile > -math.inf).any() for tile in loaded))
        mark = ":green" if abs(total - right) < 1e-2 else ":red"
        column.markdown(
            f"**{experiment.entry.title}**: the row adds up to {mark}[**{'NaN' if math.isnan(total) else f'{total:.4f}'}**]"
        )
