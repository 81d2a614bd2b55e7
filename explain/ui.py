"""What the pages share: controls bound to the address, the player with its trace, the GPU's word on it. A page only lays out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitPageNotFoundError
from streamlit.runtime.pages_manager import PagesManager

from explain import lessons, recordings
from explain.device.measurement import Measurement
from explain.device.prefixes import compare_prefixes
from explain.engine import engine, has_triton, scratch
from explain.experiment import Experiment, ParameterError
from explain.player import Run, player
from explain.trace import file as trace_file
from explain.trace.model import Tile, Trace
from explain.workers import WorkerError, WorkerFailed
from kernels.inputs import PRESETS
from kernels.parameters import Parameter
from kernels.traffic import tiles

LABELS = {
    "inputs": "Input",
    "dtype": "dtype",
    "block_m": "Tile: queries, BLOCK_M",
    "block_n": "Tile: keys, BLOCK_N",
    "seq_len": "Queries, N",
    "kv_len": "Keys",
    "causal": "Causal",
}
ROW_LABELS = {"inputs": "Input", "cols": "Elements in the row", "block_n": "Elements in a tile, BLOCK_N"}
LARGEST_ON_SCREEN = {
    "rows": 1,
    "batch": 1,
    "heads": 1,
    "kv_heads": 1,
    "seq_len": 128,
    "kv_len": 128,
    "cols": 128,
    "block_m": 64,
    "block_n": 64,
    "head_dim": 128,
}
"""What still reads well in the player; the command line takes more."""
MOST_VISITS = 1024

_BITING = tuple(preset.name for preset in PRESETS.values() if not preset.sentence and preset.name != "notebook")
ROW_PRESETS = ("notebook", "sentence_short", *_BITING)
ATTENTION_PRESETS = ("sentence", "sentence_short", "sentence_ragged", *_BITING)


def chapter(title: str) -> None:
    """Opens a page: its title, once the app that it belongs to runs.

    Until `st.navigation` is first called a Streamlit server that finds a folder `pages/` serves its files by itself, without app.py; so
    the first visit to a fresh server, when it is to a chapter's own address, starts over as the app.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()
    st.title(title, anchor=False)


def chapter_link(page: str, label: str) -> None:
    """A link to another page; plain words where a page runs by itself and knows no other."""
    try:
        st.page_link(f"pages/{page}.py", label=label)
    except StreamlitPageNotFoundError:
        st.markdown(label)


def controls(default: Experiment, names: Sequence[str], presets: Sequence[str]) -> Experiment:
    """Draws a control for each name, bound to the page's address, and returns the experiment chosen.

    What cannot be used (from the address or from controls that do not fit together) is said under its control, which keeps showing
    it; the last experiment that could be used is returned.
    """
    state, labels = f"experiment of {default.kernel}", ROW_LABELS if "cols" in default.values else LABELS
    current, error = _current(default, state)
    parameters = {parameter.name: parameter for parameter in default.entry.parameters}
    chosen: dict[str, object] = {}
    places: dict[str, DeltaGenerator] = {}
    for name, column in zip(names, st.columns(len(names), vertical_alignment="top"), strict=True):
        with column:
            key = f"{state}: {name}"
            if key not in st.session_state or st.session_state.get(f"{state}: shown") != current:
                st.session_state[key] = _choices(current)[name]
            if name == "inputs":
                chosen[name] = _preset(current, presets, key)
            else:
                chosen[name] = _control(parameters[name], labels[name], key)
            places[name] = st.empty()
    st.session_state[f"{state}: shown"] = current
    if any(value != _choices(current)[name] for name, value in chosen.items()):
        try:
            st.session_state[state] = _fits_screen(_changed(current, chosen)), None
            _write_address(st.session_state[state][0], default, state)
            st.rerun()
        except ParameterError as trouble:
            st.session_state[state], error = (current, None), trouble
    if error is not None:
        places.get(error.parameter, st).markdown(f":small[:red[**{error}**]]")
    return current


def _choices(experiment: Experiment) -> dict[str, object]:
    return {**experiment.values, "inputs": experiment.inputs}


