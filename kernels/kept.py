"""Keeps what a call decides from the shapes of its tensors: the next call with such tensors only launches.

A wrapper checks its arguments, chooses a tile and counts programs. On a small input this takes longer than the kernel.
It depends on shapes, strides, dtypes, device, alignment and options alone. So a wrapper under `@Kept` returns a launch,
a function of the tensors, which is kept; and `prepared` keeps the compiled kernel and the arguments of its launch.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, update_wrapper
from types import MappingProxyType, SimpleNamespace
from typing import Any, Generic, ParamSpec, TypeVar

import triton
from triton.backends.nvidia.driver import make_tensordesc_arg
from triton.runtime import driver

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
        parts: list[Any] = [*options.items()]
        for t in tensors:
            parts += t.shape, t.stride(), t.dtype, t.get_device(), t.data_ptr() % 16
        alike = tuple(parts)
        launch = self.launches.get(alike)
        if launch is None:
            launch = self.prepare(*tensors, **options)
            if tensors[0].is_cuda:
                if len(self.launches) >= MOST:
                    self.launches.clear()
                self.launches[alike] = launch
        return launch(*tensors)


def prepared(
    kernel: Any, grid: tuple[int, ...], numbers: Sequence[float], constants: Mapping[str, Any],
    descriptors: Mapping[int, Any] = MappingProxyType({}), **options: Any,
) -> Callable[..., None]:  # fmt: skip
    """A function that launches the kernel on tensors that are alike. A kernel's tensors come first, then its numbers,
    then its constants. `descriptors`, by place, are of the tensors that TMA copies.
    """
    whole_grid, rest = (*grid, 1, 1)[:3], (*numbers, *constants.values())
    descriptors = {place: _moved(one, None) for place, one in descriptors.items()}  # holds no tensor
    hooks = triton.knobs.runtime
    entering, leaving = hooks.launch_enter_hook.calls, hooks.launch_exit_hook.calls
    again: Callable[..., None] | None = None

    def launch(*tensors: Any) -> None:
        nonlocal again
        if again is not None and not entering and not leaving:
            again(*tensors)
            return
        taken = [
            _moved(descriptors[place], tensor) if place in descriptors else tensor
            for place, tensor in enumerate(tensors)
        ]
        compiled = kernel[whole_grid](*taken, *numbers, **constants, **options)
        if tensors[0].is_cuda:  # and not interpreted, nor compiled for another GPU
            again = launch_of(compiled, whole_grid, rest, descriptors)

    return launch


def launch_of(
    compiled: Any, grid: tuple[int, ...], rest: tuple[Any, ...], descriptors: Mapping[int, Any]
) -> Callable[..., None] | None:
    """A function of a kernel's tensors: it calls the C function that Triton's launcher calls, with the same arguments.

    The launcher itself makes a TMA descriptor of a tensor at every call, asks the driver about each address and calls
    hooks. None for a kernel that gets memory from the launcher.
    """
    run, metadata = compiled.run, compiled.packed_metadata
    if run.global_scratch_size or run.profile_scratch_size:
        return None
    launch, maps = run.launch, []
    if descriptors:
        launch = inspect.getclosurevars(launch).nonlocals["launcher"]
        layouts = compiled.metadata.tensordesc_meta or [None] * len(descriptors)
        placed = zip(sorted(descriptors), layouts, strict=True)
        maps = [(place, _at(descriptors[place], layout)) for place, layout in placed]
        maps.reverse()  # each address becomes several arguments, from the last on
    options: tuple[Any, ...] = (compiled.function, run.launch_cooperative_grid, run.launch_pdl)
    if as_one := hasattr(run, "kernel_signature"):  # from Triton 3.7 on the kernel's arguments are one
        options += (metadata, None, None, None, None, None, run.arg_annotations, run.kernel_signature)
    else:
        options += (None, None, metadata, None, None, None)
    current_device, current_stream = driver.active.get_current_device, driver.active.get_current_stream

    def launched(*tensors: Any) -> None:
        arguments = [tensor.data_ptr() for tensor in tensors]
        for place, at in maps:
            arguments[place : place + 1] = at(arguments[place])
        arguments += rest
        stream = current_stream(current_device())
        if as_one:
            launch(*grid, stream, *options, arguments)
        else:
            launch(*grid, stream, *options, *arguments)

    return launched


def _at(descriptor: Any, layout: Any) -> Callable[[int], list[Any]]:
    """A kernel's arguments for a tensor like the descriptor's at an address; those of the last addresses are kept."""

    @lru_cache(maxsize=64)
    def arguments(address: int) -> list[Any]:
        moved: list[Any] = make_tensordesc_arg(_moved(descriptor, SimpleNamespace(data_ptr=lambda: address)), layout)
        return moved

    return arguments


def _moved(descriptor: Any, tensor: Any) -> Any:
    """The same descriptor for another tensor of the same layout. The checks of the first one hold."""
    moved = copy.copy(descriptor)
    moved.base = tensor
    return moved
