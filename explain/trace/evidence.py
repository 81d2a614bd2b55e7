"""Facts about a run that its trace does not have, for the checks: gathered while kernels run, if asked for.

The interpreter's operations report memory that was never written, offsets that overflow int32, floats that overflow
and loads that nothing uses. `explain.trace.checks` judges them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode
from triton import language as tl
from triton.runtime import interpreter

from explain.trace import offsets
from explain.trace.errors import OutOfBounds
from explain.trace.fidelity import bf16_to_f32
from explain.trace.memory import TAG_SHIFT
from explain.trace.patches import around, replaced
from explain.trace.records import LOAD, STORE

if TYPE_CHECKING:
    from explain.trace.recorder import Recorder

UNWRITTEN = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
"""PyTorch's functions that return uninitialized memory."""
POISON = 0xFF
"""Each byte of a float that nobody wrote: a NaN, but not the one of PyTorch, NumPy or a division."""
INFINITE, WHOLE = math.inf, 0x5A
"""The values put into undefined lanes: ∞ for floats, a number that fits every dtype for integers."""
ACCESSES = ("create_masked_load", "create_masked_store", "create_atomic_rmw")
UNMASKED = ("create_load", "create_store", "create_descriptor_load", "create_descriptor_store")
"""Accesses that no mask is written for; a descriptor knows its tensor's shape."""
MOST_EVENTS = 10_000
_SIGNS = {np.add: "+", np.subtract: "−", np.multiply: "×", np.divide: "÷"}
_NAMES = {np.exp: "exp", np.exp2: "exp2", np.log: "log", np.log2: "log2", np.sqrt: "sqrt"}


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happened in a step.

    `sort` is one of
        outside    lanes of an access outside their tensor's storage: `lanes` of a tile, `elements` of `buffer`
        unwritten  lanes of access `access` that read memory nobody wrote
        wrapped    lanes of access `access` with an int32 offset that wrapped; `elements` are the true offsets
        overflow   `words` made an infinity of finite numbers, at the first of `lanes`
        nan        `words` made a NaN of numbers, at the first of `lanes`
        narrowed   `words`: an integer that does not fit its new dtype
    """

    sort: str
    step: int
    launch: int
    program: tuple[int, int, int]
    lanes: NDArray[np.bool_]
    access: int = -1
    buffer: int = -1
    kind: int = -1
    elements: NDArray[np.int64] | None = None
    words: str = ""
    result: Any = None  # the array that was made


@dataclass
class Evidence:
    """What one run did. `garbage`: numbers of loads. The undefined lanes of these loads get INFINITE or WHOLE."""

    garbage: Collection[int] = ()
    events: list[Event] = field(default_factory=list)
    masked: set[int] = field(default_factory=set)  # accesses with a mask
    padded: set[int] = field(default_factory=set)  # of these, loads with `other`, or of a block with padding
    undefined: list[int] = field(default_factory=list)  # loads with lanes that no mask lets in and no `other` fills
    loads: dict[int, Loaded] = field(default_factory=dict)  # each load's result
    stored: list[Any] = field(default_factory=list)  # the arrays that were stored, once an integer was narrowed
    reached: list[int] = field(default_factory=list)  # of `undefined`: those that change what the run stores
    cut: bool = False  # a limit ended the run
    shared: list[list[tuple[int, int]]] = field(default_factory=list)
    """For each launch and buffer: the number of its storage, and the bytes there before the buffer's element 0."""

    @contextmanager
    def gathering(self, recorder: Recorder) -> Iterator[None]:
        """A context in which the interpreter and PyTorch report their facts here; `recorder` is recording."""
        gatherer = _Gatherer(self, recorder)
        with ExitStack() as stack:
            for hooks in (offsets.hooks, gatherer.hooks):  # the second replaces what the first put there
                for owner, name, value in hooks():
                    stack.enter_context(replaced(owner, name, value))
            stack.enter_context(gatherer.unwritten)
            try:
                yield
            finally:
                self.cut = recorder.cut
        storages: dict[int, int] = {}
        for launch in recorder.launches:
            self.shared.append(
                [
                    (storages.setdefault(region.low, len(storages)), region.address - region.low)
                    for region in launch.memory.regions
                ]
            )


class Loaded(interpreter.TensorHandle):  # type: ignore[misc]
    """A load's result that notes whether anything reads it."""

    @property
    def data(self) -> Any:
        self.read = True
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        self._data = value

    def floats(self) -> NDArray[Any] | None:
        """Its numbers, if it holds floats of 16 bits or more."""
        before, found = self.read, _floats(self)
        self.read = before
        return found


