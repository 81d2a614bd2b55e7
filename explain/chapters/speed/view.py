"""What stands under every view of the page Speed: how it was measured, things to try, questions, sources."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import exercises
from explain.chapters.speed.chosen import Chosen
from explain.ui import layout
from explain.ui.exercises import ask


def closing(shown: Chosen | None = None) -> None:
    """How it was measured, things to try, questions, sources."""
    with st.expander("How this was measured"):
        layout.prose(
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
    layout.closing("speed")
