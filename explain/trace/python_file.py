"""Records the Triton kernels that a function of any Python file launches, and explains its failures. Imports torch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import cast

import torch
from triton.runtime import KernelInterface
from triton.runtime.errors import InterpreterError

from explain.trace.errors import BadTarget, OutOfBounds, TraceError
from explain.trace.instrument import PROJECT
from explain.trace.model import Trace
from explain.trace.recorder import Programs, Progress, record_call

LIBRARIES = ("<", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
OURS = str(PROJECT / "explain")


def record_file(path: Path, function: str, programs: Programs, progress: Progress) -> Trace:
    """Imports a Python file, calls its `function` without arguments and records every kernel it launches.

    Raises BadTarget if there is no such file or function, TraceError if the function fails or launches nothing.
    """
    if not path.is_file():
        raise BadTarget(f"{path}: no such file")
    path = path.resolve()
    base, name = _module(path)
    with _own_imports(path.parent, base, name):
        progress(f"importing {path.name}", 0.0)
        with _explained(f"importing {path.name}"):
            module = _import(path, name)
        call = _find(module, path, function)
        with _explained(f"{path.name}:{function}"):
            return record_call(call, programs, progress=progress)


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
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if _is_under(sys.modules[name], base) and not _is_library(sys.modules[name].__file__):
                del sys.modules[name]
        sys.modules.update(hidden)


def _is_under(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder)


def _is_library(file: str | None) -> bool:
    return file is not None and file.startswith(LIBRARIES)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turns any failure of foreign code into a TraceError with a readable message."""
    try:
        yield
    except (TraceError, OutOfBounds):
        raise
    except BaseException as error:  # foreign code may raise SystemExit or KeyboardInterrupt
        root: BaseException = error
        while isinstance(root, InterpreterError) and root.__cause__ is not None:
            root = root.__cause__
        if _asks_for_cuda(root):
            raise TraceError(
                f"{what} asks for a GPU. Kernels are recorded in Triton's CPU interpreter: make its tensors on the CPU "
                "(device='cpu', no .cuda())"
            ) from error
        said = f"{type(root).__name__}: {root}".removesuffix(": ")
        raise TraceError(f"{what} failed: {said}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """The innermost line of foreign code in the error or its causes; "" if there is none."""
    frames: list[traceback.FrameSummary] = []
    cause: BaseException | None = error
    while cause is not None:
        frames += traceback.extract_tb(cause.__traceback__)
        cause = cause.__cause__
    foreign = [frame for frame in frames if not _is_library(frame.filename) and not frame.filename.startswith(OURS)]
    if not foreign:
        return ""
    return f" ({Path(foreign[-1].filename).name}:{foreign[-1].lineno} in {foreign[-1].name})"


def _asks_for_cuda(error: BaseException) -> bool:
    # torch and triton have several messages and exception types for it
    words = ("CUDA", "NVIDIA driver", "active drivers")
    return not torch.cuda.is_available() and any(word in str(error) for word in words)
