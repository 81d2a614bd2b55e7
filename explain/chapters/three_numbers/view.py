"""The page Three numbers, part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.measurements import limited
from explain.chapters.measurements.exercises import run_of
from explain.chapters.three_numbers import exercises, figures
from explain.chapters.three_numbers import hierarchy as pictured
from explain.chapters.three_numbers import shown as lab
from explain.chapters.three_numbers.levels import WAYS, Traced, Witness, amount, recorded_trace, whole_trace, witness
from explain.chapters.three_numbers.shown import Shown
from explain.counters.model import Counters
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.numbers import NONE, duration, number
from explain.records.registry import Entry
from explain.ui import controls, layout, pictures, stepper
from explain.ui.charts import sourced
from explain.ui.exercises import ask
from explain.ui.follow import follow, on_request
from explain.ui.records import records_choice
from explain.ui.repeat import repeated
from explain.ui.stepper import traces_of

_WHAT = {
    "CUPTI": "NVIDIA's library, in the process that runs the kernel, on this machine's GPU",
    "ncu": "Nsight Compute's command line, in a separate process, if CUPTI is not available",
    "recorded": "counted beforehand on a named GPU, shown if this machine has no GPU",
    "formula only": "formula and trace, for sizes without counts",
}


COUNT_WHAT = "**Count loads to compare algorithms. Count HBM to find what limits a run.**"


def counted_here(experiment: Experiment, shown: Sequence[Entry]) -> Witness:
    """The run's counters: of this machine's GPU (a button counts them), or of the first record that has them."""
    here: Counters | None = None
    status = engine().device_if_known()
    if status is None:
        follow(
            lambda: None if engine().device_if_known() else st.caption("Looking for a GPU…"),
            lambda: engine().device_if_known() is None,
        )
        why = "Still looking for a GPU on this machine."
    elif status.available:
        job = on_request(
            "Count on this GPU",
            f"counted {experiment.key}",
            "compiling, checking the counters with a copy, counting",
            lambda job: engine().point(experiment, timing=False, cancel=job.cancel),
            ":material/memory:",
        )
        why = "Not counted on this machine's GPU yet."
        if job and job.result:
            here, why = job.result.counters, job.result.why
            if why:
                st.warning(why, icon=":material/warning:")
    else:
        why = status.reason
    points = ((one, one.record.point(experiment)) for one in shown)
    found = next(((one, point.counters) for one, point in points if point and point.counters), None)
    if here is not None:
        return witness(here, None, "")
    return witness(None, found[1], why, found[0].origin) if found else witness(None, None, why)


@repeated
def ways(chosen: Witness) -> None:
    """The possible sources of the counters in order, and how those shown were checked."""
    st.markdown(
        "The page shows the first of these that is available:\n\n"
        + "\n".join(f"1. {f'**{way}** (shown now)' if way == chosen.way else way}: {_WHAT[way]}." for way in WAYS)
        + f"\n\n{chosen.why}"
    )
    if chosen.counters is None:
        return
    copy = chosen.counters.copy
    written = f" and {copy.written_bytes:,} written" if copy.written_bytes is not None else ""
    st.markdown(
        f"To check the counters, a copy of {copy.copied_bytes:,} bytes was counted first: {copy.read_bytes:,} read"
        f"{written} at HBM. Each count took {chosen.counters.passes or 'several'} passes. A counted run is "
        "never timed."
    )
    if chosen.counters.lacking:
        st.markdown(f"This GPU has no counter for: {', '.join(chosen.counters.lacking)}.")


@repeated
def ratios(choice: Choice, records: Sequence[Entry]) -> None:
    """How much less FlashAttention-2 requests, moves at HBM, and takes than standard attention, at the chosen sizes;
    from the first record.
    """
    pair = lab.standard_and_flash(choice.experiment)
    for one in records if pair else ():
        points = [one.record.point(experiment) for experiment in pair]
        counted = [(p.counters.cold, p.timing.median_ms) for p in points if p and p.counters and p.timing]
        found = [(cold.l1_bytes, cold.hbm_bytes, ms) for cold, ms in counted]
        if len(found) < len(pair):
            continue
        standard, flash = found
        fewer, faster = (a / b if a and b else 0.0 for a, b in list(zip(standard, flash, strict=True))[1:])
        run = run_of(one.record, pair[1])
        rates = limited.of(one.record, [*filter(None, points[1:])], {})
        time = figures.time_words(fewer, faster, rates, run.peak if run else 0.0)
        at_hbm = figures.dram_words(counted[1][0])
        told: Sequence[tuple[str, str, str, Callable[[float], str]]] = (
            ("bytes requested by the programs", "fewer", "S and P stay on chip.", amount),
            ("bytes at HBM", "fewer", f"S and P stay on chip. L2 keeps K and V.\n\n{at_hbm}", amount),
            ("time", "as fast", "Both do the same matmuls.", lambda ms: duration(ms / 1e3)),
        )
        layout.header(f"FlashAttention-2 beside standard attention: {figures.sizes_words(pair[0])}")
        for (name, better, why, unit), a, b, column in zip(
            told, standard, flash, st.columns(3, gap="small"), strict=True
        ):
            with column.container(border=True, gap="small", height="stretch"):
                st.metric(name, f"{number(a / b, 2)} × {better}" if a and b else NONE)
                st.markdown(f"{unit(a)} → {unit(b)}" if a and b else NONE)
                st.markdown(why)
        layout.prose(f"{time}\n\n{COUNT_WHAT}".strip())
        tile = " × ".join(str(pair[1].values[name]) for name in ("block_m", "block_n"))
        sourced(f"{one.source} · L2 cold · tiles of {tile}")
        return


def traced_bytes(experiment: Experiment, small: bool) -> Traced | None:
    """The kernel's loads and stores: recorded, or traced now for a `small` run; None if there is neither."""
    if not small:
        return recorded_trace(experiment)
    (trace,) = traces_of([experiment])
    return whole_trace(experiment, trace) if trace else None