class Unwritten(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes which elements of memory from torch.empty and its like were never written.

    Floats there become a NaN that nothing else makes, and other numbers 0. So it also sees what was written without
    PyTorch, as by NumPy: an element that is no longer that NaN, and any that is not 0. Zeros among whole numbers cannot
    be seen: where NumPy got the memory, they count as written.

    During a launch it ignores PyTorch: the interpreter passes tensors on through functions that seem to write them.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # to skip it, PyTorch first imports torch.compile, which takes seconds

    def __init__(self, launching: Callable[[], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launching = launching
        self.flags: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """For each storage, by its address: the tensor, kept so that no other gets the address, and a mask, True where
        nothing was written.
        """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self.launching():
            return result
        schema = func._schema
        if schema.name in UNWRITTEN and isinstance(result, torch.Tensor):
            self.add(result)
        elif self.flags:
            for k, argument in enumerate(schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = args[k] if k < len(args) else kwargs.get(argument.name)
                    for tensor in value if isinstance(value, list | tuple) else [value]:
                        if isinstance(tensor, torch.Tensor):
                            self.write(tensor)
        return result

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.device.type != "cpu" or not storage.nbytes():
            return
        _bytes(tensor).fill_(POISON if tensor.is_floating_point() else 0)
        self.flags[storage.data_ptr()] = tensor, torch.ones(storage.nbytes() // tensor.element_size(), dtype=torch.bool)

    def share(self, tensor: torch.Tensor) -> None:
        """NumPy gets the tensor's memory, and may write into it from now on."""
        if not (self.launching() or tensor.is_floating_point()):
            self.write(tensor)

    def write(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        found = self.flags.get(storage.data_ptr()) if storage.device.type == "cpu" else None
        if found is None:
            return
        whole, flags = found
        if whole.element_size() == tensor.element_size():
            flags.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).fill_(False)
        else:
            flags.fill_(False)

    def access(self, storage: int, addresses: NDArray[np.uint64], kind: int) -> NDArray[np.bool_] | None:
        """A mask of the addresses that an access is about to read and nobody has written; None if there are none.

        A store and an atomic mark them as written.
        """
        found = self.flags.get(storage)
        if found is None:
            return None
        whole, flags = found
        known = _numpy(flags)
        at = ((addresses - np.uint64(storage)) // np.uint64(whole.element_size())).astype(np.int64)
        bad = known[at]
        if kind != STORE and bad.any():
            content = _numpy(_bytes(whole))[: known.size * whole.element_size()].reshape(known.size, -1)
            if whole.is_floating_point():
                bad &= (content[at] == POISON).all(axis=1)
            elif content[known].any():
                known[:] = bad[:] = False
        if kind != LOAD:
            known[at] = False
        return bad if kind != STORE and bad.any() else None


_numpy = torch.Tensor.numpy


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's whole storage, shape (bytes,) uint8."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


class _Gatherer:
    def __init__(self, evidence: Evidence, recorder: Recorder) -> None:
        self.evidence = evidence
        self.recorder = recorder
        self.unwritten = Unwritten(lambda: recorder._launch is not None)
        self.masked = True
        self.quiet = False

    def add(self, sort: str, lanes: NDArray[np.bool_], **more: Any) -> None:
        recorder, events = self.recorder, self.evidence.events
        if recorder.on and len(events) < MOST_EVENTS:
            launch = recorder.launch
            place = len(recorder.steps), len(recorder.launches) - 1, launch.program or (0, 0, 0)
            events.append(Event(sort, *place, lanes, **more))

    def hooks(self) -> list[tuple[Any, str, object]]:
        """The attributes to replace, each as (owner, name, the new value, which reports)."""

        def numpy(tensor: torch.Tensor, **named: bool) -> NDArray[Any]:
            self.unwritten.share(tensor)
            return _numpy(tensor, **named)

        builder = interpreter.InterpreterBuilder
        methods = {name: getattr(self, name.removeprefix("create_")) for name in ACCESSES}
        methods |= dict.fromkeys(UNMASKED, self.unmasked)
        methods |= {"cast_impl": self.cast, "binary_op": self.binary, "unary_op": self.unary, "create_dot": self.dot}
        return [
            *((builder, name, around(getattr(builder, name), method)) for name, method in methods.items()),
            (torch.Tensor, "numpy", numpy),
            (self.recorder, "seen", self.seen(self.recorder.seen)),
            (self.recorder, "touch", self.touch(self.recorder.touch)),
        ]

    # Memory

    def unmasked(self, plain: Callable[..., Any], *args: Any) -> Any:
        self.masked = False
        try:
            return plain(*args)
        finally:
            self.masked = True

    def masked_load(self, plain: Callable[..., Any], ptrs: Any, mask: Any, other: Any, *args: Any, **named: Any) -> Any:
        evidence, first = self.evidence, len(self.recorder.accesses)
        lanes = _array(mask)
        undefined = self.masked and other is None and not lanes.all()
        if undefined and self.recorder.on and first in evidence.garbage:
            other = _garbage(ptrs)
        result = self.inside(LOAD, ptrs, lanes, lambda allowed: plain(ptrs, allowed(mask), other, *args, **named))
        numbers = range(first, len(self.recorder.accesses))
        if self.masked:
            evidence.masked.update(numbers)
        if other is not None:
            evidence.padded.update(numbers)
        if not self.recorder.on:
            return result
        if undefined:
            evidence.undefined += numbers[:1]
        loaded = Loaded(result.data, result.dtype, result.attr)
        loaded.read = False
        evidence.loads.update(dict.fromkeys(numbers, loaded))
        return loaded

    def masked_store(self, plain: Callable[..., Any], ptrs: Any, value: Any, mask: Any, *args: Any) -> Any:
        if any(event.sort == "narrowed" for event in self.evidence.events):
            self.evidence.stored.append(value.data)
        first = len(self.recorder.accesses)
        result = self.inside(STORE, ptrs, _array(mask), lambda allowed: plain(ptrs, value, allowed(mask), *args))
        if self.masked:
            self.evidence.masked.update(range(first, len(self.recorder.accesses)))
        return result

    def atomic_rmw(self, plain: Callable[..., Any], op: Any, ptr: Any, val: Any, mask: Any, *args: Any) -> Any:
        def run(allowed: Callable[[Any], Any]) -> Any:
            return plain(op, ptr, val, allowed(mask), *args)

        return self.inside(2, ptr, _array(mask), run)

    def inside(self, kind: int, ptrs: Any, lanes: NDArray[np.bool_], run: Callable[..., Any]) -> Any:
        """Runs an access. If lanes are outside their tensor, it reports them and runs the access without them."""
        try:
            return run(lambda mask: mask)
        except OutOfBounds:
            memory, pointers = self.recorder.launch.memory, np.asarray(ptrs.data)
            lanes = np.broadcast_to(lanes, pointers.shape)
            number = memory.number_of(int(pointers[lanes][0])) if pointers.size else None
            tags = pointers[lanes] >> np.uint64(TAG_SHIFT)
            if number is None or not tags[0] or (tags != tags[0]).any():
                raise
            region = memory.regions[number]
            near, far = (np.uint64(end + region.offset) for end in (region.low, region.high))
            width = np.uint64(max(1, ptrs.get_element_ty().primitive_bitwidth // 8))
            good = (pointers >= near) & (pointers + width <= far)
            if not any(event.step == len(self.recorder.steps) and event.sort == "wrapped" for event in
                       self.evidence.events[-1:]):  # fmt: skip
                elements = region.elements(pointers)
                self.add("outside", lanes & ~good, buffer=number, kind=kind, elements=elements, result=lanes)
            return run(lambda mask: interpreter.TensorHandle(lanes & good, tl.int1))

    def touch(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def method(kind: int, handle: Any, mask: Any, value: Any = None) -> Any:
            first = len(self.recorder.accesses)
            lanes = (
                np.ones(handle.data.shape, bool) if mask is None else np.broadcast_to(_array(mask), handle.data.shape)
            )
            if (found := offsets.wrapped(handle, lanes)) is not None:
                wrapped, true = found
                number = self.recorder.launch.memory.number_of(int(handle.data[wrapped][0]))
                buffer = -1 if number is None else number
                self.add("wrapped", wrapped, access=first, buffer=buffer, kind=kind, elements=true)
            real = plain(kind, handle, mask, value)
            if self.unwritten.flags and lanes.any():
                self.note_unwritten(kind, real.data, lanes, first)
            return real

        return method

    def note_unwritten(self, kind: int, real: NDArray[np.uint64], lanes: NDArray[np.bool_], access: int) -> None:
        active = real[lanes]
        for region in self.recorder.launch.memory.regions:
            here = (active >= np.uint64(region.low)) & (active < np.uint64(region.high))
            if not here.any():
                continue
            bad = self.unwritten.access(region.low, active[here], kind)
            if bad is not None:
                found = np.zeros(lanes.shape, bool)
                at = np.flatnonzero(lanes)[here][bad]
                found.reshape(-1)[at] = True
                self.add("unwritten", found, access=access, kind=kind)
            if here.all():
                return

    def seen(self, plain: Callable[[object], object]) -> Callable[[object], object]:
        """`plain`, the recorder's look at a value, without marking a load's result as read."""

        def method(value: object) -> object:
            handle = getattr(value, "handle", None)
            if not isinstance(handle, Loaded):
                return plain(value)
            before = handle.read
            try:
                return plain(value)
            finally:
                handle.read = before

        return method

    # Floats

    def binary(self, plain: Callable[..., Any], lhs: Any, rhs: Any, op: Any) -> Any:
        result = plain(lhs, rhs, op)
        if result.data.dtype.kind != "i" and op in _SIGNS:
            self.judge(result, (lhs, rhs), lambda a, b: f"{_text(a)} {_SIGNS[op]} {_inner(b)}", op is np.divide)
        return result

    def unary(self, plain: Callable[..., Any], arg: Any, op: Any) -> Any:
        result = plain(arg, op)
        if op in _NAMES:
            infinite = op in (np.log, np.log2)
            self.judge(result, (arg,), lambda a: f"{_NAMES[op]}({_text(a)})", infinite)
        return result

    def dot(self, plain: Callable[..., Any], a: Any, b: Any, *args: Any) -> Any:
        result = plain(a, b, *args)
        made, left, right = (_floats(one) for one in (result, a, b))
        if made is None or left is None or right is None or np.isfinite(made).all():
            return result
        rows, columns = np.isfinite(left).all(-1), np.isfinite(right).all(-2)
        clean = rows[..., :, None] & columns[..., None, :]
        self.found("overflow", clean & np.isinf(made), result, "tl.dot")
        numbers = ~np.isnan(left).any(-1)[..., :, None] & ~np.isnan(right).any(-2)[..., None, :]
        self.found("nan", numbers & np.isnan(made), result, "tl.dot of an infinity with 0 or −∞")
        return result

    def cast(self, plain: Callable[..., Any], src: Any, dst_type: Any) -> Any:
        result = plain(src, dst_type)
        before, after, target = src.dtype.scalar, result.dtype.scalar, dst_type.scalar
        if target.is_floating() and before.is_floating():
            self.judge(result, (src,), lambda a: f"{_text(a)} as {target}", False)
        elif after.is_int() and before.is_int() and after.primitive_bitwidth < before.primitive_bitwidth:
            bits = max(after.primitive_bitwidth, 8)
            if after.primitive_bitwidth > 1:
                lost = (src.data < -(1 << (bits - 1))) | (src.data >= 1 << bits)
                first = src.data[lost][:1].tolist()
                self.found("narrowed", lost, result, f"{first[0] if first else ''} as {target}")
        return result

    def judge(self, result: Any, operands: tuple[Any, ...], words: Callable[..., str], infinite: bool) -> None:
        """Reports NaNs made from numbers, and infinities made from finite numbers.

        `infinite`: infinities are right results of this operation, as of a division by 0, and not reported.
        """
        made = _floats(result)
        if made is None or np.isfinite(made).all():
            return
        parts = [part for one in operands if (part := _floats(one)) is not None]
        if len(parts) < len(operands):
            return
        given = np.broadcast_arrays(made, *parts)[1:]
        finite = np.logical_and.reduce([np.isfinite(part) for part in given])
        numbers = np.logical_and.reduce([~np.isnan(part) for part in given])
        over = finite & np.isinf(made)
        for sort, lanes in (("overflow", over), ("nan", numbers & np.isnan(made))):
            if lanes.any() and not (infinite and sort == "overflow"):
                self.found(sort, lanes, result, words(*(part[lanes][0] for part in given)))

    def found(self, sort: str, lanes: NDArray[np.bool_], result: Any, words: str) -> None:
        if lanes.any():
            self.add(sort, lanes, words=words, result=result.data)


def _array(mask: Any) -> NDArray[np.bool_]:
    return np.asarray(mask if isinstance(mask, np.ndarray) else mask.data, dtype=bool)


def _floats(handle: Any) -> NDArray[Any] | None:
    """The numbers of a tensor of floats with 16, 32 or 64 bits; None for every other dtype."""
    data = handle.data
    if data.dtype.kind == "f":
        return np.asarray(data)
    return bf16_to_f32(data) if data.dtype == np.uint16 and handle.dtype.scalar == tl.bfloat16 else None


def _garbage(pointers: Any) -> Any:
    """A tile for undefined lanes: INFINITE, or WHOLE where the dtype has no infinity."""
    element = pointers.get_element_ty()
    dtype = interpreter._get_np_dtype(element)
    if element == tl.bfloat16:
        data = np.full(pointers.data.shape, 0x7F80, dtype)
    else:
        data = np.full(pointers.data.shape, INFINITE if dtype.kind == "f" else WHOLE, dtype)
    return interpreter.TensorHandle(data, element)


def _inner(number: Any) -> str:
    text = _text(number)
    return f"({text})" if text.startswith("−") else text


def _text(number: Any) -> str:
    value = float(number)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{value:.6g}".replace("-", "−")
