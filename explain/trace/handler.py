"""The trace worker's side: records an Experiment's kernel, or the kernels that a function of any Python file launches."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import linecache
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from triton.runtime import KernelInterface
from triton.runtime.errors import InterpreterError

from explain.experiment import Experiment
from explain.runs import run_traced
from explain.trace import file as trace_file
from explain.trace.errors import BadTarget, OutOfBounds, TraceError
from explain.trace.instrument import PROJECT
from explain.trace.model import Trace
from explain.trace.recorder import Programs, record_call

Progress = Callable[[str, float], None]


def handle(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Runs and records; writes the trace file `out` unless that is null. Either of

        {"kind": "experiment", "experiment": an Experiment's JSON, "programs": …, "out": path or null}
        {"kind": "file", "path": "x.py", "function": "main", "programs": …, "out": path or null}

    with `programs` as for `recording`. Answers {"steps", "trace_seconds", "file_bytes", "traffic", "launches": [{"kernel",
    "grid", "traffic"}]}; of an experiment also {"error", "budget", "within_budget", "output"}. `traffic` is
    {"read_bytes", "written_bytes", "flops"}, every program counted. Raises TraceError, OutOfBounds, ValueError, OSError.
    """
    started = time.perf_counter()
    checked: dict[str, Any] = {}
    programs: Programs = request["programs"]
    if request["kind"] == "experiment":
        trace, verdict = run_traced(Experiment.from_json(request["experiment"]), programs, progress)
        checked = {
            "error": verdict.error,
            "budget": verdict.budget,
            "within_budget": verdict.within_budget,
            "output": verdict.output,
        }
    elif request["kind"] == "file":
        trace = record_file(Path(request["path"]), request["function"], programs, progress)
    else:
        raise ValueError(f"kind {request['kind']!r}: allowed are experiment, file")
    seconds = time.perf_counter() - started
    progress("writing the trace", 0.95)
    out = request["out"]
    return {
        "steps": trace.steps,
        "trace_seconds": seconds,
        "file_bytes": trace_file.write(trace, out) if out is not None else 0,
        "traffic": trace.traffic(),
        "launches": [
            {"kernel": launch.kernel, "grid": list(launch.grid), "traffic": launch.traffic()}
            for launch in trace.launches
        ],
        **checked,
    }


def record_file(path: Path, function: str, programs: Programs, progress: Progress) -> Trace:
    """Imports a Python file, calls its zero-argument `function` and records all kernels that it launches.

    Raises BadTarget when there is no such file or function; TraceError when it fails, or launches nothing.
    """
    if not path.is_file():
        raise BadTarget(f"{path}: no such file")
    path = path.resolve()
    with _own_imports(path.parent):
        progress(f"importing {path.name}", 0.0)
        with _explained(f"importing {path.name}"):
            module = _import(path)
        call = _find(module, path, function)
        with _explained(f"{path.name}:{function}"):
            return record_call(call, programs, progress=progress)


def _import(path: Path) -> ModuleType:
    linecache.checkcache(str(path))  # kernels are read by line; the file may have changed since it was last run
    name = f"_tilescope_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{path}: no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find(module: ModuleType, path: Path, function: str) -> Callable[[], object]:
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
    if required := _required(found):
        raise BadTarget(
            f"{path.name}:{function} needs arguments ({', '.join(required)}); name one that needs none: {there}"
        )
    return cast(Callable[[], object], found)


def _required(function: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


@contextmanager
def _own_imports(folder: Path) -> Iterator[None]:
    """Imports work as for a script in `folder`: its modules come first, even before Tilescope's of the same name.

    Afterwards they are forgotten, so that the next run reads them anew.
    """
    own = {entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in own and _is_under(module, PROJECT) and not _is_under(module, folder)
    }
    before = set(sys.modules) - set(hidden)
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if _is_under(sys.modules[name], folder):
                del sys.modules[name]
        sys.modules.update(hidden)


def _is_under(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Any failure of foreign code as a TraceError in words."""
    try:
        yield
    except (TraceError, OutOfBounds):
        raise
    except (Exception, SystemExit) as error:
        root: BaseException = error
        while isinstance(root, InterpreterError) and root.__cause__ is not None:
            root = root.__cause__
        if _asks_for_cuda(root):
            raise TraceError(
                f"{what} asks for a GPU. Kernels are recorded in Triton's CPU interpreter: make its tensors on the CPU "
                "(device='cpu', no .cuda())"
            ) from error
        raise TraceError(f"{what} failed: {type(root).__name__}: {root}") from error


def _asks_for_cuda(error: BaseException) -> bool:
    # torch says it in several ways and types; triton has its own
    words = ("CUDA", "NVIDIA driver", "active drivers")
    return not torch.cuda.is_available() and any(word in str(error) for word in words)
