"""The page Exactness, part by part: two kernels beside float64, and other orders of the same sum."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import lessons
from explain.chapters.exactness import exercises, figures
from explain.chapters.exactness import orders as ways_to_compute
from explain.chapters.exactness.figures import Way as Found
from explain.chapters.exactness.orders import Way
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.numbers import number, ratio, scientific
from explain.figures.tables import Column, markdown
from explain.output import Output
from explain.source import functions
from explain.ui import controls, layout
from explain.ui.exercises import ask
from explain.ui.pictures import drawing
from explain.workers import WorkerError
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES

WHERE = "interpreter · error: |result − float64| of each element, on the same rounded inputs"
TOLERANCE = (
    "The tolerance of an element is twice the error of the same formula in eager PyTorch, plus a rounding band. "
    "Error ÷ tolerance ≤ 1 passes."
)


def size_of_errors(experiment: Experiment, beside: DeltaGenerator) -> None:
    """Where each kernel rounds, `beside` the page's goal, and how large both kernels' errors are in each dtype."""
    bits = 8 * ITEM_BYTES[experiment.values["dtype"]]
    with beside:
        drawing(figures.where_rounded(("attention_standard", "flash_attention"), bits))
    try:
        with st.spinner("Running both kernels…"):
            found = {
                dtype: [Found(KERNELS[one.kernel].short, one.kernel, output(one.key)) for one in pair]
                for dtype, *pair in ways_to_compute.by_dtype(experiment)
            }
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    layout.introduce(figures.verdict({dtype: [one.output for one in pair] for dtype, pair in found.items()}))
    layout.introduce(
        "Exact does not mean the same bits. It means: no score is left out or approximated. Both kernels read the "
        "same Q, K and V. Matmuls add in 32 bits, and exp is computed in 32 bits. "
        + (
            "Standard attention stores S and P in HBM, so it rounds them. FlashAttention keeps S on chip. It rounds P̃ "
            "for the second matmul, and O at the end."
            if bits < 32
            else "In float32 nothing is narrower, so neither kernel rounds to 16 bits."
        )
    )
    told = (
        "The error of an element of O is its distance from the float64 result. The dot is the median error, the bar is "
        "the largest error."
    )
    with layout.part("How large the errors are", told):
        drawing(figures.errors(found))
        _table("numbers of dtypes", "dtype, kernel", {
            f"{dtype}, {one.name}": one.output for dtype, pair in found.items() for one in pair
        })  # fmt: skip


def _table(key: str, what: str, outputs: Mapping[str, Output], first: Output | None = None) -> None:
    """The numbers of the figure of errors, folded; and how many elements differ from `first`'s."""
    columns: list[str | Column] = [
        what,
        *(Column(name, scientific) for name in ("median error", "99% within", "largest error")),
    ]
    columns += [Column("largest error ÷ tolerance"), ""]
    columns += [Column("elements that differ")] * (first is not None)
    rows = [
        (
            name, *(one.quantile(share) for share in (0.5, 0.99, 1.0)), one.most_of_tolerance(),
            ":green[✓ within]" if one.within_tolerance else ":red[✗ exceeded]",
            *([None if one is first else one.changed_from(first)] if first else []),
        )
        for name, one in outputs.items()
    ]  # fmt: skip
    passed = sum(one.within_tolerance for one in outputs.values())
    with st.container(key=key):
        st.markdown(
            f"<details><summary>The numbers: {passed} of {len(rows)} within their tolerance</summary>\n\n"
            f"{markdown(columns, rows)}\n\n{TOLERANCE}\n\n</details>",
            unsafe_allow_html=True,
        )
    st.caption(WHERE)


def _orders(key: str, what: str, ways: Iterable[Way]) -> Mapping[str, Output]:
    """The errors of outputs that differ in the order of addition only, and how many elements differ from the first."""
    try:
        found = [Found(way.name, way.experiment.kernel, output(way.experiment.key, way.reverse_keys)) for way in ways]
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return {}
    drawing(figures.errors({"": found}))
    outputs = {one.name: one.output for one in found}
    _table(key, what, outputs, found[0].output)
    return outputs


@st.cache_resource(max_entries=500, show_spinner=False)
def output(key: str, reverse_keys: bool = False) -> Output:
    """One experiment's output beside float64; shared by all sessions. Raises WorkerError."""
    return engine().output(Experiment.from_json(json.loads(key)), reverse_keys=reverse_keys)


