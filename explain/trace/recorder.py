"""Records what unmodified Triton kernels do in Triton's CPU interpreter, line by line.

    with recording(programs="all") as recorder:
        kernel[grid](x, y, n, BLOCK=16)
    trace = recorder.trace()

Needs TRITON_INTERPRET=1 from before triton was imported. Process-wide and not thread-safe, as the interpreter itself:
one recording at a time.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import triton
from numpy.typing import NDArray
from triton import language as tl
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner

from explain.trace.build import build_trace
from explain.trace.fidelity import interpreter_fidelity
from explain.trace.flops import FlopCounter, counting
from explain.trace.instrument import Site, instrument
from explain.trace.memory import Memory, OutOfBounds
from explain.trace.model import KINDS, Flops, Source, Trace
from explain.trace.patches import replaced

__all__ = ["OutOfBounds", "Programs", "Recorder", "TraceError", "TraceTooLarge", "record_call", "recording"]

Programs = Literal["all", "first"] | Sequence[Sequence[int]]
Progress = Callable[[str, float], None]
TELL_SECONDS = 0.2
MAX_STEPS = 200_000
MAX_BYTES = 512 * 1024 * 1024
LIBRARY = "triton."  # helpers of Triton's own packages run, but are no lines to step through
LOAD, STORE, ATOMIC = (KINDS.index(kind) for kind in ("load", "store", "atomic"))


class TraceError(ValueError):
    """What was asked for cannot be recorded; the message says why."""


class TraceTooLarge(TraceError):
    """The recording reached its limit of steps or bytes."""


class AccessRecord(NamedTuple):
    kind: int
    buffer: int
    pointers: NDArray[np.uint64]
    mask: NDArray[np.bool_] | None
    bytes: int


class StepRecord(NamedTuple):
    """One step as it happened: values are the kernel's own objects, which nothing changes later."""

    site: Site
    depth: int
    values: tuple[object, ...]
    accesses: int
    matmul: int
    exp: int
    other: int


class LaunchRecord:
    """A launch while and after it runs."""

    def __init__(self, kernel: Any, source: Source) -> None:
        self.kernel = kernel
        self.source = source
        self.memory = Memory()
        self.grid: tuple[int, int, int] = (0, 0, 0)
        self.program: tuple[int, int, int] | None = None
        self.arguments: dict[str, object] = {}
        self.read_bytes: dict[int, int] = {}
        self.written_bytes: dict[int, int] = {}
        self.flops = Flops()
        self.recorded: list[tuple[tuple[int, int, int], int]] = []  # a program and its first step
        self.steps = 0

    def spans(self) -> list[tuple[int, int]]:
        """First step and end of each recorded program."""
        firsts = [first for _, first in self.recorded]
        return list(zip(firsts, [*firsts[1:], self.steps], strict=False))  # none recorded: none


