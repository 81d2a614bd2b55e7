"""The addresses of a run at sizes that take too long, or too much memory, to run.

The caller makes its tensors as PyTorch's fake tensors: with shape, strides and dtype, without values. So the grid,
and every size and stride that a kernel gets, are what the caller computes at that size. Of each launch the programs at
the corners of the grid run, all their loops; a load gives zeros. What is judged are the addresses: int32 offsets that
wrap, and accesses outside a tensor. Addresses that depend on loaded values are not judged.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from triton.runtime import interpreter

from explain.trace import offsets
from explain.trace.errors import OutOfBounds, TraceError
from explain.trace.memory import TAG_SHIFT
from explain.trace.model import Finding
from explain.trace.patches import replaced
from explain.trace.python_file import limited, opened, place_of, said
from explain.trace.recorder import Progress, Recorder, line_now, recording

FIRST_ADDRESS = 1 << 44  # far from 0: a wrapped offset leads to another address, not below all
ALIGNMENT = 256


@dataclass(frozen=True)
class Launched:
    """A launch, the programs of it that ran, and the bytes of the tensors that it got."""

    kernel: str
    grid: tuple[int, int, int]
    programs: tuple[tuple[int, int, int], ...]
    tensor_bytes: int


@dataclass
class Sizes:
    """What a run at given sizes showed. `failure` is what stopped a kernel; `stopped` what stopped its caller later."""

    launches: list[Launched] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    failure: str = ""
    stopped: str = ""
    output: str = ""


def at_sizes(
    path: Path, function: str, arguments: Mapping[str, object], progress: Progress, seconds: float | None = None
) -> Sizes:
    """Calls a function of a Python file with `arguments` and judges its kernels' addresses.

    Raises BadTarget, and TraceError if the function fails before its first launch, or launches nothing.
    """
    with opened(path, function, progress, seconds, arguments) as file:
        found = judged(file.name, file.call, progress, seconds)
        found.output = file.output.getvalue()
    return found


def judged(name: str, call: Callable[[], object], progress: Progress, seconds: float | None = None) -> Sizes:
    """Makes a call, named so in messages, and judges its kernels' addresses. The tensors that it makes are fake.

    Raises TraceError if it fails before its first launch, or launches nothing.
    """
    found = Sizes()
    with _virtual(found), recording([], any_dot=False, progress=progress) as recorder, _judging(recorder, found):
        try:
            with warnings.catch_warnings(), limited(seconds), FakeTensorMode(allow_non_fake_inputs=True):
                warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
                call()
        except BaseException as error:  # foreign code may raise SystemExit or KeyboardInterrupt
            words = said(name, error)
            if _needs_values(error):
                words = f"{name} asks for values of its tensors, and here they have none{place_of(error)}"
            if not recorder.launches:
                raise TraceError(f"{words}. Nothing was launched before") from error
            if len(found.launches) < len(recorder.launches):
                found.failure = words
            else:
                found.stopped = words
        if not recorder.launches:
            recorder.trace()  # says so
    return found


def _needs_values(error: BaseException | None) -> bool:
    """Whether PyTorch was asked for a fake tensor's values."""
    return error is not None and (isinstance(error, DataDependentOutputException) or _needs_values(error.__cause__))


class _Storage:
    """Where a tensor's storage would be, and its bytes."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size

    def data_ptr(self) -> int:
        return self.address

    def nbytes(self) -> int:
        return self.size


class _Virtual:
    """A launch's tensor argument: all that a launch asks of a tensor, and no memory."""

    def __init__(self, tensor: torch.Tensor, dtype: torch.dtype, storage: _Storage) -> None:
        self.size, self.stride, self.storage_offset = tensor.size, tensor.stride, tensor.storage_offset
        self.itemsize, self.dtype, self.storage = tensor.dtype.itemsize, dtype, storage

    @property
    def base(self) -> _Virtual:
        return self

    def untyped_storage(self) -> _Storage:
        return self.storage

    def data_ptr(self) -> int:
        return self.storage.address + int(self.storage_offset()) * self.itemsize


