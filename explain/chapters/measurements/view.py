"""The page Measurements, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from explain.chapters.measurements import figures
from explain.prediction import fitted
from explain.records import file, registry
from explain.records.plans import PLANS
from explain.records.registry import Shelved
from explain.ui import layout
from explain.ui.charts import chart


def sources(shown: Sequence[Shelved]) -> None:
    """Which GPUs measured the records that are shown, how, and what is missing."""
    st.header("Where these numbers come from", anchor=False)
    facts, words = st.columns([2, 1], gap="large")
    with facts, st.container(key="numbers of records"):
        st.markdown(figures.about(shown), unsafe_allow_html=True)
    with words:
        layout.prose(
            "Every experiment runs several times. Some runs are timed. Others are counted by the GPU's own counters. "
            "**A counted run is never timed.**\n\n**L2 cold**: the cache holds none of the inputs when the run "
            "begins. **L2 warm**: the same kernel has just run.\n\n**Copy check**: first, a copy of 1 GiB is counted. "
            "Its bytes are known. If the count is off by more than 0.1%, the counters are not trusted, and nothing is "
            "counted."
        )
    if missed := figures.missed_table(shown):
        with st.expander("Failed measurements, and why"):
            st.markdown(missed, unsafe_allow_html=True)


def numbers(shown: Sequence[Shelved]) -> None:
    """Every point of a plan, GPUs side by side."""
    st.header("The numbers", anchor=False)
    plans = {name: plan for name, plan in PLANS.items() if figures.has_some(plan, shown)}
    opening = list(plans).index("levels") if "levels" in plans else 0
    which, what = st.columns([3, 2], vertical_alignment="bottom")
    name = which.selectbox(
        "Set",
        list(plans),
        index=opening,
        format_func=lambda name: f"{name}: {plans[name].about}",
        key="set",
        bind="query-params",
    )
    quantity = None
    if len(shown) > 1:
        quantity = what.selectbox("Quantity", list(figures.QUANTITIES), key="quantity", bind="query-params")
    if name:
        table = figures.rows(plans[name], shown, quantity)
        columns = {column: st.column_config.NumberColumn(format="%,.4g") for row in table for column in list(row)[2:]}
        names = {"kernel": st.column_config.TextColumn(width=220), "sizes": st.column_config.TextColumn(width=300)}
        st.dataframe(table, hide_index=True, column_config=columns | names, key="points")
    for one in shown:
        st.caption(one.source)


def roofs(shown: Sequence[Shelved]) -> None:
    """The measured limits of each GPU."""
    if table := figures.roofs_table(shown):
        with layout.part(
            "Measured limits of each GPU",
            "Small kernels that only move bytes, only multiply matrices, or only compute exponentials. Their best "
            "rates are the roofs in the rooflines and the peaks of the speed page.",
        ), st.container(key="numbers of roofs"):  # fmt: skip
            st.markdown(table, unsafe_allow_html=True)


def own_gpu(shown: Sequence[Shelved]) -> None:
    """How to measure another GPU, and every record to download."""
    with layout.part(
        "Your own GPU",
        "On a machine with an NVIDIA GPU this command measures everything that is shown here. If it is interrupted, "
        "run it again; it continues. The pages find its file. To show it elsewhere, load it there with the button at "
        "the top of this page.",
    ):
        st.code("python -m explain measure", language="bash")
        with st.container(horizontal=True):
            for one in shown:
                st.download_button(
                    f"Download: {one.label}",
                    partial(file.written, one.record),
                    file_name=registry.file_name(one.record.gpu),
                    mime="application/json",
                    icon=":material/download:",
                    key=f"download {one.key}",
                )


def predictions() -> None:
    """The model that predicts times for GPUs without a record, and its error on the shipped record."""
    if (record := registry.recorded()) is None or (model := fitted(record)) is None:
        return
    with layout.part(
        "Predicted times, and how wrong they are",
        "For a GPU without a record, the pages predict times. A model gives a time: **overhead + max(bytes ÷ "
        "bandwidth, FLOPs ÷ peak)**, on the SMs that have a program. Bandwidth and peak are the GPU's specification. "
        f"Overhead and two efficiencies are fitted to each kernel's own times on the {model.gpu}.\n\nA time that was "
        f"recorded on the {model.gpu} is scaled by the model's ratio of the two GPUs. So two kernels compare as they "
        "do in the record.\n\n**How wrong is it?** The chart predicts each time from the kernel's others.",
    ):
        chart(figures.predicted_chart(model), "predicted and measured times")
        st.caption(model.told)
        with st.expander("Each kernel's error, and what was fitted"), st.container(key="numbers of predictions"):
            st.markdown(figures.prediction_table(model))
