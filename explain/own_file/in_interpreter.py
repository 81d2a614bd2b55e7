"""The worker that counts a launch's bytes in Triton's CPU interpreter, on arguments saved on the GPU. Imports torch."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from triton.runtime import interpreter

from explain.own_file.model import Traced
from explain.plain import plain
from explain.trace.errors import TookTooLong, TraceError
from explain.trace.patches import replaced
from explain.trace.python_file import opened
from explain.trace.recorder import Recorder, recording
from explain.trace.records import ATOMIC
from explain.worker_process import Progress

SAMPLES = (256, 16)
"""So many programs run if all of them take longer than the request allows, or then if these do."""
PLASTIC = 1.2207440846
"""The root of x⁴ = x + 1: multiples of its inverse powers fill a grid evenly (Roberts, the R₃ sequence, 2018)."""
SHARED = "all programs take too long, and some do not stand for all where they share work by atomics"


def handle(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers {"path": "x.py", "function": "main", "arguments": a saved file, "grid": [x, y, z], "budget": seconds}
    with a Traced as JSON.

    Raises TraceError, and what the kernel raises.
    """
    grid = tuple(request["grid"])
    count = math.prod(grid)
    with opened(Path(request["path"]), request["function"], progress):
        late: TookTooLong | None = None
        for most in (count, *(most for most in SAMPLES if most < count)):
            saved = torch.load(request["arguments"], map_location="cpu", weights_only=False)
            kernel = _kernel(saved["module"], saved["name"])
            programs = sample(grid, most) if most < count else None
            try:
                with (
                    recording([], any_dot=False, progress=progress, budget=request["budget"]) as recorder,
                    _only(recorder, programs) if programs else nullcontext(),
                ):
                    kernel[grid](**saved["arguments"])
            except TookTooLong as error:
                late = error
                continue
            counts = recorder.trace().traffic()
            scaled = {name: round(value * count / most) for name, value in counts.items()}
            return plain(Traced(**scaled, programs=most, of=count))
    assert late is not None
    raise late


def sample(grid: tuple[int, ...], most: int) -> frozenset[tuple[int, ...]]:
    """`most` different programs, spread evenly over each axis of the grid and over all together."""
    chosen: set[tuple[int, ...]] = set()
    k = 0
    while len(chosen) < most:
        k += 1
        chosen.add(tuple(int(size * (k / PLASTIC**axis % 1)) for axis, size in enumerate(grid, 1)))
    return frozenset(chosen)


def _kernel(module: str, name: str) -> Any:
    """The kernel that this module has under this name, without its autotuner or heuristics. Raises TraceError."""
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
        while not isinstance(found, interpreter.InterpretedFunction):
            found = found.fn
    except AttributeError:
        raise TraceError(f"the trace finds no kernel {name} in its module: define it at the top of the file") from None
    return found


@contextmanager
def _only(recorder: Recorder, programs: frozenset[tuple[int, ...]]) -> Iterator[None]:
    """While open, no other programs run. Raises TraceError at an atomic: these programs may then do others' work."""
    executor, touch = interpreter.GridExecutor, recorder.touch
    run = executor.run_program

    def run_program(self: Any, **arguments: Any) -> None:
        if recorder.launch.program in programs:
            run(self, **arguments)

    def touched(kind: int, *args: Any) -> Any:
        if kind == ATOMIC:
            raise TraceError(SHARED)
        return touch(kind, *args)

    with replaced(executor, "run_program", run_program), replaced(recorder, "touch", touched):
        yield
