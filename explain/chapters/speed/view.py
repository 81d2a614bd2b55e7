"""The page Speed, part by part: the climb, tuning, from which N, the other kernels."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.flash_attention.tiles import tile
from explain.chapters.speed import fast_kernels, figures, lengths, results, rungs, timeline, tuning
from explain.chapters.speed.results import TABLES, Case, Limit, Result
from explain.chapters.speed.rungs import BY_NAME, RUNGS, Rung, Spill, Step, Twin
from explain.chapters.speed.timeline import Timeline
from explain.chapters.sweeps.model import Sweep
from explain.chapters.sweeps.ready import HEAD, PAIR
from explain.chapters.sweeps.roofline import roofline
from explain.chapters.sweeps.view import sweep_growth, sweep_readings
from explain.chapters.tile_cost.view import compiling
from explain.compile.service import compiler, provenance
from explain.counters.stalls import Stalls
from explain.device.measurement import Timing
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.figures import lines, numbers
from explain.figures.plot import kept
from explain.gpus import DEFAULT, GPUS, Gpu, known_as
from explain.records import plans, registry
from explain.records.code import is_stale, stale_words
from explain.records.model import Point, Record
from explain.records.results import ResultFileError
from explain.ui.charts import chart
from explain.ui.controls import option
from explain.ui.device import once_known
from explain.ui.follow import on_request
from explain.ui.layout import chapter_link, prose, questions, sources, try_this
from explain.ui.pictures import drawing, pressable, pressed
from kernels.catalog import KERNELS
from kernels.digest import digest_of

OPENING = "bf16"
"""The rung that the page opens on: the first with one below to compare with."""
COUNTED_BY = "python -m explain measure --plan rungs"
ERROR, INFO = ":material/error:", ":material/info:"
OTHERS = "work."
"""Prefix of the other kernels' choices in the page's address."""
SHAPE_LABELS = {"N": "N", "V": "V, elements in a row", "d": "d", "dtype": "dtype", "causal": "Causal"}


@dataclass(frozen=True, eq=False)
class Chosen:
    """The benchmark's result, the chosen case, the GPU's record, and what is drawn of them, each once."""

    result: Result
    case: Case
    record: Record | None

    @cached_property
    def limit(self) -> Limit | None:
        """The case's roof."""
        return results.roof(self.case, self.record)

    @property
    def cases(self) -> tuple[Case, ...]:
        """All cases of the same table."""
        return self.result.of(self.case.table)

    @cached_property
    def counted(self) -> dict[str, Point]:
        """What the record has counted of each rung, by its name."""
        return rungs.counted(self.record, self.case)

    def spilled(self, rung: Rung) -> Spill | None:
        """The registers that the rung below spills and this one does not."""
        return rungs.spilled(self.counted, rung, self.record.roofs) if self.record else None

    @cached_property
    def stalls(self) -> list[tuple[str, Stalls]]:
        """Why the warps of each rung wait, where it was counted."""
        counters = ((rung.label, self.counted[rung.name].counters) for rung in RUNGS if rung.name in self.counted)
        return [(label, one.stalls) for label, one in counters if one and one.stalls]

    @cached_property
    def stall_bars(self) -> str:
        """Why warps wait, as a picture."""
        return figures.stall_bars(self.stalls)

    @cached_property
    def counters_table(self) -> str:
        """What was counted of each rung."""
        return figures.counters_table(self.counted, RUNGS)

    @cached_property
    def roofline(self) -> tuple[go.Figure, float] | None:
        """The timed rungs under the roofs, and their FLOPs per byte; None without a time or a record."""
        points = rungs.under_roofs(rungs.climb(self.case), self.case, self.record.roofs) if self.record else []
        if not self.record or not points:
            return None
        known = known_as(self.record.gpu)
        picture = roofline(points, self.record.roofs, GPUS[known] if known else None, room=80)
        return kept(picture), points[-1].intensity

    @cached_property
    def curve(self) -> go.Figure | None:
        """The kernels over the length; None if only one length was measured."""
        cases = results.beside(self.case.without_rungs, (one.without_rungs for one in self.cases))
        if len({one.along for one in cases}) < 2:
            return None
        return kept(figures.curve(cases, [results.roof(one, self.record) for one in cases]))

    @cached_property
    def shapes(self) -> str:
        """Every shape of the table, as speedups."""
        return figures.shapes_table(self.cases, [results.roof(case, self.record) for case in self.cases])

    @cached_property
    def bars(self) -> str:
        """The case's variants."""
        return figures.bars(self.case, self.limit, results.colours(self.cases))


