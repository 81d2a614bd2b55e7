"""An experiment's run on a page: the player, its bytes by formula and by trace, the sum of its row."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from explain import tours
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.labels import unbroken
from explain.figures.numbers import count, fixed
from explain.figures.tables import Column, markdown
from explain.kept import kept
from explain.player.component import Run, Toured, player
from explain.player.view import view
from explain.trace.model import Tile, Trace
from explain.ui.follow import waiting
from explain.ui.repeat import repeated
from explain.ui.titles import titles as titles_of
from explain.workers import WorkerError
from kernels.traffic import Term, Traffic

SHOWN = "runs in the player"
"""The keys of the runs that the session's player shows; none where one failed."""
OWN_TOUR = "own tour"
"""The session's own tour, dropped onto its page."""
LESSONS = 256
"""How many runs are kept ready: a class looks at many of them at the same time."""
Step = int | Callable[[Sequence[Trace]], int | None]


def stepper(
    experiments: Sequence[Experiment],
    key: str,
    step: Step | None = None,
    titles: Sequence[str] | None = None,
    request: int = 0,
    reveal: int = 0,
    watch: str | None = None,
    chapter: str = "",
    onward: tuple[str, str] | None = None,
) -> list[Trace]:
    """Shows the player for one run, or for two side by side, and returns their traces; shows the error if there is
    none.

    `step` is where to start, and where to go when it or `request` changes; or a function of the traces that returns it.
    When `reveal`, a count, grows, the player comes into sight. `titles` replace those of explain/ui/titles.py. `watch`
    is the variable or term that the player marks on its timeline.
    The tour through these runs begins with the player; that of `chapter`, if several chapters have one. After its last
    caption it leads `onward`: a title, and an address in the app.
    """
    try:
        with waiting("Running the kernel line by line…", keys := tuple(experiment.key for experiment in experiments)):
            runs = [lesson(key) for key in keys]
    except WorkerError as error:
        st.session_state[SHOWN] = ()
        st.error(error.words, icon=":material/error:")
        return []
    st.session_state[SHOWN] = keys
    ready = [run for run, _ in runs]
    named = titles or titles_of(experiments)
    ready = [_titled(run, title) for run, title in zip(ready, named, strict=True)]
    traces = [trace for _, trace in runs]
    at = step(traces) if callable(step) else step
    tour = _tour(chapter, experiments, onward)
    player(ready, key=key, step=at, request=request, reveal=reveal, worked=True, watch=watch, tour=tour)
    return traces


@kept
def _titled(run: Run, title: str) -> Run:
    return run if run.view["title"] == title else replace(run, view={**run.view, "title": title})


def _tour(chapter: str, experiments: Sequence[Experiment], onward: tuple[str, str] | None) -> Toured | None:
    """The tour through these runs: a lecturer's own, else the chapter's, else another's; None without one. It leads
    `onward`.
    """
    own = own_tour()
    for tour in (own if own and own.runs == tuple(experiments) else None, tours.through(experiments, chapter)):
        if tour:
            try:
                return _leading(tour, onward)
            except tours.TourError:  # the page of the lecturer's own tour says why
                continue
    return None


@functools.lru_cache(maxsize=128)
def _leading(tour: tours.Tour, onward: tuple[str, str] | None) -> Toured:
    """A tour for the player, and what its last caption leads to. Raises TourError and WorkerError."""
    then = {"onward": dict(zip(("title", "address"), onward, strict=True))} if onward else {}
    return Toured.of({**toured(tour), **then})


def own_tour() -> tours.Tour | None:
    """The tour dropped onto its page, or the one that the app was started with; None without a readable one."""
    dropped: tours.Tour | None = st.session_state.get(OWN_TOUR)
    try:
        return dropped or tours.given()
    except tours.TourError:
        return None


@functools.lru_cache(maxsize=128)
def toured(tour: tours.Tour) -> dict[str, Any]:
    """A tour with its events found in its runs' traces, as the player takes it. Raises TourError and WorkerError."""
    return tours.resolved(tour, [lesson(experiment.key)[1] for experiment in tour.runs])


@functools.lru_cache(maxsize=LESSONS)
def lesson(key: str) -> tuple[Run, Trace]:
    """One experiment's trace, decoded and ready for the player; shared by all sessions. Raises WorkerError."""
    return _lesson(key)


