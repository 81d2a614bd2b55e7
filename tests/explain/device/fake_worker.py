"""A device worker with no GPU: does what a request's seed asks of it, in a process of its own.

It imports torch for a failure alone: that takes two seconds of a core, and tests end many of these processes.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from explain.counters import errors
from explain.counters.model import METRICS, CopyCheck, Counters, Counts
from explain.counters.stalls import METRICS as STALLS
from explain.counters.stalls import Stalls
from explain.device.measurement import Measurement, Provenance, Timing
from explain.experiment import Experiment
from explain.plain import plain
from explain.records.model import Origin, Point

WHERE = Provenance("Test GPU", "1", "13.0", "2", "3", "3.11", "2026-01-01")

REFUSED = {
    7: errors.of_code(35, "cuptiRangeProfilerEnable", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
    8: errors.not_trusted("a copy of 1,073,741,824 bytes was counted as 5 read"),
    9: errors.no_library(),
}


class OutOfResources(Exception):
    """As Triton's own: the same name and attributes."""

    required, limit, name = 400_000, 232_448, "shared memory"


def handle(request: dict[str, Any], progress) -> dict[str, Any]:
    """Fails in the way that the seed names; answers otherwise, with this process's id as the driver."""
    if request["kind"] == "probe":
        return {"available": True, "reason": "", "provenance": WHERE.__dict__}
    if request["kind"] == "roofs":
        return {"hbm": {"level": "hbm", "per_second": 4e12, "unit": "B/s", "method": "fake"}}
    experiment = request["experiment"]
    match experiment["seed"]:
        case 4:
            os.abort()
        case 5:
            time.sleep(60)
        case 1 | 2 | 3 | 6 as seed:
            raise failure(seed)
    timing = Timing(100.0, 1.0, 0.9, 1.1, 50, "fake")
    if request["kind"] == "point":
        return plain(point(request, timing))
    where = Provenance(**{**WHERE.__dict__, "driver": str(os.getpid())})
    return plain(Measurement(experiment, 1e-7, 2e-7, "o", True, timing, (), where))


def failure(seed: int) -> Exception:
    """What the device worker says of an error of this sort."""
    import torch

    from explain.device.handler import DeviceError, explained

    match seed:
        case 1:
            return explained(OutOfResources())
        case 2:
            full = "CUDA out of memory. Tried to allocate 400 GiB. GPU 0 has 139 GiB."
            return explained(torch.cuda.OutOfMemoryError(full))
        case 3:
            return explained(RuntimeError("CUDA error: an illegal memory access was encountered"))
    return DeviceError("The NVIDIA driver is too old for this PyTorch")


def point(request: dict[str, Any], timing: Timing) -> Point:
    """What was asked; with the seeds of REFUSED there are no counters."""
    experiment = Experiment.from_json(request["experiment"])
    origin, counters, why = Origin(WHERE, "fake", experiment.entry.code), None, ""
    if request["counters"] and experiment.seed in REFUSED:
        why = str(REFUSED[experiment.seed])
    elif request["counters"]:
        counts = Counts.of(dict.fromkeys(METRICS, 1000.0), {"dram_written_bytes": 24.0})
        check = CopyCheck(2**30, 2**30, 2**30)
        counters = Counters(experiment.to_json(), counts, counts, check, "GH100", "fake", "", (), 1, WHERE)
        if request["stalls"]:
            counters = replace(counters, stalls=Stalls.of(dict.fromkeys(STALLS, 100.0), 7))
    return Point(experiment, counters, timing if request["timing"] else None, 4096, why, origin)
