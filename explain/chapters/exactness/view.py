"""The page Exactness, part by part: two kernels beside float64, and other orders of the same sum."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import streamlit as st

from explain import lessons
from explain.chapters.exactness import exercises, figures
from explain.chapters.exactness import orders as ways_to_compute
from explain.chapters.exactness.figures import Way as Found
from explain.chapters.exactness.orders import Way
from explain.chapters.sweeps import masking
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.numbers import count, number, ratio
from explain.output import Output
from explain.source import functions
from explain.ui import controls, layout
from explain.ui.charts import plotted
from explain.ui.code import show_code
from explain.ui.exercises import ask
from explain.ui.follow import waiting
from explain.ui.pictures import drawing
from explain.ui.repeat import repeated
from explain.ui.rerun import following
from explain.workers import WorkerError
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES

AT_ONCE = 2
"""So many outputs are computed at once: there are so many trace workers."""


def choose() -> None:
    """Controls for the attention that the page compares."""
    controls.controls(
        lessons.EXACT,
        ["inputs", "block_n", "dtype"],
        controls.ATTENTION_PRESETS,
        folded=["seq_len", "block_m", "causal"],
        followed=True,
    )


def _chosen() -> Experiment:
    return controls.chosen(lessons.EXACT)


def _bits(experiment: Experiment) -> int:
    return 8 * ITEM_BYTES[experiment.values["dtype"]]


@following
def where_rounded() -> None:
    """Where each kernel rounds."""
    kernels, bits = ("attention_standard", "flash_attention"), _bits(_chosen())
    drawing(*(figures.where_rounded(kernels, bits, narrow=narrow) for narrow in (False, True)))


@following
def introduce() -> None:
    """The same in words."""
    layout.prose(
        "Both kernels read the same Q, K and V. Matmuls add up in 32 bits, and exp is computed in 32 bits. "
        + (
            "Standard attention stores S and P in HBM, so it rounds them, as PyTorch's eager calls do. FlashAttention "
            "keeps S on chip. It rounds P̃ for the second matmul, and O at the end."
            if _bits(_chosen()) < 32
            else "In float32 everything has 32 bits, so no kernel rounds to 16 bits."
        )
    )
    layout.chapter_link("side_by_side", "Side by side steps through both kernels →")


@following
def size_of_errors() -> None:
    """How large both kernels' errors are in each dtype."""
    pairs = {
        dtype: [Way(KERNELS[one.kernel].short, one) for one in pair]
        for dtype, *pair in ways_to_compute.by_dtype(_chosen())
    }
    outputs = _outputs([way for pair in pairs.values() for way in pair])
    if not outputs:
        return
    found = {dtype: [outputs.pop(0) for _ in pair] for dtype, pair in pairs.items()}
    told = (
        "The error of an element of O is its distance from the float64 result. The dot is the median error, the bar is "
        "the largest error. The kernels ran in Triton's interpreter, on the same rounded inputs. BLOCK_N above "
        "applies to FlashAttention only."
    )
    words, picture = layout.sides("How large the errors are")
    with words:
        layout.prose(told)
        with st.container(key="verdict"):
            layout.prose(figures.verdict({dtype: [one.output for one in pair] for dtype, pair in found.items()}))
    with picture:
        drawing(*(figures.errors(found, narrow=narrow) for narrow in (False, True)))
        _table("numbers of dtypes", "dtype, kernel", {
            f"{dtype}, {one.name}": one.output for dtype, pair in found.items() for one in pair
        })  # fmt: skip


@repeated
def _table(key: str, what: str, outputs: Mapping[str, Output], first: Output | None = None) -> None:
    """The numbers of the figure of errors, folded; and how many elements differ from `first`'s."""
    with st.container(key=key):
        st.markdown(figures.numbers(what, outputs, first), unsafe_allow_html=True)


def _outputs(ways: Sequence[Way]) -> list[Found]:
    """The output of each way; empty, with the error shown, if one cannot be computed."""
    asked = tuple((way.experiment.key, way.reverse_keys) for way in ways)
    try:
        with waiting("Running the kernels…", asked) as first, ThreadPoolExecutor(AT_ONCE) as pool:
            run = pool.map if first else map  # what was made needs no thread
            outputs = run(lambda one: output(*one), asked)
            return [Found(way.name, way.experiment.kernel, made) for way, made in zip(ways, outputs, strict=True)]
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return []


@functools.lru_cache(maxsize=500)
def output(key: str, reverse_keys: bool = False) -> Output:
    """One experiment's output beside float64; shared by all sessions. Raises WorkerError."""
    return engine().output(Experiment.from_json(json.loads(key)), reverse_keys=reverse_keys)


