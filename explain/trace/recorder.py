"""Records what unmodified Triton kernels do in Triton's CPU interpreter, line by line.

    with recording(programs="all") as recorder:
        kernel[grid](x, y, n, BLOCK=16)
    trace = recorder.trace()

Set TRITON_INTERPRET=1 before importing triton. Process-wide and not thread-safe, like the interpreter: only one
recording at a time.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from traceback import FrameSummary, extract_stack, extract_tb
from types import FrameType
from typing import Any, Literal

import numpy as np
import triton
from triton import language as tl
from triton.runtime import interpreter

from explain.trace.build import build_trace
from explain.trace.errors import BadTarget, OutOfBounds, TookTooLong, TraceError, TraceTooLarge
from explain.trace.evidence import Evidence
from explain.trace.fidelity import interpreter_fidelity
from explain.trace.flops import FlopCounter, counting
from explain.trace.hooks import hooks
from explain.trace.instrument import Site, instrument
from explain.trace.model import MAX_BYTES, MAX_STEPS, Failure, Flops, Report, Trace
from explain.trace.patches import replaced
from explain.trace.records import LOAD, STORE, AccessRecord, LaunchRecord, Seen, StepRecord
from explain.trace.semantics import Number

__all__ = ["OutOfBounds", "Programs", "Recorder", "TraceError", "TraceTooLarge", "record_call", "recording"]

Programs = Literal["all", "first"] | Sequence[Sequence[int]]
Progress = Callable[[str, float], None]
TELL_SECONDS = 0.2
FORESIGHT_SECONDS = 0.5  # of a launch, before its whole time is predicted


class Recorder:
    """A recording in progress: the tape that instrumented functions report to."""

    def __init__(
        self, programs: Programs, max_steps: int, max_bytes: int, progress: Progress, budget: float = math.inf,
        only: bool = False,
    ) -> None:  # fmt: skip
        self.progress = progress
        self.began, self.told = time.thread_time(), time.monotonic()
        self.budget = budget
        self.only = only
        self.wanted: Literal["all"] | frozenset[tuple[int, ...]] = _wanted(programs)
        self.max_steps, self.max_bytes = max_steps, max_bytes
        self.launches: list[LaunchRecord] = []
        self.steps: list[StepRecord] = []
        self.accesses: list[AccessRecord] = []
        self.count = FlopCounter()
        self.held_bytes = 0
        self.frames: list[dict[str, object]] = []  # the variables of each call in the running program
        self.on = False
        self.pointer_names: dict[int, list[str]] = {}
        self._launch: LaunchRecord | None = None
        self._flops = (0, 0, 0)
        self._functions: dict[tuple[Callable[..., Any], bool], Callable[..., Any] | None] = {}
        self._failed: tuple[BaseException, int, list[FrameSummary]] | None = None  # the last failure of a kernel
        self._thread = threading.get_ident()
        self._refused = ""
        self.cut = False  # a limit ended the run
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keeps a sentence about the running kernel, once."""
        said = text if self._launch is None else f"{self._launch.kernel.__name__}: {text}"
        if said not in self.notes:
            self.notes.append(said)

    def trace(
        self,
        experiment: Mapping[str, Any] | None = None,
        created: str | None = None,
        output: str = "",
        failure: Failure | None = None,
    ) -> Trace:
        """The recorded run. `created` is an ISO 8601 time; the default is now. `output` is what the run printed.

        Raises TraceError if no kernel was launched, or one from another thread; BadTarget if none of the wanted
        programs exists.
        """
        if self._refused:  # it was raised in the other thread, which may have hidden it
            raise TraceError(self._refused)
        if not self.launches:
            raise TraceError("no Triton kernel was launched")
        if not self.steps and self.wanted and self.wanted != "all":
            grids = ", ".join(f"{launch.kernel.__name__} {list(launch.grid)}" for launch in self.launches)
            asked = sorted(list(program) for program in self.wanted)
            raise BadTarget(f"programs {asked}: none of them ran; the grids are {grids}")
        report = Report(tuple(self.notes), output, failure)
        return build_trace(self.launches, self.steps, self.accesses, experiment, created, report)

    def failed_at(self, error: BaseException) -> tuple[int, list[FrameSummary]]:
        """The step that raised `error`, and the calls on the way there, the innermost last.

        If no kernel raised it, as when a result is wrong: the last step, and the error's own calls.
        """
        if self._failed is not None and self._failed[0] is root_of(error):
            return self._failed[1:]
        return len(self.steps) - 1, [*extract_tb(error.__traceback__)]

    # The tape

    def enter(self, site: Site, *values: object) -> None:
        self.frames.append({})
        self.step(site, *values)

    def leave(self) -> None:
        self.frames.pop()

    def fail(self, site: Site, error: BaseException) -> None:
        """Adds the step that failed, at its line: in the innermost function that is recorded."""
        root = root_of(error)
        if (self._failed is not None and root is self._failed[0]) or error.__traceback__ is None:
            return
        line = site.source.first_line_of(error.__traceback__.tb_lineno)
        last = self.steps[-1]
        if (last.site.source, last.site.line, last.depth) != (site.source, line, len(self.frames) - 1):
            self.step(Site(site.source, line, ()), limited=False)
        calls = extract_stack(error.__traceback__.tb_frame)[:-1]
        self._failed = root, len(self.steps) - 1, [*calls, *extract_tb(error.__traceback__)]

    def mark(self, site: Site, value: object, *values: object) -> object:
        self.step(site, *values)
        return value

    def step(self, site: Site, *values: object, limited: bool = True) -> None:
        frame, changes = self.frames[-1], []
        for name, bound in zip(site.names, values, strict=True):
            value = bound.number if type(bound) is Number else bound
            if frame.get(name, _NOTHING) is not value:
                frame[name] = value
                changes.append((name, self.seen(value)))
        count = self.count
        matmul, exp, other = self._flops
        self._flops = (count.matmul, count.exp, count.other)
        self.steps.append(
            StepRecord(
                site,
                len(self.frames) - 1,
                tuple(changes),
                len(self.accesses),
                count.matmul - matmul,
                count.exp - exp,
                count.other - other,
            )
        )
        if limited:
            self.check_limits()

    def seen(self, value: object) -> object:
        """The value without Triton's objects around a tensor: thousands of them would slow Python down."""
        if isinstance(value, tl.tensor) and isinstance(value.handle, interpreter.TensorHandle):
            self.held_bytes += value.handle.data.nbytes
            return Seen.of(value)
        return value

    def check_limits(self) -> None:
        remedy = "record fewer programs (--programs 0:4; all are counted) or a smaller input, or raise"
        if len(self.steps) > self.max_steps:
            self.cut_short()
            raise TraceTooLarge(f"the recording has more than {self.max_steps:,} steps: {remedy} --max-steps")
        if self.held_bytes > self.max_bytes:
            self.cut_short()
            megabytes = self.max_bytes / 1e6
            raise TraceTooLarge(f"the recording's values take more than {megabytes:g} MB: {remedy} --max-values")

    def cut_short(self) -> None:
        """Notes that a limit ended the run. The error says so too, but foreign code may catch it."""
        self.cut = True

    # What the interpreter's operations report

    @property
    def launch(self) -> LaunchRecord:
        assert self._launch is not None
        return self._launch

    def begin_program(self, program: tuple[int, int, int]) -> None:
        self.end_program()
        self.launch.program = program
        self.on = self.wanted == "all" or program in self.wanted
        (x, y, z), (nx, ny, nz) = program, self.launch.grid
        done = ((x * ny + y) * nz + z) / (nx * ny * nz)
        self._check_time(done)
        if time.monotonic() - self.told > TELL_SECONDS:
            self.told = time.monotonic()
            place = f"program {done * nx * ny * nz:.0f} of {nx * ny * nz}"
            self.progress(f"{self.launch.source.function}: {place}", done)
        if self.on:
            self._flops = (self.count.matmul, self.count.exp, self.count.other)
            self.launch.recorded.append((program, len(self.steps)))

    def _check_time(self, done: float) -> None:
        """Raises TookTooLong if the time is over, or will be when the launch is `done`: a fraction of it is by now.

        The thread's own time: what is run, the whole or a part, must not depend on what else the machine does.
        """
        now = time.thread_time()
        passed, in_launch = now - self.began, now - self.launch.began
        needed = passed + in_launch * (1 / done - 1) if done and in_launch > FORESIGHT_SECONDS else passed
        if needed > self.budget:
            self.cut_short()
            raise TookTooLong(f"Triton's interpreter needs {needed:.0f} s or more for all programs")

    def end_program(self) -> None:
        if not self.on:
            return
        self.on = False
        self.frames.clear()
        # Work after the last line, such as a loop's final test, belongs to that line.
        last, count = self.steps[-1], self.count
        matmul, exp, other = self._flops
        self.steps[-1] = last._replace(
            accesses=len(self.accesses),
            matmul=last.matmul + count.matmul - matmul,
            exp=last.exp + count.exp - exp,
            other=last.other + count.other - other,
        )

    def touch(self, kind: int, handle: Any, mask: Any, value: Any = None) -> Any:
        """Records an access and returns the handle of its true addresses. Raises OutOfBounds before the access.

        `value` is the handle of what a store stores, or an atomic takes.
        """
        self._check_time(0.0)
        lanes = mask if mask is None or isinstance(mask, np.ndarray) else mask.data
        width = max(1, handle.get_element_ty().primitive_bitwidth // 8)
        launch = self.launch
        try:
            real, touches = launch.memory.resolve(handle.data, lanes, width, _DID[kind])
        except OutOfBounds as error:
            file, line = line_now(launch)
            place = f"{launch.kernel.__name__}, program {list(launch.program or ())}, {Path(file).name}:{line}"
            raise OutOfBounds(str(error), place, tuple(launch.program or ())) from None
        for touch in touches:
            if kind != STORE:
                launch.read_bytes[touch.number] = launch.read_bytes.get(touch.number, 0) + touch.bytes
            if kind != LOAD:
                launch.written_bytes[touch.number] = launch.written_bytes.get(touch.number, 0) + touch.bytes
            if self.on:
                stored = None if value is None else Seen(value.data, value.dtype.scalar, value.data.size != 1)
                self.accesses.append(AccessRecord(kind, touch.number, touch.pointers, touch.mask, touch.bytes, stored))
                self.held_bytes += touch.pointers.nbytes + (0 if stored is None else stored.data.nbytes)
        return interpreter.TensorHandle(real, handle.dtype)

    def function(self, fn: Callable[..., Any], reporting: bool) -> Callable[..., Any] | None:
        """The rewritten form of `fn`, with or without reports; None if its source cannot be read."""
        key = (fn, reporting)
        if key not in self._functions:
            rewritten = instrument(fn, reporting)
            self._functions[key] = None if rewritten is None else rewritten.bind(fn, self if reporting else None)
        return self._functions[key]

    @contextmanager
    def launching(self, kernel: Any) -> Iterator[LaunchRecord]:
        if threading.get_ident() != self._thread:
            self._refused = (
                f"kernel {kernel.__name__} was launched in another thread, but Triton's interpreter runs one program "
                "at a time: launch all kernels from the thread that calls the function"
            )
            raise TraceError(self._refused)
        instrumented = instrument(kernel.fn)
        if instrumented is None:
            raise TraceError(f"the source of kernel {kernel.__name__} cannot be read, so its lines cannot be recorded")
        launch = LaunchRecord(kernel, instrumented.source)
        before = Flops(self.count.matmul, self.count.exp, self.count.other)
        self._launch = launch
        self.launches.append(launch)
        try:
            yield launch
        finally:
            self.end_program()
            self._launch = None
            launch.steps, count = len(self.steps), self.count
            launch.flops = Flops(count.matmul - before.matmul, count.exp - before.exp, count.other - before.other)


_DID = ("loads", "stores to", "updates")
_NOTHING = object()


def root_of(error: BaseException) -> BaseException:
    """What was raised first; the interpreter raises another error for each helper on the way."""
    while isinstance(error, interpreter.InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


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


def line_now(launch: LaunchRecord) -> tuple[str, int]:
    """The file and the line that a kernel runs, from Python's stack: in a helper, the helper's."""
    files = {inspect.getfile(launch.kernel.fn)}
    frame: FrameType | None = sys._getframe()
    libraries = (os.path.dirname(triton.__file__), os.path.dirname(np.__file__), os.path.dirname(__file__))
    while frame is not None:
        file = frame.f_code.co_filename
        if file in files or not file.startswith((*libraries, "<")):
            return file, frame.f_lineno
        frame = frame.f_back
    return inspect.getfile(launch.kernel.fn), 0


@contextmanager
def recording(
    programs: Programs = "all",
    *,
    max_steps: int = MAX_STEPS,
    max_bytes: int = MAX_BYTES,
    tf32: bool = False,
    any_dot: bool = True,
    progress: Progress = lambda what, fraction: None,
    budget: float = math.inf,
    only: bool = False,
    evidence: Evidence | None = None,
) -> Iterator[Recorder]:
    """Records every kernel launched inside: the steps of `programs` of each launch, and the counters of all programs.

    `programs` is "all", "first" (program 0, 0, 0) or a list of [x, y, z], which may be empty. `progress` sometimes gets
    a text that names the running program, and the fraction of the launch's programs that are done. Kernels compute with
    the compiler's semantics (`semantics`) and under `interpreter_fidelity(tf32, any_dot)`. An autotuned kernel runs
    with the first configuration that pruning leaves, since times mean nothing here. With `only`, the other programs do
    not run. `evidence` gathers what checks
    need; then an access outside its tensor does not stop the run.

    Raises from the launch inside: OutOfBounds; TraceTooLarge (more than `max_steps` steps, or `max_bytes` of values);
    TookTooLong, once the launches are seen to take longer than `budget` seconds;
    Refused, for what the compiler would not accept; TraceError; and what the kernel itself raises. The interpreter is
    always restored afterwards.
    """
    if not triton.knobs.runtime.interpret or not isinstance(tl.max, interpreter.InterpretedFunction):
        raise TraceError("set TRITON_INTERPRET=1 before importing triton: kernels are recorded in its interpreter")
    if interpreter.GridExecutor.__module__ != interpreter.__name__:
        raise TraceError("another recording is running: recordings cannot be nested or run at the same time")
    recorder = Recorder(programs, max_steps, max_bytes, progress, budget, only)
    with ExitStack() as stack:
        stack.enter_context(interpreter_fidelity(tf32, any_dot, recorder.note))
        stack.enter_context(counting(recorder.count))
        for owner, name, value in hooks(recorder):
            stack.enter_context(replaced(owner, name, value))
        if evidence is not None:
            stack.enter_context(evidence.gathering(recorder))
        yield recorder


def record_call(
    call: Callable[[], object],
    programs: Programs = "all",
    *,
    experiment: Mapping[str, Any] | None = None,
    created: str | None = None,
    **options: Any,
) -> Trace:
    """Calls `call()` and returns the trace of the kernels it launched. Options and errors as for `recording`."""
    with recording(programs, **options) as recorder:
        call()
    return recorder.trace(experiment, created)
