"""The launches of compiled kernels in a run, each different one handed over to be measured. Imports torch, triton."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from explain.own_file.model import Launch
from explain.trace.patches import replaced
from explain.trace.without_gpu import OURS, is_library

MOST = 32
"""So many different launches are measured."""


@dataclass(frozen=True)
class Call:
    """One launch: the kernel, its arguments by name, its grid, and the line that launches it.

    `run` launches it, and compiles it at first; it returns Triton's CompiledKernel.
    """

    kernel: Any
    arguments: dict[str, Any]
    options: dict[str, Any]
    grid: tuple[int, int, int]
    place: str
    run: Callable[[], Any]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.fn.__name__)

    @property
    def key(self) -> object:
        """Equal for launches that differ in no more than the values in their tensors."""
        arguments = tuple(_sort(value) for value in self.arguments.values())
        return id(self.kernel), self.grid, repr(sorted(self.options.items())), arguments

    @property
    def constants(self) -> dict[str, str]:
        """The kernel's `tl.constexpr` arguments, in words."""
        names = [parameter.name for parameter in self.kernel.params if parameter.is_constexpr]
        return {name: _constant(self.arguments[name]) for name in names if name in self.arguments}

    @property
    def storages(self) -> list[torch.UntypedStorage]:
        """The memory behind the tensors among the arguments, each once."""
        return list(
            {one.data_ptr(): one for one in (t.untyped_storage() for t in _tensors(self.arguments.values()))}.values()
        )


@dataclass
class Collected:
    """The launches so far by their key, and how many were `left` because MOST were measured."""

    launches: dict[object, Launch] = field(default_factory=dict)
    left: int = 0


Measure = Callable[[Call, int], tuple[Launch, Any]]
"""Runs and measures a launch, and answers it with its CompiledKernel. It gets how many were measured before."""


@contextmanager
def collecting(measure: Measure) -> Iterator[Collected]:
    """While open, `measure` runs each different launch.

    Launches of an autotuner that tries configurations, and launches in a CUDA graph, are not measured. After
    each launch the GPU is waited for: an error is then raised at the line that launched it.
    """
    found, tuning = Collected(), 0
    run, bench = JITFunction.run, Autotuner._bench

    def tune(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal tuning
        tuning += 1
        try:
            return bench(self, *args, **kwargs)
        finally:
            tuning -= 1

    def launched(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or tuning or torch.cuda.is_current_stream_capturing():
            return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        call = _call(run, kernel, args, grid, kwargs)
        key = call.key
        if key not in found.launches and len(found.launches) < MOST and 0 not in call.grid:
            launch, binary = measure(call, len(found.launches))
            found.launches[key] = launch
            return binary
        binary = call.run()
        torch.cuda.synchronize()
        if key in found.launches:
            found.launches[key] = replace(found.launches[key], count=found.launches[key].count + 1)
        else:
            found.left += 1
        return binary

    with replaced(JITFunction, "run", launched), replaced(Autotuner, "_bench", tune):
        yield found


def _call(run: Callable[..., Any], kernel: Any, args: Any, grid: Any, kwargs: dict[str, Any]) -> Call:
    names = kernel.signature.parameters
    bound = kernel.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in names})
    bound.apply_defaults()
    sizes = tuple(int(size) for size in (grid(dict(bound.arguments)) if callable(grid) else grid))
    x, y, z = (*sizes, 1, 1)[:3]
    options = {name: value for name, value in kwargs.items() if name not in names}
    again = lambda: run(kernel, *args, grid=(x, y, z), warmup=False, **kwargs)  # noqa: E731
    return Call(kernel, dict(bound.arguments), options, (x, y, z), _place(), again)


def _place() -> str:
    """The innermost line of foreign code that runs now: "softmax.py:24"; "" if there is none."""
    for frame, line in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if not is_library(file) and not file.startswith(OURS):
            return f"{os.path.basename(file)}:{line}"
    return ""


def _sort(value: Any) -> object:
    """What a launch depends on of an argument: all of a number; of a tensor all but its values."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.data_ptr() % 16
    if isinstance(value, tuple | list):
        return tuple(map(_sort, value))
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor):  # a descriptor, or a tensor that is read as another type
        return type(value), _sort(base), repr(getattr(value, "block_shape", getattr(value, "dtype", "")))
    return type(value), repr(value)


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
        elif isinstance(base := getattr(value, "base", None), torch.Tensor):
            yield base


def _constant(value: Any) -> str:
    value = getattr(value, "value", value)  # of a tl.constexpr
    return str(getattr(value, "__name__", value))
