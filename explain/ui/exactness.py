"""Is it exact? The errors of FlashAttention and of standard attention beside each other, and the orders of the same sum."""

from __future__ import annotations

import json
import math

import plotly.graph_objects as go
import streamlit as st

from explain import exactness
from explain.engine import engine
from explain.exactness import Output
from explain.experiment import Experiment
from explain.figures import exactness as figures
from explain.ui.layout import prose
from explain.ui.runs import failure, lesson
from explain.workers import WorkerError

WHERE = "interpreter · float64 reference on the very same inputs, element by element"


def beside_each_other(experiment: Experiment) -> None:
    """The answer in a sentence, then the errors of both kernels, by element and by row."""
    try:
        with st.spinner("Running both kernels…"):
            flash, standard = (output(one.key) for one in (exactness.flash(experiment), exactness.standard(experiment)))
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    prose(
        f"In **{experiment.values['dtype']}** the largest error of FlashAttention-2 is **{_sci(flash.largest())}**, that of standard attention "
        f"**{_sci(standard.largest())}**{_compared(flash.largest(), standard.largest())}. Half of all elements are within {_sci(flash.quantile(0.5))} and "
        f"{_sci(standard.quantile(0.5))}."
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
                    f"| {dtype} | {name} | {_sci(found.quantile(0.5))} | {_sci(found.quantile(0.99))} | {_sci(found.largest())} | {_budget(found)} |"
                )
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    st.markdown("\n".join(lines))
    st.caption(WHERE + "; inputs are rounded to each dtype first, so the error is the arithmetic's alone")


def orders(experiment: Experiment) -> None:
    """The same attention in several orders: how many elements of O have other bits, and how far each is from float64."""
    lines = [
        "| order of the additions | elements with other bits | largest error | half within | of its budget |",
        "|---|---:|---:|---:|---|",
    ]
    try:
        first: Output | None = None
        for way in exactness.ways(experiment):
            found = output(way.experiment.key, way.reverse_keys)
            first = first or found
            changed = "" if found is first else f"{found.other_bits(first):,} of {found.error.size:,}"
            lines.append(
                f"| {way.name} | {changed} | {_sci(found.largest(), 2)} | {_sci(found.quantile(0.5), 2)} | {_budget(found)} |"
            )
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    st.markdown("\n".join(lines))
    st.caption(WHERE)


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


def _sci(value: float, digits: int = 1) -> str:
    """2.7·10⁻⁴"""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
