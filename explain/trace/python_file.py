"""Records the Triton kernels that a function of any Python file launches, and explains its failures. Imports torch."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import importlib.util
import inspect
import io
import linecache
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import overrides
from torch.utils import _device
from triton.runtime import KernelInterface

from explain.trace.errors import BadTarget, OutOfBounds, TookTooLong, TraceError
from explain.trace.instrument import PROJECT
from explain.trace.model import Failure, Trace
from explain.trace.patches import replaced
from explain.trace.recorder import Programs, Progress, recording, root_of
from explain.trace.without_gpu import OURS, OnCpu, is_library, without_gpu

OUTPUT_CHARACTERS = 100_000
"""What a run prints is kept up to here."""
SOON_S = 0.001
"""If a time limit fires while PyTorch changes its stack of modes, it fires again after this many seconds."""
MODES = overrides.__file__, _device.__file__
"""PyTorch's files that change its stack of modes."""
_QUOTED = re.compile(r"'(\w+)'")
NO_GPU = (
    "no GPU here: the file's tensors on cuda are on the CPU, and a question about the GPU is answered as on an H100; "
    "times and used memory are NaN, and a benchmark runs once, at its first size"
)


def record_file(
    path: Path, function: str, programs: Programs, progress: Progress, seconds: float | None = None, **options: Any
) -> Trace:
    """Imports a Python file, calls its `function` without arguments and records every kernel it launches.

    A function called test… runs as pytest runs it, once. Without a function ("") the file runs as a script. Where there
    is no GPU, tensors that are asked for on one are made on the CPU.

    A run that fails, or that reaches a limit (`seconds`, or one of the `options` of `recording`), leaves its trace too;
    the trace's report says what happened, at which step, and what was printed.

    Raises BadTarget if there is no such file or function, TraceError if the function launches nothing, or fails before.
    """
    with (
        opened(path, function, progress, seconds) as file,
        recording(programs, any_dot=False, progress=progress, **options) as recorder,
    ):
        failure = None
        try:
            with limited(seconds, recorder.cut_short):
                file.call()
        except BaseException as error:  # foreign code may raise SystemExit or KeyboardInterrupt
            if _no_memory(root_of(error)):
                recorder.cut_short()
            if not recorder.steps:
                raise
            step, calls = recorder.failed_at(error)
            if not (isinstance(error, SystemExit) and not error.code):  # as a script may end
                failure = Failure(step, said(file.name, error), _lines(_foreign(calls)))
        for note in file.notes():
            recorder.note(note)
        return recorder.trace(output=file.output.getvalue(), failure=failure)


@dataclass(frozen=True)
class Opened:
    """A function of a file, ready to be called: its name in words, and what it prints from now on.

    `parameters`: of a test, once it ran: those of its parameters with which it did.
    """

    name: str
    call: Callable[[], object]
    output: io.StringIO
    on_cpu: OnCpu
    parameters: Mapping[str, object]

    def notes(self) -> Iterator[str]:
        """What is to be known of a run of it."""
        if self.on_cpu.asked:
            yield NO_GPU
        if self.parameters:
            values = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
            yield f"{self.name} ran with the first of its parameters: {values}"


