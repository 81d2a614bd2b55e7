"""The page Measurements, part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.measurements import (
    asked,
    beside,
    exercises,
    findings,
    limited,
    limits,
    origins,
    points,
    predictions,
    records,
    slowest,
    tables,
    two_gpus,
    worked,
)
from explain.chapters.measurements.points import OPENING
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.figures.labels import begun, listed, unbroken
from explain.figures.numbers import count
from explain.gpus import card
from explain.prediction import fitted
from explain.records import file, registry
from explain.records.measure import tasks
from explain.records.plans import PLANS, Plan, sizes
from explain.records.registry import Entry
from explain.ui import layout
from explain.ui.charts import chart, sourced
from explain.ui.code import show_code
from explain.ui.exercises import ask
from explain.ui.follow import on_request, once_known
from explain.ui.pictures import drawing
from explain.ui.records import records_choice
from explain.ui.repeat import repeated
from kernels.catalog import KERNELS

SAMPLE = Experiment.of("softmax_online", {"rows": 4096, "cols": 8192, "block_n": 4096}, "normal")
"""Counted to test whether counters can be read here: 134 MB, larger than any L2."""

ALL = "all"
BESIDE, LONG = 6, 12
"""A table with more columns of numbers, or more rows than this, stands below its words, not beside them."""
RUNS = 4
"""Of one kernel's runs, how many at most stand beside each other with everything that was measured."""
BOLD = "**Bold**: what differs from the row above."
OF_TIMES = (None, points.TIME)
"""With which chosen quantities times are shown."""
AS_RUN = "by kind of kernel, largest first"
"""The order in which all kernels begin; the runs of one kernel begin as they were measured."""
EXAMPLE = sizes(OPENING)[0]
"""The run that every source says something of."""
MEASURED = """
- **L2 cold**: the cache holds none of the inputs when the run begins. **L2 warm**: the same kernel has just run.
- **Copy check**: first, a copy of 1 GiB is counted. Its bytes are known. If the count is off by more than 0.1%, the
  counters are not trusted, and nothing is counted.
- **Time**: the median of the calls after the first, as many as fit into the measuring time: of a slow kernel a few, or
  one (*launches timed*, in *Look up a number* under *Everything measured*). The first call compiles;
  [Speed](./speed) shows what that costs.
- **HBM**: the counters call it *dram*.
- **Registers spilled**: bytes stored and loaded again. They go through L1 to L2, and on to HBM when L2 is full. A
  kernel that spills writes more than its formula says.
"""


MEASURE = """
{} measurements. Each compiles a kernel and times it; many also count its bytes, if the counters can be read. The\
 total depends on your CPU and GPU; watch the estimate that it prints.

Ctrl+C stops it; run it again, and it continues. At the end it prints the path of the results' file; every page on\
 that machine then shows them.
"""
TRY = (
    f"`levels` is a set of runs: *{PLANS['levels'].about}*. This command takes only those of one kernel, with the "
    "GPU's counters if they can be read."
)
COUNTERS = "Some drivers let only administrators read them. Then times and memory are measured, but no bytes."
FILES = """
To show your GPU on another machine, load its file there with *Another GPU's file*. All numbers of a GPU chosen here\
 can be downloaded, as JSON.
"""
ELSEWHERE = """
Here are the kernels that the chapters teach, some of PyTorch's, and FlashAttention for Hopper. The chapters' kernels
are our own Triton code, FlashAttention-1 too: they are not the authors' CUDA code. Other libraries are in
[Speed](./speed), [Cross entropy](./cross_entropy), [Backward](./backward) and [Decoding](./decoding).
"""
ERROR = """
**Error**: the longer ÷ the shorter of the predicted and the measured time; 1 × is exact. **Typical**: the median.
"""
DETAIL = """
- **Size timed on the {0}**: its time there × the formula's ratio of the two GPUs, as in the example.
- **Size not timed there**: the formula's own time, fitted to the kernel's times on the {0}.
- The FLOPs are those of the kernel's formula. Bandwidth and peak are the GPU's specification: the peak of the tensor\
 cores where Triton uses them.
- Fixed time and shares are fitted to a kernel's times on the {0}: of each size, to the fastest tile's.
- Some kernels' times cannot tell bandwidth from peak. Then every setting that explains them is kept, and the\
 prediction is the geometric mean of theirs. The example shows the setting nearest to it.
- A size that is slower on the {0} than the formula says is predicted slower on other GPUs too: its time there is\
 multiplied by a ratio.
"""
FITTED = (
    "**Fixed time**: the part of a time that does not grow with bytes and FLOPs; – where the times show none. It also "
    "holds what the model leaves out, so it is not the cost of a launch. A range holds the values that explain the "
    "times equally well. **Unknown**: 100% explains them as well."
)
GOALS = {
    "Look up a number": "find how long a kernel's run takes, how many bytes it moves, and how much memory it needs.",
    "Where numbers come from": "know where every number in this app comes from.",
    "Limits of a GPU": "see what each GPU can do at most, measured and by its datasheet.",
    "How good are predictions?": "see how a time is predicted for a GPU without a record, and how wrong it is.",
    "Your own GPU": "put your own GPU's numbers beside these.",
}
WORDS = {
    "Look up a number": """
Choose a kernel and a set of runs. To compare two GPUs, choose both.
""",
    "Where numbers come from": """
**Formula**, **trace** and **hardware** count the same bytes in three independent ways;\
 [Three numbers](./three_numbers) does so for other kernels too.

Only a real GPU has caches and times. **Recorded** means: measured before, on the GPU and day that are named.
""",
    "Limits of a GPU": """
Simple tests do one thing each: move bytes, multiply matrices, or compute exponentials. Their best rates are the roofs\
 in [Sweeps and roofline](./sweeps) and the peaks in [Speed](./speed).
""",
    "How good are predictions?": """
One model predicts the times of GPUs that were not measured. Here it is tested on measured times.
""",
    "Your own GPU": """
The third command measures everything that is shown here; the first two check that it will work. They run in
Tilescope's folder, on a machine with an NVIDIA GPU.
""",
}
"""The page's views, and what each says after its goal."""
OF_RECORDS = ("Look up a number", "Where numbers come from", "Limits of a GPU")
"""The views that show the chosen GPUs."""


