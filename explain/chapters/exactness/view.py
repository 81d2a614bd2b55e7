"""The page Exactness, part by part: two kernels beside float64, and other orders of the same sum."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping

import plotly.graph_objects as go
import streamlit as st

from explain import lessons
from explain.chapters.exactness import exercises, figures
from explain.chapters.exactness import orders as ways_to_compute
from explain.chapters.exactness.orders import Way
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.numbers import count, ratio, scientific
from explain.figures.tables import Column, markdown
from explain.output import Output
from explain.source import functions
from explain.ui import controls, layout
from explain.ui.exercises import ask
from explain.ui.pictures import drawing
from explain.ui.stepper import lesson
from explain.workers import WorkerError

WHERE = "interpreter · error: |result − float64| of each element, on the same rounded inputs"


def beside_each_other(experiment: Experiment) -> None:
    """How large both kernels' errors are, beside where each kernel rounds."""
    try:
        with st.spinner("Running both kernels…"):
            flash, standard = (
                output(one.key) for one in (ways_to_compute.flash(experiment), ways_to_compute.standard(experiment))
            )
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    words = (
        f"Each element of O has an error, |O − float64|. In **{experiment.values['dtype']}** the median error of "
        f"standard attention is {_compared(flash.quantile(0.5), standard.quantile(0.5))}.\n\n"
        "Both kernels read the same Q, K and V. Rounding is their only error. Standard attention stores S and P in "
        "HBM, so it rounds them to the input's dtype. FlashAttention keeps S, ℓ and Õ in float32 on chip. It rounds P̃ "
        "for the second matmul, and O at the end. In 16 bits fewer roundings usually give a smaller error."
    )
    with layout.part("How large the errors are", words), st.container(key="chart errors"):  # a phone scrolls it
        st.plotly_chart(_errors(experiment.key), key="errors by element", config={"displayModeBar": False})
        st.caption(WHERE)


def by_dtype(experiment: Experiment) -> None:
    """Quantiles of both kernels' errors in each dtype."""
    words = (
        "The same runs, with the inputs rounded to each dtype first. A result passes (✓) if the error of each element "
        "is within its tolerance: twice the error of the same formula in eager PyTorch, plus a rounding band."
    )
    with layout.part("In each dtype", words):
        try:
            rows = [
                (dtype, one.entry.short, *_quantiles(found := output(one.key)), _verdict(found))
                for dtype, *pair in ways_to_compute.by_dtype(experiment)
                for one in pair
            ]
        except WorkerError as error:
            st.error(error.words, icon=":material/error:")
            return
        errors = (Column(heading, scientific) for heading in ("median error", "99% within", "largest error"))
        with st.container(key="numbers of dtypes"):
            st.markdown(markdown(("dtype", "kernel", *errors, "tolerance"), rows))
        st.caption(WHERE)


def _beside_the_first(key: str, what: str, ways: Iterable[Way]) -> Mapping[str, Output]:
    """How many elements of each output differ from the first output's, and how far each output is from float64."""
    try:
        found = {way.name: output(way.experiment.key, way.reverse_keys) for way in ways}
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return {}
    first = next(iter(found.values()))
    columns = (
        what,
        Column(f"elements that differ, of {count(first.error.size)}"),
        Column("median error", scientific),
        Column("largest error", scientific),
        "tolerance",
    )
    rows = [
        (name, None if one is first else one.changed_from(first), one.quantile(0.5), one.largest(), _verdict(one))
        for name, one in found.items()
    ]
    with st.container(key=key):
        st.markdown(markdown(columns, rows))
    st.caption(f"{WHERE}. Elements that differ from the first line in any bit.")
    return found


def tile_after_tile(experiment: Experiment) -> None:
    """The error of the unfinished output after each tile of keys, from the trace."""
    try:
        st.plotly_chart(
            _after_each_tile(ways_to_compute.flash(experiment).key),
            key="errors by tile",
            config={"displayModeBar": False},
        )
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    st.caption(
        "trace · largest error of Õ / ℓ after each tile of keys, against float64 attention over the keys seen so far"
    )


@st.cache_resource(max_entries=500, show_spinner=False)
def output(key: str, reverse_keys: bool = False) -> Output:
    """One experiment's output beside float64; shared by all sessions. Raises WorkerError."""
    return engine().output(Experiment.from_json(json.loads(key)), reverse_keys=reverse_keys)