def choose() -> Experiment:
    """The attention that the page compares."""
    return controls.controls(
        lessons.EXACT,
        ["inputs", "block_n", "dtype"],
        controls.ATTENTION_PRESETS,
        folded=["seq_len", "block_m", "causal"],
    )


def other_orders(experiment: Experiment) -> None:
    """The same attention and the same softmax in other orders of addition."""
    first, *others = ways_to_compute.ways(experiment)
    same, rounds = {}, ""
    if ITEM_BYTES[experiment.values["dtype"]] == 2:
        same = {way.name: ways_to_compute.same_maximum(first, way) for way in others}
        rounds = (
            "The main cause is m. Tiles of another size, or keys in reverse order, give another running maximum, so "
            "P̃ = exp(S − m) is another number and is rounded differently. Blue marks the queries with the same m at "
            "every key: they hardly "
            "change.\n\nThe second cause is the order of additions. "
        )
    words = (
        f"{rounds}Addition of floating-point numbers is not associative. In fp16:\n\n{figures.not_associative()}\n\n"
        "None of these results is *the* right one. float64 shows how far off each of them is."
    )
    with layout.part("FlashAttention in other orders: other bits, errors of similar size", words):
        found = _orders("numbers of orders", "order of addition", [first, *others])
    drawing(figures.changed(found, same))
    if found:
        st.caption(f"O of head 0, against {first.name}: an element is coloured where any bit differs.")
    words = (
        "One softmax, its tiles computed in parallel. Each tile gives a pair: its maximum m and its sum ℓ. On paper "
        "the merge of two pairs is associative and commutative, so every order is allowed: from the left, from the "
        "right, or as the tree of *Online softmax*."
    )
    with layout.part("Merging tiles in another order", words):
        merged = controls.controls(
            lessons.JOINED, ["inputs", "cols", "block_n", "dtype"], controls.ROW_PRESETS, prefix="row."
        )
        _orders("numbers of merges", "order of merging", ways_to_compute.merges(merged))


def growth() -> None:
    """The error over many tiles of keys."""
    found = {dtype: ways_to_compute.long_rows(dtype) for dtype in ("fp32", "fp16")}
    tiles = found["fp32"][-1][0] / found["fp32"][0][0]
    total, o = (found["fp32"][-1][at] / found["fp32"][0][at] for at in (1, 2))
    narrow = found["fp16"][-1][2] / found["fp16"][0][2]
    words = (
        "Each tile rounds ℓ and Õ once more. α shrinks the old error and the old sum by the same factor, so the "
        f"relative error stays and a new rounding is added.\n\n**fp32:** with {ratio(tiles)} the tiles the error of "
        f"ℓ is {ratio(total)}, that of O {ratio(o)}. Roundings go up and down and partly cancel, as in any long sum. "
        f"√{number(tiles)} = {number(tiles**0.5)}.\n\n**fp16:** the error of O is {ratio(narrow)}. The rounding of "
        "P̃ is much larger and hides the growth."
    )
    with layout.part("Does the error grow with the number of tiles? Slowly", words), st.container(key="chart growth"):
        st.plotly_chart(figures.growth(found), key="errors by tile", config={"displayModeBar": False})
        st.caption(
            "NumPy, not the GPU: FlashAttention's loop on 256 rows of normal scores, head_dim 16 · relative to float64"
        )


def base_2() -> None:
    """Why log₂ e is folded into the scale, and the lines that do it."""
    with layout.part(
        "Why 1.44269504?",
        "exp(x) is 2 to the power of x · log₂ e, and log₂ e = 1.44269504… A GPU has a unit for powers of 2, so every "
        "`tl.exp` is a multiplication by log₂ e and an `ex2`.\n\n`flash_attention_exp2` multiplies sm_scale by log₂ e "
        "once. Its S then counts in powers of 2, and no exponential needs the multiplication. At the end lse = (m + "
        "log₂ ℓ) · ln 2 is a natural logarithm again.",
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
    return "\n".join(
        re.findall(
            r"^[-+](?! *#).*(?:tl\.exp|tl\.log|\* s[mc]\w*(?:scale|log2)$).*", functions.marked(plain, base_2), re.M
        )
    )


def closing(experiment: Experiment) -> None:
    """Things to try, questions, sources."""
    shown = exercises.Shown(experiment, lambda way: output(way.experiment.key, way.reverse_keys))
    ask("exactness", exercises.QUESTIONS, shown, experiment.key)
    layout.closing("exactness")