def _changed(current: Experiment, chosen: Mapping[str, object]) -> Experiment:
    """The experiment of the controls; a new preset brings its own sizes along. Raises ParameterError."""
    parameters = {name: value for name, value in chosen.items() if name != "inputs"}
    inputs = str(chosen.get("inputs", current.inputs))
    if inputs != current.inputs:
        parameters = {name: parameters.get(name, value) for name, value in current.values.items() if name not in _SIZES}
        return Experiment.of(current.kernel, parameters, inputs, current.seed)
    return Experiment.of(current.kernel, {**current.values, **parameters}, inputs, current.seed)


_SIZES = ("cols", "seq_len", "kv_len", "head_dim")


def _current(default: Experiment, state: str) -> tuple[Experiment, ParameterError | None]:
    """The page's experiment and what is wrong with its address: the session's own, unless the address was changed (a link, Back)."""
    known = default.to_query()
    query = {name: value for name, value in st.query_params.items() if name in known and isinstance(value, str)}
    arrived = f"{state}: inputs" not in st.session_state  # Streamlit drops controls, and the address, with their page
    if state in st.session_state and arrived and not query:
        _write_address(st.session_state[state][0], default, state)
    elif state not in st.session_state or query != st.session_state[f"{state}: address"]:
        st.session_state[state], st.session_state[f"{state}: address"] = _from_query(query, default), query
    experiment, error = st.session_state[state]
    return experiment, error


def _write_address(experiment: Experiment, default: Experiment, state: str) -> None:
    """Into the page's address, what differs from `default`; all of it for another preset, which brings defaults of its own.

    The step in it was one of the run before, so it goes.
    """
    known = default.to_query()
    every = {name: value for name, value in experiment.to_query().items() if name != "kernel"}
    query = {n: v for n, v in every.items() if v != known[n] or experiment.inputs != default.inputs}
    for name in (*known, "step"):
        if name in query and st.query_params.get(name) != query[name]:
            st.query_params[name] = query[name]
        elif name not in query and name in st.query_params:
            del st.query_params[name]
    st.session_state[f"{state}: address"] = query


def _from_query(query: Mapping[str, str], default: Experiment) -> tuple[Experiment, ParameterError | None]:
    another = query.get("kernel", default.kernel) != default.kernel
    own = {} if another else {n: v for n, v in default.to_query().items() if n not in (*_SIZES, "inputs", "seed")}
    try:
        experiment = Experiment.from_query({**own, **query}, default)
        if experiment.kernel != default.kernel:
            raise ParameterError("kernel", experiment.kernel, f"this page shows {default.kernel}")
        return _fits_screen(experiment), None
    except ParameterError as error:
        return default, error


def _fits_screen(experiment: Experiment) -> Experiment:
    for name, most in LARGEST_ON_SCREEN.items():
        if (value := experiment.values.get(name, 0)) > most:
            raise ParameterError(name, value, f"must be at most {most} on this page; the command line takes more")
    p = experiment.values
    rows, cols = experiment.entry.score_shape(p)
    visits = tiles(rows, p.get("block_m", 1)) * tiles(cols, p["block_n"])
    if visits > MOST_VISITS:
        words = f"makes {visits:,} tiles to step through; this page takes {MOST_VISITS:,}, the command line more"
        raise ParameterError("block_n", p["block_n"], words)
    return experiment


def _preset(current: Experiment, presets: Sequence[str], key: str) -> str:
    options = list(presets) if current.inputs in presets else [current.inputs, *presets]
    return st.selectbox(
        LABELS["inputs"],
        options,
        key=key,
        format_func=lambda name: name.replace("_", " "),
        help="\n".join(f"- **{name.replace('_', ' ')}**: {PRESETS[name].help}" for name in options),
    )


