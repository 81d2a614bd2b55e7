"""Is it exact? The errors of FlashAttention and of standard attention beside each other, and the orders of the same sum."""

from __future__ import annotations

import json
from collections.abc import Iterable

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.exactness import figures
from explain.chapters.exactness import outputs as exactness
from explain.chapters.exactness.figures import scientific
from explain.chapters.exactness.outputs import Output, Way
from explain.engine import engine
from explain.experiment import Experiment
from explain.ui.layout import prose
from explain.ui.stepper import failure, lesson
from explain.workers import WorkerError

WHERE = "interpreter · float64 reference on the very same inputs, element by element"
BUDGET = "budget: what is allowed at an element, twice the error of the plain formula in that dtype and a rounding band"


def beside_each_other(experiment: Experiment) -> None:
    """The answer in a sentence, then the errors of both kernels, by element and by row."""
    try:
        with st.spinner("Running both kernels…"):
            flash, standard = (output(one.key) for one in (exactness.flash(experiment), exactness.standard(experiment)))
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    prose(
        f"In **{experiment.values['dtype']}** the largest error, |O − float64|, of FlashAttention-2 is **{scientific(flash.largest())}**, that of standard attention "
        f"**{scientific(standard.largest())}**{_compared(flash.largest(), standard.largest())}. Half of all its elements are within {scientific(flash.quantile(0.5))}, of "
        f"standard attention's within {scientific(standard.quantile(0.5))}."
    )
    st.plotly_chart(_errors(experiment.key), key="errors by element", config={"displayModeBar": False})
    st.caption(WHERE + (". Shown: head 0 of sequence 0." if flash.error.shape[0] * flash.error.shape[1] > 1 else ""))


def by_dtype(experiment: Experiment) -> None:
    """Quantiles of both kernels' errors in each dtype."""
    lines = ["| dtype | kernel | half within | 99% within | largest | of its budget |", "|---|---|---:|---:|---:|---|"]
    try:
        for dtype, *pair in exactness.by_dtype(experiment):
            for name, one in zip(("FlashAttention-2", "standard"), pair, strict=True):
                found = output(one.key)
                lines.append(
                    f"| {dtype} | {name} | {scientific(found.quantile(0.5))} | {scientific(found.quantile(0.99))} | {scientific(found.largest())} | {_budget(found)} |"
                )
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    with st.container(key="numbers by dtype"):
        st.markdown("\n".join(lines))
    st.caption(f"{WHERE}; inputs are rounded to each dtype first, so the error is the arithmetic's alone · {BUDGET}")


def orders(experiment: Experiment) -> None:
    """The same attention in several orders."""
    _beside_the_first("numbers of orders", "order of the additions", exactness.ways(experiment))


def merges(experiment: Experiment) -> None:
    """The same softmax, its tiles joined in each order."""
    _beside_the_first("numbers of merges", "order of the joins", exactness.merges(experiment))


def _beside_the_first(key: str, what: str, ways: Iterable[Way]) -> None:
    """How many elements of each way's output have other bits than the first's, and how far each is from float64."""
    try:
        found = [(way.name, output(way.experiment.key, way.reverse_keys)) for way in ways]
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    first = found[0][1]
    lines = [
        f"| {what} | other bits, of {first.error.size:,} | half within | largest error | of its budget |",
        "|---|---:|---:|---:|---|",
    ]
    for name, one in found:
        changed = "" if one is first else f"{one.other_bits(first):,}"
        lines.append(
            f"| {name} | {changed} | {scientific(one.quantile(0.5), 2)} | {scientific(one.largest(), 2)} | {_budget(one)} |"
        )
    with st.container(key=key):
        st.markdown("\n".join(lines))
    st.caption(f"{WHERE} · other bits: how many elements are not the very number that the first line has")


def tile_after_tile(experiment: Experiment) -> None:
    """The error of the unfinished output after each tile of keys, from the trace."""
    try:
        st.plotly_chart(
            _after_each_tile(exactness.flash(experiment).key), key="errors by tile", config={"displayModeBar": False}
        )
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    st.caption("trace · Õ / ℓ after each tile of keys, against float64 attention over the keys seen so far")


@st.cache_resource(max_entries=500, show_spinner=False)
def output(key: str, reverse_keys: bool = False) -> Output:
    """One experiment's output beside float64; shared by all sessions. Raises WorkerError."""
    return engine().output(Experiment.from_json(json.loads(key)), reverse_keys=reverse_keys)


@st.cache_resource(max_entries=64, show_spinner=False)
def _errors(key: str) -> go.Figure:
    experiment = Experiment.from_json(json.loads(key))
    flash, standard = (output(one.key) for one in (exactness.flash(experiment), exactness.standard(experiment)))
    return figures.errors(flash, standard, experiment.values["block_m"])


@st.cache_resource(max_entries=64, show_spinner=False)
def _after_each_tile(key: str) -> go.Figure:
    experiment = Experiment.from_json(json.loads(key))
    return figures.after_each_tile(exactness.after_each_tile(lesson(key)[1], experiment))


def _compared(flash: float, standard: float) -> str:
    if not flash or not standard:
        return ""
    ratio = standard / flash
    return (
        f", {ratio:.1f} times as large"
        if ratio > 1.1
        else f", {1 / ratio:.1f} times smaller"
        if ratio < 1 / 1.1
        else ", about the same"
    )


def _budget(found: Output) -> str:
    share = (found.error / found.allowed).max() if found.allowed.all() else 0.0
    return f":green[✓ {share:.2f}]" if found.within_budget else f":red[✗ {share:.2f}]"