class Same:
    """A cache's key for an object without a hash: equal if both hold the very same object."""

    def __init__(self, one: Any) -> None:
        self.one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)


@functools.lru_cache(maxsize=128)
def _chosen(result: Same, case: Case, record: Same) -> Chosen:
    return Chosen(result.one, case, record.one)


def chosen(table: str, prefix: str = "") -> Chosen | None:
    """The benchmark's result and one case of the table; without one None, and the page says why."""
    try:
        result = results.load(results.FILE)
    except ResultFileError as error:
        st.error(str(error), icon=ERROR)
        return None
    if result is None:
        st.info(f"The benchmark has not run here. On a machine with a GPU: `{results.COMMAND}`", icon=INFO)
        return None
    if words := stale_words(result.stale):
        st.caption(f":orange-badge[stale] {words}")
    cases = result.of(table)
    if not cases:
        st.info(f"This run of the benchmark has no {TABLES[table].title}: `{results.COMMAND} {table}`", icon=INFO)
        return None
    case = _case(table, cases, prefix)
    shelved, _ = registry.shelved()
    records = (one.record for one in shelved if one.record.gpu == result.provenance.gpu and one.record.roofs)
    record = next(records, None)
    return _chosen(Same(result), case, Same(record))


def _case(table: str, cases: tuple[Case, ...], prefix: str) -> Case:
    """One case, by controls that are kept in the page's address under `prefix`."""
    if not TABLES[table].along:
        shapes = {str(at): case.words for at, case in enumerate(cases)}
        label = f"Shape: {' × '.join(TABLES[table].dimensions)}"
        return cases[int(option(label, shapes, f"{prefix}shape", str(len(cases) // 2)))]
    names = [name for name in results.choices(cases) if name in SHAPE_LABELS]
    for name, column in zip(names, st.columns(max(len(names), 1)), strict=False):
        values = sorted({case.values[name] for case in cases}, key=results.size_of)
        plain = {value.replace(",", ""): value for value in values}
        with column:
            default = "no" if "no" in plain else list(plain)[len(plain) // 2]
            asked = option(SHAPE_LABELS[name], plain, f"{prefix}{name}", default)
        cases = tuple(case for case in cases if case.values[name] == plain[asked])
    return cases[0]


# The climb


@st.fragment  # another rung redraws this and nothing else
def climb(shown: Chosen | None) -> None:
    """The kernels as columns on one shape, and below them the one that was pressed."""
    case, peak = (shown.case, shown.limit) if shown else (None, None)
    steps, libraries = rungs.climb(case), rungs.beside(case) if case else ()
    name = pressed("rung", BY_NAME, OPENING)
    if (asked := st.query_params.get("rung", name)) != name:
        st.markdown(f":small[:red[**rung={asked}: must be one of {', '.join(BY_NAME)}**]]")
    most = rungs.largest(steps)
    prose(figures.climb_told(steps, libraries, peak, shown.spilled(most.rung) if shown and most else None))
    pressable(figures.climb(steps, libraries, peak, case.words if case else "no shape", name), "rung")
    if shown and case:
        st.caption(" · ".join(filter(None, (case.words, shown.result.source, shown.result.state))))
        said = [f"Counted: {TABLES[case.table].work}."]
        if case.causal:
            said.append("Kernels 1 to 3 compute the hidden half as well; it is not counted.")
        if peak:
            said.append(f"Peak: a large matmul measured on the same GPU, not the datasheet ({peak.source}).")
        if (top := steps[-1].variant) and top.function in results.DISPATCHERS:
            said.append("The top kernel's time is that of our dispatcher, which runs it at these shapes.")
        if any(step.variant is None for step in steps):
            said.append(f"Times of all kernels need a Hopper GPU: `{results.COMMAND}`.")
        st.caption(" ".join(said))
    _rung(next(step for step in steps if step.rung.name == name), shown)


def _rung(step: Step, shown: Chosen | None) -> None:
    """One rung: its idea, its throughput, the reason, its code."""
    rung, lower = step.rung, rungs.below(step.rung)
    at = RUNGS.index(rung)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.header(f"{at + 1}. {rung.title}", anchor=False, width="content")
        with st.container(horizontal=True, width="content"):
            _go_to("Previous kernel", ":material/arrow_back:", at - 1)
            _go_to("Next kernel", ":material/arrow_forward:", at + 1)
    words, code = st.columns([2, 3], gap="large")
    with words:
        prose(f"**Idea.** {rung.idea}")
        limit, spill = (shown.limit, shown.spilled(rung)) if shown else (None, None)
        prose(f"**Throughput.** {figures.number(step, limit, lower, spill)}")
        if shown:
            _timed_here(rungs.experiment(rung, shown.case), shown.case)
        prose(f"**Why it helps.** {rung.why}")
        st.code(rung.line, language="python", wrap_lines=True)
        st.caption(f"{rung.file}, line {rung.line_number}")
        prose(f"**Accepts:** {rung.takes}")
        _interpreted(rung.gluon)
        _twin(rung.twin)
    with code:
        new, whole = st.tabs(["What is new", "The whole kernel"] if lower else ["The whole kernel", "What is new"])
        with new if lower else whole:
            if lower:
                st.code(rungs.difference(rung), language="diff", height=520)
                st.caption(f"{lower.file} → {rung.file}: green lines are new, red lines are gone.")
            else:
                prose("This is the first kernel: all of it is new.")
        with whole if lower else new:
            st.code(rung.source, language="python", height=520)
            st.caption(f"{rung.file}, without its imports")


def _go_to(label: str, icon: str, at: int) -> None:
    """A button that goes to the rung at this place."""
    name = RUNGS[at].name if 0 <= at < len(RUNGS) else ""
    go = functools.partial(st.query_params.__setitem__, "rung", name)
    st.button(label, icon=icon, type="tertiary", disabled=not name, on_click=go)


def _interpreted(gluon: bool) -> None:
    if gluon:
        prose("Written in Gluon. Triton's interpreter cannot run Gluon, so this kernel is measured, not traced.")
    else:
        prose("Plain Triton. Tests run it in the interpreter and compare it with float64.")


def _twin(twin: Twin | None) -> None:
    if twin:
        chapter_link(twin.page, twin.words, twin.query)


def _timed_here(experiment: Experiment, case: Case) -> None:
    """The rung on this shape, timed on this machine's GPU on request, if there is one."""
    timing, gpu = _on_request("Time it on this machine's", experiment)
    if timing:
        prose(f"Here: **{numbers.si(case.work / timing.median_ms * 1e3, case.unit)}**.")
        st.caption(f"hardware · {gpu}, now · {timing.method}; not interleaved with the other kernels")


def _on_request(label: str, experiment: Experiment) -> tuple[Timing | None, str]:
    """A button that times an experiment on this machine's GPU: the timing once it is there, and the GPU's name."""
    status = engine().device_if_known()
    if not (status and status.available and status.provenance):
        return None, ""
    gpu = status.provenance["gpu"]
    job = on_request(
        f"{label} {gpu}", f"timed {experiment.key}", "compiling and running",
        lambda job: engine().point(experiment, counters=False, cancel=job.cancel), ":material/timer:",
    )  # fmt: skip
    point = job.result if job else None
    if point and not point.timing:
        st.error(point.why, icon=ERROR)
    return (point.timing if point else None), gpu


@st.fragment
def climb_roofline(shown: Chosen) -> None:
    """The timed rungs under the GPU's roofs."""
    if shown.roofline is None or shown.record is None:
        return
    picture, intensity = shown.roofline
    st.header("Under the roofline", anchor=False)
    prose(
        f"Every kernel has the same **arithmetic intensity**: {intensity:,.0f} FLOPs per byte. It must read Q, K and V "
        "and write O, and HBM is far from being the limit. The climb goes straight up, towards the roof of the tensor "
        "cores. Waiting holds a kernel back, not bandwidth."
    )
    chart(picture, "roofline of the rungs", alt="The kernels of the climb under the roofs of memory and arithmetic")
    measured = f"roofs measured on the same GPU, {shown.record.provenance.date}"
    st.caption(f"FLOPs and bytes: formula, {shown.case.words} · times: {shown.result.source} · {measured}")


def climb_counters(shown: Chosen) -> None:
    """What the GPU counted of the rungs: tensor-core use, bytes, and why warps wait; or how to count it."""
    st.header("What the hardware did", anchor=False)
    found = shown.counted
    if not found:
        prose("No GPU has counted these kernels yet.")
        st.caption(f"On a machine with a Hopper GPU, `{COUNTED_BY}` counts tensor-core use, bytes and stalls of each.")
        return
    prose(
        "A kernel is fast if its **tensor cores** are busy. Each kernel of the climb removes one thing they waited for."
    )
    st.markdown(shown.counters_table)
    if shown.stalls:
        drawing(shown.stall_bars)
        label, stalls = shown.stalls[-1]
        prose(f"**{label}**: {figures.stalls_told(stalls)}")
        if any(rung.gluon and rung.name in found for rung in RUNGS):
            st.caption(
                "A launch in Gluon has 3 idle warps of 12 (of 16 with three consumer groups): Triton rounds up to a "
                "multiple of four. They stand at a barrier all the time, so that share of the barrier stall is not "
                "waiting."
            )
    first = next(iter(found.values()))
    where, p = first.origin.provenance if first.origin else None, first.experiment.values
    shape = f"batch {p['batch']}, {p['heads']} heads, N = {p['seq_len']:,}, d = {p['head_dim']}"
    said = ["recorded", f"{where.gpu}, {where.date}" if where else "hardware", shape + ", causal" * p["causal"]]
    said.append("L2 cold, in runs of their own · tensor cores: share of their peak while an SM is active")
    st.caption(" · ".join(said))
    if stale := [BY_NAME[name].label for name, point in found.items() if is_stale(point)]:
        st.caption(f"Stale: the code of {', '.join(stale)} has changed since it was counted. Again: `{COUNTED_BY}`")


def warps(name: str = "") -> None:
    """The timelines recorded of the kernel of this name, or of all; or how to record them."""
    ladder = [rung.entry.module for rung in RUNGS]
    try:
        runs = [run for run in timeline.recorded() if name in ("", run.name)]
    except ResultFileError as error:
        st.error(str(error), icon=ERROR)
        return
    if not runs:
        what = name or "any kernel"
        st.info(f"No timeline of {what} is recorded. On a machine with a Hopper GPU: `{timeline.COMMAND}`", icon=INFO)
        return
    _lanes(tuple(sorted(runs, key=lambda run: ladder.index(run.module) if run.module in ladder else -1)))


@st.fragment
def _lanes(runs: tuple[Timeline, ...]) -> None:
    named = {run.key: run for run in runs}
    which, of = st.columns([3, 2])
    with which:
        run = named[option("Run", {key: one.title for key, one in named.items()}, "run", next(iter(named)))]
    programs = {str(one.program): one for one in run.programs}
    with of:
        words = {number: f"program {number}, on SM {one.sm}" for number, one in programs.items()}
        number = option("Program", words, "program", next(iter(programs)))
    prose(
        "The producer warp asks the TMA for tiles. **Consumer** warpgroups run the matmuls and the softmax. Where a "
        "softmax overlaps with a matmul of its own group or of the other, the tensor cores do not wait."
    )
    prose(figures.timeline_told(run, programs[number]))
    chart(_lanes_figure(run, int(number)), f"timeline of {run.key}", alt=f"What the warps of {run.title} do over time")
    st.caption(
        f"{run.source}. One warp stands for each warpgroup. A matmul runs while its group continues; its bar ends when "
        "the group has waited for it. Drag the picture or the strip below it to move; point at a bar for its cycles."
    )
    if len(runs) > 1:
        st.markdown(figures.compared(runs))
        st.caption("Means over the recorded programs. ≤: the end of a matmul is not recorded, only the wait for it.")
    if run.code != digest_of(run.module, run.function):
        st.caption(f"Stale: the kernel has changed since this was recorded. Again: `{timeline.COMMAND} {run.name}`")


@functools.lru_cache(maxsize=32)
def _lanes_figure(run: Timeline, number: int) -> go.Figure:
    return kept(figures.lanes(run, next(program for program in run.programs if program.program == number)))


# Tuning


def tuned() -> None:
    """One rung at every setting of tile, warps and stages: timed, or else compiled."""
    st.header("One kernel, many settings", anchor=False)
    prose(
        "The same source, compiled with other tile sizes, warps and stages, is another kernel. A **large tile** reads "
        "K and V less often and needs more registers. **More warps** spread a tile over more threads. **More stages** "
        "load further ahead and hold more tiles in shared memory. No formula says which setting is fastest, so one "
        "tries them: autotuning."
    )
    try:
        timed, compiled = tuning.load(tuning.FILE), tuning.load(tuning.COMPILED)
    except ResultFileError as error:
        st.error(str(error), icon=ERROR)
        return
    shown = timed if timed and any(grid.timed for grid in timed.grids) else compiled
    if shown is None or not shown.grids:
        st.info(f"No setting has been measured here. On a machine with a GPU: `{tuning.COMMAND}`", icon=INFO)
        return
    grids = {KERNELS[f"rung:{grid.rung}"].short: grid for grid in shown.grids}
    name = next(iter(grids))
    if len(grids) > 1:
        name = str(
            st.segmented_control("Kernel", list(grids), default=name, required=True, key="tuned", bind="query-params")
        )
    own = grids[name]
    grid = tuning.completed(own, compiled.of(own.rung) if compiled else None)
    entry, gpu, where = KERNELS[f"rung:{own.rung}"], known_as(shown.provenance.gpu), shown.provenance
    prose(figures.grid_told(grid, GPUS[gpu] if gpu else None))
    drawing(figures.grid(grid, entry.hue))
    if grid.timed:
        st.caption(f"{grid.words} · {shown.source}")
    else:
        st.caption(f"{shown.method} · triton {where.triton}, {where.date} · d = {grid.shape[3]}, {grid.dtype}")
        st.caption(
            f"Each cell: registers per thread and shared memory per program. Times need a GPU: `{tuning.COMMAND}`"
        )
    if grid.code != entry.code:
        st.caption("Stale: the kernel's code has changed since.")
    st.caption(f"{figures.SPILLED} spills registers. Point at a cell for all its numbers.")
    st.download_button(
        "All settings as CSV", grid.csv, f"tilescope-tuning-{grid.rung}.csv", "text/csv", key="csv of the settings",
        icon=":material/download:", type="tertiary", on_click="ignore",
    )  # fmt: skip
    chapter_link("tile_cost", "What one tile costs, and its instructions →")


# From which N?

LENGTHS = Sweep.of(PAIR, "seq_len", plans.LENGTHS, HEAD)
FIRST = plans.lengths("flash_attention")[0]
"""The shortest of them: one compiled kernel serves all."""


def faster_from() -> None:
    """From which N on FlashAttention is faster than standard attention: of a GPU's record, or measured here."""
    st.header("From which N is FlashAttention faster?", anchor=False)
    prose(
        "Both kernels are plain Triton, written to be read. Standard attention has three launches, which write S and "
        "P to HBM and read them back; FlashAttention has one. On short sequences that saves launches, on long ones "
        "the bytes of S and P."
    )
    sweep_growth(sweep_readings(LENGTHS, without=("formula", "trace")), times_only=True)


def first_call() -> None:
    """What a kernel's first call costs: in a GPU's record, with this machine's compiler, and on its GPU."""
    st.header("Is the first call warm-up?", anchor=False)
    here = _here()
    if measured := lengths.of(registry.recorded()):
        timing = measured.by_kernel["flash_attention"][measured.lengths[0]]
        first, later = timing.first_call_ms / 1e3, timing.median_ms / 1e3
        prose(
            f"The first call takes as long as **{first / later:,.0f}** later calls. That is the compiler, not the GPU: "
            "Triton compiles a kernel when it is first called with these dtypes, tile sizes and flags, and caches the "
            "result on disk. To time a kernel, call it once, wait for it, and start the clock after that."
        )
        answer = compiler().look(_tile(), here.compute_capability)
        cost = answer.cost if answer else None
        compiled = sum(launch.seconds for launch in cost.launches) if cost else None
        drawing(figures.first_call(compiled, first, later, measured.provenance.gpu))
        if answer and cost:
            st.caption(f"compilation alone: {provenance(cost, answer.origin)}; seconds of that machine")
        st.caption(measured.source)
        with st.expander("Every length"):
            st.markdown(lengths.table(measured))
    compiling(_tile(), here)
    once_known(_live)


@functools.cache
def _tile() -> Experiment:
    return tile(FIRST.values["block_m"], FIRST.values["block_n"])


def _here() -> Gpu:
    """The GPU to compile for: this machine's, if it is known, or an H200."""
    status = engine().device_if_known()
    name = known_as(status.provenance["gpu"]) if status and status.available and status.provenance else None
    return GPUS[name or DEFAULT]


def _live(status: DeviceStatus) -> None:
    """A first call on this machine's GPU, if there is one."""
    if not status.available or not status.provenance:
        st.caption(f"With a GPU, a first call can be timed here. {status.reason}")
        return
    timing, gpu = _on_request("Time a first call on this machine's", FIRST)
    if timing:
        drawing(figures.first_call(None, timing.first_call_ms / 1e3, timing.median_ms / 1e3, gpu))
        st.caption(f"hardware · {gpu}, now · a kernel in this machine's cache is not compiled again")


# The other kernels


def others() -> None:
    """The fast kernels beside the libraries, and the ideas of each."""
    titles = {known.title: name for name, known in TABLES.items() if name != "attention"}
    title = st.segmented_control(
        "What to compute", list(titles), default=next(iter(titles)), required=True, key="work", bind="query-params",
        wrap=True, on_change=_forget,
    )  # fmt: skip
    table = titles[str(title)]
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
    prose(figures.bars_told(case, limit))
    drawing(shown.bars)
    said = [result.source, result.state, f"roof by {limit.source}" if limit else "", figures.settings(case)]
    st.caption(" · ".join(filter(None, said)))
    notes = [f"{case.words}. Counted: {TABLES[case.table].work}."]
    if any(one.function in results.DISPATCHERS for one in case.variants):
        notes.append("Our dispatcher is the call to use in a program: it runs the fastest kernel that takes the shape.")
    if limit is None:
        notes.append("No roof: it was not measured on this GPU. `python -m explain measure --plan roofs` measures it.")
    st.caption(" ".join(notes))


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
        title = str(
            st.segmented_control(
                "Kernel",
                list(kernels),
                default=title,
                required=True,
                key=f"{table} kernel",
                bind="query-params",
                wrap=True,
            )
        )
    kernel = kernels[title]
    for number, idea in enumerate(kernel.ideas, start=1):
        words, line = st.columns([2, 3], gap="medium", vertical_alignment="center")
        with words:
            prose(f"**{number}. {idea.name}.** {idea.sentence}")
        with line:
            st.code(idea.line, language="python", wrap_lines=True)
            st.caption(f"{kernel.file}, line {kernel.line_number(idea)}")
    _interpreted(kernel.gluon)
    _twin(kernel.twin)
    with st.expander(f"The code of {kernel.call}"):
        st.code(kernel.source, language="python", height=520)
    if kernel.below:
        with st.expander(f"The difference from {kernel.below[1].removesuffix('_kernel')}"):
            st.code(kernel.difference, language="diff", wrap_lines=True)


def closing() -> None:
    """How it was measured, things to try, questions, sources."""
    with st.expander("How this was measured"):
        prose(
            "Every kernel first runs on random data and is compared with float64. Its **tolerance** is twice the "
            "error of the same formula in eager PyTorch, plus a rounding band. Kernels that exceed it are not timed. "
            "The kernels of a shape are then timed in turn, round after round, so a slow moment affects all of them, "
            "with L2 emptied before each launch. The **roof** is measured too: for bytes a kernel that only moves "
            "them, for FLOPs a large matmul. It is not a physical limit, but what a simpler kernel reaches on the "
            "same GPU."
        )
    try_this(
        "Attention with a causal mask: go from the longest N to the shortest. Which kernels lose throughput? What "
        "must each program do even if it has few tiles?",
        "Change d from 128 to 64. The number of exponentials stays the same and the matmuls halve. Which kernel loses "
        "most?",
        "Read the diff of each kernel. Find the one line that would undo its idea if it were removed.",
        "*Other kernels*, softmax: follow one kernel over V in fp32, then in bf16. From which V on does a row no "
        "longer fit, and which kernel takes over?",
        "*Other kernels*, top-5: PyTorch launches a softmax and then a search. Compare the bytes it writes in between "
        "with the bytes of the five results.",
    )
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