def introduce(view: str) -> None:
    """A view's goal and first words."""
    layout.introduce(f"**Goal: {GOALS[view]}**\n\n{WORDS[view]}")


def _show_outdated(kernels: Sequence[str]) -> None:
    st.session_state["set"] = points.OUTDATED
    st.query_params["kernel"] = kernels[0] if len(kernels) == 1 else ALL


def sources(shown: Sequence[Entry], beside: DeltaGenerator) -> None:
    """What each source says of one run, as a picture `beside` the goal; below, what was measured."""
    model = fitted(*registry.shipped())
    with layout.below_goal(), st.container(key="notes"):
        layout.header("What was measured")
        layout.prose("\n".join(f"- {line}" for line in [*map(records.made, shown), *records.lacking(shown)]))
    with beside:
        drawing(*(origins.drawn(EXAMPLE, shown, model, narrow=narrow) for narrow in (False, True)))
        _methods(shown)
    layout.closing("measurements")


@repeated
def _methods(shown: Sequence[Entry]) -> None:
    """How it was measured, and what is missing."""
    with st.expander("How it was measured"):
        layout.prose(MEASURED)
    with st.expander("Versions, dates and methods"), st.container(key="numbers of records"):
        about = records.about(shown)
        st.markdown(about, unsafe_allow_html=True)
        if "with local changes" in about:
            st.caption(records.LOCAL)
    if missed := records.missed_table(shown):
        with st.expander("Failed measurements, and why"):
            st.markdown(missed, unsafe_allow_html=True)


def roofs(shown: Sequence[Entry], beside: DeltaGenerator) -> None:
    """The measured limits of each GPU, drawn `beside` the goal, and what they mean below it."""
    if not any(one.record.roofs for one in shown):
        layout.prose("No limits were measured here. `python -m explain measure` measures them with the kernels.")
        return
    with layout.below_goal(), st.container(key="notes"):
        layout.prose("\n\n".join(filter(None, [limits.meanings(shown), limits.slow_reads(shown)])))
    with beside:
        for wide, narrow in zip(limits.drawn(shown), limits.drawn(shown, narrow=True), strict=True):
            drawing(wide, narrow)
        with st.expander("How each limit was measured"), st.container(key="numbers of roofs"):
            layout.prose(limits.fp16_beside_bf16(shown))
            st.markdown(limits.roofs_table(shown), unsafe_allow_html=True)
            sources = {known.source for one in shown if (known := card(one.record.gpu))}
            st.caption("; ".join(f"datasheet: {source}" for source in sorted(sources)))