class _Addresses:
    """Gives each storage an address of its own."""

    def __init__(self) -> None:
        self.storages: dict[int, tuple[torch.Tensor, _Storage]] = {}  # a kept tensor keeps its storage's identity
        self.next = FIRST_ADDRESS

    def virtual(self, argument: Any) -> Any:
        """An argument of a launch without memory: tensors, also inside tuples and descriptors."""
        if isinstance(argument, tuple):
            return interpreter._tuple_create(argument, map(self.virtual, argument))
        if isinstance(argument, interpreter.TensorDescriptor):
            rest = (argument.block_shape, argument.padding, argument.round_f32_to_tf32)
            return interpreter.TensorDescriptor(self.virtual(argument.base), argument.shape, argument.strides, *rest)
        tensor = interpreter._unwrap_tensor(argument)
        if not isinstance(tensor, torch.Tensor):
            return argument
        storage = tensor.untyped_storage()
        if storage._cdata not in self.storages:
            self.storages[storage._cdata] = tensor, _Storage(self.next, int(storage.nbytes()))
            self.next += -(-int(storage.nbytes()) // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        return _Virtual(tensor, argument.dtype, self.storages[storage._cdata][1])


@contextmanager
def _virtual(found: Sizes) -> Iterator[None]:
    """While open, launches take no memory and run the corners of their grids; loads give zeros and stores nothing."""
    addresses = _Addresses()

    def host(self: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return [*map(addresses.virtual, args)], {name: addresses.virtual(value) for name, value in kwargs.items()}

    def corners(self: Any, *args: Any, **kwargs: Any) -> None:
        names = inspect.getfullargspec(self.fn).args
        args, kwargs = self._init_args_hst(args, {name: value for name, value in kwargs.items() if name in names})
        scope = interpreter._patch_lang(self.fn)
        try:
            bound = inspect.getcallargs(self.fn, *args, **kwargs)
            tensors = {id(one.storage): one.storage.size for one in bound.values() if isinstance(one, _Virtual)}
            converted = {
                name: value if name in self.constexprs else interpreter._implicit_cvt(value)
                for name, value in bound.items()
            }
            sizes = self.grid(converted) if callable(self.grid) else self.grid
            grid = (*sizes, *[1] * (3 - len(sizes)))
            interpreter.interpreter_builder.set_grid_dim(*grid)
            programs = tuple(itertools.product(*(sorted({0, size - 1} if size else ()) for size in grid)))
            for program in programs:
                interpreter.interpreter_builder.set_grid_idx(*program)
                self.fn(**converted)
        finally:
            scope.restore()
        found.launches.append(Launched(self.plain.__name__, grid, programs, sum(tensors.values())))

    with ExitStack() as stack:
        for name, value in (("_init_args_hst", host), ("__call__", corners)):
            stack.enter_context(replaced(interpreter.GridExecutor, name, value))
        for name, value in _OPERATIONS.items():
            stack.enter_context(replaced(interpreter.InterpreterBuilder, name, value))
        yield


def _load(self: Any, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
    dtype = ptrs.get_element_ty()
    data = np.zeros(ptrs.data.shape, interpreter._get_np_dtype(dtype))
    return interpreter.TensorHandle(data if other is None else np.where(mask.data, data, other.data), dtype)


def _nothing(self: Any, *_: Any, **__: Any) -> None:
    pass


def _update(self: Any, op: Any, ptr: Any, val: Any, *_: Any, **__: Any) -> Any:
    return interpreter.TensorHandle(np.zeros_like(val.data), val.dtype.scalar)


def _exchange(self: Any, ptr: Any, cmp: Any, *_: Any, **__: Any) -> Any:
    return interpreter.TensorHandle(np.zeros_like(cmp.data), cmp.dtype.scalar)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "create_masked_load": _load,
    "create_masked_store": _nothing,
    "create_atomic_rmw": _update,
    "create_atomic_cas": _exchange,
}


@contextmanager
def _judging(recorder: Recorder, found: Sizes) -> Iterator[None]:
    """While open, what is wrong with an access's addresses is found, once for a line and a buffer; the run goes on."""
    known: dict[tuple[object, ...], int] = {}
    plain = recorder.touch

    def add(sort: str, kind: int, pointers: Any, lanes: NDArray[np.bool_], words: Callable[[str], str]) -> None:
        launch = recorder.launch
        file, line = line_now(launch)
        number = launch.memory.number_of(int(pointers[lanes][0]))
        buffer = "a pointer" if number is None else launch.memory.regions[number].buffer.name
        key = sort, file, line, buffer
        if key not in known:
            known[key] = len(found.findings)
            remedy = offsets.REMEDY if sort == "wrapped" else ""
            place = line, launch.kernel.__name__, launch.program or (0, 0, 0)
            found.findings.append(Finding(sort, True, -1, *place, words(buffer), remedy, buffer))

    def touch(kind: int, handle: Any, mask: Any, value: Any = None) -> Any:
        shape = handle.data.shape
        active = np.ones(shape, bool) if mask is None else np.broadcast_to(getattr(mask, "data", mask), shape)
        wrapped = offsets.wrapped(handle, np.asarray(active, bool))
        if wrapped is not None:
            lanes, true = wrapped
            add("wrapped", kind, handle.data, lanes, lambda name: offsets.words(kind, name, int(true[lanes][0])))
        try:
            return plain(kind, handle, mask, value)
        except OutOfBounds as error:
            own = (handle.data >> np.uint64(TAG_SHIFT)) > 0  # not loaded from memory, where zeros stand
            if wrapped is None and (own & active).any():
                said = str(error).partition(": ")[2]
                add("outside", kind, handle.data, own & active, lambda _: f"{said[:1].upper()}{said[1:]}")
            return handle

    with replaced(recorder, "touch", touch), ExitStack() as stack:
        for owner, name, method in offsets.hooks():
            stack.enter_context(replaced(owner, name, method))
        yield
