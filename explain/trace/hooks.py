"""Makes the interpreter's operations report to a recording: launches, programs, arguments, helpers, memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner

from explain.trace.cuda_graphs import Graph
from explain.trace.errors import OutOfBounds, TraceError
from explain.trace.memory import tensor_behind
from explain.trace.records import ATOMIC, LOAD, STORE
from explain.trace.semantics import argument
from explain.trace.warmup import Compiled

if TYPE_CHECKING:
    from explain.trace.recorder import Recorder

LIBRARY = "triton."  # Triton's own helpers run, but their lines are not recorded


def hooks(recorder: Recorder) -> list[tuple[Any, str, object]]:
    """The attributes to replace for one recording: owner, name, and the function that reports to `recorder`."""
    builder, function = interpreter.InterpreterBuilder, interpreter.InterpretedFunction
    rewrite, run, convert = function.rewrite, function.run, interpreter._implicit_cvt
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas, to_int = builder.create_atomic_rmw, builder.create_atomic_cas, builder.create_ptr_to_int
    autotune = Autotuner.run
    set_grid_dim, set_grid_idx = builder.set_grid_dim, builder.set_grid_idx

    class Executor(interpreter.GridExecutor):  # type: ignore[misc]
        """Runs the grid as the interpreter does; recorded programs run the instrumented function."""

        def __init__(self, fn: Any, arg_names: Any, grid: Any, *args: Any) -> None:
            # A GPU's launch takes a list too; the interpreter does not.
            sizes = (lambda bound: tuple(grid(bound))) if callable(grid) else tuple(grid)
            super().__init__(fn, arg_names, sizes, *args)

        def __call__(self, *args: Any, **kwargs: Any) -> None:
            named = {name: tensor_behind(value) for name, value in kwargs.items()}
            plain = [tensor_behind(value) for value in args]
            super().__call__(*plain, **named)

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
            if recorder.only and not recorder.on:
                recorder.note("only the recorded programs ran: outputs and counts are theirs alone")
                return
            reporting = recorder.function(launch.kernel.fn, reporting=True) if recorder.on else None
            (reporting or self.plain)(**arguments)

    def patched_run(self: Any, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
        compiled = Compiled(self, dict(zip(self.arg_names, args, strict=False)) | kwargs, recorder.note)
        if warmup:
            return compiled
        if Graph.capturing is not None:
            Graph.capturing.launch(partial(self.run, *args, grid=grid, warmup=warmup, **kwargs))
            return compiled
        with recorder.launching(self):
            try:
                run(self, *args, grid=grid, warmup=warmup, **kwargs)
                return compiled
            except interpreter.InterpreterError as error:
                if (own := _own_error(error)) is not None:
                    raise own from None
                raise

    def patched_autotune(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return autotune(self, *args, **kwargs)
        finally:
            if len(self.configs) > 1 and hasattr(self, "best_config"):
                name = self.base_fn.__name__
                recorder.note(
                    f"{name}: of {len(self.configs)} autotune configurations this one ran: {self.best_config}"
                )

    def patched_rewrite(self: Any) -> Any:
        if (self.fn.__module__ or "").startswith(LIBRARY):
            return rewrite(self)
        return recorder.function(self.fn, reporting=recorder.on) or rewrite(self)

    def patched_convert(arg: Any) -> Any:
        result = convert(argument(arg))
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
        return store(self, recorder.touch(STORE, ptrs, mask, value), value, mask, *args)

    def patched_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *args: Any) -> Any:
        return rmw(self, op, recorder.touch(ATOMIC, ptr, mask, val), val, mask, *args)

    def patched_cas(self: Any, ptr: Any, cmp: Any, val: Any, *args: Any) -> Any:
        return cas(self, recorder.touch(ATOMIC, ptr, None, val), cmp, val, *args)

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
        (Autotuner, "run", patched_autotune),
        (Autotuner, "_bench", lambda *args, **kwargs: [0.0, 0.0, 0.0]),
    ]


def _pointer_names(arguments: Mapping[str, Any]) -> dict[int, list[str]]:
    """The names of the pointer arguments by the identity of the value passed, in the order of conversion."""
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
    """The recorder's error under those that the interpreter wrapped around it, one per helper; else None."""
    while error is not None and not isinstance(error, OutOfBounds | TraceError):
        error = error.__cause__
    return error