def numbers(shown: Sequence[Entry], chosen: Choice, beside: DeltaGenerator) -> None:
    """The chosen runs of a set, GPUs side by side, with questions about one of them: the words below the page's goal,
    the pictures `beside` it.
    """
    with layout.below_goal():
        with st.container(key="finding"):
            seen = slowest.told(chosen.plan, shown[0]) if chosen.times else ""
            if seen := seen or findings.seen(chosen.plan, shown, chosen.quantity, chosen.kernel):
                layout.prose(unbroken(seen))
            if chosen.quantity in OF_TIMES:
                _limits(chosen, shown)
        with st.container(key="notes"):
            _why(chosen, shown)
            _notes(chosen, shown)
    with beside:
        picture = st.container(key="looked up")
    with picture:
        _drawn(chosen, shown)
    if columns := tables.columns_of(chosen.plan, shown, chosen.quantity, chosen.every, chosen.kernel):
        rows = tables.rows(chosen.plan, shown, chosen.quantity, chosen.kernel)
        place = picture if len(columns) <= BESIDE and len(rows) <= LONG else st.container()
        with (
            place,
            st.expander(f"All {count(len(rows))} runs as a table") if _folded(chosen, shown, rows) else nullcontext(),
        ):
            _table(chosen, shown, columns)
    _questions(chosen, shown)


def _folded(chosen: Choice, shown: Sequence[Entry], rows: Sequence[tables.Row]) -> bool:
    """Whether the table is folded away: one that the picture has every number of, with no row marked, or a long one of
    all kernels, unless a reader chose its order.
    """
    if not chosen.kernel:
        return len(rows) > LONG and not chosen.largest
    if chosen.quantity:
        return len(shown) == 2 and beside.tells_all(chosen.plan, shown, chosen.quantity, chosen.kernel)
    if chosen.every or len(rows) > asked.ROWS:
        return False
    marked = any(row.get(tables.HOST) or row.get(points.OUTDATED) or not row.get(points.READ) for row in rows)
    return not marked and bool(asked.bars(chosen.plan, shown[0], chosen.kernel))


def _limits(chosen: Choice, shown: Sequence[Entry]) -> None:
    """What limits the chosen kernel, with its shares of the full rates."""
    if told := limited.told(chosen.plan, shown, chosen.kernel):
        if len(shown) == 1 and (saved := limited.in_base_2(chosen.plan, shown, chosen.kernel)):
            layout.prose(saved)
        layout.prose(told)
        drawing(limited.drawn(chosen.plan, shown, chosen.kernel))


@dataclass(frozen=True)
class Choice:
    """What a reader looks up: a set of runs, one kernel of it or "" for all, of two GPUs one quantity, of all kernels
    on one GPU whether the picture has their `times`, the columns, and by which of them a long table is in order.
    """

    plan: Plan
    kernel: str
    quantity: str | None
    times: bool
    every: bool
    largest: str


def choice(shown: Sequence[Entry]) -> Choice | None:
    """Lets the reader choose what to look up; None where no run was measured."""
    if not points.plans(shown):
        st.info("This record has no runs. `python -m explain measure` measures them.")
        return None
    with st.container(horizontal=True, vertical_alignment="bottom", key="choices"):
        kernel = _kernel(shown)
        plan = _plan(points.of_kernel(shown, kernel) if kernel else points.plans(shown))
        quantity = None
        if len(shown) > 1:
            quantity = st.selectbox(
                "Quantity", list(points.COMPARED), format_func=points.name_of, key="quantity", bind="query-params"
            )
        times = len(shown) == 1 and not kernel and _times(plan, shown)
        few = kernel and len(tables.rows(plan, shown, quantity, kernel)) <= LONG
        order = None if few else st.container()  # the switch for columns stands behind the order, and decides on it
        every = quantity is not None or _every(plan, shown, kernel)
        columns = tables.columns_of(plan, shown, quantity, every, kernel)
        largest = _largest(columns, order, "as measured" if kernel else AS_RUN) if order else ""
    return Choice(plan, kernel, quantity, times, every, largest)


def _times(plan: Plan, shown: Sequence[Entry]) -> bool:
    """A control for what is drawn of all kernels on one GPU: bytes or times; there is none where one picture has both,
    or one of them is not known.
    """
    if findings.pair(plan, shown) or not beside.times(plan, shown):
        return False
    if not beside.once(plan, shown):
        return True
    names = {points.OF_ONCE: "HBM read ÷ inputs", points.TIME: points.name_of(points.TIME)}
    return (
        st.selectbox("Quantity", list(names), format_func=lambda name: names[name], key="drawn", bind="query-params")
        == points.TIME
    )