def _control(parameter: Parameter, label: str, key: str) -> object:
    most = min(parameter.maximum, LARGEST_ON_SCREEN.get(parameter.name, parameter.maximum))
    words = f"{parameter.help[0].upper()}{parameter.help[1:]}."
    match parameter.kind:
        case "flag":
            return st.toggle(label, key=key, help=words)
        case "choice":
            return st.selectbox(label, parameter.choices, key=key, help=words)
        case "tile":
            sides = [side for side in (1 << bit for bit in range(17)) if parameter.minimum <= side <= most]
            return st.selectbox(label, sides, key=key, help=f"{words} A power of two.")
        case _:
            # No bounds: the browser would refuse in silence what `controls` refuses in words.
            return st.number_input(label, step=1, key=key, help=f"{words} Up to {most} on this page.")


def stepper(experiments: Sequence[Experiment], key: str) -> list[Trace]:
    """The player for one run, or two side by side; their traces. Says in words why there is none."""
    try:
        with st.spinner("Running the kernel line by line…", show_time=True):
            runs = [lesson(experiment.key) for experiment in experiments]
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return []
    st.fragment(player)([run for run, _ in runs], key=key)  # coming to rest on a step runs nothing else
    return [trace for _, trace in runs]


@st.cache_resource(max_entries=64, show_spinner=False)
def lesson(key: str) -> tuple[Run, Trace]:
    """One experiment's trace, decoded and ready for the player; shared by all sessions. Raises WorkerError."""
    experiment = Experiment.from_json(json.loads(key))
    run = engine().trace(experiment)
    trace = trace_file.read(run.data)
    return Run(run.data, lessons.view(experiment, trace, run.origin)), trace


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
    st.markdown(
        f"Largest error against float64: `{measurement.error:.3g}` of `{measurement.budget:.3g}` allowed, {verdict}."
    )
    if timing:
        st.markdown(
            f"Median time: **{1e3 * timing.median_ms:.1f} µs** over {timing.launches} launches ({1e3 * timing.p20_ms:.1f} to "
            f"{1e3 * timing.p80_ms:.1f} µs from the 20th to the 80th percentile). The first call, compilation included: {timing.first_call_ms:.0f} ms."
        )
    if states:
        st.markdown(
            "Launched on its first tiles of keys alone, the compiled kernel must come to the traced run's states:"
        )
        lines = ["| tiles | keys | largest difference in O | largest difference in lse |", "|---:|---:|---:|---:|"]
        lines += [
            f"| {s['tiles']} | {s['keys']} | {s['largest difference in O']:.1e} | {s['largest difference in lse']:.1e} |"
            for s in states
        ]
        st.markdown("\n".join(lines))


def row_sums(experiments: Sequence[Experiment], traces: Sequence[Trace]) -> None:
    """What each kernel's row adds up to, from the values it stored: 1, or 0 for a row of nothing but −∞, unless something is wrong."""
    for experiment, trace, column in zip(experiments, traces, st.columns(len(experiments)), strict=False):
        loaded, stored = ([v.numpy() for _, v in trace.history(name) if isinstance(v, Tile)] for name in ("x", "y"))
        total = float(sum(tile.sum() for tile in stored))
        right = float(any((tile > -math.inf).any() for tile in loaded))
        mark = ":green" if abs(total - right) < 1e-2 else ":red"
        column.markdown(f"**{experiment.entry.title}**: the row adds up to {mark}[**{total:.4f}**]")


def engine_status() -> None:
    """What runs the kernels on this machine, and what does not and why."""
    if has_triton():
        st.markdown(":green[●] **Triton's CPU interpreter** runs and records the kernels, here on this machine.")
    else:
        st.markdown(
            ":orange[●] **Recorded runs.** Triton runs on Linux only; the chapters open on traces recorded there."
        )
    searching = engine().device_if_known() is None
    st.fragment(_gpu_status, run_every=2.0 if searching else None)(searching)


def _gpu_status(searching: bool) -> None:
    status = engine().device_if_known()
    if status is None:
        st.markdown(":gray[●] Looking for a GPU…")
        return
    if searching:
        st.rerun()  # the whole page, once: a page that is done looking asks no more
    if status.available and status.provenance:
        st.markdown(f":green[●] **{status.provenance['gpu']}** runs them compiled.")
    else:
        st.markdown(f":gray[●] No GPU in use: {status.reason}")
