"""The page Softmax, part by part."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import lessons
from explain.chapters.softmax import exercises, figures
from explain.experiment import Experiment
from explain.figures.numbers import count, number
from explain.kept import kept
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.address import query
from explain.ui.exercises import ask

Runs = tuple[Sequence[Experiment], Sequence[Trace]]
FORMULA = (
    "The weight of x is exp(x) / ℓ, with ℓ = Σ exp(x) over its row. **Naive** softmax computes just that. **Safe** "
    "softmax subtracts the row's maximum m first."
)


def two_kernels() -> Runs:
    """The naive and the safe kernel on a row to choose, side by side; their experiments and traces."""
    with layout.part(
        "One row, two kernels",
        "The left kernel computes softmax as the formula says. The right one finds the row's maximum m first and "
        "subtracts it. The player calls the exponentials **P̃**: they are the weights before the division by ℓ.\n\n"
        "A kernel reads the row in short pieces, called **tiles**, from the GPU's memory, HBM.",
    ):
        row = controls.controls(lessons.SAFE, ["inputs", "cols", "block_n", "dtype"], controls.ROW_PRESETS)
    pair = [lessons.naive_twin(row), row]
    traces = stepper.stepper(pair, key="softmax", chapter="softmax")
    stepper.row_sums(pair, traces)
    if row.inputs == lessons.SAFE.inputs:
        with layout.part(
            "Overflow",
            "The largest x of this row is 89. exp(89) is larger than the largest float32, so it becomes ∞: overflow. "
            "The sum is ∞ too. Then ∞ / ∞ is NaN, and the other five weights are exp(x) / ∞ = 0. Safe softmax "
            "computes exp(x − m). x − m is never above 0, so no exponential is above 1.",
        ):
            pictures.drawing(*_exponentials(row))
    return pair, traces


def _logits() -> np.ndarray:
    """The six logits of the sliders, divided by the temperature; nothing is added to them."""
    return np.array([st.session_state[f"x{i}"] for i in range(6)]) / float(st.session_state["temperature"])


def charts() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two places beside each other, for the charts of the naive and the safe softmax."""
    naive, safe = st.columns(2, gap="large")
    return naive.container(), safe.container()


def _add(shift: int | None = None) -> None:
    """Keeps in the address what is added to the logits: `shift`, by default the pressed value."""
    st.query_params["add"] = _written(st.session_state["add"] if shift is None else shift)


@functools.lru_cache(typed=True)  # Streamlit asks several times for each of a slider's values
def _written(value: float) -> str:
    return number(value)


@st.fragment
def six_logits(charts: tuple[DeltaGenerator, DeltaGenerator]) -> None:
    """Six logits with sliders, and their softmax drawn in `charts`. A slider reruns nothing else on the page."""
    layout.prose(
        "**Six logits.** Add 100 to all: naive softmax breaks, safe does not. Then move single logits and watch the "
        "weights."
    )
    shifts = {str(shift): shift for shift in figures.SHIFTS}
    st.session_state["add"] = chosen = shifts.get(query().get("add", "").replace(",", ""), 0)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.button("+ 100: naive breaks", on_click=_add, args=(100,), type="primary")
        more = st.toggle("More values", key="more values", bind="query-params")
    added = st.segmented_control(
        "Add to all logits",
        figures.SHIFTS if more or chosen not in figures.FEW else figures.FEW,
        format_func=_written,
        key="add",
        on_change=_add,
        required=True,
        width="stretch",
    )
    dtype = controls.pick("Format", figures.LARGEST, "format", "fp32")
    with st.expander("Move the six logits"):
        sliders = [column for _ in range(3) for column in st.columns(2)]
        steps = [step / 2 for step in range(-20, 21)]
        logits = [
            column.select_slider(f"x{i}", steps, value, format_func=_written, key=f"x{i}", bind="query-params")
            for i, (column, value) in enumerate(zip(sliders, (-1.0, 0.5, 2.0, 3.5, 0.0, 1.0), strict=True))
        ]
        temperature = st.select_slider(
            "Temperature: divide by", (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0), 1.0, key="temperature", bind="query-params"
        )
    x = tuple(logit / temperature + (added or 0) for logit in logits)
    rows = figures.both(x, dtype)
    for place, name, note, row in zip(charts, ("Naive", "Safe"), figures.tallest(*rows, dtype), rows, strict=True):
        place.html(figures.bars(row, name, note))
    if lost := figures.rounded(x, dtype):
        layout.prose(lost)
    with st.expander("Cross entropy of these logits"):
        layout.prose(
            "The loss of a classifier is −ln of the right class's weight. Computed this way, it is ∞ as soon as "
            "the weight underflows to 0. Cross entropy by logsumexp never computes the weight: "
            "−ln(exp(x − m) / ℓ) = m + ln ℓ − x.\n\nWith small logits all three agree up to rounding. Add 200: the "
            "naive one fails. Set x0 to −10 and divide by 0.1: for class 0, −ln of the safe softmax is ∞ too."
        )
        target = controls.pick("Target class", range(6), "class")
        st.markdown(figures.loss_table(x, target, dtype))
        st.caption("computed on this page · every operation rounded to the format")