def _largest(columns: Sequence[str], place: DeltaGenerator, first: str) -> str:
    """The column by which rows are ordered, the largest first; "" for the order that the page has `first`."""
    if st.session_state.get("order") not in columns:
        st.session_state["order"] = first
    chosen = place.selectbox(
        "Order", [first, *columns], key="order",
        format_func=lambda column: column if column == first else f"largest first: {points.name_of(column) or column}",
    )  # fmt: skip
    return "" if chosen == first else chosen


def _why(chosen: Choice, shown: Sequence[Entry]) -> None:
    """What explains the numbers, folded: which loads the caches serve, what was spilled; how times are counted."""
    told = []
    if chosen.quantity is None and chosen.kernel:
        told.append(findings.loads(chosen.plan, shown[0], chosen.kernel))
    if chosen.quantity in (None, *points.WITH_SPILLS):
        told += _by_gpu(shown, lambda one: findings.spilled(chosen.plan, one, chosen.kernel))
    saved = limited.in_base_2(chosen.plan, shown, chosen.kernel)
    if chosen.quantity == points.TIME:
        told.append(saved)
    if saved and (chosen.quantity == points.TIME or len(shown) == 1):
        told.append(limited.why_in_base_2())
    if any(told):
        with st.expander("Why these numbers"):
            layout.prose(unbroken("\n\n".join(filter(None, told))))
    rules = [two_gpus.rules(chosen.plan, shown, chosen.quantity, chosen.kernel)] if chosen.quantity else []
    if chosen.quantity in OF_TIMES:
        if len(shown) != 2:  # else the picture says so
            rules.append(findings.timed_once(chosen.plan, shown, chosen.kernel))
        rules.append(limited.COUNTED if limited.told(chosen.plan, shown, chosen.kernel) else "")
    if any(rules):
        with st.expander("How it is counted"):
            layout.prose(unbroken("\n\n".join(filter(None, rules))))


def _by_gpu(shown: Sequence[Entry], told: Callable[[Entry], str]) -> list[str]:
    """What is `told` of each GPU, with its name where there are several; what holds of several is said once."""
    notes: dict[str, list[str]] = {}
    for one, gpu in zip(shown, points.names(shown), strict=True):
        if note := told(one):
            notes.setdefault(unbroken(note), []).append(gpu)
    return [f"{listed(gpus)}: {note}" if len(shown) > 1 else note for note, gpus in notes.items()]


def _notes(chosen: Choice, shown: Sequence[Entry]) -> None:
    """Notes on the chosen runs: unusual times, and the files that the numbers come from."""
    if chosen.quantity in OF_TIMES:
        for note in _by_gpu(shown, lambda one: findings.on_host(chosen.plan, one, chosen.kernel)):
            layout.prose(note)
    if shared := tables.in_every_row(chosen.plan, shown, chosen.kernel):
        st.caption(f"In every run: {shared}")
    for one in shown:
        sourced(one.source)
    outdated = points.plans(shown).get(points.OUTDATED)
    if outdated and chosen.plan.name != points.OUTDATED:
        of = f" of the {listed(points.outdated(shown))}" if len(shown) > 1 else ""
        st.button(
            f"Show the outdated runs{of} (the kernel changed since)", type="tertiary", icon=":material/history:",
            on_click=_show_outdated, args=(points.kernels(outdated, shown),),
        )  # fmt: skip
    st.caption(ELSEWHERE)


def _table(chosen: Choice, shown: Sequence[Entry], columns: Sequence[str]) -> None:
    """The numbers and what they mean: a row for each run, or where everything of a few runs is shown a line for each
    quantity.
    """
    few = len(tables.rows(chosen.plan, shown, chosen.quantity, chosen.kernel)) <= RUNS
    if chosen.kernel and chosen.quantity is None and chosen.every and few:
        _numbers("numbers of runs", tables.runs_table(chosen.plan, shown, chosen.kernel), columns, None)
        return
    table = tables.points_table(
        chosen.plan, shown, chosen.quantity, chosen.every, chosen.kernel, largest=chosen.largest
    )
    _numbers("numbers of points", table, columns, chosen.quantity)
    meanings = [
        f"**{begun(points.name_of(name))}.** {words}"
        for name, words in tables.meanings(chosen.plan, shown, chosen.kernel).items()
        if name in (*columns, chosen.quantity)
    ]
    if meanings:
        with st.container(key="meanings"), st.expander("What the columns mean"):
            layout.prose(unbroken("\n".join(f"- {words}" for words in meanings)))