class Recorder:
    """What `recording` fills: the tape that instrumented functions write to."""

    def __init__(self, programs: Programs, max_steps: int, max_bytes: int, progress: Progress) -> None:
        self.progress = progress
        self.told = time.monotonic()
        self.wanted: Literal["all"] | frozenset[tuple[int, ...]] = _wanted(programs)
        self.max_steps, self.max_bytes = max_steps, max_bytes
        self.launches: list[LaunchRecord] = []
        self.steps: list[StepRecord] = []
        self.accesses: list[AccessRecord] = []
        self.count = FlopCounter()
        self.held_bytes = 0
        self.depth = -1
        self.on = False
        self.pointer_names: dict[int, list[str]] = {}
        self._launch: LaunchRecord | None = None
        self._flops = (0, 0, 0)
        self._functions: dict[Callable[..., Any], Callable[..., Any] | None] = {}

    def trace(self, experiment: Mapping[str, Any] | None = None, created: str | None = None) -> Trace:
        """The run as a value. `created`: an ISO 8601 time, now unless given.

        Raises TraceError when no kernel was launched, or none of the programs asked for exists.
        """
        if not self.launches:
            raise TraceError("no Triton kernel was launched")
        if not self.steps and self.wanted and self.wanted != "all":
            grids = ", ".join(f"{launch.kernel.__name__} {list(launch.grid)}" for launch in self.launches)
            asked = sorted(list(program) for program in self.wanted)
            raise TraceError(f"programs {asked}: none of them ran; the grids are {grids}")
        return build_trace(self.launches, self.steps, self.accesses, experiment, created)

    # The tape

    def enter(self, site: Site, *values: object) -> None:
        self.depth += 1
        self.step(site, *values)

    def leave(self) -> None:
        self.depth -= 1

    def mark(self, site: Site, value: object, *values: object) -> object:
        self.step(site, *values)
        return value

    def step(self, site: Site, *values: object) -> None:
        count = self.count
        matmul, exp, other = self._flops
        self._flops = (count.matmul, count.exp, count.other)
        self.steps.append(
            StepRecord(
                site, self.depth, values, len(self.accesses),
                count.matmul - matmul, count.exp - exp, count.other - other,
            )
        )  # fmt: skip
        for value in values:
            handle = getattr(value, "handle", None)
            if isinstance(handle, interpreter.TensorHandle):
                self.held_bytes += handle.data.nbytes
        self.check_limits()

    def check_limits(self) -> None:
        remedy = "record fewer programs, or a smaller input"
        if len(self.steps) > self.max_steps:
            raise TraceTooLarge(f"the recording has more than {self.max_steps} steps: {remedy}")
        if self.held_bytes > self.max_bytes:
            megabytes = self.max_bytes / 1e6
            raise TraceTooLarge(f"the recording's values fill more than {megabytes:.0f} MB: {remedy}")

    # What the interpreter's operations report

    @property
    def launch(self) -> LaunchRecord:
        assert self._launch is not None
        return self._launch

    def begin_program(self, program: tuple[int, int, int]) -> None:
        self.end_program()
        self.launch.program = program
        self.on = self.wanted == "all" or program in self.wanted
        if time.monotonic() - self.told > TELL_SECONDS:
            self.told = time.monotonic()
            (x, y, z), (nx, ny, nz) = program, self.launch.grid
            place = (x * ny + y) * nz + z
            self.progress(f"{self.launch.source.function}: program {place} of {nx * ny * nz}", place / (nx * ny * nz))
        if self.on:
            self._flops = (self.count.matmul, self.count.exp, self.count.other)
            self.launch.recorded.append((program, len(self.steps)))

    def end_program(self) -> None:
        if not self.on:
            return
        self.on, self.depth = False, -1
        # What came after the last line (a loop's exhausted bounds) belongs to it.
        last, count = self.steps[-1], self.count
        matmul, exp, other = self._flops
        self.steps[-1] = last._replace(
            accesses=len(self.accesses),
            matmul=last.matmul + count.matmul - matmul,
            exp=last.exp + count.exp - exp,
            other=last.other + count.other - other,
        )

    def touch(self, kind: int, handle: Any, mask: Any) -> Any:
        """Notes an access and gives the handle of its true addresses. Raises OutOfBounds before it is made."""
        lanes = mask if mask is None or isinstance(mask, np.ndarray) else mask.data
        width = max(1, handle.get_element_ty().primitive_bitwidth // 8)
        launch = self.launch
        try:
            real, touches = launch.memory.resolve(handle.data, lanes, width, _DID[kind])
        except OutOfBounds as error:
            raise OutOfBounds(f"{_where(launch)}: {error}") from None
        for touch in touches:
            if kind != STORE:
                launch.read_bytes[touch.number] = launch.read_bytes.get(touch.number, 0) + touch.bytes
            if kind != LOAD:
                launch.written_bytes[touch.number] = launch.written_bytes.get(touch.number, 0) + touch.bytes
            if self.on:
                self.accesses.append(AccessRecord(kind, touch.number, touch.pointers, touch.mask, touch.bytes))
                self.held_bytes += touch.pointers.nbytes
        return interpreter.TensorHandle(real, handle.dtype)

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any] | None:
        """The instrumented form of `fn`; None when its source cannot be had."""
        if fn not in self._functions:
            instrumented = instrument(fn)
            self._functions[fn] = None if instrumented is None else instrumented.bind(self)
        return self._functions[fn]

    @contextmanager
    def launching(self, kernel: Any) -> Iterator[LaunchRecord]:
        instrumented = instrument(kernel.fn)
        if instrumented is None:
            raise TraceError(f"the source of kernel {kernel.__name__} cannot be read, so it has no lines to record")
        launch = LaunchRecord(kernel, instrumented.source)
        before = Flops(self.count.matmul, self.count.exp, self.count.other)
        self._launch = launch
        self.launches.append(launch)
        try:
            yield launch
            self.end_program()
        finally:
            self.on, self.depth, self._launch = False, -1, None
            launch.steps, count = len(self.steps), self.count
            launch.flops = Flops(count.matmul - before.matmul, count.exp - before.exp, count.other - before.other)