@following
def other_orders() -> None:
    """The same attention in other orders of addition: which elements of O change, and by how much the error does."""
    experiment = _chosen()
    first, *others = ways_to_compute.ways(experiment)
    found = {one.name: one.output for one in _outputs([first, *others])}
    same, rounds = {}, ""
    if _bits(experiment) == 16:
        same = {way.name: ways_to_compute.same_maximum(first, way) for way in others}
        rounds = (
            "The main cause is the running maximum m. With another tile size, or with keys in reverse order, the final "
            "m is the same. But m differs while the tiles are read. Then P̃ = exp(S − m) is a different number, "
            "and rounds differently. Where a query used the same m at every key, almost none of its elements change. "
            "With exp2 a few can still change: exp and exp2 round differently.\n\nThe second cause is the order of "
            "additions. "
        )
    words = (
        f"{rounds}Addition of floating-point numbers is not associative. fp16 shows it with small numbers; in fp32 the "
        f"same happens from 2²⁴ on:\n\n{figures.not_associative()}\n\n"
        f"None of these results is *the* right one. {figures.alike([*found.values()])}"
    )
    with layout.part("Another tile size changes the last bits, not the size of the error", words):
        if found:
            drawing(figures.changed(found, same))
            st.caption(f"O of head 0, against {first.name}: an element is coloured where any bit differs.")
            _table("numbers of orders", "order of addition", found, found[first.name])


@st.fragment
def merging_orders() -> None:
    """One softmax, its tiles merged in other orders: the errors."""
    words = (
        "One softmax, its tiles computed in parallel. Each tile gives a pair: its maximum m and its sum ℓ. On paper "
        "the merge of two pairs is associative and commutative, so every order is allowed: from the left, from the "
        "right, or as the tree of *Online softmax*."
    )
    with st.expander("The same for one softmax: tiles merged in other orders"):
        text, picture = st.columns([1, 2], gap="large")
    with picture:
        merged = controls.controls(
            lessons.JOINED, ["inputs", "dtype"], controls.ROW_PRESETS, prefix="row.", folded=["cols", "block_n"]
        )
        if found := _outputs([*ways_to_compute.merges(merged)]):
            drawing(*(figures.errors({"": found}, narrow=narrow) for narrow in (False, True)))
            outputs = {one.name: one.output for one in found}
            _table("numbers of merges", "order of merging", outputs, found[0].output)
            words += (
                f"\n\n{figures.alike([*outputs.values()])}\n\nDo not compare these errors with those of O: each is the "
                f"error of one weight, and {count(merged.values['cols'])} weights sum to 1."
            )
    with text:
        layout.prose(words)


@repeated
def growth() -> None:
    """The error over many tiles of keys."""
    found = {dtype: ways_to_compute.long_rows(dtype) for dtype in ("fp32", "fp16")}
    tiles = found["fp32"][-1][0] / found["fp32"][0][0]
    total, o = (found["fp32"][-1][at] / found["fp32"][0][at] for at in (1, 2))
    narrow = found["fp16"][-1][2] / found["fp16"][0][2]
    words = (
        "Each tile rounds ℓ and Õ once more. α shrinks the old error and the old sum by the same factor, so the "
        f"relative error stays and a new rounding is added.\n\n**fp32:** with {ratio(tiles)} the tiles, the error of "
        f"ℓ grows {number(total, 2)} ×, the error of O {number(o, 2)} ×. Roundings go up and down and partly cancel. "
        f"If none cancelled, the error could grow {ratio(tiles)}.\n\n**fp16:** the error of O grows "
        f"{number(narrow, 2)} ×. The rounding of P̃ is much larger and hides the growth."
    )
    with layout.part("Does the error grow with the number of tiles? Slowly", words), st.container(key="chart growth"):
        plotted(figures.growth(found), "errors by tile", {"displayModeBar": False}, "the errors by number of tiles")
        st.caption(
            "NumPy, not the GPU: FlashAttention's loop on 256 rows of normal scores, head_dim 16 · relative to float64"
        )


@repeated
def base_2() -> None:
    """Why log₂ e is folded into the scale, and the lines that do it."""
    with layout.part(
        "Why do fast kernels use exp2, and the number 1.44269504?",
        "exp(x) is 2 to the power of x · log₂ e, and log₂ e = 1.44269504… A GPU has a unit for powers of 2, so every "
        f"`tl.exp` is a multiplication by log₂ e and an `ex2`.{_instructions()}\n\n`flash_attention_exp2` multiplies "
        "sm_scale by log₂ e once. Its S is then measured in powers of 2: one unit doubles the weight. No exponential "
        "needs the multiplication. At the end lse = (m + log₂ ℓ) · ln 2 is a natural logarithm again.",
    ):
        show_code(_difference_in_base_2(), "diff")
        st.caption("flash_attention → flash_attention_exp2: green lines are new, red lines are gone.")


def _instructions() -> str:
    """What an exponential of either base is compiled to, in words; empty where that is not recorded."""
    each = [masking.per_exponential(kernel) for kernel in masking.BASES]
    if not all(each):
        return ""
    return (
        " To keep very small results exact, the compiler adds a comparison and two multiplications. With the "
        f"subtraction of m that makes {each[0]} instructions per score. `tl.exp2` has {each[1]}: the subtraction and "
        "the `ex2`."
    )


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


@following
def things_to_try() -> None:
    """Questions about the two kernels."""
    experiment = _chosen()
    shown = exercises.Shown(experiment, lambda way: output(way.experiment.key, way.reverse_keys))
    ask("exactness", exercises.QUESTIONS, shown, experiment.key)