def _numbers(key: str, table: str, columns: Sequence[str], quantity: str | None) -> None:
    """A table below the words about its sources."""
    with st.container(key=key):
        st.caption(" ".join([tables.sources(columns, quantity), *[BOLD] * ("<b>" in table)]))
        st.markdown(table, unsafe_allow_html=True)


def _kernel(shown: Sequence[Entry]) -> str:
    """A control for one of the measured kernels, kept in the address; "" for all of them."""
    key, every = "measured kernel", points.every_kernel(shown)
    asked_for = (plan for plan in points.plans(shown).values() if plan.about == st.query_params.get("set"))
    named = next((points.kernels(plan, shown) for plan in asked_for), every)  # an address may name the runs alone
    wanted = (st.query_params.get("kernel"), st.session_state.get(key), *({OPENING} & {*named}), *named)
    st.session_state[key] = next(one for one in wanted if one in (ALL, *every))

    def put() -> None:
        st.query_params["kernel"] = st.session_state[key]

    chosen = st.selectbox(
        "Kernel", [ALL, *every], key=key, on_change=put,
        format_func=lambda kernel: KERNELS[kernel].title if kernel != ALL else "all kernels",
    )  # fmt: skip
    return "" if chosen == ALL else chosen


def _plan(plans: Mapping[str, Plan]) -> Plan:
    """A control for one of these sets of runs, kept in the address."""
    # The first option is what a browser shows by itself. A value set here instead is sent once, and is lost if another
    # run interrupts this one.
    names = sorted(plans, key=lambda name: name != "levels")
    name = st.selectbox("Runs", names, format_func=lambda name: plans[name].about, key="set", bind="query-params")
    return plans[name]


def _drawn(chosen: Choice, shown: Sequence[Entry]) -> None:
    """The picture beside the table's sentence: of one record, and one kernel or all; or of two records."""
    plan, quantity, kernel, largest = chosen.plan, chosen.quantity, chosen.kernel, chosen.largest
    if quantity is not None and len(shown) == 2:
        wide, narrow = (
            beside.dots(plan, shown, quantity, kernel, largest=largest, narrow=narrow) for narrow in (False, True)
        )
    elif quantity is not None:
        return
    elif kernel and asked.bars(plan, shown[0], kernel):
        wide, narrow = (asked.bars(plan, shown[0], kernel, narrow=narrow) for narrow in (False, True))
    elif kernel:
        wide, narrow = (asked.rates(plan, shown[0], kernel, narrow=narrow) for narrow in (False, True))
    elif findings.pair(plan, shown):
        wide, narrow = (beside.pair(plan, shown, narrow=narrow) for narrow in (False, True))
    else:
        draw = beside.times if chosen.times else beside.once
        wide, narrow = (draw(plan, shown, largest=largest, narrow=narrow) for narrow in (False, True))
    if wide:
        drawing(wide, narrow)


def _every(plan: Plan, shown: Sequence[Entry], kernel: str) -> bool:
    """A switch for the quantities that the table begins without; there is none where it has no others."""
    fewest, most = (tables.columns_of(plan, shown, None, every, kernel) for every in (False, True))
    return len(most) > len(fewest) and st.toggle("Everything measured", key="every", bind="query-params")


def counters_here() -> None:
    """Whether the counters of this machine's GPU can be read; if not, why and what to do. A button counts a kernel."""
    once_known(_counters_here)


def _counters_here(status: DeviceStatus) -> None:
    if not status.available:
        elsewhere = "The numbers on this page were measured elsewhere; each says where."
        st.markdown(f"**No.** {status.reason} {elsewhere}")
        return
    gpu = status.gpu or "GPU"
    st.markdown(f"**{gpu}** is here. Count one kernel to see whether its counters can be read.")
    job = on_request(
        "Count one kernel now",
        "counters sample",
        "checking the counters with a copy, then counting",
        lambda job: engine().point(SAMPLE, timing=False, cancel=job.cancel),
        ":material/speed:",
    )
    said = job.result if job else None
    if said is None:
        return
    if (counters := said.counters) is None:
        st.warning(f"{said.why} The recorded measurements stay on the page.", icon=":material/warning:")
    else:
        formula = SAMPLE.traffic
        st.markdown(records.counts_table(counters, formula.read_bytes, formula.written_bytes))
        st.caption(
            f"hardware · {counters.provenance.gpu}, {counters.method} · `{' '.join(SAMPLE.to_arguments())}` · copy "
            f"check {records.copy_words(counters.copy)}"
            + (f" · not by CUPTI: {counters.fallback}" if counters.fallback else "")
        )


