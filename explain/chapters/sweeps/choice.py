"""The controls that choose a sweep: a ready-made one, or the reader's own."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from explain.chapters.sweeps import figures, sentences
from explain.chapters.sweeps.model import AXES, READY, Sweep
from explain.experiment import ParameterError
from explain.ui.controls import in_words, pick
from kernels.catalog import KERNELS, TAUGHT

OWN = "Your own"
FAMILIES: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "attention": (
        ("attention_standard", "flash_attention"), "128, 256, 512, 1024", "head_dim=32, block_m=64, block_n=64"
    ),
    "softmax": (("softmax_safe", "softmax_online"), "256, 512, 1024, 2048, 4096", "rows=16"),
    "loss": (
        ("cross_entropy_standard", "cross_entropy_fused"),
        "256, 512, 1024, 2048, 4096",
        "tokens=64, dim=32, block_m=64, block_n=64",
    ),
}  # fmt: skip
"""Defaults of the reader's own sweep: kernels, values and fixed parameters. The interpreter takes seconds for all of
them, and the second kernel moves clearly fewer bytes.
"""


def sweep_choice() -> Sweep | None:
    """A sweep: ready-made, or the reader's own. Of a wrong one it shows the error, and returns the last right one."""
    chosen = st.selectbox("Sweep", [*READY, OWN], key="sweep", bind="query-params")
    if chosen != OWN:
        return READY[str(chosen)]
    which, among = st.columns([3, 5])
    with which:
        family = pick("Family", FAMILIES, "family")
    start, some_values, some_held = FAMILIES[family]
    with among:
        kernels = st.multiselect(
            "Kernels",
            [name for name, entry in TAUGHT.items() if entry.family == family],
            default=start,
            key=f"{family} kernels",
            bind="query-params",
            format_func=lambda name: KERNELS[name].title,
        )
    over, values, held = st.columns([1, 1, 2])
    known = [{parameter.name for parameter in KERNELS[kernel].parameters} for kernel in kernels]
    axes = [name for name in AXES if all(name in own for own in known)]
    with over:
        axis = st.selectbox("Over", axes, key=f"{family} over", bind="query-params", format_func=figures.axis_title)
    with values:
        listed = st.text_input("Values, separated by commas", some_values, key=f"{family} values", bind="query-params")
    with held:
        fixed = st.text_input(
            "Fixed parameters, as name=value",
            some_held,
            key=f"{family} held",
            bind="query-params",
            help="\n".join(f"- `{p.name}`: {p.help}; {p.allowed}" for p in KERNELS[kernels[0]].parameters)
            if kernels
            else None,
        )
    try:
        sweep = Sweep.from_query({"kernels": ",".join(kernels), "over": axis or "", "values": listed, "fixed": fixed})
    except ParameterError as error:
        place = {"kernels": among, "axis": over, axis: values}.get(error.parameter, held)
        names = {"kernels": "Kernels", "axis": "Over", **{name: symbol for name, (symbol, _) in AXES.items()}}
        place.markdown(f":red[{in_words(error, names, largest={})}]")
        kept: Sweep | None = st.session_state.get(f"{family}: last sweep")  # what is below stays
        return kept
    if sweep not in READY.values():  # a ready-made one says it below its charts
        for told in sentences.left_out(sweep):
            values.caption(f"{told} Choose other values, or leave this kernel out.")
    st.session_state[f"{family}: last sweep"] = sweep
    return sweep