_DID = ("loads", "stores to", "updates")


def _wanted(programs: object) -> Literal["all"] | frozenset[tuple[int, ...]]:
    if programs == "all":
        return "all"
    if programs == "first":
        return frozenset({(0, 0, 0)})
    if isinstance(programs, list | tuple) and all(map(_is_place, programs)):
        return frozenset(map(tuple, programs))
    allowed = "allowed are 'all', 'first' or a list of [x, y, z] places in the grid, each at least 0"
    raise TraceError(f"programs {programs!r}: {allowed}")


def _is_place(program: object) -> bool:
    whole = isinstance(program, list | tuple) and all(type(part) is int and part >= 0 for part in program)
    return whole and len(program) == 3  # type: ignore[arg-type]


def _where(launch: LaunchRecord) -> str:
    """Kernel, program, file and line that is running, found on Python's own stack."""
    files = {inspect.getfile(launch.kernel.fn)}
    frame, place = sys._getframe(), "unknown place"
    libraries = (os.path.dirname(triton.__file__), os.path.dirname(np.__file__), os.path.dirname(__file__))
    while frame is not None:
        file = frame.f_code.co_filename
        if file in files or not file.startswith((*libraries, "<")):
            place = f"{Path(file).name}:{frame.f_lineno}"
            break
        frame = frame.f_back  # type: ignore[assignment]
    return f"{launch.kernel.__name__}, program {list(launch.program or ())}, {place}"


@contextmanager
def recording(
    programs: Programs = "all",
    *,
    max_steps: int = MAX_STEPS,
    max_bytes: int = MAX_BYTES,
    progress: Progress = lambda what, fraction: None,
) -> Iterator[Recorder]:
    """Records every kernel launched inside: the steps of `programs` of each launch, the counters of all others.

    `programs` is "all", "first" (program 0, 0, 0) or a list of [x, y, z], which may be empty. `progress` is told now
    and then which program runs, in words, and what fraction of the launch's programs were done. Kernels compute as under
    `interpreter_fidelity`. An autotuned kernel runs with its first configuration that is left after pruning: times
    mean nothing here.

    Raises inside, from the launch: OutOfBounds, TraceTooLarge (more than `max_steps` steps, or `max_bytes` of values),
    TraceError, and what the kernel itself raises. The interpreter is as before afterwards, whatever happened.
    """
    if not triton.knobs.runtime.interpret or not isinstance(tl.max, interpreter.InterpretedFunction):
        raise TraceError("set TRITON_INTERPRET=1 before triton is imported: kernels are recorded in its interpreter")
    if interpreter.GridExecutor is not _PLAIN_EXECUTOR:
        raise TraceError("another recording is under way: they cannot be nested or run side by side")
    recorder = Recorder(programs, max_steps, max_bytes, progress)
    with ExitStack() as stack:
        stack.enter_context(interpreter_fidelity())
        stack.enter_context(counting(recorder.count))
        for owner, name, value in _patches(recorder):
            stack.enter_context(replaced(owner, name, value))
        yield recorder


def record_call(
    call: Callable[[], object],
    programs: Programs = "all",
    *,
    experiment: Mapping[str, Any] | None = None,
    created: str | None = None,
    max_steps: int = MAX_STEPS,
    max_bytes: int = MAX_BYTES,
    progress: Progress = lambda what, fraction: None,
) -> Trace:
    """Calls `call()` and returns the trace of the kernels it launched. Arguments and errors as for `recording`."""
    with recording(programs, max_steps=max_steps, max_bytes=max_bytes, progress=progress) as recorder:
        call()
    return recorder.trace(experiment, created)


_PLAIN_EXECUTOR = interpreter.GridExecutor


