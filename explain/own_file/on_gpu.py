"""The worker that measures a file on the GPU. Imports torch and triton; owns the CUDA context.

An illegal address destroys the context, and an endless kernel never gives the GPU back. Then this process is ended, and
no other: each command has its own.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from explain.compile.cost import Footprint
from explain.counters.count import checked_profiler, evicting
from explain.counters.errors import CountersUnavailable
from explain.counters.model import Counts
from explain.device.handler import ILLEGAL, probe, provenance
from explain.device.measurement import Provenance, Timing
from explain.own_file.launches import Call, Measure, collecting
from explain.own_file.model import METHOD, FileMeasurement, Launch
from explain.plain import plain
from explain.trace.errors import TraceError
from explain.trace.python_file import opened, place_of
from explain.worker_process import Progress

WARM_UPS, LEAST, MOST, SECONDS = 3, 5, 100, 1.0
"""Launches before any is timed; the fewest and the most that are; the time after which the fewest are enough."""
MOST_SAVED = 4e9
"""Bytes. The arguments of larger launches are not saved for the trace."""
_COMPILER = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError")


class NoGpu(RuntimeError):
    """There is no GPU here that can be used; the message says why."""


def handle(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers {"path": "x.py", "function": "main", "folder": path} with a FileMeasurement as JSON.

    The arguments of launch 3, as they were before it, are saved in the folder as 3.pt for `in_interpreter`. Raises
    NoGpu; BadTarget for a file or a function that cannot be run; TraceError if it launches nothing or fails before.
    """
    if not torch.cuda.is_available():
        raise NoGpu(probe()["reason"])
    where = provenance()
    progress("checking the counters with a copy", 0.0)
    uncounted = _why_uncounted()
    measure = functools.partial(measured, folder=Path(request["folder"]), counted=not uncounted, progress=progress)
    return plain(measured_file(Path(request["path"]), request["function"], measure, uncounted, where, progress))


def measured_file(
    path: Path, function: str, measure: Measure, uncounted: str, where: Provenance, progress: Progress
) -> FileMeasurement:
    """Calls a function of a Python file; `measure` runs and measures each different launch. Raises as `handle`."""
    with opened(path, function, progress) as file, collecting(measure) as found:
        failure = ""
        progress(f"running {file.name}", 0.1)
        try:
            file.call()
            torch.cuda.synchronize()
        except BaseException as error:  # foreign code may raise SystemExit or KeyboardInterrupt
            if not (isinstance(error, SystemExit) and not error.code):  # as a script may end
                failure = words(file.name, error)
                if not found.launches:
                    raise TraceError(failure) from error
        if not found.launches:
            raise TraceError(f"{file.name} launched no Triton kernel")
        launches = tuple(found.launches.values())
        return FileMeasurement(file.name, launches, found.left, file.output.getvalue(), failure, uncounted, where)


def measured(call: Call, number: int, *, folder: Path, counted: bool, progress: Progress) -> tuple[Launch, Any]:
    """Runs a launch, times it, counts it, and leaves its tensors as one launch does: (the launch, its CompiledKernel).

    Raises what the launch raises.
    """
    what = f"{call.name} ({call.place})"
    progress(f"running {what}", 0.2)
    try:
        kept, why = _Kept(call.storages), []
    except torch.cuda.OutOfMemoryError:
        kept, why = None, ["not measured: the GPU's memory has no room for a copy of its tensors"]
        torch.cuda.empty_cache()
    start = time.perf_counter()
    binary = call.run()
    torch.cuda.synchronize()
    first_call_ms = 1e3 * (time.perf_counter() - start)
    timing = counts = None
    if kept is not None:
        evict = _evict()
        launch = functools.partial(binary[call.grid], *call.arguments.values())

        def prepare() -> None:
            kept.restore()
            evict()

        progress(f"timing {what}", 0.4)
        timing = _timing(prepare, launch, first_call_ms)
        if counted:
            progress(f"counting {what}", 0.6)
            try:
                counts = Counts.of(*checked_profiler()[0].count(prepare, launch, evict))
            except CountersUnavailable as error:
                why.append(f"not counted: {error}")
        kept.restore()
        why += saved(call, folder / f"{number}.pt")
        del kept
        progress(f"running {what}", 0.8)
        binary = call.run()
        torch.cuda.synchronize()
    metadata = binary.metadata
    footprint = Footprint(
        call.name, metadata.num_warps, metadata.num_stages, metadata.shared, binary.n_regs, 4 * binary.n_spills
    )  # Triton gives the stack in words of 4 bytes
    return Launch(footprint, call.place, call.grid, 1, call.constants, timing, counts, why=tuple(why)), binary


class _Kept:
    """A copy of the memory behind a launch's tensors: a kernel that updates its input does the same work each time."""

    def __init__(self, storages: list[torch.UntypedStorage]) -> None:
        live = [torch.empty(0, dtype=torch.uint8, device=one.device).set_(one) for one in storages]
        self.pairs = [(one, one.clone()) for one in live]

    def restore(self) -> None:
        for live, kept in self.pairs:
            live.copy_(kept)


@functools.cache
def _evict() -> Callable[[], object]:
    """Empties L2; its buffer is kept for all launches."""
    return evicting()


def _why_uncounted() -> str:
    """Why the GPU's counters cannot be read; "" if they can."""
    try:
        _evict()()  # starts CUDA
        checked_profiler()
    except CountersUnavailable as error:
        return str(error)
    except torch.cuda.OutOfMemoryError:
        return "The GPU's memory has no room to check the counters: end other programs on this GPU."
    return ""


def _timing(prepare: Callable[[], None], launch: Callable[[], object], first_call_ms: float) -> Timing:
    """The times of one launch. The host launches it while the GPU still empties L2, so its own time does not count."""
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < WARM_UPS + LEAST or (len(times) < WARM_UPS + MOST and time.perf_counter() - began < SECONDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        prepare()
        start.record()
        launch()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    p20, median, p80 = (float(value) for value in np.quantile(times[WARM_UPS:], (0.2, 0.5, 0.8)))
    return Timing(first_call_ms, median, p20, p80, len(times) - WARM_UPS, METHOD)


def saved(call: Call, path: Path) -> list[str]:
    """Saves a launch's arguments for the trace; why they are not saved."""
    size = sum(one.nbytes() for one in call.storages)
    if size > MOST_SAVED:
        return [f"not traced: its tensors have {size:,} bytes, more than {MOST_SAVED:,.0f}"]
    function = call.kernel.fn
    try:
        torch.save({"module": function.__module__, "name": function.__qualname__, "arguments": call.arguments}, path)
    except Exception as error:  # what cannot be pickled raises errors of many types
        path.unlink(missing_ok=True)
        return [f"not traced: its arguments cannot be saved: {_line(error)}"]
    return []


def words(name: str, error: BaseException) -> str:
    """What stopped the function, in a sentence with its line, and what helps."""
    said = f"{name} failed: {type(error).__name__}: {_line(error)}".removesuffix(": ") + place_of(error)
    if ILLEGAL.search(str(error)):
        return f"{said}. To find the access: python -m explain check FILE.py:FUNCTION"
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return f"{said}. Choose smaller sizes, or end other programs on this GPU"
    return said


def _line(error: BaseException) -> str:
    """The line of an error's message that says what happened: the compiler's last, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return lines[-1 if type(error).__name__ in _COMPILER else 0]
