"""Measures a Point in the device worker: an experiment's time, memory and bytes. Imports torch and triton."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
import triton

from explain.counters import errors, ncu
from explain.counters.count import count
from explain.counters.model import Counters
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from explain.records.code import commit
from explain.records.model import Origin, Point
from explain.worker_process import Progress
from kernels.launch import launcher, tensors_on

Launch = Callable[[], object]
WARM_UP_MS, REPEAT_MS = 25, 100
METHOD = f"triton.testing.do_bench, {WARM_UP_MS} ms warm-up, L2 cleared before each launch"
HOST_MATTERS_MS = 0.5
_forbidden: dict[str, str] = {}
"""ncu's answer if this user may not read counters, by CUPTI's reason."""


def measure(
    experiment: Experiment, counted: bool, timed: bool, where: Provenance, progress: Progress, stalls: bool = False
) -> Point:
    """Measures the experiment's memory and, if asked, its time, its counters and its stalls, in separate runs.

    If counters cannot be read, the point has the rest and says why.
    """
    progress("compiling", 0.0)
    launch, first_call_ms = launch_of(experiment)
    timing = measure_time(launch, first_call_ms, progress) if timed else None
    peak = peak_bytes(launch)
    counters, why, cupti = None, "", None
    try:
        if counted:
            counters = count(experiment, launch, where, progress, stalls)
    except errors.CountersUnavailable as error:
        cupti = error.with_traceback(None)  # it would hold the inputs
    del launch
    torch.cuda.empty_cache()
    if cupti:
        counters, why = _by_ncu(experiment, where, cupti, progress)
    if stalls and counters and not counters.stalls:
        why = f"Why warps wait was not counted: {cupti or 'this chip has no counter for it.'}"
    return Point(experiment, counters, timing, peak, why, Origin(where, commit(), experiment.entry.code))


def _by_ncu(
    experiment: Experiment, where: Provenance, cupti: errors.CountersUnavailable, progress: Progress
) -> tuple[Counters | None, str]:
    if cupti.cause in _forbidden:  # ncu takes seconds to say so again
        return None, _forbidden[cupti.cause]
    progress("counting with ncu", 0.7)
    try:
        return ncu.count(experiment, where, cupti), ""
    except errors.CountersUnavailable as error:
        if errors.PERMISSION in cupti.cause:
            _forbidden[cupti.cause] = str(error)
        return None, str(error)


def launch_of(experiment: Experiment) -> tuple[Launch, float]:
    """The experiment's launches, compiled and run once, and the time of that first call in milliseconds."""
    entry, p = experiment.entry, experiment.values
    launch = launcher(entry, p, tensors_on("cuda", entry, experiment.preset, p, experiment.seed))
    torch.cuda.synchronize()
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    return launch, 1e3 * (time.perf_counter() - start)


def measure_time(launch: Launch, first_call_ms: float, progress: Progress) -> Timing:
    """Times launches by device events, with L2 cleared before each. Short launches are replayed as a CUDA graph."""
    progress("timing", 0.5)
    times, method = _times(launch), METHOD
    if np.median(times) < HOST_MATTERS_MS and (replay := _as_graph(launch)) is not None:
        times, method = _times(replay), f"{METHOD}, launches replayed as a CUDA graph"
    p20, median, p80 = (float(value) for value in np.quantile(times, (0.2, 0.5, 0.8)))
    return Timing(first_call_ms, median, p20, p80, len(times), method)


def _times(launch: Launch) -> list[float]:
    times: list[float] = triton.testing.do_bench(launch, warmup=WARM_UP_MS, rep=REPEAT_MS, return_mode="all")
    return times


def _as_graph(launch: Launch) -> Launch | None:
    """The launches as a CUDA graph; None if they cannot be captured.

    Python may take longer to launch a short kernel than the GPU takes to run it.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            launch()
    except RuntimeError:  # it waits for the GPU, or has no room for a second set of outputs
        torch.cuda.synchronize()
        return None
    return graph.replay


def peak_bytes(launch: Launch) -> int:
    """The peak bytes of torch's allocator during a run, beyond those before it: outputs and intermediate results."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    launch()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)
