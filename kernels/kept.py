"""Keeps what a call decides from the shapes of its tensors: the next call with such tensors only launches.

A wrapper checks its arguments, chooses a tile and counts programs. On a small input this takes longer than the kernel.
It depends on shapes, strides, dtypes, device, alignment and options alone. So a wrapper under `@Kept` returns a launch,
a function of the tensors, which is kept; and `Prepared` keeps the compiled kernel, without Triton's search for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
MOST = 1024
"""Launches that a wrapper keeps."""


class Kept(Generic[P, R]):
    """Decorates a function (tensors, options by name) → launch: a call returns what the launch returns for the tensors.

    On the CPU nothing is kept: there a kernel is interpreted, or compiled for another GPU.
    """

    def __init__(self, prepare: Callable[P, Callable[..., R]]) -> None:
        update_wrapper(self, prepare)
        self.prepare = prepare
        self.signature = inspect.signature(prepare)
        self.tensors = sum(one.kind is not one.KEYWORD_ONLY for one in self.signature.parameters.values())
        self.launches: dict[tuple[Any, ...], Callable[..., R]] = {}

    def __call__(self, *args: P.args, **options: P.kwargs) -> R:
        """What the launch for these tensors returns. Raises what `prepare` raises."""
        tensors: tuple[Any, ...] = args
        if len(tensors) != self.tensors:  # some of them by name
            bound = self.signature.bind(*args, **options)
            tensors, options = bound.args, bound.kwargs  # type: ignore[assignment]
        if not tensors[0].is_cuda:
            return self.prepare(*tensors, **options)(*tensors)
        alike = (
            *[(t.shape, t.stride(), t.dtype, t.device, t.data_ptr() % 16) for t in tensors], *options.items()
        )  # fmt: skip
        launch = self.launches.get(alike)
        if launch is None:
            if len(self.launches) >= MOST:
                self.launches.clear()
            launch = self.launches[alike] = self.prepare(*tensors, **options)
        return launch(*tensors)


class Prepared:
    """A kernel with its grid, numbers and constants, to be launched on tensors that are alike: a kernel's tensors come
    first, then its numbers, then its constants.
    """

    def __init__(
        self, kernel: Any, grid: tuple[int, ...], numbers: Sequence[float], constants: Mapping[str, Any], **options: Any
    ) -> None:
        self.kernel, self.grid = kernel, (*grid, 1, 1)[:3]
        self.numbers, self.constants, self.options = tuple(numbers), dict(constants), options
        self.compiled: Any = None

    def __call__(self, *tensors: Any) -> None:
        """Launches the kernel."""
        if self.compiled is None:  # always so in the interpreter
            self.compiled = self.kernel[self.grid](*tensors, *self.numbers, **self.constants, **self.options)
        else:
            self.compiled[self.grid](*tensors, *self.numbers, *self.constants.values())
