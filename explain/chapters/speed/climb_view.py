"""The tab The climb: the kernels as columns, the chosen one, its place under the roofs, counters and timelines."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.speed import climb_figures, counted_figures, readable, results, rungs, stacked, timeline, tuning
from explain.chapters.speed.results import TABLES, Case, Limit, Variant
from explain.chapters.speed.rungs import BY_NAME, RUNGS, Rung, Step
from explain.chapters.speed.timeline import Timeline
from explain.chapters.speed.view import METHOD, Chosen, time_here, traced_instead
from explain.chapters.sweeps import masking
from explain.chapters.sweeps.mask_view import mask_cost
from explain.experiment import Experiment
from explain.figures import numbers
from explain.figures.plot import kept
from explain.gpus import card
from explain.records.code import is_stale
from explain.records.results import ResultFileError
from explain.ui import layout
from explain.ui.charts import chart, sourced
from explain.ui.code import show_code
from explain.ui.controls import option
from explain.ui.layout import header, part, prose
from explain.ui.pictures import drawing, pressable, pressed
from explain.ui.repeat import repeated
from kernels.digest import digest_of

OPENING = "pipelined"
"""The rung that the page opens on: a few changed words of plain Triton that make it much faster."""
MORE_WORDS = ("registers", "spill", "shared memory", "stages", "barrier", "warp specialization")
"""Those that a kernel's code and reasons use."""
WORDS = ("tensor core", "warp", "warpgroup", "TMA", "ping-pong scheduling")
"""The terms of the glossary that the columns' names and phrases use."""
READABLE, BASE_2 = readable.KERNEL, readable.TWIN.name
"""The readable kernel that stands beside the climb, and the rung with the same arithmetic."""
NOTABLE = 1.2
"""A speedup under a causal mask is mentioned if it is more than this many times the one without."""
LINES = 4
"""The new lines of a diff among which the one that matters is seen at once."""
MOST_LINES = 12
"""The new lines of a diff that still tells more than the line that matters."""
BOUND = (
    "At least: FLOPs ÷ what an SM's tensor cores do in a cycle (datasheet). At most: from a matmul's start until its "
    "warps have waited for it. One warp stands for each warpgroup."
)
"""Explains the two bounds, and says which warps the picture shows."""
COUNTED_BY = "python -m explain measure --plan rungs"


def introduce(shown: Chosen | None) -> None:
    """The climb in a sentence."""
    steps, peak = (shown.steps, shown.limit) if shown else (rungs.climb(None), None)
    prose(climb_figures.climb_told(steps, peak))


@st.fragment  # another rung redraws this and nothing else
def climb(shown: Chosen | None) -> None:
    """The kernels as columns on one shape, and below them the one that was pressed."""
    named = {rung.label: rung.name for rung in RUNGS}  # a link may have the chart's name
    if (linked := st.query_params.get("rung", "")) in named:
        st.query_params["rung"] = named[linked]
    name = pressed("rung", BY_NAME, OPENING)
    if (asked := st.query_params.get("rung", name)) != name:
        st.markdown(f":small[:red[**rung={asked}: must be one of {', '.join(named)}**]]")
    if shown is None:
        steps = rungs.climb(None)
        _columns(climb_figures.climb(steps, (), None, "no shape", name), steps, (), None, name, ())
    else:
        case, steps, peak, libraries = shown.case, shown.steps, shown.limit, rungs.beside(shown.case)
        wide = climb_figures.climb(steps, libraries, peak, case.words, name, tuple(shown.tuned.items()), shown.notes)
        _columns(wide, steps, libraries, peak, name, shown.notes)
    layout.words("Words in the picture", WORDS)
    step = next(step for step in steps if step.rung.name == name)
    _head(step)
    if shown:
        sourced(f"{shown.case.named} · {shown.result.source(shown.case.table)}")
        if said := climb_figures.shape_told(steps, shown.case.shape[-1], _falls(shown)):
            prose(said)
    _rung(step, shown)
    with st.expander("More words: registers, stages, barrier, producer and consumer warps"):
        layout.words("Below the climb", MORE_WORDS)
    if shown:
        _more(shown)


@repeated
def _more(shown: Chosen) -> None:
    """Below the climb: the readable kernel, how the times were measured, and what a causal mask costs."""
    if said := shown.readable:
        with st.expander("Our readable kernel, and why exp2 gains more there and in Sweeps"):
            prose("\n\n".join(said))
    with st.expander("How these times were measured, and what they count"):
        prose(METHOD + "\n".join(f"- {one}" for one in _counts(shown)))
    if shown.case.causal:
        _masked(shown)