@st.cache_resource(max_entries=8, show_spinner=False)  # it lets all who ask at the same time wait for one
def _lesson(key: str) -> tuple[Run, Trace]:
    experiment = Experiment.from_json(json.loads(key))
    run = engine().trace(experiment)
    return Run(run, view(experiment, run.trace, run.origin)), run.trace


def traces_of(experiments: Sequence[Experiment]) -> list[Trace | None]:
    """Each experiment's trace; None where it was not recorded and cannot run here."""
    found: list[Trace | None] = []
    for experiment in experiments:
        try:
            found.append(lesson(experiment.key)[1])
        except WorkerError:
            found.append(None)
    return found


def traced(experiments: Sequence[Experiment]) -> list[tuple[Experiment, Trace]]:
    """The experiments that have a trace, with their traces."""
    found = zip(experiments, traces_of(experiments), strict=True)
    return [(experiment, trace) for experiment, trace in found if trace is not None]


def shown(experiments: Sequence[Experiment]) -> list[tuple[Experiment, Trace]]:
    """The experiments with their traces, if the page's player above shows them: a run that failed there is not tried
    again.
    """
    keys = tuple(experiment.key for experiment in experiments)
    return traced(experiments) if st.session_state.get(SHOWN) == keys else []


def by_buffer(traffic: Traffic, trace: Trace) -> list[tuple[str, str, str, int, int, str]]:
    """A row for each buffer and direction: the sum of its terms with its bytes, its bytes in the trace, and why; both
    over all launches.
    """
    terms: dict[tuple[str, bool], list[Term]] = {}
    for term in traffic.terms:
        terms.setdefault((term.buffer, term.written), []).append(term)
    rows = []
    for (buffer, written), own in terms.items():
        counts = [launch.written_bytes if written else launch.read_bytes for launch in trace.launches]
        traced = sum(counted.get(f"{buffer}_ptr", 0) for counted in counts)
        formula = " + ".join(f"{count(term.elements)} × {term.times} × {term.item_bytes} B" for term in own)
        why = "; ".join(term.why for term in own)
        rows.append(
            (f"`{buffer}`", "written" if written else "read", formula, sum(term.bytes for term in own), traced, why)
        )
    return rows


@repeated
def traffic_table(experiment: Experiment, trace: Trace) -> None:
    """Shows a run's bytes and FLOPs, and folded below each buffer's bytes: formula and trace must agree."""
    traffic, got = experiment.traffic, trace.traffic()
    columns = ("buffer", "direction", "formula", Column("bytes, formula"), Column("bytes, trace"), "why")
    totals, agree = traffic.totals(), got == traffic.totals()
    said = ", ".join(f"**{count(totals[f'{way}_bytes'])} B** {way}" for way in ("read", "written"))
    mark = unbroken(":green[✓ formula = trace]" if agree else ":red[✗ formula ≠ trace]").replace("✓ ", "✓\u00a0")
    matmuls = f", {count(matmul)} of them in matmuls" if (matmul := traffic.flops_of("matmul")) else ""
    several = f", {rows_of} rows" if (rows_of := experiment.values.get("rows", 1)) > 1 else ""
    st.markdown(f"HBM{several}: {said}. FLOPs, counting masked lanes: **{count(traffic.flops)}**{matmuls}. {mark}")
    table = markdown(columns, by_buffer(traffic, trace))
    folded = f"<details><summary>Each buffer's bytes</summary>\n\n{table}\n\n</details>"
    st.markdown(folded, unsafe_allow_html=True)
    if not agree:
        st.error("Formula and trace disagree: one of them is wrong. Please report this run.", icon=":material/error:")


@repeated
def row_sums(experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """Shows the sum of each kernel's stored row. It must be 1, or 0 for a row of −∞ only."""
    for experiment, trace, column in zip(experiments, traces, st.columns(len(experiments)), strict=False):
        loaded, stored = ([v.numpy() for _, v in trace.history(name) if isinstance(v, Tile)] for name in ("x", "y"))
        total = float(sum(tile.sum() for tile in stored))
        right = float(any((tile > -math.inf).any() for tile in loaded))
        mark = ":green" if abs(total - right) < 1e-2 else ":red"
        column.markdown(f"**{experiment.entry.title}**: sum of the weights y = {mark}[**{fixed(total, 4)}**]")