@st.cache_resource(max_entries=64, show_spinner=False)
def _errors(key: str) -> go.Figure:
    experiment = Experiment.from_json(json.loads(key))
    pair = (ways_to_compute.flash(experiment), ways_to_compute.standard(experiment))
    return figures.errors({one.kernel: output(one.key) for one in pair})


@st.cache_resource(max_entries=64, show_spinner=False)
def _after_each_tile(key: str) -> go.Figure:
    experiment = Experiment.from_json(json.loads(key))
    return figures.after_each_tile(ways_to_compute.after_each_tile(lesson(key)[1], experiment))


def _compared(flash: float, standard: float) -> str:
    return f"**{ratio(standard / flash)}** that of FlashAttention-2" if flash else scientific(standard)


def _quantiles(found: Output) -> tuple[float, float, float]:
    return found.quantile(0.5), found.quantile(0.99), found.largest()


def _verdict(found: Output) -> str:
    return ":green[✓ within]" if found.within_tolerance else ":red[✗ exceeded]"


def choose() -> Experiment:
    """The attention that the page compares."""
    return controls.controls(
        lessons.EXACT,
        ["inputs", "seq_len", "block_m", "block_n", "dtype", "causal"],
        controls.ATTENTION_PRESETS,
        a_row=3,
    )


def other_orders(experiment: Experiment) -> None:
    """The same attention and the same softmax in other orders of addition."""
    words = (
        "Addition of floating-point numbers is not associative: (a + b) + c and a + (b + c) can differ in the last "
        "bit. Tiles of another size and keys in reverse order add the same terms in another order. exp2 rounds at "
        "other places. None of these results is *the* right one. float64 tells how far each of them is off."
    )
    with layout.part("Other orders: the bits differ, the error does not", words):
        place = st.container()
        found = _beside_the_first("numbers of orders", "order of addition", ways_to_compute.ways(experiment))
        with place:
            drawing(figures.changed(found))
            st.caption("O of head 0, its first 64 queries from left to right: coloured where any bit differs.")
    words = (
        "One softmax, its tiles computed in parallel. Each tile gives a pair: its maximum m and its sum ℓ. On paper "
        "the merge of two pairs is associative and commutative, so every order is allowed: from the left, from the "
        "right, or as the tree of *Online softmax*."
    )
    with layout.part("Merging tiles in another order", words):
        merged = controls.controls(
            lessons.JOINED, ["inputs", "cols", "block_n", "dtype"], controls.ROW_PRESETS, prefix="row."
        )
        _beside_the_first("numbers of merges", "order of merging", ways_to_compute.merges(merged))


def growth(experiment: Experiment) -> None:
    """The error after each tile of keys."""
    with layout.part(
        "Does the error grow from tile to tile?",
        "Each tile of keys rescales ℓ and Õ by α and adds its own part, so each tile rounds again. But α ≤ 1 shrinks "
        "the old error together with the old sum, and both sums are in float32. Read a row from left to right: that is "
        "one tile of queries, after each tile of keys.",
    ):
        tile_after_tile(experiment)


def base_2() -> None:
    """Why log2 e is folded into the scale, and the lines that do it."""
    with layout.part(
        "Why 1.44269504?",
        "exp(x) is 2 to the power of x · log2 e, and log2 e = 1.44269504… A GPU has a unit for powers of 2, so every "
        "`tl.exp` is a multiplication by log2 e and an `ex2`.\n\n`flash_attention_exp2` multiplies sm_scale by log2 e "
        "once. Its S then counts in powers of 2, and no exponential needs the multiplication. At the end lse = (m + "
        "log2 ℓ) · ln 2 is a natural logarithm again.",
    ):
        st.code(_difference_in_base_2(), language="diff", wrap_lines=True)
        st.caption("flash_attention → flash_attention_exp2: green lines are new, red lines are gone.")


@functools.cache
def _difference_in_base_2() -> str:
    """How scale, exponentials and logarithm differ in both kernels and their launches, as a diff."""
    plain, base_2 = (
        functions.functions_source("kernels.attention", (f"{name}_kernel", name))
        for name in ("flash_attention", "flash_attention_exp2")
    )
    return "\n".join(re.findall(r"^[-+](?! *#).*(?:tl\.exp|tl\.log|scale).*", functions.marked(plain, base_2), re.M))


def closing(experiment: Experiment) -> None:
    """Things to try, questions, sources."""
    shown = exercises.Shown(experiment, lambda way: output(way.experiment.key, way.reverse_keys))
    ask("exactness", exercises.QUESTIONS, shown, experiment.key)
    layout.closing("exactness")