def _columns(
    wide: str,
    steps: tuple[Step, ...],
    libraries: tuple[Variant, ...],
    peak: Limit | None,
    name: str,
    notes: tuple[tuple[str, str], ...],
) -> None:
    """The picture to press, the same for a phone, and across the window."""
    narrow = climb_figures.climb_in_rows(steps, libraries, peak, name, notes)
    large = climb_figures.climb_in_rows(steps, libraries, peak, name, notes, large=True)
    pressable(f"<div class=wide>{wide}</div><div class=narrow>{narrow}</div><div class=in-large>{large}</div>", "rung")


def _counts(shown: Chosen) -> list[str]:
    """What the climb's times count, and on which settings, as sentences."""
    case, steps, peak = shown.case, shown.steps, shown.limit
    most = rungs.largest(steps)
    said = climb_figures.climb_more(steps, peak, shown.spilled(most.rung) if most else None, shown.datasheet)
    said.append(f"Counted: {TABLES[case.table].work}.")
    if case.causal:
        said.append("Kernels 1 to 3 compute the hidden half as well; it is not counted.")
    if peak:
        said.append(f"Peak: a large matmul measured on the same GPU, not the datasheet ({peak.source}).")
    if (top := steps[-1].variant) and top.function in results.DISPATCHERS:
        said.append("The top kernel's time is that of our dispatcher, which runs it at these shapes.")
    if shown.tuned:
        said.append(climb_figures.tuned_told(steps, shown.tuned))
    if any(step.variant is None for step in steps):
        said.append(f"Times of all kernels need a Hopper GPU: `{results.COMMAND}`.")
    if shown.result.state:
        said.append(f"{shown.result.state}.")
    return said


def _without_mask(case: Case, cases: Sequence[Case]) -> list[Case]:
    """The same case without the mask, if it was measured."""
    return [one for one in cases if (one.shape, one.dtype) == (case.shape, case.dtype) and not one.causal]


def _falls(shown: Chosen) -> str:
    """That a causal mask slows the readable kernel down, and why, as a part of a sentence; else empty."""
    if not shown.case.causal:
        return ""
    case, plain = shown.case, _without_mask(shown.case, shown.cases)
    pair = masking.compiled(READABLE, {"head_dim": case.shape[3], "dtype": case.dtype})
    seconds = [one.seconds_of(READABLE) for one in (*plain, case)]
    if len(seconds) != 2 or not (seconds[0] and seconds[1] and pair):
        return ""
    longer = masking.longer(pair, seconds[0], seconds[1], case.along)
    if longer < NOTABLE:
        return ""
    speeds = [numbers.number(one.work / time / 1e12) for one, time in zip((*plain, case), seconds, strict=True) if time]
    more = numbers.ratio(len(pair[1].loop) / len(pair[0].loop))
    return (
        f"*our readable kernel* falls from {speeds[0]} without the mask to **{speeds[1]}**. It also skips hidden "
        f"tiles, but each tile takes {numbers.ratio(longer)} as long: with the mask its loop has {more} the "
        "instructions (*Why a tile costs more with the mask*, below)"
    )


def _masked(shown: Chosen) -> None:
    """What the mask costs the readable kernel, which stands as a line beside the climb."""
    case, cases = shown.case, _without_mask(shown.case, shown.cases)
    pair = masking.compiled(READABLE, {"head_dim": case.shape[3], "dtype": case.dtype})
    seconds = [one.seconds_of(READABLE) for one in (*cases, case)]
    if len(seconds) != 2 or not (seconds[0] and seconds[1] and pair):
        return
    told = masking.timed(pair, seconds[0], seconds[1], case.along)
    climbed = [one.seconds_of(f"{results.RUNG}{BASE_2}") for one in (*cases, case)]
    if climbed[0] and climbed[1]:
        told += (
            f" Kernel {RUNGS.index(BY_NAME[BASE_2]) + 1} of the climb computes every tile with the mask and has no "
            f"lines for NaN: {numbers.duration(climbed[0])} without the mask, {numbers.duration(climbed[1])} with it."
        )
    mask_cost(told, pair)


def _head(step: Step) -> None:
    """One rung's name and idea, directly below the chart."""
    rung, at = step.rung, RUNGS.index(step.rung)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.header(f"{at + 1}. {rung.title}", anchor=False, width="content")
        with st.container(horizontal=True, width="content"):
            _go_to("Previous kernel", ":material/arrow_back:", at - 1)
            _go_to("Next kernel", ":material/arrow_forward:", at + 1)
    prose(f"**Idea.** {rung.idea}")


