"""The page Exactness, part by part: FlashAttention and standard attention beside float64, and other orders of the same
sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

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
from explain.ui import controls, layout
from explain.ui.exercises import ask
from explain.ui.stepper import lesson
from explain.workers import WorkerError

WHERE = "interpreter · error: |result − float64| of each element, on the same rounded inputs"
TOLERANCE = (
    "error ÷ tolerance: the largest of any element; ≤ 1 passes. Each element has its own tolerance: 2 × the error of "
    "the same formula in eager PyTorch, plus a rounding band that grows with the roundings. Standard attention rounds "
    "S and P too, so its tolerance is larger, and a larger error can be a smaller share of it"
)


def beside_each_other(experiment: Experiment) -> None:
    """The largest errors in a sentence, then the errors of both kernels by element and by row."""
    try:
        with st.spinner("Running both kernels…"):
            flash, standard = (
                output(one.key) for one in (ways_to_compute.flash(experiment), ways_to_compute.standard(experiment))
            )
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    layout.prose(
        f"In **{experiment.values['dtype']}** the largest error, |O − float64|, is **{scientific(flash.largest())}** "
        f"for FlashAttention-2 and **{scientific(standard.largest())}** for standard "
        f"attention{_compared(flash.largest(), standard.largest())}. Half of the elements have at most "
        f"{scientific(flash.quantile(0.5))} and {scientific(standard.quantile(0.5))}."
    )
    with st.container(key="chart errors"):  # on a phone it keeps a width at which it can be read, and scrolls
        st.plotly_chart(_errors(experiment.key), key="errors by element", config={"displayModeBar": False})
    st.caption(WHERE + (". Shown: head 0 of sequence 0." if flash.error.shape[0] * flash.error.shape[1] > 1 else ""))


def by_dtype(experiment: Experiment) -> None:
    """Quantiles of both kernels' errors in each dtype."""
    try:
        rows = [
            (dtype, one.entry.short, *_quantiles(found := output(one.key)), _share(found))
            for dtype, *pair in ways_to_compute.by_dtype(experiment)
            for one in pair
        ]
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    errors = (Column(heading, scientific) for heading in ("median error", "99% within", "largest error"))
    with st.container(key="numbers by dtype"):
        st.markdown(markdown(("dtype", "kernel", *errors, Column("error ÷ tolerance")), rows))
    st.caption(f"{WHERE}. Inputs are rounded to each dtype first. · {TOLERANCE}")


def orders(experiment: Experiment) -> None:
    """The same attention, its terms added in several orders."""
    _beside_the_first("numbers of orders", "order of addition", ways_to_compute.ways(experiment))


def merges(experiment: Experiment) -> None:
    """The same softmax, its tiles merged in each order."""
    _beside_the_first("numbers of merges", "order of merging", ways_to_compute.merges(experiment))


def _beside_the_first(key: str, what: str, ways: Iterable[Way]) -> None:
    """How many elements of each output differ from the first output's, and how far each output is from float64."""
    try:
        found = [(way.name, output(way.experiment.key, way.reverse_keys)) for way in ways]
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    first = found[0][1]
    columns = (
        what,
        Column(f"elements that differ, of {count(first.error.size)}"),
        Column("median error", scientific),
        Column("largest error", scientific),
        Column("error ÷ tolerance"),
    )
    rows = [
        (name, "" if one is first else one.changed_from(first), one.quantile(0.5), one.largest(), _share(one))
        for name, one in found
    ]
    with st.container(key=key):
        st.markdown(markdown(columns, rows))
    st.caption(f"{WHERE}. Elements that differ from the first line in any bit.")


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
    flash, standard = (
        output(one.key) for one in (ways_to_compute.flash(experiment), ways_to_compute.standard(experiment))
    )
    return figures.errors(flash, standard, experiment.values["block_m"])


@st.cache_resource(max_entries=64, show_spinner=False)
def _after_each_tile(key: str) -> go.Figure:
    experiment = Experiment.from_json(json.loads(key))
    return figures.after_each_tile(ways_to_compute.after_each_tile(lesson(key)[1], experiment))


def _compared(flash: float, standard: float) -> str:
    return f" ({ratio(standard / flash)} FlashAttention-2's)" if flash and standard else ""


def _quantiles(found: Output) -> tuple[float, float, float]:
    return found.quantile(0.5), found.quantile(0.99), found.largest()


