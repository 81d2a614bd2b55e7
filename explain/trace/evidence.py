"""What the checks need to know of a run and a trace does not hold. It is gathered while kernels run, if asked for.

The interpreter's operations report here: memory that nobody wrote, offsets that leave int32, floats that overflow,
loads that nothing reads. `explain.trace.checks` judges it.
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

from explain.trace.errors import OutOfBounds
from explain.trace.fidelity import bf16_to_f32
from explain.trace.memory import TAG_SHIFT
from explain.trace.patches import replaced
from explain.trace.records import LOAD, STORE

if TYPE_CHECKING:
    from explain.trace.recorder import Recorder

UNWRITTEN = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
"""PyTorch's functions that return memory nobody has written."""
INFINITE, WHOLE = math.inf, 0x5A
"""What an undefined lane may hold: the largest float there is, a whole number that fits every dtype."""
ACCESSES = ("create_masked_load", "create_masked_store", "create_atomic_rmw")
RESHAPED = ("create_broadcast", "create_expand_dims", "create_reshape", "create_trans")
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
    """What the run showed. `garbage` are the accesses, by number, with infinity in their undefined lanes."""

    garbage: Collection[int] = ()
    events: list[Event] = field(default_factory=list)
    masked: set[int] = field(default_factory=set)  # accesses with a mask
    padded: set[int] = field(default_factory=set)  # of these, loads with `other`, or of a block with padding
    undefined: list[int] = field(default_factory=list)  # loads with lanes that no mask lets in and no `other` fills
    loads: dict[int, Loaded] = field(default_factory=dict)  # each load's result
    stored: list[Any] = field(default_factory=list)  # the arrays that were stored, once an integer was narrowed
    reached: list[int] = field(default_factory=list)  # of `undefined`: those that change what the run stores
    shared: list[list[tuple[int, int]]] = field(default_factory=list)
    """Of each launch, each buffer's storage (a number) and the bytes before its element 0."""

    @contextmanager
    def gathering(self, recorder: Recorder) -> Iterator[None]:
        """While open, the interpreter and PyTorch report to this; `recorder` is recording."""
        gatherer = _Gatherer(self, recorder)
        with ExitStack() as stack:
            for owner, name, value in gatherer.hooks():
                stack.enter_context(replaced(owner, name, value))
            stack.enter_context(gatherer.unwritten)
            yield
        storages: dict[int, int] = {}
        for launch in recorder.launches:
            self.shared.append(
                [
                    (storages.setdefault(region.low, len(storages)), region.address - region.low)
                    for region in launch.memory.regions
                ]
            )