def _rung(step: Step, shown: Chosen | None) -> None:
    """One rung: its throughput, the reason, its code."""
    rung, lower = step.rung, rungs.below(step.rung)
    words, code = st.columns([1, 2], gap="large")
    with words:
        if rung.name == OPENING and rungs.news(rung).count("\n+") == 1:
            faster = f", {numbers.ratio(step.gain)} as fast" if step.gain else ""
            word = f" The new word is {rung.word}." if rung.word else ""
            lines = "the red and the green line" if "\n-" in rungs.news(rung) else "the green line"
            prose(f"We start at {RUNGS.index(rung) + 1}: one line of code{faster}. Read only {lines}.{word}")
            _go_to("Start at kernel 1", ":material/first_page:", 0)
        limit, spill = (shown.limit, shown.spilled(rung)) if shown else (None, None)
        prose(f"**Throughput.** {climb_figures.number(step, limit, lower, spill)}{_with_mask(step, shown)}")
        if step.gain and spill:
            with st.expander(climb_figures.spill_title(spill)):
                prose(climb_figures.spill_told(spill))
        if lower and (said := tuning.two_changes_told(step, lower, shown.grids.get(lower.label) if shown else None)):
            prose(said)
        if behind := climb_figures.not_yet(step, lower, shown.tuned if shown else {}):
            prose(behind)
        if shown:
            _timed_here(rungs.experiment(rung, shown.case), shown.case)
        prose(f"**Why it helps.** {rung.why}")
        prose(f"**Accepts.** {rung.takes}")
        traced_instead(rung.gluon, rung.twin)
    with code:
        _code_of(rung, lower)


@repeated
def _code_of(rung: Rung, lower: Rung | None) -> None:
    """A rung's code: what is new in it, all that changes from the rung below, the whole kernel."""
    if lower:
        new, changes, whole = st.tabs(["What is new", "All changes", "The whole kernel"])
        with new:
            lines = rungs.news(rung).count("\n+")
            if lines > LINES:  # so its line is not seen at once
                prose(f"The line that does it, {rung.line_number} in {rung.file}:")
                show_code(rung.line, "python")
            if lines > MOST_LINES:
                st.caption("*All changes* has the other new lines.")
            else:
                _code(rungs.news(rung), "diff")
                st.caption(f"`{rung.place}`, from {lower.file} to {rung.file}: green is new, red is gone")
        with changes:
            _code(rungs.difference(rung), "diff")
            st.caption("parameters and launch too")
    else:
        (whole,) = st.tabs(["The whole kernel"])
    with whole:
        _code(rung.source, "python")
        st.caption("without its imports")


def _with_mask(step: Step, shown: Chosen | None) -> str:
    """A speedup that a causal mask makes larger than on this shape, as a sentence; else empty."""
    cases = shown.cases if shown and not shown.case.causal and step.gain else ()
    for case in cases:
        if case.causal and shown and (case.shape, case.dtype) == (shown.case.shape, shown.case.dtype):
            gain = next(one.gain for one in rungs.climb(case) if one.rung == step.rung)
            if gain and step.gain and gain > NOTABLE * step.gain:
                return f" Under a causal mask: {numbers.ratio(gain)}."
    return ""


def _code(text: str, language: str) -> None:
    """Code in a box of its own height; a long one scrolls."""
    show_code(text, language, height=520, wrap=language == "diff")


def _go_to(label: str, icon: str, at: int) -> None:
    """A button that goes to the rung at this place."""
    name = RUNGS[at].name if 0 <= at < len(RUNGS) else ""
    go = functools.partial(st.query_params.__setitem__, "rung", name)
    st.button(label, icon=icon, type="tertiary", disabled=not name, on_click=go)


def _timed_here(experiment: Experiment, case: Case) -> None:
    """The rung on this shape, timed on this machine's GPU on request, if there is one."""
    timing, gpu = time_here("Time it on this machine's", experiment)
    if timing:
        prose(f"Here: **{numbers.si(case.work / timing.median_ms * 1e3, case.unit)}**.")
        st.caption(f"hardware · {gpu}, now · {timing.method}; not interleaved with the other kernels")


