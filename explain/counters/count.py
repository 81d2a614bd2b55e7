"""Counts one Experiment in the device worker, L2 cold and warm. A copy checks the counters first. Imports torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from explain.counters import errors
from explain.counters import stalls as why_warps_wait
from explain.counters.cupti import Cupti, RangeProfiler, current_context
from explain.counters.model import COPIED_BYTES, METRICS, TOLERANCE, CopyCheck, Counters, Counts
from explain.counters.stalls import Stalls
from explain.device.measurement import Provenance
from explain.experiment import Experiment
from explain.worker_process import Progress

TIMES_L2 = 4  # reads this multiple of L2's size, to evict everything else
Work = Callable[[], object]


@dataclass(frozen=True)
class Round:
    """`prepare` runs, then `run` is counted, then `after` separately: it evicts the dirty lines of `run` from L2."""

    prepare: Work
    run: Work
    after: Work


def count(
    experiment: Experiment, launch: Work, provenance: Provenance, progress: Progress, stalls: bool = False
) -> Counters:
    """Counts the experiment's launches with CUPTI, in this process; with `stalls`, also why warps wait, in more runs.

    Raises CountersUnavailable; `ncu.count` may still count them.
    """
    progress("checking the counters with a copy", 0.3)
    profiler, copy = checked_profiler()
    progress("counting", 0.6)
    cold, warm = (Counts.of(*profiler.count(r.prepare, r.run, r.after)) for r in rounds(launch))
    return Counters(
        experiment=experiment.to_json(),
        cold=cold,
        warm=warm,
        copy=copy,
        chip=profiler.chip,
        method=profiler.method,
        fallback="",
        lacking=profiler.lacking,
        passes=profiler.passes,
        provenance=provenance,
        stalls=count_stalls(launch) if stalls else None,
    )


def count_stalls(launch: Work) -> Stalls | None:
    """Why the warps of these launches waited, with L2 cold before each run. Raises CountersUnavailable."""
    profiler, cold = stall_profiler(), rounds(launch)[0]
    (values,) = profiler.count(cold.prepare, cold.run)
    return Stalls.of(values, profiler.passes)


@functools.cache
def checked_profiler() -> tuple[RangeProfiler, CopyCheck]:
    """This process's profiler, and the copy it counted correctly. Raises CountersUnavailable; a later call retries."""
    context = current_context()
    wanted = {what: names for what, (names, _) in METRICS.items()}
    profiler = RangeProfiler(Cupti.load(), wanted, context, torch.cuda.synchronize)
    copy = copy_round()
    profiler.count(copy.prepare, copy.run, copy.after)  # includes the megabytes that the profiler writes when it starts
    check = CopyCheck.of(COPIED_BYTES, Counts.of(*profiler.count(copy.prepare, copy.run, copy.after)))
    require(check)
    torch.cuda.empty_cache()
    return profiler, check


@functools.cache
def stall_profiler() -> RangeProfiler:
    """This process's profiler of stalls. It is a second one, because a GPU needs several runs to count them."""
    checked, _ = checked_profiler()
    metrics, context = why_warps_wait.METRICS, current_context()
    return RangeProfiler(Cupti.load(), metrics, context, torch.cuda.synchronize, chip=checked.chip)


def require(check: CopyCheck) -> None:
    """Raises CountersUnavailable unless the copy was counted correctly."""
    if check.read_bytes is None:
        raise errors.not_trusted("this chip counts no DRAM bytes, so they cannot be checked")
    if not check.passed:
        raise errors.not_trusted(
            f"a copy of {check.copied_bytes:,} bytes was counted as {check.read_bytes:,} read and "
            f"{check.written_bytes} written, more than {TOLERANCE:.1%} off"
        )


def copy_round() -> Round:
    """Reads 1 GiB and writes 1 GiB with a kernel that negates: ncu does not see a plain copy, which is not a kernel."""
    x = torch.ones(COPIED_BYTES // 4, device="cuda")
    y = torch.empty_like(x)
    evict = evicting()
    return Round(evict, lambda: torch.neg(x, out=y), evict)


def rounds(launch: Work) -> tuple[Round, Round]:
    """The cold round, then the warm one. L2 is evicted by reading: written lines would count as the run's later."""
    evict = evicting()
    return Round(evict, launch, evict), Round(launch, launch, evict)


def evicting() -> Work:
    """A function that fills L2 with clean lines of a buffer of its own."""
    size = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    buffer = torch.ones(TIMES_L2 * size // 4, device="cuda")
    return buffer.sum