def _patches(recorder: Recorder) -> Iterable[tuple[Any, str, object]]:
    builder, function = interpreter.InterpreterBuilder, interpreter.InterpretedFunction
    rewrite, run, convert = function.rewrite, function.run, interpreter._implicit_cvt
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas, to_int = builder.create_atomic_rmw, builder.create_atomic_cas, builder.create_ptr_to_int
    set_grid_dim, set_grid_idx = builder.set_grid_dim, builder.set_grid_idx

    class Executor(interpreter.GridExecutor):  # type: ignore[misc]
        """Runs the grid as the interpreter does, with the function that each program asks for."""

        @property
        def fn(self) -> Callable[..., Any]:
            launch = recorder._launch
            return self.plain if launch is None or launch.program is None else self.run_program

        @fn.setter
        def fn(self, value: Callable[..., Any]) -> None:
            self.plain = value

        def _init_args_hst(self, args_dev: Any, kwargs: Any) -> Any:
            args, kwargs = super()._init_args_hst(args_dev, kwargs)
            bound = inspect.getcallargs(self.plain, *args, **kwargs)
            recorder.pointer_names = _pointer_names(bound)
            return args, kwargs

        def run_program(self, **arguments: Any) -> None:
            launch = recorder.launch
            launch.arguments = launch.arguments or arguments
            instrumented = recorder.function(launch.kernel.fn) if recorder.on else None
            (instrumented or self.plain)(**arguments)

    def patched_run(self: Any, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
        if warmup:
            return None
        with recorder.launching(self):
            try:
                return run(self, *args, grid=grid, warmup=warmup, **kwargs)
            except interpreter.InterpreterError as error:
                if (own := _own_error(error)) is not None:
                    raise own from None
                raise

    def patched_rewrite(self: Any) -> Any:
        own = recorder.on and not (self.fn.__module__ or "").startswith(LIBRARY)
        return (recorder.function(self.fn) if own else None) or rewrite(self)

    def patched_convert(arg: Any) -> Any:
        result = convert(arg)
        if hasattr(arg, "data_ptr"):
            element = result.dtype.element_ty
            region = recorder.launch.memory.add(recorder.pointer_names[id(arg)].pop(0), arg, element)
            result.handle.data = result.handle.data + np.uint64(region.offset)
        return result

    def patched_set_grid_dim(self: Any, *grid: Any) -> None:
        recorder.launch.grid = tuple(int(size) for size in grid)  # type: ignore[assignment]
        set_grid_dim(self, *grid)

    def patched_set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        set_grid_idx(self, x, y, z)
        recorder.begin_program((x, y, z))

    def patched_load(self: Any, ptrs: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        return load(self, recorder.touch(LOAD, ptrs, mask), mask, *args, **kwargs)

    def patched_store(self: Any, ptrs: Any, value: Any, mask: Any, *args: Any) -> Any:
        return store(self, recorder.touch(STORE, ptrs, mask), value, mask, *args)

    def patched_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *args: Any) -> Any:
        return rmw(self, op, recorder.touch(ATOMIC, ptr, mask), val, mask, *args)

    def patched_cas(self: Any, ptr: Any, *args: Any) -> Any:
        return cas(self, recorder.touch(ATOMIC, ptr, None), *args)

    def patched_to_int(self: Any, src: Any, dst_type: Any) -> Any:
        return to_int(self, recorder.launch.memory.untagged(src), dst_type)

    return [
        (interpreter, "GridExecutor", Executor),
        (interpreter, "_implicit_cvt", patched_convert),
        (function, "run", patched_run),
        (function, "rewrite", patched_rewrite),
        (builder, "set_grid_dim", patched_set_grid_dim),
        (builder, "set_grid_idx", patched_set_grid_idx),
        (builder, "create_masked_load", patched_load),
        (builder, "create_masked_store", patched_store),
        (builder, "create_atomic_rmw", patched_rmw),
        (builder, "create_atomic_cas", patched_cas),
        (builder, "create_ptr_to_int", patched_to_int),
        (Autotuner, "_bench", lambda *args, **kwargs: [0.0, 0.0, 0.0]),
    ]


def _pointer_names(arguments: Mapping[str, Any]) -> dict[int, list[str]]:
    """Names of the pointer arguments by the identity of what is passed, in the order they are converted."""
    names: dict[int, list[str]] = {}

    def add(name: str, value: Any) -> None:
        if hasattr(value, "data_ptr"):
            names.setdefault(id(value), []).append(name)
        elif isinstance(value, tuple):
            for k, item in enumerate(value):
                add(f"{name}[{k}]", item)
        elif isinstance(value, interpreter.TensorDescriptor):
            add(name, value.base)

    for name, value in arguments.items():
        add(name, value)
    return names


def _own_error(error: BaseException | None) -> BaseException | None:
    """The recorder's error that the interpreter wrapped, once for each helper it passed through."""
    while error is not None and not isinstance(error, OutOfBounds | TraceError):
        error = error.__cause__
    return error