class Loaded(interpreter.TensorHandle):  # type: ignore[misc]
    """A load's result. It knows whether anything read it."""

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
    """Knows the elements that nobody wrote of memory from torch.empty and its like. Floats there become NaN.

    During a launch it ignores PyTorch: the interpreter hands tensors over by functions that seem to write them.
    """

    def __init__(self, launching: Callable[[], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launching = launching
        self.flags: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """By a storage's address: the tensor, which is kept so that the address stays its own, and what is unwritten"""

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
        if tensor.device.type != "cpu" or not storage.nbytes():
            return
        if tensor.is_floating_point():
            tensor.fill_(math.nan)
        else:
            tensor.zero_()
        self.flags[storage.data_ptr()] = tensor, torch.ones(storage.nbytes() // tensor.element_size(), dtype=torch.bool)

    def write(self, tensor: torch.Tensor) -> None:
        found = self.flags.get(tensor.untyped_storage().data_ptr()) if tensor.device.type == "cpu" else None
        if found is None:
            return
        whole, flags = found
        if whole.element_size() == tensor.element_size():
            flags.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).fill_(False)
        else:
            flags.fill_(False)

    def access(self, storage: int, addresses: NDArray[np.uint64], stores: bool) -> NDArray[np.bool_] | None:
        """Which of these true addresses nobody wrote; None if all are. A store writes them."""
        found = self.flags.get(storage)
        if found is None:
            return None
        whole, flags = found
        known = flags.numpy()
        at = ((addresses - np.uint64(storage)) // np.uint64(whole.element_size())).astype(np.int64)
        before = known[at]
        if stores:
            known[at] = False
        return before if before.any() else None


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
        """The attributes to replace: owner, name, and what reports."""
        builder = interpreter.InterpreterBuilder
        methods = {name: getattr(self, name.removeprefix("create_")) for name in ACCESSES}
        methods |= dict.fromkeys(("create_load", "create_store"), self.unmasked)
        methods |= dict.fromkeys(RESHAPED, self.reshaped)
        methods |= {"create_splat": self.splat, "create_addptr": self.addptr, "cast_impl": self.cast}
        methods |= {"binary_op": self.binary, "unary_op": self.unary, "create_dot": self.dot}
        return [
            *((builder, name, _around(getattr(builder, name), method)) for name, method in methods.items()),
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

    def masked_load(self, plain: Callable[..., Any], ptrs: Any, mask: Any, other: Any, *args: Any) -> Any:
        evidence, first = self.evidence, len(self.recorder.accesses)
        lanes = _array(mask)
        undefined = self.masked and other is None and not lanes.all()
        if undefined and first in evidence.garbage:
            other = _garbage(ptrs)
        result = self.inside(LOAD, ptrs, lanes, lambda allowed: plain(ptrs, allowed(mask), other, *args))
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
        """Runs an access. Where it is outside its tensor it is reported, and made without these lanes."""
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
            if (wide := handle.attr.get("wide")) is not None:
                wrapped = np.broadcast_to(wide[0], lanes.shape) & lanes
                if wrapped.any():
                    true = np.broadcast_to(wide[1], lanes.shape)
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
            bad = self.unwritten.access(region.low, active[here], kind != LOAD)
            if bad is not None and kind != STORE:
                found = np.zeros(lanes.shape, bool)
                at = np.flatnonzero(lanes)[here][bad]
                found.reshape(-1)[at] = True
                self.add("unwritten", found, access=access, kind=kind)
            if here.all():
                return

    def seen(self, plain: Callable[[object], object]) -> Callable[[object], object]:
        """The recorder looks at a load's result too; that is no use of it."""

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

    # Offsets: the true value of an int32 that wrapped is kept beside it, as attr["wide"] = (lanes, values)

    def reshaped(self, plain: Callable[..., Any], arg: Any, *args: Any) -> Any:
        result = plain(arg, *args)
        if (wide := arg.attr.get("wide")) is not None:
            same = (plain(interpreter.TensorHandle(part, dtype), *args).data for part, dtype in
                    zip(wide, (tl.int1, tl.int64), strict=True))  # fmt: skip
            result.attr["wide"] = tuple(same)
        return result

    def splat(self, plain: Callable[..., Any], ret_ty: Any, arg: Any) -> Any:
        result = plain(ret_ty, arg)
        if (wide := arg.attr.get("wide")) is not None:
            result.attr["wide"] = tuple(np.full(result.data.shape, part.reshape(-1)[0]) for part in wide)
        return result

    def addptr(self, plain: Callable[..., Any], ptr: Any, offset: Any) -> Any:
        result = plain(ptr, offset)
        old, new = ptr.attr.get("wide"), offset.attr.get("wide")
        if old is not None or new is not None:
            none = np.zeros((), bool), np.zeros((), np.int64)
            (lanes, base), (more, true) = old or none, new or (none[0], offset.data.astype(np.int64))
            result.attr["wide"] = lanes | more, base + true
        return result

    def integers(self, result: Any, lhs: Any, rhs: Any, op: Any) -> None:
        if op not in _SIGNS or result.data.dtype != np.int32 or lhs.dtype.scalar != tl.int32:
            return
        wide = [one.attr.get("wide") for one in (lhs, rhs)]
        left, right = (
            one.data.astype(np.int64) if true is None else true[1] for one, true in zip((lhs, rhs), wide, strict=True)
        )
        true = op(left, right)
        lanes = true != result.data
        if lanes.any():
            result.attr["wide"] = lanes, true

    # Floats

    def binary(self, plain: Callable[..., Any], lhs: Any, rhs: Any, op: Any) -> Any:
        result = plain(lhs, rhs, op)
        if result.data.dtype.kind == "i":
            self.integers(result, lhs, rhs, op)
        elif op in _SIGNS:
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
        if (wide := src.attr.get("wide")) is not None:
            result.attr["wide"] = wide
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
        """Reports infinities made of finite numbers, unless the operation has them by itself, and NaNs of numbers."""
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


def _around(plain: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """A builder's method that calls `method` with its own plain form first."""

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(lambda *more, **words: plain(self, *more, **words), *args, **kwargs)

    return wrapped


def _array(mask: Any) -> NDArray[np.bool_]:
    return np.asarray(mask if isinstance(mask, np.ndarray) else mask.data, dtype=bool)


def _floats(handle: Any) -> NDArray[Any] | None:
    """The numbers of a float tensor; None of any other, and of 8-bit floats."""
    data = handle.data
    if data.dtype.kind == "f":
        return np.asarray(data)
    return bf16_to_f32(data) if data.dtype == np.uint16 and handle.dtype.scalar == tl.bfloat16 else None


def _garbage(pointers: Any) -> Any:
    """What undefined lanes hold: infinity, or a number if there is none."""
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