@dataclass(frozen=True)
class Choice:
    """A run to count: the kernel at the player's size and at the chosen one, and whether L2 is warm."""

    small: Experiment
    experiment: Experiment
    small_is_it: bool
    warm: bool


def choose() -> Choice:
    """The kernel, its sizes and the state of L2 that the reader chose."""
    picked, sized, heat = st.columns([2, 3, 2], vertical_alignment="bottom")
    with picked:
        kernel = controls.kernel("Kernel", "flash_attention", "kernel", lab.KERNELS)
    choices = lab.experiments(kernel)
    with sized:
        words = {
            name: figures.sizes_words(one) + (", as in the player" if name == "small" else "")
            for name, one in choices.items()
        }
        size = controls.option("Sizes", words, "size", "1")
    with heat:
        heated = controls.pick("L2 before the run", ("cold", "warm"), "l2")
    experiment, warm = choices[size], heated == "warm"
    return Choice(choices["small"], experiment, size == "small", warm)


def hierarchy(choice: Choice, lead: DeltaGenerator) -> tuple[Shown, Sequence[Entry]]:
    """The memory hierarchy with the bytes of each link, and in the place `lead` what the caches save and the source of
    the counts; returns the numbers and the records that they come from.
    """
    drawn, told = st.columns([3, 2], gap="large")
    with lead:
        with st.container(horizontal=True, vertical_alignment="center"):
            source = st.container(width="content")
            folded = st.popover("Other GPUs and sources")
        saved = st.container()
        with folded:
            records = records_choice()
        witness = counted_here(choice.experiment, records)
        traced = traced_bytes(choice.experiment, choice.small_is_it)
        with source:
            if witness.counters:
                sourced(witness.source)
            else:
                st.caption("formula and trace" if traced else "formula only")
        with folded:
            ways(witness)
    shown = lab.shown(choice.experiment, traced, witness, warm=choice.warm)
    link = pictures.pressed("link", pictured.LINKS, "l1")
    with drawn:
        dirty = shown.counts.dirty_bytes if shown.counts else None
        wide, narrow = (
            pictured.hierarchy(shown.levels, shown.gaps, shown.prediction, dirty, link, warm=choice.warm, narrow=narrow)
            for narrow in (False, True)
        )
        pictures.pressable(f"<div class=wide>{wide}</div><div class=narrow>{narrow}</div>", "link")
    with told:
        _link(link, shown)
    with saved:
        _caches(shown, witness.counters, warm=choice.warm)
    return shown, records


