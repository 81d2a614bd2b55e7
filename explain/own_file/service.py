"""Measures a file: its function on the GPU, then each of its launches in the interpreter. Imports no torch.

Each runs in a worker, a process of its own that is ended at its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from explain.engine import DEVICE_WORKER, TRACE_WORKER, scratch
from explain.own_file.model import FileMeasurement, Launch, Traced
from explain.plain import made
from explain.worker_process import Progress
from explain.workers import WorkerError, WorkerFailed, WorkerPool, WorkerTimeout

GPU_WORKER = replace(DEVICE_WORKER, name="measure", target="explain.own_file.on_gpu:handle", default_seconds=300)
COUNTER = replace(TRACE_WORKER, name="count", target="explain.own_file.in_interpreter:handle")
BUDGET_S = 10.0
"""If all programs of a launch would take the interpreter longer, a sample of them is counted."""
COUNT_SECONDS = 60.0
SCRIPT = "not traced: a script runs all its launches again; name its function, FILE.py:FUNCTION"


class NoGpu(WorkerError):
    """A file cannot be measured here; the message says what is missing, and what works without it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"measuring a file needs an NVIDIA GPU: {reason.rstrip('.')}. "
            "Without one, check, trace, debug and compile take the same file"
        )


class StoppedAt(WorkerError):
    """The run reached its limit of time; the message says what it was doing, and at which line."""


def measure(
    path: Path,
    function: str,
    progress: Progress,
    *,
    gpu: WorkerPool,
    counter: WorkerPool,
    seconds: float,
    megabytes: float,
) -> FileMeasurement:
    """Runs a function of a Python file on the GPU and measures its launches; then counts them in the interpreter.

    The workers are of GPU_WORKER and COUNTER. Raises WorkerError with the reason.
    """
    doing = ""

    def tell(text: str, fraction: float) -> None:
        nonlocal doing
        doing = text
        progress(text, fraction)

    request = {"path": str(path.resolve()), "function": function}
    with scratch() as folder:
        try:
            answer = gpu.call({**request, "folder": folder}, seconds=seconds, megabytes=megabytes, progress=tell)
        except WorkerTimeout as error:
            raise StoppedAt(f"stopped while {doing}: over the limit of {error.seconds:g} s (--seconds)") from None
        except WorkerFailed as error:
            if error.type == "NoGpu":
                raise NoGpu(error.message) from None
            raise
        found = made(FileMeasurement, answer)
        saved = [Path(folder) / f"{number}.pt" for number in range(len(found.launches))]
        return replace(found, launches=_traced(request, found.launches, saved, counter, progress))


def _traced(
    request: dict[str, Any], launches: Sequence[Launch], saved: Sequence[Path], counter: WorkerPool, progress: Progress
) -> tuple[Launch, ...]:
    """The launches with the bytes that their trace counts, or with the reason why there are none."""

    def one(launch: Launch, file: Path) -> Launch:
        if not file.exists():  # the launch says why
            return launch
        if not request["function"]:
            return replace(launch, why=(*launch.why, SCRIPT))
        asked = {**request, "arguments": str(file), "grid": launch.grid, "budget": BUDGET_S}
        try:
            answer = counter.call(asked, seconds=COUNT_SECONDS, progress=progress)
        except WorkerError as error:
            why = error.message if isinstance(error, WorkerFailed) else str(error)
            return replace(launch, why=(*launch.why, f"not traced: {why.splitlines()[0] if why else ''}"))
        return replace(launch, traced=made(Traced, answer))

    return tuple(map(one, launches, saved))