@kept
def _exponentials(row: Experiment) -> tuple[str, str]:
    x: np.ndarray = row.make_inputs()["x"][0]
    return figures.exponentials(x), figures.exponentials(x, narrow=True)


def overflow(runs: Runs) -> None:
    """Where exp overflows in each format, and what the kernels make of the row there."""
    pair, traces = runs
    with layout.part(
        "Where exp overflows in each format",
        "fp16 has few bits for the exponent: exp(12) is already too large. bf16 has as many bits for it as fp32, so it "
        "overflows at the same x. The price: bf16 has fewer digits.\n\nThe kernels here compute in fp32, even "
        "when they store fp16 or bf16. So naive softmax overflows above 88.72 in all three. The second table shows "
        "runs on the row above.",
    ):
        st.markdown(figures.overflow_table())
        if traces:
            st.markdown(figures.outcome_table(stepper.traced([*lessons.in_every_dtype(pair[0]), pair[1]])))


def same_answer() -> None:
    """Why subtracting the maximum changes no weight."""
    with layout.part(
        "Why the answer is the same",
        "The factor exp(−m) is in the numerator and in the denominator, so it cancels, for any m. With the maximum, no "
        "exponential exceeds 1 and one of them is exactly 1. So the sum is never 0.",
    ):
        large = "" if layout.narrow() else r"\LARGE "
        st.latex(
            large + r"\frac{e^{x-m}}{\sum_j e^{x_j-m}} = \frac{e^{-m}\,e^{x}}{e^{-m}\sum_j e^{x_j}} "
            r"= \frac{e^{x}}{\sum_j e^{x_j}}"
        )


def cost(runs: Runs) -> None:
    """Loads and stores per element, as the traces counted them."""
    pair, traces = runs
    naive, safe = (f"{count(trace.traffic()['read_bytes'])} bytes" for trace in traces) if traces else ("", "")
    here = f" Here naive reads {naive}, safe {safe}." if traces else ""
    with layout.part(
        "What it costs",
        f"Naive softmax reads the row twice, safe softmax three times.{here} Softmax does little arithmetic. On a GPU "
        "it spends most of its time on loads and stores, so each pass matters. The table has the accesses per element, "
        "counted while the kernels ran. The bytes below it are those of safe softmax. **✓ formula = trace** means: a "
        "formula gives the same bytes as the recorded run.",
    ):
        if traces:
            st.markdown(figures.access_table(list(zip(pair, traces, strict=True))))
            stepper.traffic_table(pair[-1], traces[-1])


def closing(runs: Runs) -> None:
    """Things to try, questions, sources."""
    pair, traces = runs
    if traces:
        shown = exercises.Shown(tuple(zip(pair, traces, strict=True)), _logits)
        ask("softmax", exercises.QUESTIONS, shown, pair[-1].key)
    layout.closing("softmax")
