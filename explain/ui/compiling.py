"""A kernel's compilation on a page: its compiled cost, or the progress, with a button that starts or stops it."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explain.compile.service import Answer, compiler, provenance
from explain.experiment import Experiment
from explain.figures.numbers import fixed
from explain.gpus import Gpu
from explain.records import registry
from explain.ui.follow import follow


def once_compiled(
    experiment: Experiment, gpu: Gpu, draw: Callable[[Answer | None], object] = lambda answer: None
) -> None:  # fmt: skip
    """Draws what is known of a compilation. Without a cost its progress stands below, or a button that starts it."""

    def drawn() -> None:
        answer = compiler().look(experiment, gpu.compute_capability)
        draw(answer)
        if answer is None or answer.cost is None:
            offer(experiment, gpu, answer)

    def working() -> bool:
        answer = compiler().look(experiment, gpu.compute_capability)
        return bool(answer and answer.working)

    follow(drawn, working)


def offer(experiment: Experiment, gpu: Gpu, answer: Answer | None = None) -> None:
    """The progress of a compilation with a button to stop it; or its error, and a button to start it."""
    tile = (experiment, gpu.compute_capability)
    if answer is not None and answer.working:
        with st.container(horizontal=True, vertical_alignment="center"):
            seconds = fixed(answer.seconds, 0)
            st.markdown(f":material/hourglass_top: {answer.working}, {seconds} s. The page stays usable.")
            st.button("Stop", icon=":material/stop:", key="stop compiling", on_click=compiler().cancel, args=tile)
        return
    if answer is not None and answer.error:
        st.error(answer.error, icon=":material/error:")
    label = f"Compile this tile for {gpu.target}"
    st.button(label, icon=":material/memory:", key="compile tile", on_click=compiler().start, args=tile)


def source(answer: Answer) -> str:
    """Where a cost is from, and which other compiler made the kernels that were timed; "" without a cost."""
    if answer.cost is None:
        return ""
    record = registry.recorded()
    timed = record.provenance.triton if record else answer.cost.triton
    other = f". The kernels timed in this app: triton {timed}; their registers can differ"
    return provenance(answer.cost, answer.origin) + other * (timed != answer.cost.triton)