def under_the_roofline(shown: Chosen) -> None:
    """The timed rungs under the GPU's roofs."""
    if shown.roofline is None or shown.record is None:
        return
    picture, intensity = shown.roofline
    with st.expander("The climb under the roofline"):
        first = RUNGS[0].label
        prose(
            f"Every kernel has the same **arithmetic intensity**: {numbers.fixed(intensity, 0)} FLOPs per byte. Each "
            "of them must read Q, K and V and write O.\n\nThe slanted roofs are bandwidths, and they are far to the "
            "left. So the climb goes straight up, towards the flat roof of the tensor cores. Idle tensor cores slow "
            f"these kernels down, not HBM. {first} is a case of its own: it does not use the tensor cores"
            f"{', and it spills registers' if shown.spilled(RUNGS[1]) else ''}."
        )
        chart(picture, "roofline of the rungs", alt="The kernels of the climb under the roofs of memory and arithmetic")
        measured = f"roofs measured on the same GPU, {shown.record.provenance.date}"
        times = shown.result.source(shown.case.table)
        sourced(f"FLOPs and bytes: formula, {shown.case.words} · times: {times} · {measured}")


@repeated
def counted(shown: Chosen) -> None:
    """What the GPU counted of the rungs: tensor-core use, bytes, and why warps wait; or how to count it."""
    found = shown.counted
    if not found:
        header("What the hardware did")
        prose("No GPU has counted these kernels yet.")
        st.caption(f"On a machine with a Hopper GPU, `{COUNTED_BY}` counts tensor-core use, bytes and stalls of each.")
        return
    first = next(iter(found.values()))
    where, p = first.origin.provenance if first.origin else None, first.experiment.values
    sizes = f"batch {p['batch']}, {p['heads']} heads, N = {numbers.count(p['seq_len'])}, d = {p['head_dim']}"
    shape = sizes + ", causal" * p["causal"]
    skips = BY_NAME["causal"]
    tiles = f"Kernel {RUNGS.index(skips) + 1}, *{skips.label}*, skips " + (
        "what the mask hides."
        if p["causal"]
        else "nothing here, because there is no causal mask. It only saves comparing each full tile with the last key."
    )
    words = (
        "A kernel is fast if its **tensor cores** are busy. Most kernels of the climb remove a "
        f"wait. exp2 saves instructions. {tiles}"
        "\n\nEach bar is the share of the cycles in which the tensor cores multiply, counted over the whole run on all "
        "SMs. fp32 does not use them. "
        f"{counted_figures.tensor_told(found, RUNGS)}"
        f"{counted_figures.shares_told(shown.steps, shown.limit, found, shown.datasheet, card(shown.gpu))}"
        f"{_same_code(shown)}"
    )
    with part("What the hardware did", words):
        if bars := counted_figures.tensor_bars(found, RUNGS):
            drawing(bars, counted_figures.tensor_bars(found, RUNGS, narrow=True))
        if shown.waits:
            with st.expander("What the warps wait for"):
                last = shown.waits[-1]
                prose(
                    "Each bar is the time of all warps of a kernel.\n\n"
                    f"**{last.kernel}**: {counted_figures.stalls_told(last)}"
                    f"{counted_figures.spilling_told(shown.waits, found, RUNGS)}"
                )
                drawing(*shown.stall_bars)
        if clock := counted_figures.clock_told(
            shown.steps, found, card(shown.gpu), shown.result.after.get("clocks.sm", "")
        ):
            with st.expander("How the clock is estimated"):
                prose(clock)
        with st.expander("Tensor cores and bytes of each kernel"):
            with st.container(key="numbers of counters"):
                st.markdown(shown.counters_table)
            prose("**Spilled** are the bytes of registers that did not fit and went to memory.")
        sourced(f"recorded · {f'{where.gpu}, {where.date}' if where else 'hardware'} · {shape}, L2 cold")
        if stale := [BY_NAME[name].label for name, point in found.items() if is_stale(point)]:
            st.caption(f"Stale: the code of {', '.join(stale)} is newer than its counts. To repeat: `{COUNTED_BY}`")


def _same_code(shown: Chosen) -> str:
    """That the times and the top kernel's counts are of the same code, as a sentence; else empty."""
    point = shown.counted.get(shown.steps[-1].rung.name)
    if not point or point.origin is None or is_stale(point) or shown.result.stale:
        return ""
    return " The times and the counts are of the same code."


