"""The chosen case, the tabs Tuning and Other kernels, and what stands under every tab."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.flash_attention.tiles import tile
from explain.chapters.speed import (
    climb_figures,
    counted_figures,
    exercises,
    kernels,
    lengths,
    readable,
    results,
    rungs,
    tuning,
)
from explain.chapters.speed.results import TABLES, Case, Limit, Result
from explain.chapters.speed.rungs import RUNGS, Rung, Spill, Twin
from explain.chapters.sweeps.roofline import roofline
from explain.compile.service import compiler, provenance
from explain.device.measurement import Timing
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.figures import lines
from explain.figures.numbers import count, percent, si
from explain.figures.plot import kept
from explain.gpus import DEFAULT, GPUS, Gpu, card, known_as, specified
from explain.records import registry
from explain.records.code import stale_words
from explain.records.model import Point, Record
from explain.records.results import ResultFileError
from explain.ui import layout
from explain.ui.charts import chart, csv_download, sourced
from explain.ui.code import show_code
from explain.ui.compiling import once_compiled
from explain.ui.controls import option, pick
from explain.ui.exercises import ask
from explain.ui.follow import on_request, once_known
from explain.ui.gpu import chosen_instead
from explain.ui.layout import chapter_link, part, prose, sides
from explain.ui.pictures import drawing
from explain.ui.repeat import repeated
from kernels.catalog import KERNELS

METHOD = """
Every kernel first runs on random data and is compared with float64. Its **tolerance** is twice the error of the same
formula in eager PyTorch, plus a rounding band. Kernels that exceed it are not timed. The kernels of a shape are then
timed in turn, round after round, so a slow moment affects all of them, with L2 emptied before each launch. The **peak**
is measured too: for attention a large matmul, for softmax a copy, for top-5 and decode a read. It is not a physical
limit, but what a simpler kernel reaches on the same GPU.
"""


def closing(shown: Chosen | None = None) -> None:
    """How it was measured (the climb's case, `shown`, says it itself), things to try, questions, sources."""
    if shown:
        most = rungs.largest(shown.steps)
        why = climb_figures.largest_why(shown.spilled(most.rung) if most else None)
        about = exercises.Shown(shown.case, shown.limit, why)
        ask("speed", exercises.QUESTIONS, about, f"{shown.case.named} {shown.result.source(shown.case.table)}")
    else:
        with st.expander("How this was measured"):
            prose(METHOD)
    layout.closing("speed")


OTHERS = "work."
"""Prefix of the other kernels' choices in the page's address."""
SHAPE_LABELS = {"N": "N", "V": "V, elements in a row", "d": "d", "dtype": "dtype", "causal": "Causal"}


@dataclass(frozen=True, eq=False)
class Chosen:
    """The benchmark's result, the chosen case, the GPU's record, and what is drawn of them, each once."""

    result: Result
    case: Case
    record: Record | None

    @property
    def gpu(self) -> str:
        """The GPU's name."""
        return self.result.provenance.gpu

    @cached_property
    def steps(self) -> tuple[rungs.Step, ...]:
        """The kernels of the climb on this case."""
        return rungs.climb(self.case)

    @cached_property
    def tuned(self) -> dict[str, float]:
        """FLOP/s of each kernel of the climb at its fastest setting, where settings were timed."""
        return {name: grid.rate(grid.timed[0]) for name, grid in self.grids.items()}

    @cached_property
    def grids(self) -> dict[str, tuning.Grid]:
        """The settings that were timed on this case, by their kernel's short name."""
        return tuning.grids(self.case.shape, self.case.dtype, self.case.causal, self.gpu)

    @cached_property
    def limit(self) -> Limit | None:
        """The case's roof."""
        return results.roof(self.case, self.record)

    @cached_property
    def datasheet(self) -> float | None:
        """The datasheet's FLOP/s of the case's dtype, where the measured peak is known."""
        return specified(f"matmul {self.case.dtype}", self.gpu) if self.limit else None

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
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What the columns' heights do not say, by a kernel's label."""
        spills = {rung.label: self.spilled(rung) for rung in RUNGS}
        return tuple(climb_figures.notes(self.steps, spills, self.case.shape[-1]).items())

    @cached_property
    def readable(self) -> tuple[str, ...]:
        """Why the line of the readable kernel is higher than the bar of the kernel with the same arithmetic."""
        return readable.told(self.case, self.steps, self.counted, self.record)

    @cached_property
    def waits(self) -> list[counted_figures.Waits]:
        """What the warps of each rung spend their time on, where it was counted."""
        counters = ((rung, self.counted[rung.name].counters) for rung in RUNGS if rung.name in self.counted)
        return [
            counted_figures.Waits(rung.label, one.stalls, one.cold.tensor_active_percent, rung.empty_warps(one.stalls))
            for rung, one in counters
            if one and one.stalls
        ]

    @cached_property
    def stall_bars(self) -> tuple[str, str]:
        """Why warps wait, as a picture, and for a phone."""
        return counted_figures.stall_bars(self.waits), counted_figures.stall_bars(self.waits, narrow=True)

    @cached_property
    def counters_table(self) -> str:
        """What was counted of each rung."""
        return counted_figures.counters_table(self.counted, RUNGS)

    @cached_property
    def roofline(self) -> tuple[go.Figure, float] | None:
        """The timed rungs under the roofs, and their FLOPs per byte; None without a time or a record."""
        points = rungs.under_roofs(self.steps, self.case, self.record.roofs) if self.record else []
        if not self.record or not points:
            return None
        picture = roofline(points, self.record.roofs, room=80)
        return kept(picture), points[-1].intensity

    def curve(self, chosen: str = "") -> go.Figure | None:
        """The kernels over the length, of our dispatched ones the `chosen`; None if only one length was measured."""
        if len({one.along for one in self._along}) < 2:
            return None
        if chosen not in self._curves:
            limits = [results.roof(one, self.record) for one in self._along]
            self._curves[chosen] = kept(kernels.curve(self._along, limits, chosen))
        return self._curves[chosen]

    @cached_property
    def _curves(self) -> dict[str, go.Figure]:
        """The curves drawn so far, one for each chosen kernel."""
        return {}

    @cached_property
    def _along(self) -> list[Case]:
        """The cases of the curve, without the climb's kernels."""
        return results.beside(self.case.without_rungs, (one.without_rungs for one in self.cases))

    @cached_property
    def curve_told(self) -> str:
        """What the curve says of our kernel at its two ends; empty where one has no time."""
        along, ends, last = TABLES[self.case.table].along, (self._along[0], self._along[-1]), self._along[-1]
        limits = [limit for one in ends if (limit := results.roof(one, self.record)) and limit.own]

        def rate(one: results.Variant, at: int) -> str:
            share = (
                f" ({percent(one.per_second / limits[at].per_second)})" if len(limits) == 2 and one.per_second else ""
            )
            return f"**{si(one.per_second, last.unit)}**{share}" if one.per_second else ""

        places = [f"at {along} = {count(one.along)}" for one in ends]
        ours = [one.ours for one in ends if one.ours]
        if len(ours) < 2:
            return ""
        several = "the fastest library kernel, " * (len(last.baselines) > 1)
        beside = "".join(
            f" There {several}{one.label}{',' * bool(several)} reaches {rate(one, 1)}." for one in last.baselines[:1]
        )
        names = {one.label for one in ours}
        name = names.pop() if len(names) == 1 else "our fastest kernel"
        if ours[0].function in results.DISPATCHERS:
            name += ", the function that chooses one of our kernels,"
        said = "Higher is faster: "
        if len(limits) == 2:
            peaks = " and ".join(
                f"{si(one.per_second, last.unit)} {at}" for one, at in zip(limits, places, strict=True)
            )
            said = f"Higher is faster. 100% is the {limits[0].name}, measured for each {along}: {peaks}. "
            name = name[0].upper() + name[1:] if name.startswith("our ") else name
        said += f"{name} goes from {rate(ours[0], 0)} {places[0]} to {rate(ours[1], 1)} {places[1]}.{beside}"
        return said

    @cached_property
    def shapes(self) -> str:
        """Every shape of the table, as speedups."""
        return kernels.shapes_table(self.cases, [results.roof(case, self.record) for case in self.cases])

    @cached_property
    def bars(self) -> tuple[str, str]:
        """The case's variants, and the same for a phone."""
        return kernels.bars(self.case, self.limit), kernels.bars(self.case, self.limit, narrow=True)


GOALS = {
    "The climb": (
        "see what makes attention fast, one change at a time, until it is close to what a large matmul reaches."
    ),
    "Tuning": "see how much tile, warps and stages matter for one source, and what its first call costs.",
    "Other kernels": "see that other kernels have other ceilings, and what brings each kernel close to its own.",
}
TABS = {
    "The climb": "",
    "Tuning": "",
    "Other kernels": (
        "The ceiling of softmax is a copy. For top-5 and decoding it is reading HBM. For the backward pass it is a "
        "large matmul."
    ),
}
"""The page's tabs, and what each says after its goal."""


def introduce(tab: str, shown: Chosen | None) -> None:
    """A tab's goal and first words, below the page's title; of the climb's case, what libraries reach."""
    words = climb_figures.libraries_told(rungs.beside(shown.case)) if shown else TABS[tab]
    layout.introduce(f"**Goal: {GOALS[tab]}**\n\n{words}")


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
        st.error(str(error), icon=":material/error:")
        return None
    if result is None:
        st.info(f"The benchmark has not run here. On a machine with a GPU: `{results.COMMAND}`")
        return None
    if words := stale_words(result.stale):
        st.caption(f":orange-badge[may be out of date] {words}")
    cases = result.of(table)
    if not cases:
        st.info(f"This run of the benchmark has no {TABLES[table].title}: `{results.COMMAND} {table}`")
        return None
    case = _case(table, cases, prefix)
    entries, _ = registry.entries()
    records = (one.record for one in entries if one.record.gpu == result.provenance.gpu and one.record.roofs)
    record = next(records, None)
    return _chosen(Same(result), case, Same(record))


def _case(table: str, cases: tuple[Case, ...], prefix: str) -> Case:
    """One case, by controls that are kept in the page's address under `prefix`."""
    if not TABLES[table].along:
        shapes = {str(at): case.words for at, case in enumerate(cases)}
        label = f"Shape: {' × '.join(TABLES[table].dimensions)}"
        few = min(
            range(len(cases)), key=lambda at: cases[at].shape[0]
        )  # a batch of few programs, which splitting helps
        return cases[int(option(label, shapes, f"{prefix}shape", str(few)))]
    names = [name for name in results.choices(cases) if name in SHAPE_LABELS]
    for name, column in zip(names, st.columns(max(len(names), 1)), strict=False):
        values = sorted({case.values[name] for case in cases}, key=results.size_of)
        plain = {value.replace(",", ""): value for value in values}
        with column:
            default = "no" if "no" in plain else list(plain)[len(plain) // 2]
            asked = option(SHAPE_LABELS[name], plain, f"{prefix}{name}", default)
        cases = tuple(case for case in cases if case.values[name] == plain[asked])
    return cases[0]


def traced_instead(gluon: bool, twin: Twin | None) -> None:
    """How a kernel is tested, and a link to traced runs with the same arithmetic."""
    if gluon:
        prose("Written in Gluon. Triton's interpreter cannot run Gluon, so this kernel is measured, not traced.")
    else:
        prose("Plain Triton. Tests run it in the interpreter and compare it with float64.")
    if twin:
        chapter_link(twin.page, twin.words, twin.query)


def work() -> tuple[str, Chosen | None]:
    """What the other kernels compute, and on which shape, by controls: a table and its case."""
    titles = {known.title: name for name, known in TABLES.items() if name != "attention"}
    table = titles[pick("What to compute", titles, "work", wrap=True, on_change=_forget)]
    return table, chosen(table, OTHERS)


def others(table: str, shown: Chosen | None) -> None:
    """The fast kernels beside the libraries, and the ideas of each."""
    if table == "backward":
        chapter_link("backward", "Read Backward first: what dQ, dK and dV are →")
    if shown:
        _bars(shown)
    layout.header("What makes it fast")
    if shown and (said := kernels.beaten_told(shown.case)):
        prose(said)
    chosen = _ideas(table, shown.case if shown else None)
    if shown:
        curve(shown, chosen)
        shapes(shown)


def _forget() -> None:
    """Another table has other shapes."""
    for name in ("shape", *SHAPE_LABELS):
        st.query_params.pop(f"{OTHERS}{name}", None)


@repeated
def _bars(shown: Chosen) -> None:
    """The case's variants as bars."""
    case, limit, result = shown.case, shown.limit, shown.result
    words = [TABLES[case.table].ceiling, kernels.bars_told(case, limit)]
    if any(one.function in results.DISPATCHERS for one in case.variants):
        words.append(
            "*Our dispatcher* is the function to call from your own code. It chooses the kernel that was fastest on "
            f"such shapes when it was tuned.{kernels.dispatcher_told(case)}"
        )
    words.append(kernels.unmeasured_told(case, result.of("attention")))
    words.append(kernels.errors_told(case))
    words.append(f"{case.named}. Counted: {TABLES[case.table].work}.")
    if limit:
        words.append(kernels.peak_told(case, limit))
    else:
        words.append("No peak: it was not measured on this GPU. `python -m explain measure --plan roofs` measures it.")
    with part(kernels.bars_title(case, limit), "\n\n".join(filter(None, words))):
        drawing(*shown.bars)
        settings = [result.state, f"peak: {limit.source}" if limit else "", kernels.settings(case)]
        sourced(result.source(case.table), *filter(None, settings))


def curve(shown: Chosen, chosen: str = "") -> None:
    """The kernels over the length, of our dispatched ones the `chosen`; nothing if only one length was measured."""
    figure = shown.curve(chosen)
    if figure is None:
        return
    case, along = shown.case, TABLES[shown.case.table].along
    layout.header(f"Over {along}")
    prose(shown.curve_told)
    name = f"speed of {case.table}, {case.dtype}{', causal' if case.causal else ''}"
    chart(figure, name, partial(lines.as_csv, figure), alt=f"Throughput of each kernel over {along}")
    sourced(shown.result.source(case.table))


@repeated
def shapes(shown: Chosen) -> None:
    """Every shape of the table, as speedups."""
    with st.expander("Every shape, as speedups"), st.container(key="numbers of speed"):
        st.markdown(shown.shapes)
        sourced(f"above 1 our kernel is faster than the library · {shown.result.source(shown.case.table)}")


def _ideas(table: str, case: Case | None) -> str:
    """Why the table's kernels are fast: a kernel's ideas, each with its source line, and its code. Returns its name."""
    known = {kernel.call: kernel for kernel in kernels.of(table)}
    call = next(iter(known))
    if len(known) > 1:
        fastest = case.ours.function if case and case.ours else ""
        call = pick("Kernel", known, f"{table} kernel", fastest if fastest in known else call, wrap=True)
    kernel = known[call]
    st.subheader(kernel.title, anchor=False)
    idle = [idea for idea in kernel.ideas if idea.idle_told(case)]
    for number, idea in enumerate(sorted(kernel.ideas, key=lambda one: one in idle), start=1):
        if idea in idle[:1]:
            prose("**Ideas for other shapes.** On this shape they change nothing.")
        words, line = st.columns([4, 7], gap="small")
        with words:
            prose(f"**{number}. {idea.name}.** {idea.sentence.strip()}{idea.idle_told(case)}")
        with line:
            show_code(kernel.excerpt(idea), "python", marked=idea.line)
            st.caption(f"{kernel.file}, line {kernel.line_number(idea)} is marked")
    traced_instead(kernel.gluon, kernel.twin)
    with st.expander(f"The code of {kernel.call}"):
        show_code(kernel.source, "python", height=520, wrap=False)
    if kernel.below:
        with st.expander(f"The difference from {kernel.below[1].removesuffix('_kernel')}"):
            show_code(kernel.difference, "diff")
    return call


def settings() -> None:
    """One rung at every setting of tile, warps and stages: timed, or else compiled."""
    try:
        timed, compiled = tuning.load(tuning.FILE), tuning.load(tuning.COMPILED)
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return
    shown = timed if timed and any(grid.timed for grid in timed.grids) else compiled
    if shown is None or not shown.grids:
        st.info(f"No setting has been measured here. On a machine with a GPU: `{tuning.COMMAND}`")
        return
    grids = {KERNELS[f"rung:{grid.rung}"].short: grid for grid in shown.grids}
    name = next(iter(grids))
    words, picture = sides("One kernel, many settings")
    with words:
        own = grids[pick("Kernel", grids, "tuned", wrap=True) if len(grids) > 1 else name]
        grid = tuning.completed(own, compiled.of(own.rung) if compiled else None)
        entry, gpu, where = KERNELS[f"rung:{own.rung}"], card(shown.provenance.gpu), shown.provenance
        prose(
            f"{tuning.winners_told(grids)}\n\n"
            "The same source, compiled with other tile sizes, warps and stages, is another kernel:\n\n"
            "- A **large tile** needs more registers. With more queries in a tile, K and V are read less often. With "
            "more keys, the loop has fewer rounds.\n"
            "- **More warps** spread a tile over more threads.\n"
            "- **More stages** load further ahead and hold more tiles in shared memory, so fewer programs fit on an "
            "SM.\n\n"
            "The rules exclude some settings: too much shared memory, too many registers. Which of the rest is "
            "fastest, only a trial shows: autotuning. "
            f"*The climb* uses {readable.of_rung(rungs.BY_NAME[own.rung]).words}."
        )
        csv_download(
            "All settings as CSV", grid.csv, f"tilescope-tuning-{grid.rung}", key="csv of the settings", type="tertiary"
        )
        chapter_link("tile_cost", "What one tile costs, and its instructions →")
    with picture:
        stronger = "stronger colour: faster · " * bool(grid.timed)
        st.caption(f"{stronger}{tuning.SPILLED} spilled bytes per thread · point at a cell for all its numbers")
        drawing(tuning.grid(grid, entry.hue), tuning.grid(grid, entry.hue, narrow=True))
        if grid.timed:
            sourced(f"{grid.words} · {shown.source}")
        else:
            st.caption(f"{shown.method} · triton {where.triton}, {where.date} · d = {grid.shape[3]}, {grid.dtype}")
            st.caption(f"Each cell: registers per thread, shared memory per program. For times: `{tuning.COMMAND}`")
        prose(tuning.grid_told(grid, gpu))
        if grid.timed and gpu:
            st.caption(
                "Programs per SM: formula, from the compiler's registers and shared memory. Pairs: settings that "
                "differ in one stage; neither spills."
            )
        if grid.code != entry.code:
            st.caption("Stale: the kernel's code has changed since.")


FIRST = lengths.experiments("flash_attention")[0]
"""The shortest of the measured lengths: one compiled kernel serves all."""


def first_call() -> None:
    """What a kernel's first call costs: as recorded, with this machine's compiler, and on this machine's GPU."""
    here = _here()
    chosen = chosen_instead()
    records = sorted(registry.shipped(), key=lambda record: known_as(record.gpu) != chosen)
    if measured := next(filter(None, map(lengths.of, records)), None):
        timing = measured.by_kernel["flash_attention"][measured.lengths[0]]
        first, later = timing.first_call_ms / 1e3, timing.median_ms / 1e3
        calls = count(int(float(f"{first / later:.1g}")))
        with part(
            "Why is the first call slow?",
            f"Triton compiles the kernel. At N = {measured.lengths[0]} the first call of FlashAttention takes as long "
            f"as about **{calls}** later calls. A kernel is compiled when it is first called with these dtypes, tile "
            "sizes and flags. The result is kept on disk.\n\nTo time a kernel, call it once, wait for it, and "
            "start the clock after that.",
        ):
            answer = compiler().look(_tile(), here.compute_capability)
            cost = answer.cost if answer else None
            where = measured.provenance
            alike = cost is not None and cost.triton == where.triton  # another triton's compiler takes another time
            compiled = (cost.triton, sum(launch.seconds for launch in cost.launches)) if cost and alike else None
            drawing(lengths.first_call(compiled, first, later, where.gpu, where.triton))
            if answer and cost and alike:
                st.caption(f"compilation alone: {provenance(cost, answer.origin)}; another CPU, another triton")
            sourced(measured.source)
            with st.expander("Every length"), st.container(key="numbers of lengths"):
                st.markdown(lengths.table(measured))
    once_compiled(_tile(), here)
    once_known(_live)


def time_here(label: str, experiment: Experiment) -> tuple[Timing | None, str]:
    """A button that times an experiment on this machine's GPU: the timing once it is there, and the GPU's name."""
    status = engine().device_if_known()
    gpu = status.gpu if status else ""
    if not gpu:
        return None, ""
    job = on_request(
        f"{label} {gpu}", f"timed {experiment.key}", "compiling and running",
        lambda job: engine().point(experiment, counters=False, cancel=job.cancel), ":material/timer:",
    )  # fmt: skip
    point = job.result if job else None
    if point and not point.timing:
        st.error(point.why, icon=":material/error:")
    return (point.timing if point else None), gpu


@functools.cache
def _tile() -> Experiment:
    return tile(FIRST.values["block_m"], FIRST.values["block_n"])


def _here() -> Gpu:
    """The GPU to compile for: this machine's, if it is known, or an H200."""
    status = engine().device_if_known()
    return (card(status.gpu) if status else None) or GPUS[DEFAULT]


def _live(status: DeviceStatus) -> None:
    """A first call on this machine's GPU, if there is one."""
    if not status.gpu:
        with st.expander("A first call on this machine"):
            st.caption(f"With a GPU, a first call can be timed here. {status.reason}")
        return
    timing, gpu = time_here("Time a first call on this machine's", FIRST)
    if timing:
        drawing(lengths.first_call(None, timing.first_call_ms / 1e3, timing.median_ms / 1e3, gpu))
        st.caption(f"hardware · {gpu}, now · a kernel in this machine's cache is not compiled again")