@contextmanager
def opened(
    path: Path,
    function: str,
    progress: Progress,
    seconds: float | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Iterator[Opened]:
    """While open, a function of a Python file that is imported as a script in its folder is. Without a function ("")
    the call runs the file; for a test, the call lets pytest import the file and run the test.

    The function gets `arguments`, by name. Failures inside become a TraceError in words.

    Raises BadTarget if there is no such file, function or parameter; TraceError if the import fails.
    """
    if not path.is_file():
        raise BadTarget(f"{path}: no such file")
    path = path.resolve()
    base, name = _module(path) if function else (path.parent, "__main__")
    what = f"{path.name}:{function}" if function else path.name
    output = _Output()
    with (
        replaced(sys, "argv", [str(path)]),
        _own_imports(path.parent, base, name),
        redirect_stdout(output),
        redirect_stderr(output),
        without_gpu() as on_cpu,
    ):
        progress(f"importing {path.name}", 0.0)
        call: Callable[[], object]
        parameters: dict[str, object] = {}
        if function.startswith("test") and importlib.util.find_spec("pytest"):
            from explain.trace.pytest_run import run_test  # no reader of the app needs pytest

            call = partial(run_test, path, function, arguments or {}, parameters)
        elif function:
            with _explained(f"importing {path.name}", output), limited(seconds):
                module = _import(path, name)
            call = _find(module, path, function, arguments or {})
        else:
            call = partial(_import, path, name)
        with _explained(what, output):
            yield Opened(what, call, output, on_cpu, parameters)


class _Output(io.StringIO):
    """Keeps what is printed, up to a limit."""

    def write(self, text: str) -> int:
        room = OUTPUT_CHARACTERS - self.tell()
        super().write(text if len(text) <= room else text[: max(0, room)])
        return len(text)


def _changes_modes(frame: FrameType | None) -> bool:
    """Whether PyTorch may be taking modes off its stack, where an error would leave it without them: such as OnCpu."""
    while frame is not None and frame.f_code.co_filename == contextlib.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename in MODES


@contextmanager
def limited(seconds: float | None, late: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Calls `late` and raises TookTooLong inside after so many seconds, and again each second, if the code hides it."""

    def stop(_: int, frame: FrameType | None) -> None:
        if _changes_modes(frame):
            signal.setitimer(signal.ITIMER_REAL, SOON_S, 1)
            return
        late()
        raise TookTooLong(
            f"it ran longer than {seconds:g} s: raise --seconds, make its inputs smaller, "
            "or run a few programs: explain trace … --programs 0:4 --only"
        )

    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _module(path: Path) -> tuple[Path, str]:
    """The folder where imports start, and the file's module name, with its package's if it lies in one."""
    base, parts = path.parent, [path.stem]
    while path.stem != "__init__" and (base / "__init__.py").is_file() and base.name.isidentifier():
        base, parts = base.parent, [base.name, *parts]
    if len(parts) > 1 and path.stem.isidentifier():
        return base, ".".join(parts)
    return path.parent, f"_tilescope_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"


def _import(path: Path, name: str) -> ModuleType:
    linecache.checkcache(str(path))  # kernels are read line by line, and the file may have changed
    if package := name.rpartition(".")[0]:
        importlib.import_module(package)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find(module: ModuleType, path: Path, function: str, arguments: Mapping[str, object]) -> partial[Any]:
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    functions = {name: value for name, value in own.items() if inspect.isfunction(value)}
    there = ", ".join(name for name, value in functions.items() if not _required(value)) or "none"
    found = getattr(module, function, None)
    if isinstance(found, KernelInterface):
        raise BadTarget(
            f"{path.name}:{function} is a kernel: name a function that makes its inputs and launches it ({there})"
        )
    if not callable(found):
        raise BadTarget(f"{path.name} has no function {function}; functions without arguments there: {there}")
    if required := [name for name in _required(found) if name not in arguments]:
        raise BadTarget(
            f"{path.name}:{function} needs arguments ({', '.join(required)}); name one that needs none: {there}"
        )
    for name in arguments:
        if name not in inspect.signature(found).parameters:
            how = f"def {function}({name}=…), and make the tensors from it"
            raise BadTarget(f"{path.name}:{function} has no parameter {name}: give it one, {how}")
    return partial(found, **arguments)


def _required(function: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


@contextmanager
def _own_imports(folder: Path, base: Path, module: str) -> Iterator[None]:
    """Makes imports work as for a script in `folder` and as for a module of a package in `base` (`folder` or above).

    Modules there come first, even before Tilescope's modules of the same name. They are unloaded afterwards, like
    `module`: the next run reads them again.
    """
    own = {
        entry.stem for place in (folder, base) for entry in place.iterdir() if entry.suffix == ".py" or entry.is_dir()
    }
    hidden = {
        name: loaded
        for name, loaded in sys.modules.items()
        if name == module
        or (name.partition(".")[0] in own and _is_under(loaded, PROJECT) and not _is_under(loaded, base))
    }
    before = set(sys.modules) - set(hidden)
    for name in hidden:
        del sys.modules[name]
    path = list(sys.path)
    sys.path[:0] = dict.fromkeys((str(folder), str(base)))
    importlib.invalidate_caches()  # the file may be newer than the cached listing of its folder
    try:
        # Compiled code counts as fresh if the file's size and second are the same: of one saved twice it may be stale.
        with replaced(sys, "dont_write_bytecode", True):
            yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            mine = _is_under(sys.modules[name], base) and not is_library(sys.modules[name].__file__)
            if mine or name.rpartition(".")[2] == "conftest":  # pytest takes them from folders above too
                del sys.modules[name]
        sys.modules.update(hidden)


def _is_under(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder)


@contextmanager
def _explained(what: str, output: _Output) -> Iterator[None]:
    """Turns any failure of foreign code into a TraceError with a readable message, and what was printed before."""
    try:
        yield
    except (TraceError, OutOfBounds) as error:
        raise type(error)("\n".join(filter(None, (str(error), output.getvalue().rstrip())))) from error
    except BaseException as error:
        parts = (said(what, error), _lines(_calls(error)), output.getvalue().rstrip())
        raise TraceError("\n".join(filter(None, parts))) from error


def said(what: str, error: BaseException) -> str:
    """One sentence about a failure."""
    if isinstance(error, TraceError | OutOfBounds):
        return str(error)
    root = root_of(error)
    if _asks_for_cuda(root):
        return (
            f"{what} asks for a GPU. Kernels are recorded in Triton's CPU interpreter: make its tensors on the CPU "
            "(device='cpu', no .cuda())"
        )
    said = f"{type(root).__name__}: {root}".removesuffix(": ")
    if isinstance(root, UnboundLocalError) and root is not error and (name := _QUOTED.search(str(root))):
        said = (
            f"`{name[1]}` has no value here: in Triton a variable that is first assigned inside a loop, or in one "
            "branch of an `if`, ends with it. Give it a value before"
        )
    if _no_memory(root):
        return f"{what} needs more memory than it may take: raise --megabytes ({root})"
    return f"{what} failed: {said}{place_of(error)}"


def _no_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or os.strerror(errno.ENOMEM) in str(error)


def place_of(error: BaseException) -> str:
    """The innermost line of foreign code in an error, in brackets, behind a space; "" if there is none."""
    places = _calls(error)
    return f" ({Path(places[-1].filename).name}:{places[-1].lineno} in {places[-1].name})" if places else ""


def _lines(calls: Iterable[traceback.FrameSummary]) -> str:
    """A call in each line."""
    places = ((Path(call.filename).name, call.lineno, call.name, call.line or "") for call in calls)
    return "\n".join(f"  {file}:{number} in {function}: {line}".rstrip(": ") for file, number, function, line in places)


def _calls(error: BaseException) -> list[traceback.FrameSummary]:
    """The calls in foreign code in the error and its causes, the innermost last."""
    calls: list[traceback.FrameSummary] = []
    cause: BaseException | None = error
    while cause is not None:
        calls += traceback.extract_tb(cause.__traceback__)
        cause = cause.__cause__
    return _foreign(calls)


def _foreign(calls: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The calls in the user's own files, each once: none in Tilescope or a library."""
    found = [call for call in calls if not is_library(call.filename) and not call.filename.startswith(OURS)]
    return [call for k, call in enumerate(found) if call not in found[k + 1 :]]


def _asks_for_cuda(error: BaseException) -> bool:
    # torch and triton have several messages and exception types for it; foreign code may say CUDA for other reasons
    words = ("CUDA", "NVIDIA driver", "active drivers", "accelerator device")
    raised = traceback.extract_tb(error.__traceback__)
    by_library = bool(raised) and is_library(raised[-1].filename)
    by_library = by_library or "'CUDA' backend" in str(error)  # of an operator in C++
    return by_library and not torch.cuda.is_available() and any(word in str(error) for word in words)