def _share(found: Output) -> str:
    share = (found.error / found.allowed).max() if found.allowed.all() else 0.0
    return f":green[✓ {share:.2f}]" if found.within_tolerance else f":red[✗ {share:.2f}]"


def choose() -> Experiment:
    """The attention that the page compares."""
    return controls.controls(
        lessons.EXACT,
        ["inputs", "seq_len", "block_m", "block_n", "dtype", "causal"],
        controls.ATTENTION_PRESETS,
        a_row=3,
    )


def rounding() -> None:
    """Where each kernel rounds."""
    layout.prose(
        "Both kernels read the same Q, K and V and depart from the true answer by rounding alone. Standard attention "
        "rounds S and P to the input's dtype on their way through HBM. FlashAttention keeps S, ℓ and Õ in float32 on "
        "chip and rounds P̃ for the matmul and O at the end: fewer roundings, so in 16 bits its error is as a "
        "rule the smaller one."
    )


def other_orders(experiment: Experiment) -> None:
    """The same attention and the same softmax in other orders of addition."""
    st.header("Other orders: the bits differ, the error does not", anchor=False)
    layout.prose(
        "Addition of floating-point numbers is not associative. A tile of another size, keys in the opposite order, "
        "exp2 for exp: each adds up the same terms in another order, or rounds at other places. None of these results "
        "is *the* right one; float64 says how far each is from that."
    )
    orders(experiment)
    layout.prose(
        "A single softmax shows it best. Its tiles run in parallel and each gives its maximum m and its sum ℓ; "
        "merging two of these pairs is associative and commutative on paper, so any order will do: from the left, "
        "from the right, or as the tree of *Online softmax*."
    )
    merges(
        controls.controls(lessons.JOINED, ["inputs", "cols", "block_n", "dtype"], controls.ROW_PRESETS, prefix="row.")
    )


def growth(experiment: Experiment) -> None:
    """The error after each tile of keys."""
    with layout.part(
        "Does the error grow from tile to tile?",
        "Each tile of keys rescales ℓ and Õ by α and adds its own part, so each visit rounds again. But α ≤ 1 shrinks "
        "the old error along with the old sum, and the sums are in float32: follow a row of this map from left to "
        "right.",
    ):
        tile_after_tile(experiment)


def base_2() -> None:
    """Why log2 e is folded into the scale."""
    st.header("Why 1.44269504?", anchor=False)
    layout.prose(
        "exp(x) = 2^(x · log2 e), and log2 e = 1.44269504… A GPU's unit for exponentials computes powers of 2, so "
        "every `tl.exp` is a multiplication by log2 e and an `ex2`. The kernel `flash_attention_exp2` multiplies "
        "sm_scale by log2 e once, on the host: its S counts in powers of 2, and the multiplication at each "
        "exponential is gone. At the end lse = (m + log2 ℓ) · ln 2 is a natural logarithm again."
    )


def closing(experiment: Experiment) -> None:
    """Things to try, questions, sources."""
    shown = exercises.Shown(experiment, lambda way: output(way.experiment.key, way.reverse_keys))
    ask("exactness", exercises.QUESTIONS, shown, experiment.key)
    layout.questions(
        (
            "Is FlashAttention an approximation?",
            "No. It computes softmax(QKᵀ)V with every score in it. Its bits differ from another implementation's as "
            "those of two exact implementations do that add in different orders. Asked in flash-attention "
            "[#145](https://github.com/Dao-AILab/flash-attention/issues/145), "
            "[#410](https://github.com/Dao-AILab/flash-attention/issues/410) and "
            "[#1445](https://github.com/Dao-AILab/flash-attention/issues/1445).",
        ),
        (
            "My test compares FlashAttention with PyTorch in fp16 and finds differences. What should it compare?",
            "Each of the two with float64 on the same rounded inputs. A difference between two rounded results says "
            "nothing about which is nearer; a fair test allows twice the error that the plain formula has in the same "
            "dtype.",
        ),
        (
            "Why does training not repeat to the bit, then?",
            "Because order is not fixed everywhere: a backward pass that adds with atomics, or a split of the keys "
            "over programs that depends on the machine, changes the order from run to run. The forward kernels here "
            "visit tiles in one order, so they repeat to the bit.",
        ),
    )
    layout.sources(
        "T. Dao et al., FlashAttention, arXiv 2205.14135, 2022",
        "T. Dao, FlashAttention-2, arXiv 2307.08691, 2023",
        "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018: ⊕ is "
        "associative and commutative",
    )
