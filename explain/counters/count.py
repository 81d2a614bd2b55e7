"""The device worker's side: counts one Experiment, L2 cold and warm, after a copy has shown that the counters tell the truth. Imports torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from explain.counters import errors as trouble
from explain.counters import stalls as why_warps_wait
from explain.counters.cupti import Cupti, RangeProfiler, current_context
from explain.counters.model import COPIED_BYTES, METRICS, TOLERANCE, CopyCheck, Counters, Counts
from explain.counters.stalls import Stalls
from explain.device.measurement import Provenance
from explain.experiment import Experiment

TIMES_L2 = 4  # as much is read to push everything else out of L2
Progress = Callable[[str, float], None]
Work = Callable[[], object]


@dataclass(frozen=True)
class Round:
    """`run` is counted after `prepare`; `after`, counted apart, then pushes out of L2 what the run left dirty there."""

    prepare: Work
    run: Work
    after: Work


def count(
    experiment: Experiment, launch: Work, provenance: Provenance, progress: Progress, stalls: bool = False
) -> Counters:
    """Counts the experiment's launches by CUPTI, in this process, and why its warps waited if asked: that takes several runs more.

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
    """Why the warps of these launches waited, L2 cold before each of the runs. Raises CountersUnavailable."""
    profiler, cold = stall_profiler(), rounds(launch)[0]
    (values,) = profiler.count(cold.prepare, cold.run)
    return Stalls.of(values, profiler.passes)


@functools.cache
def checked_profiler() -> tuple[RangeProfiler, CopyCheck]:
    """This process's profiler, with the copy that it counted rightly. Raises CountersUnavailable, and tries again when asked again."""
    context = current_context()
    wanted = {what: names for what, (names, _) in METRICS.items()}
    profiler = RangeProfiler(Cupti.load(), wanted, context, torch.cuda.synchronize)
    copy = copy_round()
    profiler.count(
        copy.prepare, copy.run, copy.after
    )  # what the profiler writes as it starts, some MB, goes with this one
    check = CopyCheck.of(COPIED_BYTES, Counts.of(*profiler.count(copy.prepare, copy.run, copy.after)))
    require(check)
    torch.cuda.empty_cache()
    return profiler, check


@functools.cache
def stall_profiler() -> RangeProfiler:
    """This process's profiler of stalls, apart from the one of bytes: a GPU counts these in several runs, and only who asks shall wait for them."""
    checked, _ = checked_profiler()
    return RangeProfiler(
        Cupti.load(), why_warps_wait.METRICS, current_context(), torch.cuda.synchronize, chip=checked.chip
    )


def require(check: CopyCheck) -> None:
    """Raises CountersUnavailable unless the copy was counted rightly."""
    if check.read_bytes is None:
        raise trouble.not_trusted("this chip counts no DRAM bytes, so that they cannot be checked")
    if not check.passed:
        raise trouble.not_trusted(
            f"a copy of {check.copied_bytes:,} bytes was counted as {check.read_bytes:,} read and {check.written_bytes} written, "
            f"more than {TOLERANCE:.1%} off"
        )


def copy_round() -> Round:
    """1 GiB read and 1 GiB written, by a kernel that negates: a plain copy is no kernel, and ncu would not see it."""
    x = torch.ones(COPIED_BYTES // 4, device="cuda")
    y = torch.empty_like(x)
    evict = evicting()
    return Round(evict, lambda: torch.neg(x, out=y), evict)


def rounds(launch: Work) -> tuple[Round, Round]:
    """Cold, then warm. Lines are pushed out by reading others, since written ones would be counted as the run's when they leave."""
    evict = evicting()
    return Round(evict, launch, evict), Round(launch, launch, evict)


def evicting() -> Work:
    """A function that fills L2 with clean lines of a buffer of its own."""
    size = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    buffer = torch.ones(TIMES_L2 * size // 4, device="cuda")
    return buffer.sum
