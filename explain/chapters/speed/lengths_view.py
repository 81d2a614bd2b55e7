"""From which N FlashAttention is faster, and what a first call costs."""

from __future__ import annotations

import functools

import streamlit as st

from explain.chapters.flash_attention.tiles import tile
from explain.chapters.speed import lengths, lengths_figures
from explain.chapters.sweeps.model import Sweep
from explain.chapters.sweeps.ready import HEAD, PAIR
from explain.chapters.sweeps.view import sweep_growth, sweep_readings
from explain.chapters.tile_cost.view import compiling
from explain.compile.service import compiler, provenance
from explain.device.measurement import Timing
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.figures.numbers import count
from explain.gpus import DEFAULT, GPUS, Gpu, known_as
from explain.records import plans, registry
from explain.ui.device import once_known
from explain.ui.follow import on_request
from explain.ui.layout import part
from explain.ui.pictures import drawing

LENGTHS = Sweep.of(PAIR, "seq_len", plans.LENGTHS, HEAD)
FIRST = plans.lengths("flash_attention")[0]
"""The shortest of them: one compiled kernel serves all."""


def faster_from() -> None:
    """From which N on FlashAttention is faster than standard attention: of a GPU's record, or measured here."""
    with part(
        "From which N is FlashAttention faster?",
        "Both kernels are plain Triton, written to be read. Standard attention has three launches, which write S and "
        "P to HBM and read them back. FlashAttention has one launch. On short sequences that saves launches, on long "
        "ones the bytes of S and P.",
    ):
        shown = sweep_readings(LENGTHS, without=("formula", "trace"))
    sweep_growth(shown, times_only=True)


def first_call() -> None:
    """What a kernel's first call costs: in a GPU's record, with this machine's compiler, and on its GPU."""
    here = _here()
    if measured := lengths.of(registry.recorded()):
        timing = measured.by_kernel["flash_attention"][measured.lengths[0]]
        first, later = timing.first_call_ms / 1e3, timing.median_ms / 1e3
        with part(
            "Is the first call warm-up?",
            f"No, it is compilation. The first call takes as long as **{count(round(first / later))}** later calls. "
            "Triton compiles a kernel when it is first called with these dtypes, tile sizes and flags, and caches the "
            "result on disk.\n\nTo time a kernel, call it once, wait for it, and start the clock after that.",
        ):
            answer = compiler().look(_tile(), here.compute_capability)
            cost = answer.cost if answer else None
            compiled = (cost.triton, sum(launch.seconds for launch in cost.launches)) if cost else None
            where = measured.provenance
            drawing(lengths_figures.first_call(compiled, first, later, where.gpu, where.triton))
            if answer and cost:
                st.caption(f"compilation alone: {provenance(cost, answer.origin)}; another CPU, another triton")
            st.caption(measured.source)
            with st.expander("Every length"), st.container(key="numbers of lengths"):
                st.markdown(lengths.table(measured))
    compiling(_tile(), here)
    once_known(_live)


def time_here(label: str, experiment: Experiment) -> tuple[Timing | None, str]:
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
        st.error(point.why, icon=":material/error:")
    return (point.timing if point else None), gpu


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
    timing, gpu = time_here("Time a first call on this machine's", FIRST)
    if timing:
        drawing(lengths_figures.first_call(None, timing.first_call_ms / 1e3, timing.median_ms / 1e3, gpu))
        st.caption(f"hardware · {gpu}, now · a kernel in this machine's cache is not compiled again")
