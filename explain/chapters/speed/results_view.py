"""The benchmark's result on a page: choose a case, its bars, its curve, every shape; and why each fast kernel is fast."""

from __future__ import annotations

import streamlit as st

from explain.chapters.speed import fast_kernels, rungs
from explain.chapters.speed import results as speed
from explain.chapters.speed import results_figures as figures
from explain.chapters.speed.fast_kernels import Fast
from explain.chapters.speed.results import TABLES, Case, Result
from explain.figures import lines
from explain.records import registry as shelf
from explain.records.code import stale_words
from explain.records.model import Record
from explain.records.results import ResultFileError
from explain.ui.charts import chart
from explain.ui.controls import option
from explain.ui.layout import chapter_link, prose
from explain.ui.pictures import drawing

OTHERS = "work."
"""Before the names of what the other kernels' table is asked, in the page's address."""
WORDS = {"N": "N", "V": "V, elements in a row", "d": "d", "dtype": "dtype", "causal": "Causal"}


def speed_table() -> str:
    """Which of the benchmark's tables to show, kept in the page's address; attention's forward pass has the climb."""
    titles = {known.title: name for name, known in TABLES.items() if name != "attention"}
    first = next(iter(titles))
    chosen = st.segmented_control(
        "What to compute", list(titles), default=first, required=True, key="work", bind="query-params", wrap=True, on_change=_forget
    )  # fmt: skip
    return titles[str(chosen)]


def _forget() -> None:
    """Another table has other shapes."""
    for name in ("shape", *WORDS):
        st.query_params.pop(f"{OTHERS}{name}", None)


def speed_result() -> Result | None:
    """What the benchmark wrote; says so where it wrote nothing, or nothing that can be read."""
    try:
        result = speed.load(speed.FILE)
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return None
    if result is None:
        st.info(
            f"No benchmark has been run with this copy of Tilescope. On a machine with a GPU, `{speed.COMMAND}` makes one, and this page shows it.",
            icon=":material/info:",
        )
    elif words := stale_words(result.stale):
        st.caption(f":orange-badge[stale] {words}")
    return result


def speed_case(result: Result, table: str, prefix: str = "") -> Case | None:
    """A case of the table, chosen by its shape, dtype and mask, all kept in the page's address, `prefix` before each; None, and said, where it has none."""
    cases = result.of(table)
    if not cases:
        st.info(
            f"This run of the benchmark left it out: `{speed.COMMAND} {table}` measures it.", icon=":material/info:"
        )
        return None
    if not TABLES[table].along:
        shapes = {str(at): case.words for at, case in enumerate(cases)}
        label = f"Shape: {' × '.join(TABLES[table].dimensions)}"
        return cases[int(option(label, shapes, f"{prefix}shape", str(len(cases) // 2)))]
    told = [name for name in speed.choices(cases) if name in WORDS]
    for name, column in zip(told, st.columns(max(len(told), 1)), strict=False):
        values = sorted({case.values[name] for case in cases}, key=speed.size_of)
        plain = {value.replace(",", ""): value for value in values}
        with column:
            default = "no" if "no" in plain else list(plain)[len(plain) // 2]
            chosen = option(WORDS[name], plain, f"{prefix}{name}", default)
        cases = tuple(case for case in cases if case.values[name] == plain[chosen])
    return cases[0]


def speed_bars(result: Result, case: Case) -> None:
    """The case's variants as bars, and what they come to."""
    limit = speed.roof(case, record_of(result))
    prose(figures.told(case, limit))
    drawing(figures.bars(case, limit, figures.colours(result.of(case.table))))
    said = [result.source, result.state, f"roof by {limit.source}" if limit else "", figures.settings(case)]
    st.caption(" · ".join(filter(None, said)))
    st.caption(f"{case.words}. Counted: {TABLES[case.table].work}.")
    if any(one.function in speed.DISPATCHERS for one in case.variants):
        st.caption(
            "Our dispatcher is the call to use in a program of one's own: it runs the fastest kernel that takes the shape."
        )
    if limit is None:
        st.caption("No roof is drawn: it was not measured on this GPU. `python -m explain measure --plan roofs` does.")


def speed_curve(result: Result, case: Case) -> None:
    """The case's kernels over the length; nothing where there is one length only."""
    shown = [rungs.without_rungs(one) for one in result.of(case.table)]
    cases = speed.beside(case, shown)
    if len({one.along for one in cases}) < 2:
        return
    st.header(f"Over {TABLES[case.table].along}", anchor=False)
    record = record_of(result)
    picture = figures.curve(cases, [speed.roof(one, record) for one in cases], figures.colours(shown))
    name = f"speed of {case.table}, {case.dtype}{', causal' if case.causal else ''}"
    chart(picture, name, lines.as_csv(picture), alt=f"How fast each kernel is, over {TABLES[case.table].along}")
    st.caption(result.source)


def speed_shapes(result: Result, table: str) -> None:
    """Every shape of the table, as ratios."""
    cases, record = result.of(table), record_of(result)
    with st.expander("Every shape, as ratios"), st.container(key="numbers of speed"):
        st.markdown(figures.table(cases, [speed.roof(case, record) for case in cases]))
        st.caption(f"More than 1 is faster than the baseline. {result.source}")


def speed_ideas(table: str) -> None:
    """Why the table's kernels are fast: a kernel's ideas, the line of each, its code."""
    kernels = {kernel.title: kernel for kernel in fast_kernels.of(table)}
    first = next(iter(kernels))
    chosen = first
    if len(kernels) > 1:
        key = f"{table} kernel"
        options = list(kernels)
        chosen = st.segmented_control("Kernel", options, default=first, required=True, key=key, bind="query-params", wrap=True)  # fmt: skip
    kernel = kernels[str(chosen)]
    for number, idea in enumerate(kernel.ideas, start=1):
        words, line = st.columns([2, 3], gap="medium", vertical_alignment="center")
        with words:
            prose(f"**{number}. {idea.name}.** {idea.sentence}")
        with line:
            st.code(idea.line, language="python", wrap_lines=True)
            st.caption(f"{kernel.file}, line {kernel.line_number(idea)}")
    _stepped(kernel)
    with st.expander(f"The code of {kernel.call}"):
        st.code(kernel.source, language="python", height=520)
    if kernel.below:
        with st.expander(f"What differs from {kernel.below[1].removesuffix('_kernel')}"):
            st.code(kernel.difference, language="diff", wrap_lines=True)


def _stepped(kernel: Fast) -> None:
    """Whether the interpreter runs it, and which traced kernel does the same arithmetic."""
    if not kernel.interpreted:
        prose(
            "This kernel is written in Gluon, where a program says which warp does what. Triton's interpreter cannot run Gluon, so it is measured and not stepped through."
        )
    elif kernel.twin is None:
        prose("The interpreter runs this kernel in the tests, against float64; there is no page that steps through it.")
    else:
        prose(
            "The interpreter runs this kernel in the tests, against float64. Its arithmetic can be stepped through in a readable one."
        )
    if kernel.twin:
        chapter_link(kernel.twin.page, kernel.twin.words, kernel.twin.query)


def record_of(result: Result) -> Record | None:
    """A record of the GPU that the benchmark ran on, this machine's own first."""
    found, _ = shelf.shelved()
    return next((one.record for one in found if one.record.gpu == result.provenance.gpu and one.record.roofs), None)
