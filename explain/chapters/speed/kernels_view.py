"""The other kernels beside the libraries, over the length and as speedups, and the ideas of each."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import fast_kernels, kernels_figures, results
from explain.chapters.speed.chosen import OTHERS, SHAPE_LABELS, Chosen, chosen
from explain.chapters.speed.results import TABLES
from explain.chapters.speed.rungs import Twin
from explain.figures import lines
from explain.ui.charts import chart
from explain.ui.controls import pick
from explain.ui.layout import chapter_link, part, prose
from explain.ui.pictures import drawing


def traced_instead(gluon: bool, twin: Twin | None) -> None:
    """How a kernel is tested, and a link to traced runs with the same arithmetic."""
    if gluon:
        prose("Written in Gluon. Triton's interpreter cannot run Gluon, so this kernel is measured, not traced.")
    else:
        prose("Plain Triton. Tests run it in the interpreter and compare it with float64.")
    if twin:
        chapter_link(twin.page, twin.words, twin.query)


def others() -> None:
    """The fast kernels beside the libraries, and the ideas of each."""
    titles = {known.title: name for name, known in TABLES.items() if name != "attention"}
    table = titles[pick("What to compute", titles, "work", wrap=True, on_change=_forget)]
    if shown := chosen(table, OTHERS):
        _bars(shown)
        curve(shown)
        shapes(shown)
    st.header("Why it is fast", anchor=False)
    _ideas(table)


def _forget() -> None:
    """Another table has other shapes."""
    for name in ("shape", *SHAPE_LABELS):
        st.query_params.pop(f"{OTHERS}{name}", None)


def _bars(shown: Chosen) -> None:
    """The case's variants as bars."""
    case, limit, result = shown.case, shown.limit, shown.result
    words = [kernels_figures.bars_told(case, limit), f"{case.named}. Counted: {TABLES[case.table].work}."]
    if any(one.function in results.DISPATCHERS for one in case.variants):
        words.append("Our dispatcher is the call to use in a program: it runs the fastest kernel that takes the shape.")
    if limit is None:
        words.append("No peak: it was not measured on this GPU. `python -m explain measure --plan roofs` measures it.")
    with part("Our kernels beside the libraries", "\n\n".join(words)):
        drawing(shown.bars)
        said = [result.source, result.state, f"peak: {limit.source}" if limit else "", kernels_figures.settings(case)]
        st.caption(" · ".join(filter(None, said)))


def curve(shown: Chosen) -> None:
    """The kernels over the length; nothing if only one length was measured."""
    if shown.curve is None:
        return
    case, along = shown.case, TABLES[shown.case.table].along
    st.header(f"Over {along}", anchor=False)
    name = f"speed of {case.table}, {case.dtype}{', causal' if case.causal else ''}"
    chart(shown.curve, name, lines.as_csv(shown.curve), alt=f"Throughput of each kernel over {along}")
    st.caption(shown.result.source)


def shapes(shown: Chosen) -> None:
    """Every shape of the table, as speedups."""
    with st.expander("Every shape, as speedups"), st.container(key="numbers of speed"):
        st.markdown(shown.shapes)
        st.caption(f"Above 1 our kernel is faster than the library. {shown.result.source}")


def _ideas(table: str) -> None:
    """Why the table's kernels are fast: a kernel's ideas, each with its source line, and its code."""
    kernels = {kernel.title: kernel for kernel in fast_kernels.of(table)}
    title = next(iter(kernels))
    if len(kernels) > 1:
        title = pick("Kernel", kernels, f"{table} kernel", wrap=True)
    kernel = kernels[title]
    for number, idea in enumerate(kernel.ideas, start=1):
        words, line = st.columns([2, 3], gap="medium", vertical_alignment="center")
        with words:
            prose(f"**{number}. {idea.name}.** {idea.sentence}")
        with line:
            st.code(idea.line, language="python", wrap_lines=True)
            st.caption(f"{kernel.file}, line {kernel.line_number(idea)}")
    traced_instead(kernel.gluon, kernel.twin)
    with st.expander(f"The code of {kernel.call}"):
        st.code(kernel.source, language="python", height=520)
    if kernel.below:
        with st.expander(f"The difference from {kernel.below[1].removesuffix('_kernel')}"):
            st.code(kernel.difference, language="diff", wrap_lines=True)
