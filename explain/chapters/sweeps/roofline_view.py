"""The roofline on the page: at one value of the axis, with the limit of each kernel in words."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.sweeps import figures, roofline, sentences
from explain.chapters.sweeps.analysis import RooflinePoint, roofline_points
from explain.chapters.sweeps.model import READY, Sweep, recorded
from explain.chapters.sweeps.shown import Shown, beside
from explain.chapters.sweeps.sources import choose_source, measure_roofs
from explain.figures.numbers import percent
from explain.figures.plot import titled
from explain.kept import kept
from explain.ui import layout
from explain.ui.charts import chart, sourced
from explain.ui.controls import pick
from explain.ui.records import records_there
from explain.ui.repeat import repeated
from kernels.parameters import Value

EXPONENTIALS_ALONE = "\n\n**The dashed line** is the rate of exponentials alone. No percent is a share of it."


def sweep_roofline(shown: Shown) -> None:
    """What limits each kernel at one value of the axis. Without counters, a button leads to a record that has them."""
    if values := _values(shown):
        _roofline_of(shown, values)
        return
    layout.header("Roofline")
    layout.prose("A roofline needs times and counters from a GPU. The source chosen here has none.")
    for name, sweep in {"this sweep": shown.sweep, **dict([next(iter(READY.items()))])}.items():
        if key := _with_roofline(sweep):
            label = f"Show the record of {name}"
            st.button(label, icon=":material/table_chart:", key="show record", on_click=_show, args=(name, sweep, key))
            return


def _with_roofline(sweep: Sweep) -> str | None:
    """The key of the first record with times and counters of this sweep; None without one."""
    records = ((key, recorded(sweep, one.record)) for key, one in records_there().items())
    return next((key for key, found in records if any(one.seconds and one.bytes for one in found)), None)


def _show(name: str, sweep: Sweep, key: str) -> None:
    """Chooses this sweep and its record; `name` is that of a ready-made one, or of the one that is shown."""
    if name in READY:
        st.session_state["sweep"] = name
    choose_source(sweep in READY.values(), key)


@st.fragment
def _roofline_of(shown: Shown, values: Sequence[Value]) -> None:
    softmax = any(one.experiment.entry.family == "softmax" for one in shown.readings)
    words, picture = layout.sides("Roofline")
    with beside(words):
        layout.prose(
            "**Arithmetic intensity**: the FLOPs per byte that this memory moves. The slanted roof is the memory's "
            "bandwidth × this intensity. The flat roof is the rate of the arithmetic units. A dotted line goes up from "
            "a kernel to the roof above it; the percent says how much of that roof the kernel reaches."
        )
        _roofline_at_a_value(shown, picture, values)
        with st.expander("When a roof limits a kernel"):
            layout.prose(
                f"**Our rule**: a roof limits a kernel that reaches at least {percent(figures.MOSTLY)} of it. From "
                f"{percent(figures.PARTLY)} on the roof partly limits it. Under {percent(figures.PARTLY)} of every "
                "roof, something else does. It can be **latency**: warps wait for loads, for a barrier or for the "
                f"step before. It can be instructions other than {'these' if softmax else 'matmuls'}: the chart has "
                f"no roof for them.\n\n{roofline.of_hbm(shown.roofs)}"
                "**The roofs** are the best rates that were measured. No kernel here is above one, but a better test "
                "could raise it.\n\n"
                "**Another level**: the kernel's throughput stays and its bytes change, so its point moves left or "
                f"right.{EXPONENTIALS_ALONE if softmax else ''}"
            )


def _roofline_at_a_value(shown: Shown, picture: DeltaGenerator, values: Sequence[Value]) -> None:
    if shown.runs == "hardware" and not shown.roofs:
        measure_roofs()
    value = values[-1]
    across, along = picture.columns([2, 3], gap="large")
    if len(values) > 1:
        value = along.select_slider(
            figures.axis_title(shown.sweep.axis),
            values,
            value=values[len(values) * 2 // 3],
            key=f"roofline of {shown.sweep.key}",
            format_func=functools.partial(figures.category, shown.sweep.axis),
        )
    points = _points(shown, value)
    if not points:
        st.info("No bytes were counted here, so the arithmetic intensity is unknown.")
        return
    there = {level for point in points if (level := point.level)}
    names = {name: level for level, name in roofline.LEVEL_NAMES.items() if level in there}
    level = names[pick("Bytes at", names, "roof", place=across)]
    of = _roofline(shown, value, level)
    layout.prose(of.nearest)
    layout.chapter_link("speed", "What the warps wait for, measured: Speed →")
    with picture:
        chart(of.chart, "roofline")
        _shares(of)
        sourced(f"FLOPs: formula, softmax included; bytes: L2 cold; {of.source}")


@dataclass(frozen=True, eq=False)
class Roofline:
    """The roofline of a level at one value of the axis: its chart, the nearest roof of each kernel in words, the tables
    of the shares of each roof and of the roofs, and how both were measured.
    """

    chart: go.Figure
    nearest: str
    shares: str
    measured: str
    source: str


@kept
def _values(shown: Shown) -> Sequence[Value]:
    """The values of the axis that have a point in a roofline."""
    known = (reading for reading in shown.readings if reading.seconds and reading.bytes)
    return list(dict.fromkeys(reading.experiment.values[shown.sweep.axis] for reading in known))


@kept
def _points(shown: Shown, value: Value) -> Sequence[RooflinePoint]:
    readings = [one for one in shown.readings if one.experiment.values[shown.sweep.axis] == value]
    return roofline_points(readings, shown.roofs)


@kept
def _roofline(shown: Shown, value: Value, level: str) -> Roofline:
    every, roofs = _points(shown, value), shown.roofs
    points = [point for point in every if point.level == level]
    figure = roofline.roofline(points, roofs)
    titled(figure, roofline.takeaway(points))
    other = roofline.other_rate(every, roofs)
    return Roofline(
        figure,
        "\n".join(
            f"- {sentences.begins(one)}" for one in [*roofline.nearest(every, level), *roofline.instructions(points)]
        ),
        roofline.roofline_table(every),
        roofline.roofs_table(roofs) if roofs else "",
        f"roofs: micro-benchmarks{other and f'; {other}'}",
    )


@repeated
def _shares(of: Roofline) -> None:
    with st.expander("Each kernel's share of each roof"), st.container(key="numbers of the roofline"):
        st.markdown(of.shares)
    if of.measured:
        with st.expander("How the roofs were measured"):
            st.markdown(of.measured, unsafe_allow_html=True)
