"""How bytes and time grow over the axis: curves, tables and what they show in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.sweeps import figures, masking, sentences
from explain.chapters.sweeps.mask_view import mask_cost
from explain.chapters.sweeps.model import LEVELS, READY, Reading
from explain.chapters.sweeps.shown import Shown, beside
from explain.chapters.sweeps.steps import REQUESTED, steps, unexplained
from explain.kept import kept
from explain.ui import layout
from explain.ui.charts import chart, sourced
from explain.ui.repeat import repeated

OPENED = 2
"""The paragraphs about bytes that are not folded away."""


def sweep_growth(shown: Shown) -> None:
    """The charts of bytes and of time over the axis, each with sentences on what it shows and a table of its growth."""
    sweep, readings = shown.sweep, shown.readings
    over = figures.over(sweep.axis)
    if levels := [level for level in LEVELS if any(level in reading.bytes for reading in readings)]:
        words, picture = layout.sides(f"Bytes {over}")
        with words:
            level = _level_choice(levels)
        _grows(shown, level, beside(words), picture)
    if any(reading.seconds for reading in readings):
        column, picture = layout.sides(f"Time {over}")
        words = beside(column)
        _grows(shown, "seconds", words, picture)
        masked = _masked(readings) if sweep.axis == "causal" else ()
        with words:
            for told, _ in masked:
                layout.prose(told)
            if (tile := [str(value) for name, value in sweep.fixed if name in figures.TILES])[1:]:
                label = f"Tiles other than {' × '.join(tile)}: What does a tile cost? →"
                layout.chapter_link("tile_cost", label)
            if _quantity(shown, "seconds").bases:
                layout.chapter_link("speed", "Why exp2 gains less in the ladder of kernels on Speed →")
        for _, pair in masked:
            mask_cost("", pair)
    left_out = sentences.left_out(sweep) if sweep in READY.values() else []  # an own one says it at its controls
    if lines := [*left_out, *sentences.missing(sweep, readings)]:
        with st.expander("1 point is missing" if len(lines) == 1 else f"{len(lines)} points are missing or incomplete"):
            st.markdown("\n".join(f"- {line}" for line in lines))
    counted = " · bytes: the GPU's counters, L2 cold" if levels and figures.source_of(readings) == "hardware" else ""
    sourced(shown.origin + counted)


def _level_choice(levels: Sequence[str]) -> str:
    """The level of memory at which bytes are shown; a control if there are several."""
    if len(levels) < 2:
        return levels[0]
    first, name = levels.index("hbm") if "hbm" in levels else 0, LEVELS.__getitem__
    return str(st.selectbox("Counted", levels, index=first, key="level", bind="query-params", format_func=name))


@dataclass(frozen=True, eq=False)
class Quantity:
    """One quantity of a sweep: its chart; what is said of it, folded away (`more`), and of exp2 and exp (`bases`); the
    tables of its growth and of its steps, and the steps that this one does not explain; the note below, and where its
    theory comes from.
    """

    chart: go.Figure
    said: Sequence[str]
    more: Sequence[str]
    bases: Sequence[str]
    growth: str
    steps: str
    unexplained: Sequence[str]
    note: str
    origin: str


@kept
def _quantity(shown: Shown, what: str) -> Quantity:
    sweep, readings, gpu = shown.sweep, shown.readings, shown.card
    bases: Sequence[str] = ()
    said = list(sentences.crossings(sweep, readings, [what]))
    same = sentences.covered(sweep, readings, what)
    if what == "seconds":
        bases = sentences.base_2(sweep, readings)
        said += [*same, *sentences.fastest_told(sweep, readings), *sentences.idle(sweep, readings, gpu), *bases]
    elif what == "hbm":
        said += [*sentences.again(sweep, readings), *sentences.spills(sweep, readings), *same,
            *sentences.jumps(sweep, readings, gpu), *sentences.served_by_l2(sweep, readings)]  # fmt: skip
    else:
        said += [*sentences.spills(sweep, readings), *same]
    said = [sentences.begins(one) for one in said]
    opened = len(said) if what == "seconds" else OPENED
    stepped = what in ("seconds", "hbm")
    return Quantity(
        figures.growth(sweep, readings, what),
        said[:opened],
        said[opened:],
        bases,
        figures.slopes(sweep, readings, what) if sweep.numeric else "",
        steps(sweep, readings, what, gpu) if stepped else "",
        unexplained(sweep, readings, what, gpu) if stepped else (),
        sentences.slope_note(sweep, readings, what),
        sentences.origin(sweep, readings, what),
    )


def _grows(shown: Shown, what: str, words: DeltaGenerator, picture: DeltaGenerator) -> None:
    """One quantity: its sentences in `words` beside its curves in `picture`; below these, its growth and its steps."""
    of = _quantity(shown, what)
    with words:
        layout.prose("\n\n".join(of.said))
        if of.more:
            with st.expander("More about these bytes"):
                layout.prose("\n\n".join(of.more))
    with picture:
        name = "time" if what == "seconds" else f"bytes {LEVELS[what]}"
        over = figures.axis_title(shown.sweep.axis)
        chart(of.chart, f"{name} over {shown.sweep.axis}", alt=f"{name} over {over}")
        _explained(of, what, shown.sweep.axis in figures.TILES)  # theory is flat there, so the steps are opened


@repeated
def _explained(of: Quantity, what: str, opened: bool) -> None:
    """How a quantity grows, and what changes at its steps."""
    if of.growth:
        with st.expander("How it grows: theory and fit"), st.container(key=f"numbers of {what}"):
            st.markdown(of.growth, unsafe_allow_html=True)
            every = f"Every element is read or written once per launch.\n\n{of.origin}" if of.origin else ""
            layout.prose(f"{of.note}\n\n{every}")
    if of.steps:
        steps_of = st.expander("What changes where the curve has a step", expanded=opened)
        with steps_of, st.container(key=f"numbers of steps, {what}"):
            st.markdown(of.steps, unsafe_allow_html=True)
            for told in of.unexplained:
                st.markdown(told)
            asked = (
                " Bytes requested at L1: all loads and stores, as the GPU counts them. Compiled code may ask for an "
                "element more often than the formula's *each load and store* says."
            ) * (REQUESTED in of.steps)
            known = "Formula, the GPU's counters, and the compiler's registers and shared memory where known."
            st.caption(known + asked)


def _masked(readings: Sequence[Reading]) -> list[tuple[str, tuple[masking.Compiled, masking.Compiled]]]:
    """What the causal mask costs each kernel with recorded instructions: its time per tile, and its compiled loops."""
    found = []
    measured = [one for one in readings if one.witness == "hardware" and one.seconds]
    for masked in (one.experiment for one in measured if one.experiment.values["causal"]):
        plain, p = masked.with_(causal=False), masked.values
        pair = masking.compiled(masked.kernel, {name: p[name] for name in masking.TILE})
        seconds = {one.experiment: one.seconds for one in measured}
        if pair and plain in seconds:
            told = masking.timed(pair, seconds[plain] or 0.0, seconds[masked] or 0.0, p["seq_len"])
            found.append((told, pair))
    return found
