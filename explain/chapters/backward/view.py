"""The page Backward, part by part."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import lessons
from explain.chapters.backward import bugs, exercises, figures, sums
from explain.chapters.backward import measured as recorded
from explain.chapters.backward.chain import Chain
from explain.chapters.papers import flashattention
from explain.chapters.papers.exercises import FIGURE_2
from explain.chapters.speed.results import load
from explain.chapters.what_breaks.figures import changed_line
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.formulas import formula
from explain.figures.labels import unbroken
from explain.figures.numbers import count, number
from explain.gpus import known_as
from explain.records import registry
from explain.records.code import stale_words
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.charts import plotted
from explain.ui.code import show_code
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from explain.workers import WorkerError
from kernels.catalog import KERNELS
from kernels.museum_backward import BUGS

LOGITS, UPSTREAM = (2.0, 1.0, 0.5, -1.0), (1.0, -0.5, 2.0, 0.0)
STEPS = [step / 2 for step in range(-8, 9)]
WAYS = {
    "Two passes": "flash_attention_backward",
    "dQ by atomics": "flash_attention_backward_atomic",
    "P kept": "attention_backward_standard",
}
CALLED = ("add to dV", "dP", "dS", "add to dQ", "add to dK")
"""What the player calls the steps of `figures.METHOD`."""
SIZES = {"seq_len": (512, 1024, 2048, 4096, 8192, 16384), "head_dim": (64, 128)}


WORDS = (
    "The formulas for the gradients need P. FlashAttention never stored it. This page shows how it gets P back.\n\n"
    "Training needs gradients. The layers after attention send back dO: how the loss changes with each element of O. "
    "The backward pass turns it into dQ, dK and dV: how the loss changes with Q, K and V.\n\n"
    f"**From O to P and V.** {unbroken('O = P V')} is linear in P and in V, so {unbroken('dP = dO Vᵀ')} and "
    f"{unbroken('dV = Pᵀ dO')}."
)
ROW = (
    "Take one row. s are its scores, p = softmax(s), and dp is the gradient that arrives at p. Moving one score moves "
    "every p, so its gradient is a sum over the row. Let δ be the mean of dp, weighted by p. Then "
    f"{unbroken('ds = p (dp − δ)')}. A score gets a positive gradient if its dp is above the mean, a negative one if "
    "it is below."
)
DERIVATIVES = ("∂p_i / ∂s_i = p_i (1 − p_i)", "∂p_j / ∂s_i = −p_j p_i   for j ≠ i")
CHAIN = (
    "ds_i = Σ_j dp_j · ∂p_j / ∂s_i = p_i (dp_i − δ)",
    "δ = Σ_j p_j dp_j   the mean of dp, weighted by p: one number per row",
)
ENOUGH = (
    "P = exp(S − L)   L = m + ln ℓ, one number per query",
    "δ_i = Σ_j p_ij dp_ij = Σ_j p_ij (dO_i · V_j) = dO_i · Σ_j p_ij V_j = dO_i · O_i   "
    "for query i and its keys j: dP = dO Vᵀ, and O = P V",
)


def without_p() -> None:
    """What the backward pass does without, and the little that it keeps instead."""
    like = _billed(4096, 64)
    pictures.drawing(figures.kept_or_not(like), figures.kept_or_not(like, narrow=True))
    layout.prose(
        "**L**, the logsumexp: one number per query, the logarithm of the sum of exp(scores). In the code it is `lse`."
    )
    st.caption("16 heads, bf16 · bytes by formula · P and O are drawn to one scale, L is a hairline")


@st.fragment
def one_row() -> None:
    """The chain rule of softmax: the gradient of one score as a sum over all weights, then a short row in numbers,
    with its sliders.
    """
    text, picture = layout.sides("From P to S, in one row")
    with picture:
        st.markdown(f'<div class="formulas">{formula(DERIVATIVES)}{formula(CHAIN)}</div>', unsafe_allow_html=True)
        tip = st.container()
        with st.container(key="one row"):
            moved, drawn = st.columns([1, 2], gap="medium")
    with moved, st.container(key="moved"):
        columns = st.columns(2, gap="medium")
        s, dp = (
            [
                column.select_slider(
                    f"{name}{digit}", STEPS, start, key=f"{name}{i}", bind="query-params", format_func=number
                )
                for i, (digit, start) in enumerate(zip("₀₁₂₃", starts, strict=True))
            ]
            for column, name, starts in zip(columns, ("s", "dp"), (LOGITS, UPSTREAM), strict=True)
        )
    row = Chain.of(s, dp)
    with text:
        layout.prose(f"{ROW}\n\n{figures.worked(row)}")
    with tip:
        layout.prose(figures.tried(row))
    with drawn:
        pictures.drawing(figures.chain(row), figures.chain(row, narrow=True))
    with picture:
        st.caption(figures.checked(row))


def five_formulas() -> DeltaGenerator:
    """What a kernel computes for a tile; returns the place of its picture, which has the sizes of the run."""
    words = (
        f"A kernel does the same for a whole tile. **Forward:** {unbroken('S = QKᵀ · sm_scale')}, "
        f"{unbroken('P = softmax(S)')}, {unbroken('O = P V')}. **Back,** from the last formula to the first:\n\n"
        f"- From {unbroken('O = P V')}: dV (1) and dP (2).\n"
        f"- From {unbroken('P = softmax(S)')}: dS (3). It is the row's formula, for each query.\n"
        f"- From {unbroken('S = QKᵀ · sm_scale')}: dQ (4) and dK (5), with the same factor."
    )
    with layout.part("The same for a tile: five formulas", words):
        drawn = st.container()
        st.caption("shapes: those of a tile in the player below")
    return drawn


def kernels(drawn: DeltaGenerator) -> tuple[Experiment, list[Trace]]:
    """The three backward kernels in the player, one at a time; the bytes of the chosen one. Its formulas are `drawn`
    above.
    """
    steps = ", ".join(f"*{called}* ({n})" for n, called in enumerate(CALLED, 1))
    words = (
        f"The player calls the five formulas {steps}. With atomics (4) and (5) are one step. Where P is not kept, "
        "*scores S* and *P again* recompute it."
    )
    text, picture = layout.sides("The kernels, tile by tile")
    with text:
        layout.prose(words)
        kernel = WAYS[controls.pick("Backward pass", WAYS, "way")]
    with picture:
        experiment = controls.controls(
            lessons.BACKWARD,
            ["inputs", "causal"],
            controls.ATTENTION_PRESETS,
            folded=["seq_len", "block_m", "block_n", "dtype"],
        ).through(kernel)
        st.caption(f"`{experiment.entry.module.replace('.', '/')}.py` · {experiment.entry.idea}")
    tile = [int(experiment.values[name]) for name in ("block_m", "block_n", "head_dim")]
    with drawn:
        pictures.drawing(figures.method(*tile), figures.method(*tile, narrow=True))
    traces = stepper.stepper([experiment], key="backward", chapter="backward")
    if traces:
        stepper.traffic_table(experiment, traces[0])
    return experiment, traces


def why_enough() -> None:
    """How P and δ come from what the forward pass left."""
    words = (
        "These formulas need P and δ. The forward pass has kept neither. It kept O and L.\n\n"
        f"**P comes back from S and L alone:** {unbroken('exp(S − L)')} = {unbroken('exp(S − m) ÷ ℓ')}, because "
        f"{unbroken('L = m + ln ℓ')}. No maximum, no sum, no stored matrix.\n\n"
        f"**δ needs no P.** The sum over keys makes O, so {unbroken('δ = rowsum(dO ∘ O)')}."
    )
    with layout.part("Why O and L are enough", words):
        st.markdown(formula(ENOUGH), unsafe_allow_html=True)
        st.caption(
            "The forward pass is not part of the run below: O and L are given, as it leaves them. The kernel that "
            "keeps P gets P too."
        )


def what_is_kept() -> None:
    """Memory against N: P and its gradients, or two numbers per query."""
    words = (
        "**Autograd keeps P**, because dV and dS need it: N² numbers per head. Its backward pass makes dP and dS of "
        "the same size. **FlashAttention keeps O and L.** It needs O anyway, and L is one number per query; δ is one "
        "more.\n\n"
        "Solid lines are by formula: Q, K, V, O, their gradients, and what each kernel keeps. Open circles are "
        "table 21 of the FlashAttention paper, forward and backward together, on an A100, without mask and dropout. "
        f"{figures.beside_the_paper()}"
    )
    with layout.part("What is kept for the backward pass", words), st.container(key="chart kept"):
        p = flashattention.of_table("torch:flash_backward", 1024).values
        plotted(figures.held(), "memory by N", {"displayModeBar": False}, "memory of both backward passes by N")
        st.caption(
            f"batch {p['batch']}, {p['heads']} heads, d = {p['head_dim']}, 16 bits · formula, and the paper's table 21"
        )


def _billed(n: int, d: int) -> Experiment:
    """The size at which the page counts FLOPs and bytes."""
    sizes = {"heads": 16, "seq_len": n, "head_dim": d, "dtype": "bf16", "block_m": 64, "block_n": 64}
    return Experiment.of("flash_attention_backward", sizes, "normal")


@st.fragment
def the_bill() -> None:
    """FLOPs paid and bytes saved by recomputing, at a size to choose."""
    text, picture = layout.sides("Why recompute? FLOPs paid, bytes saved")
    with picture:
        first, second = st.columns([3, 1])
        n = controls.pick("N", SIZES["seq_len"], "bill_n", 4096, first, format_func=count)
        d = controls.pick("d", SIZES["head_dim"], "bill_d", place=second)
        like = _billed(n, d)
        pictures.drawing(figures.billed(like), figures.billed(like, narrow=True))
        with st.expander("All numbers"):
            st.markdown(figures.bills(like))
        st.caption(
            "one sequence, 16 heads, bf16, tiles of 64 × 64 · by formula · traces of small runs confirm the FLOPs and "
            "the bytes of all loads and stores, not the least from HBM"
        )
    standard, flash = flashattention.FIGURE_2
    with text:
        layout.prose(
            f"**FLOPs.** {figures.saved(like)}\n\n"
            "**Bytes.** Reading P back costs N² numbers per head, and keeping it costs N² of memory. The middle bars "
            "show the least that HBM must move: each launch moves each buffer once, and L2 serves all other loads.\n\n"
            "**Checkpointing** is the same trade for a whole network: keep some layers' inputs, recompute the rest in "
            "the backward pass. That saves memory and costs time. Here memory and bytes are saved, and a GPU does many "
            "FLOPs in the time of one byte: it may save time too."
        )
    with picture:
        layout.prose(
            f"The paper measured {number(standard.ms)} ms for standard attention and {number(flash.ms)} ms for "
            "FlashAttention: forward and backward of GPT-2 medium, sequences of 1,024 tokens, on an A100. "
            f"FlashAttention moved {number(flash.hbm_gb)} GB through HBM, standard attention "
            f"{number(standard.hbm_gb)} GB."
        )
        layout.chapter_link("papers", "The paper's table beside ours: The papers →", {"panel": FIGURE_2})


@st.fragment
def measured() -> None:
    """The recorded time and memory of the three kernels, on a GPU and at a shape to choose."""
    text, picture = layout.sides("How long does it take?")
    with picture:
        gpu, speed = gpu_choice(), load()
        records = [one.record for one in registry.entries()[0]]
        cases = recorded.cases([one for one in records if known_as(one.gpu) == gpu.name], speed)
        if not cases and (cases := recorded.cases(records, speed)):
            st.info(
                f"Not recorded on {gpu.name}. Below: {cases[0].source}. To measure your own GPU: "
                "`python -m explain measure`"
            )
        if not cases:
            return
        found = {case.name: case for case in cases}
        case = found[st.selectbox("Measured at", list(found), key="measured", bind="query-params")]
        pictures.drawing(*(figures.measured_bars(case, narrow=one) for one in (False, True)))
        st.caption(
            f"recorded · {case.source} · the backward pass alone: standard attention has P as an input, and makes dP "
            "and dS · bytes of HBM and spills: counted, from a cold L2"
        )
        if case.fast and speed:
            st.caption(f"written for speed: {case.fast_source}")
            if stale := stale_words(speed.stale):
                st.caption(stale)
    with text:
        layout.prose(figures.concluded(case))
        question, answer = figures.counted(case)
        if answer:
            with st.expander(question):
                layout.prose(answer)
        with st.expander("Memory and HBM bytes of the three kernels"):
            layout.prose(figures.memory_and_bytes(case))
        layout.prose(
            "So the order of the loops saves memory and bytes. Speed also needs code that is written for it: "
            "`kernels/attention_backward.py` is ours."
        )
        layout.chapter_link("speed", "What it took: Speed →", {"view": "Other kernels", "work": "Attention, backward"})


def who_writes_dq() -> None:
    """Which program may write dQ."""
    words = (
        f"{figures.price(_billed(4096, 64))}\n\n"
        "dK and dV are sums over queries. dQ is a sum over keys. So one loop cannot finish all three on chip.\n\n"
        "Let a program keep a tile of keys, and all queries pass. At the end its tiles of dK and dV are complete. Its "
        "sum for dQ covers only its own keys.\n\n"
        "**Two passes, seven matmuls.** Launch 1 computes δ. Launch 2 keeps keys: dK and dV. Launch 3 keeps queries, "
        "and all keys pass: dQ. It must compute S and dP again. Each element is written by one program, in one order: "
        "the same bits every run.\n\n"
        "**FlashAttention-2, five matmuls** (the paper's algorithm 2). There is no pass for dQ. Each program adds "
        "its part of dQ to HBM. In the picture programs 0 to 3 all add to one tile of dQ. Two may add at the same "
        "time, so the addition must be **atomic**. Which program comes first is not fixed."
    )
    with layout.part("Who may write dQ? Five matmuls or seven", words):
        pictures.drawing(figures.owners(), figures.owners(narrow=True))


def in_depth() -> None:
    """Where a reader may stop."""
    st.divider()
    layout.prose("**The backward pass ends here.** What follows is for those who write or debug one.")


def dq_in_every_order(experiment: Experiment) -> None:
    """Why atomics change the last bits of dQ: the traced parts, added in every order."""
    atomic = lessons.summed_by_atomics(experiment)
    trace = stepper.traces_of([atomic])[0]
    if trace is None:
        return
    found, elements = sums.orders(trace), int(sums.parts(trace)[0].size)
    told = (
        "The kernel with atomics adds one part of dQ for each tile of keys. Here these parts, from the input above, "
        "are added in float32 in every order, because a GPU's programs may come in any order. "
        f"{figures.differ(found, elements)} "
        "None of them is wrong: each is within rounding of float64.\n\nWithout atomics two programs can read the same "
        "old sum. Then one addition is lost, and the error is no longer rounding. The interpreter runs one program "
        "after the other, so it cannot show that race by itself; the last line computes it from the same parts. "
        "`python -m explain check` finds such a race from the addresses."
    )
    with layout.part("Why do the bits of dQ differ from run to run?", told):
        st.markdown(figures.in_orders(found, sums.lost(trace), elements))
        st.caption("float32 sums of the traced parts of dQ, head 0 · error against their float64 sum")


def gradient_of_lse() -> None:
    """How dlse joins δ."""
    with layout.part(
        "Does L have a gradient?",
        "A loss may use L itself, for example to merge two halves of the keys, or to keep scores small. L = ln Σ exp(S)"
        ", so the derivative of L by S is P. Its gradient dL adds P · dL to dS:\n\n"
        "dS = P ∘ (dP − δ) + P ∘ dL = P ∘ (dP − (δ − dL))\n\n"
        "So a kernel needs no new loop: it subtracts dL from δ once per query. Where a library ignores dL, the "
        "gradient is silently wrong.",
    ):
        show_code(figures.with_dlse(), "python")
        st.caption("kernels/backward.py, `attention_delta_kernel`")


@st.fragment
def what_breaks() -> None:
    """A bug of the backward pass to choose: its changed line, its verdict, why O does not show it."""
    text, picture = layout.sides("What breaks the gradients and not O")
    with picture:
        bug = BUGS[controls.pick("Bug", BUGS, "bug", format_func=lambda name: BUGS[name].title)]
        line, html = changed_line(bug)
        st.markdown(html, unsafe_allow_html=True)
        st.markdown(verdict(bug.name))
        source = f" · from [{bug.source}]({bug.link})" if bug.link else ""
        st.caption(f"{KERNELS[bug.base].module.replace('.', '/')}.py, line {line} · on random normal numbers{source}")
    with text:
        layout.prose(
            "The forward pass does not run these lines, or does not use what they compute. **A test of O passes"
            f"{', and so may a test of the gradients' if bug.harmless else ': only the gradients are wrong'}.**\n\n"
            f"**{bug.title}.** {bug.story}"
        )


@st.cache_data(max_entries=16, show_spinner=False)
def verdict(name: str) -> str:
    """A bug's result beside float64, from a run in the interpreter; the same for all readers."""
    bug = BUGS[name]
    try:
        broken = Experiment.of(bug.kernel, bug.sizes, bug.shown_by)
        said = engine().check(broken)
        if said["within_tolerance"]:
            return figures.RIGHT_HERE
        if said["output"] == "lse":  # of the forward pass: what the backward pass makes of it
            runs = (broken, broken.through("flash_attention_backward"))
            return figures.wrong("dv", *bugs.values_error(*(engine().trace(run).trace for run in runs)))
        broken_run, right = (engine().trace(one).trace for one in (broken, broken.through(bug.base)))
        return figures.wrong(said["output"], *bugs.wrong(broken_run, right, said["output"]))
    except WorkerError as error:
        return error.words


def questions(experiment: Experiment, traces: list[Trace]) -> None:
    """Things to try; for a kernel that does not recompute S, what the questions are and where they can be answered."""
    if not traces:
        return
    asked = "".join(f"\n1. {one.prompt}" for one in exercises.QUESTIONS)
    runs = [(experiment, traces[0])]
    ask("backward", exercises.QUESTIONS, runs, experiment.key,
        f"These questions are about a kernel that recomputes S:\n{asked}")  # fmt: skip
    if not any(question.asked(runs) for question in exercises.QUESTIONS):
        st.button("Answer them with two passes", on_click=lambda: st.session_state.update(way=next(iter(WAYS))))
