"""What stands under every view of the page Speed: how it was measured, things to try, questions, sources."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import exercises
from explain.chapters.speed.chosen import Chosen
from explain.ui.exercises import ask
from explain.ui.layout import prose, questions, sources


def closing(shown: Chosen | None = None) -> None:
    """How it was measured, things to try, questions, sources."""
    with st.expander("How this was measured"):
        prose(
            "Every kernel first runs on random data and is compared with float64. Its **tolerance** is twice the "
            "error of the same formula in eager PyTorch, plus a rounding band. Kernels that exceed it are not timed. "
            "The kernels of a shape are then timed in turn, round after round, so a slow moment affects all of them, "
            "with L2 emptied before each launch. The **peak** is measured too: for bytes a kernel that only moves "
            "them, for FLOPs a large matmul. It is not a physical limit, but what a simpler kernel reaches on the "
            "same GPU."
        )
    if shown:
        about = exercises.Shown(shown.case, shown.cases, shown.limit)
        ask("speed", exercises.QUESTIONS, about, f"{shown.case.named} {shown.result.source}")
    questions(
        (
            "Is the fast kernel less exact?",
            "No. All kernels but the first round the same numbers at the same places: P̃ to 16 bits before the second "
            "matmul, O at the end. Only the order of the sums differs, and with it the last bits. Every kernel has "
            "the same tolerance against float64; kernels that exceed it are not timed.",
        ),
        (
            "Why is 100% of the peak out of reach?",
            "The peak is a matmul and nothing else. Attention also takes an exponential of each element of S. At d = "
            "128 the special function units need half as long for them as the tensor cores need for both matmuls. The "
            "part that does not overlap with a matmul costs time.",
        ),
        (
            "Why not write everything in Gluon?",
            "Each of the Gluon kernels is made for one chip. In plain Triton the compiler decides which warp loads, "
            "which waits and where a tile is stored, so those kernels run on any GPU that Triton supports, with any N "
            "and d. Our dispatcher uses the special kernel where it fits and a general one elsewhere.",
        ),
    )
    sources(
        "T. Dao, FlashAttention-2, arXiv 2307.08691, 2023",
        "J. Shah et al., FlashAttention-3: fast and accurate attention with asynchrony and low-precision, arXiv "
        "2407.08608, 2024 (warp specialization, ping-pong scheduling, intra-warpgroup overlap; throughput of "
        "exponentials and matmuls)",
        "T. Dao et al., Flash-Decoding for long-context inference, 2023",
        "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018",
    )