def own_gpu(beside: DeltaGenerator) -> None:
    """How to measure another GPU, in steps `beside` the goal; whether its counters can be read; records to load and to
    download.
    """
    every = MEASURE.format(count(len(tasks(PLANS.values()))))
    steps = (
        (
            "See what is missing",
            "python -m explain doctor",
            "It lists what is installed, and the commands for what is missing.",
        ),
        ("Try one kernel", "python -m explain measure flash_attention --plan levels", TRY),
        ("Measure everything", "python -m explain measure", every),
    )
    with beside, st.container(key="looked up"):
        layout.prose("**Three commands. Only the third measures everything.**")
        for number, (heading, command, told) in enumerate(steps, start=1):
            with st.container(border=True, key=f"step {number}"):
                layout.header(f"{number}. {heading}")
                show_code(command)
                layout.prose(told)
    with layout.below_goal(), st.container(key="notes"):
        layout.header("Can your GPU's counters be read?")
        layout.prose(COUNTERS)
        counters_here()
        layout.header("Load and download numbers")
        layout.prose(FILES)
        for one in records_choice():
            st.download_button(
                f"Download: {one.label}",
                partial(file.written, one.record),
                file_name=registry.file_name(one.record.gpu),
                mime="application/json",
                icon=":material/download:",
                key=f"download {one.key}",
            )


def predicted(beside: DeltaGenerator) -> None:
    """How good predicted times are; an example `beside` the goal; below, every prediction, and the model in detail."""
    if (record := registry.recorded()) is None or (model := fitted(*registry.shipped())) is None:
        layout.prose("There is no recorded GPU to predict times from.")
        return
    with layout.below_goal(), st.container(key="finding"):
        layout.prose(unbroken(f"{ERROR}\n\n{predictions.found(model)}"))
    with beside, st.container(key="looked up"):
        drawing(*(worked.drawn(model, narrow=narrow) for narrow in (False, True)))
    layout.header("Every prediction beside its measured time")
    for place, test in zip(st.columns(len(model.tests), gap="large"), model.tests, strict=True):
        with place:
            chart(predictions.predicted_chart(test, model.tests), f"predicted and measured times, {test.gpu}")
    with st.expander("Where predictions are wrong, and why"):
        told = [predictions.told(model, test) for test in model.tests]
        layout.prose("\n".join(f"- {why}" for why in told if why))
    with st.expander("The model in detail"):
        how, which = st.columns(2)
        with how:
            layout.prose(DETAIL.format(model.gpu))
        with which:
            layout.prose(predictions.unpredicted(model, record))
            st.caption(predictions.known(model, registry.shipped()))
    with st.expander("Each kernel's error, and what was fitted"), st.container(key="numbers of predictions"):
        errors, fits = st.columns(2)
        with errors:
            layout.prose("\n".join(f"- {predictions.largest(test)}" for test in model.tests))
        fits.caption(FITTED)
        st.markdown(predictions.prediction_table(model))


def _questions(chosen: Choice, shown: Sequence[Entry]) -> None:
    """Things to try, about the largest of the chosen runs that has all that they ask for, on one GPU or on two; one of
    the opening kernel if it is among them.
    """
    if len(shown) > 2:
        ask("measurements", (), None, "", "The questions are about one GPU or two: choose one or two.")
        return
    runs = points.measured(chosen.plan, shown, chosen.kernel)
    for run in sorted(runs, key=lambda run: (run.kernel != OPENING, -run.traffic.flops)):
        about = " ".join([*(one.key for one in shown), run.key])
        if len(shown) > 1 and (both := exercises.both(shown, run)):
            ask("measurements", exercises.OF_TWO, both, about)
            return
        if len(shown) == 1 and (one := exercises.run_of(shown[0].record, run)):
            ask("measurements", exercises.OF_ONE, one, about)
            return
    ask("measurements", (), None, "", "The questions are about runs whose bytes were counted: choose another set.")