@repeated
def _caches(shown: Shown, counters: Counters | None, *, warm: bool) -> None:
    """What the programs request, what the caches save, and what a warm L2 changes."""
    spilled = (shown.counts and shown.counts.spill_read_bytes) or 0
    layout.prose(figures.caches_words(shown.traffic, shown.levels.l1.read, shown.levels.dram.read, spilled))
    if counters:
        layout.prose(figures.heat_words(counters, warm=warm))


@repeated
def _link(link: str, shown: Shown) -> None:
    """The bytes of one link, buffer by buffer."""
    predicted = link == "dram" and shown.prediction is not None
    layout.prose(f"**{pictured.LINKS[link]}**: {figures.link_words(link, shown.levels, predicted=predicted)}")
    table = figures.buffers_table(link, shown.traffic, shown.traced, shown.prediction)
    if not predicted:
        st.markdown(table)
        return
    with st.expander("The prediction, buffer by buffer"):
        st.markdown(table)
        if shown.check:
            layout.prose(figures.prediction_words(shown.check))


@repeated
def gaps(choice: Choice, shown: Shown, records: Sequence[Entry]) -> None:
    """What each level counted, why neighbours differ, and the same on other GPUs."""
    with layout.part(
        "Why the numbers differ",
        "✓ in the picture: equal to the number above it, to the byte. ≠: here is why, with the bytes of each cause.",
    ):
        st.markdown(figures.cause_words(shown.gaps) or _equal(shown))
    with st.expander("Level by level: every difference, in bytes"):
        st.markdown(figures.levels_table(shown.levels, shown.gaps))
        for written, column in zip((False, True), st.columns(2, gap="large"), strict=True):
            with column:
                pictures.drawing(
                    *(
                        pictured.bars(shown.levels, shown.gaps, written=written, narrow=narrow)
                        for narrow in (False, True)
                    )
                )
        st.markdown(figures.gap_table(shown.levels, shown.gaps))
    if len(others := lab.on_each(choice.experiment, records, warm=choice.warm)) > 1:
        st.markdown(figures.gpus_table(others))
        layout.prose(f"The pictures above are of the first, **{others[0][0]}**.")


def _equal(shown: Shown) -> str:
    """Which numbers agree, where no two that are there differ."""
    if shown.counts:
        return "All numbers are equal, to the byte."
    agree = "Formula and trace agree to the byte." if shown.traced else "There is the formula alone."
    return f"{agree} The hardware was not counted at these sizes."


def terms(choice: Choice, shown: Shown) -> None:
    """The formula term by term; a pressed term is shown in the player."""
    layout.header("The formula, term by term")
    layout.prose(
        "Each term is a buffer, read or written. Press one: the player goes to its first load or store and marks all "
        f"of them on the timeline. The player runs the same kernel at **{figures.sizes_words(choice.small)}**; the "
        "last column of bytes is that run's."
    )
    small = choice.small
    term = pictures.pressed("term", figures.terms_by_key(shown.traffic), "")
    times = pictures.pressable(figures.terms_table(shown.traffic, shown.traced, small.traffic, term), "term")
    if shown.traced:
        st.caption(f"{pictured.MARKS['traced']} trace: {shown.traced.what} · {shown.traced.where}")
    stepper.stepper(
        [small],
        key="three numbers",
        step=lab.step_of(small, term),
        request=times,
        watch=lab.watched(small, term),
        chapter="three_numbers",
    )


@repeated
def every_kernel(records: Sequence[Entry]) -> None:
    """All kernels at three sizes larger than L2."""
    with st.expander("Every kernel, three sizes beyond L2"):
        for one in records:
            st.caption(f"{one.source}. L2 cold.")
            differing, equal, runs, at_hbm = lab.tables(one.record)
            st.markdown(differing)
            with st.expander(f"The other {runs} runs: L1 counts the trace's bytes, no register is spilled"):
                st.markdown(equal)
            st.markdown(at_hbm)


def closing(choice: Choice, shown: Shown) -> None:
    """Things to try, sources."""
    key = f"{choice.experiment.key} {choice.warm} {shown.levels.dram.source}"
    ask("three_numbers", exercises.QUESTIONS, exercises.Shown(choice.experiment, shown), key)
    layout.closing("three_numbers")