def warps(name: str = "") -> None:
    """The timelines recorded of the kernel of this name, or of all; or how to record them."""
    ladder = [rung.entry.module for rung in RUNGS]
    try:
        runs = [run for run in timeline.recorded() if name in ("", run.name)]
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return
    if not runs:
        what = name or "any kernel"
        st.info(f"No timeline of {what} is recorded. On a machine with a Hopper GPU: `{timeline.COMMAND}`")
        return
    runs = sorted(runs, key=lambda run: ladder.index(run.module) if run.module in ladder else -1)
    alike = stacked.comparable(runs)
    if alike:
        _stacked(alike)
    else:
        header("What the warps do, cycle by cycle")
    with st.expander("One kernel in detail, and other sizes", expanded=not alike or "run" in st.query_params):
        _lanes(tuple(runs), alike)


@repeated
def _stacked(runs: tuple[Timeline, ...]) -> None:
    """The kernels of one shape under each other, and their shares."""
    *_, n, d = runs[0].shape
    words = (
        f"N = {numbers.count(n)}, d = {d}{', causal' * runs[0].causal}: each kernel over the same "
        f"{numbers.count(stacked.shown_cycles(runs))} cycles. Violet and pink are matmuls, "
        "blue is softmax, grey is waiting.\n\n"
        "**The row *tensor cores*.** We cannot see the tensor cores directly.\n\n"
        "- At least (solid): the time that the matmuls need at full speed, drawn as early as they can run.\n"
        "- At most (solid and hatched): the time in which some matmul was outstanding.\n\n"
        f"The truth lies between. {_unseen(runs)}The aim is a solid row.\n\n"
        "The picture is the middle of a run, and its shares are of the cycles drawn. The table below has whole runs, "
        "start and end included. *What the hardware did* counts the cycles of all SMs, at the N named there.\n\n"
        "**Consumer** warpgroups run the matmuls and the softmax. A **producer** warp, in the detailed picture below, "
        "asks the TMA for tiles."
    )
    with part("What the warps do, cycle by cycle", words):
        drawing(stacked.stacked(runs), stacked.stacked(runs, narrow=True))
        means = "Means over the recorded programs; the picture has the first one."
        sourced(timeline.source_of(runs), BOUND, means)
        _stale(*runs)
    with st.container(key="numbers of timelines"):
        st.markdown(timeline.compared(runs))


def _unseen(runs: Sequence[Timeline]) -> str:
    """Which kernels have warpgroups that were not recorded, in sentences; empty if none."""
    programs = ((run.short, run.programs[0]) for run in runs)
    return "".join(
        f"*{name}*: we recorded {len(one.consumers)} of {one.warpgroups} warpgroups. The solid blocks count the "
        "matmuls of all, so they are longer than the coloured ones below. "
        for name, one in programs
        if one.unseen
    )


def _stale(*runs: Timeline) -> None:
    """Says which of the kernels have changed since they were recorded."""
    if changed := [run for run in runs if run.code != digest_of(run.module, run.function)]:
        again = f"{timeline.COMMAND} {' '.join(dict.fromkeys(run.name for run in changed))}"
        kernels = ", ".join(dict.fromkeys(run.short for run in changed))
        st.caption(f"Stale: the code of {kernels} has changed since this was recorded. To repeat: `{again}`")


@st.fragment
def _lanes(runs: tuple[Timeline, ...], alike: tuple[Timeline, ...]) -> None:
    """One program of one run, and the shares of the runs that are not `alike`."""
    named = {run.key: run for run in runs}
    words, picture = st.columns([2, 5], gap="large")  # wide enough for the legend beside the picture's buttons
    with words:
        first = next((one for one in runs if one.overlaps), runs[0])
        run = named[option("Run", {key: one.title for key, one in named.items()}, "run", first.key)]
        programs = {str(one.program): one for one in run.programs}
        places = {number: f"program {number}, on SM {one.sm}" for number, one in programs.items()}
        number = option("Program", places, "program", next(iter(programs)))
        prose(
            "Violet and pink are matmuls, blue is softmax, grey is waiting. The **producer** warp asks the TMA for "
            f"tiles.\n\n{timeline.timeline_told(run, programs[number])}"
        )
    with picture:
        name = f"timeline of {run.key}"
        chart(_lanes_figure(run, int(number)), name, alt=f"What the warps of {run.title} do over time")
        sourced(run.source, BOUND, timeline.times_told(run, programs[number]))
        st.caption("Drag the picture to move; point at a bar for its cycles.")
        if others := [one for one in runs if one not in alike]:
            with st.container(key="numbers of other timelines"):
                st.markdown(timeline.compared(others))
        _stale(run)


@functools.lru_cache(maxsize=32)
def _lanes_figure(run: Timeline, number: int) -> go.Figure:
    return kept(timeline.lanes(run, next(program for program in run.programs if program.program == number)))
