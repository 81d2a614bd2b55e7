"""When FlashAttention is the faster one, and what a first call costs: recorded, and live where there is a GPU."""

from __future__ import annotations

import streamlit as st

from explain.chapters.flash_attention import tiles
from explain.chapters.speed import times_figures as figures
from explain.chapters.sweeps.model import Sweep
from explain.chapters.sweeps.ready import HEAD, PAIR
from explain.chapters.sweeps.view import sweep_growth, sweep_readings
from explain.chapters.tile_cost.view import compiling
from explain.compile.service import compiler, provenance
from explain.device.measurement import Timing
from explain.engine import DeviceStatus, engine
from explain.gpus import DEFAULT, GPUS, Gpu, known_as
from explain.records import registry as shelf
from explain.records.plans import lengths
from explain.ui.device import once_known
from explain.ui.follow import on_request
from explain.ui.layout import prose
from explain.ui.pictures import drawing

LENGTHS = Sweep.of(PAIR, "seq_len", [2**bit for bit in range(7, 15)], HEAD)
"""Standard attention in three launches and FlashAttention, both in plain Triton, at eight lengths."""
FIRST = lengths("flash_attention")[0]
"""The shortest: what is compiled for it serves all."""

TILE = tiles.tile(FIRST.values["block_m"], FIRST.values["block_n"])
"""Its kernel, for the compiler."""


def faster_from() -> None:
    """From which N FlashAttention takes less time than standard attention, on a GPU of a record or on this machine's, live."""
    sweep_growth(sweep_readings(LENGTHS, without=("formula", "trace")), times_only=True)


def first_call() -> None:
    """What the first call of a kernel takes, as a GPU's record has it, and as this machine's compiler and GPU do."""
    measured = figures.of(shelf.recorded())
    if measured is not None:
        timing = measured.by_kernel["flash_attention"][measured.lengths[0]]
        _shown(timing, measured.provenance.gpu)
        st.caption(figures.source(measured))
        with st.expander("Every length"):
            st.markdown(figures.table(measured))
    compiling(TILE, _here())
    once_known(_live)


def _shown(timing: Timing, gpu: str) -> None:
    first, later = timing.first_call_ms / 1e3, timing.median_ms / 1e3
    prose(
        f"{figures.repaid(first, later)} That is the compiler, not the GPU: Triton makes machine code when a kernel is first called with these dtypes, tile sizes and "
        "flags, and keeps it on disk. To time a kernel, call it once, wait, and only then start the clock."
    )
    answer = compiler().look(TILE, _here().compute_capability)
    compiled = sum(launch.seconds for launch in answer.cost.launches) if answer and answer.cost else None
    drawing(figures.first_call(compiled, first, later, gpu))
    if answer and answer.cost:
        st.caption(f"compiling alone: {provenance(answer.cost, answer.origin)}, and its seconds are that machine's")


def _here() -> Gpu:
    """Whom to compile for: this machine's GPU, if it is known, or an H200."""
    status = engine().device_if_known()
    name = known_as(status.provenance["gpu"]) if status and status.available and status.provenance else None
    return GPUS[name or DEFAULT]


def _live(status: DeviceStatus) -> None:
    """A first call on this machine's GPU, if there is one."""
    if not status.available or not status.provenance:
        st.caption(f"A first call can be timed live where there is a GPU. {status.reason}")
        return
    job = on_request(
        f"Time a first call on this machine's {status.provenance['gpu']}",
        "first call",
        "compiling and running",
        lambda job: engine().point(FIRST, counters=False, cancel=job.cancel),
        ":material/timer:",
    )
    said = job.result if job else None
    if said is not None and said.timing:
        drawing(
            figures.first_call(
                None, said.timing.first_call_ms / 1e3, said.timing.median_ms / 1e3, status.provenance["gpu"]
            )
        )
        st.caption(
            f"hardware · {status.provenance['gpu']}, now · what this machine compiled before it finds again, and then the first call has no compilation in it"
        )
