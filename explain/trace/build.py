"""Builds a Trace from a recording: equal values once, integer tiles as strides, steps as columns."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from triton import language as tl
from triton.runtime import interpreter

from explain.trace.memory import TAG_SHIFT, Memory, dtype_name
from explain.trace.model import (
    Affine,
    BlockPointer,
    Columns,
    Counters,
    Group,
    Launch,
    Other,
    Pointers,
    Program,
    Report,
    Scalar,
    Source,
    Tile,
    Trace,
    Value,
    stored_dtype,
)
from explain.trace.records import AccessRecord, LaunchRecord, Seen, StepRecord
from explain.trace.semantics import Number

VERSION = "0.1.0"
EXACT_IN_A_DOUBLE = 1 << 53  # browsers read JSON's integers as doubles


def build_trace(
    launches: Sequence[LaunchRecord],
    steps: Sequence[StepRecord],
    accesses: Sequence[AccessRecord],
    experiment: Mapping[str, Any] | None,
    created: str | None,
    report: Report,
) -> Trace:
    """The trace of a recording. Equal recordings give equal traces, apart from `created`."""
    builder = _Builder()
    columns = builder.columns(launches, steps, accesses)
    built = tuple(builder.launch(launch) for launch in launches)
    return Trace(
        created=created or datetime.now(UTC).isoformat(timespec="seconds"),
        producer={
            "tilescope": VERSION,
            "python": platform.python_version(),
            "triton": triton.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        experiment=experiment,
        sources=tuple(builder.sources),
        names=tuple(builder.names),
        values=tuple(builder.values),
        launches=built,
        columns=columns,
        report=report,
    )


class _Builder:
    def __init__(self) -> None:
        self.values: list[Value] = []
        self.numbers: dict[object, int] = {}  # the content of a value -> its index
        # Of one launch: the identity of an object, or of an array and its type -> the index of its value
        self.objects: dict[object, int] = {}
        self.sources: list[Source] = []
        self.names: dict[tuple[int, str], int] = {}
        self.memory = Memory()

    def columns(
        self, launches: Sequence[LaunchRecord], steps: Sequence[StepRecord], accesses: Sequence[AccessRecord]
    ) -> Columns:
        lines, sources, depths, change_at, access_at = [], [], [], [0], [0]
        changes: list[tuple[int, int]] = []
        rows: list[tuple[int, ...]] = []
        for launch in launches:
            self.enter(launch)
            for first, end in launch.spans():
                for step in steps[first:end]:
                    source = self.source(step.site.source)
                    for name, value in step.changes:
                        number = self.names.setdefault((source, name), len(self.names))
                        changes.append((number, self.value(value)))
                    rows += map(self.access, accesses[access_at[-1] : step.accesses])
                    lines.append(step.site.line)
                    sources.append(source)
                    depths.append(step.depth)
                    change_at.append(len(changes))
                    access_at.append(step.accesses)
        change_columns = np.array(changes, dtype=np.int64).reshape(-1, 2).T
        access_columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
        flops = np.array([(s.matmul, s.exp, s.other) for s in steps], dtype=np.int64).reshape(-1, 3).T
        return Columns(
            line=np.array(lines, dtype=np.int64),
            source=np.array(sources, dtype=np.int64),
            depth=np.array(depths, dtype=np.int64),
            change_at=np.array(change_at, dtype=np.int64),
            change_name=change_columns[0],
            change_value=change_columns[1],
            access_at=np.array(access_at, dtype=np.int64),
            access_kind=access_columns[0].astype(np.uint8),
            access_buffer=access_columns[1],
            access_value=access_columns[2],
            access_mask=access_columns[3],
            access_bytes=access_columns[4],
            access_stored=access_columns[5],
            flops_matmul=flops[0],
            flops_exp=flops[1],
            flops_other=flops[2],
        )

    def launch(self, launch: LaunchRecord) -> Launch:
        self.enter(launch)
        buffers = tuple(region.buffer for region in launch.memory.regions)
        spans = launch.spans()
        return Launch(
            source=self.source(launch.source),
            kernel=launch.source.function,
            grid=launch.grid,
            programs=launch.grid[0] * launch.grid[1] * launch.grid[2],
            arguments=tuple((name, self.values[self.value(value)]) for name, value in launch.arguments.items()),
            buffers=buffers,
            recorded=tuple(
                Program(program, first, end - first)
                for (program, _), (first, end) in zip(launch.recorded, spans, strict=True)
            ),
            totals=Counters(
                {buffer.name: launch.read_bytes.get(k, 0) for k, buffer in enumerate(buffers)},
                {buffer.name: launch.written_bytes.get(k, 0) for k, buffer in enumerate(buffers)},
                launch.flops,
            ),
        )

    def enter(self, launch: LaunchRecord) -> None:
        """Starts a launch. Its record keeps its objects alive, so identities are valid; buffer numbers are its own."""
        self.objects.clear()
        self.memory = launch.memory

    def source(self, source: Source) -> int:
        for number, known in enumerate(self.sources):
            if known is source:
                return number
        self.sources.append(source)
        return len(self.sources) - 1

    def access(self, record: AccessRecord) -> tuple[int, ...]:
        key = ("elements", id(record.pointers), record.buffer)
        elements = self.objects.get(key)
        if elements is None:
            region = self.memory.regions[record.buffer]
            elements = self.integers("i64", region.elements(record.pointers), record.pointers.shape)
            self.objects[key] = elements
        mask = -1 if record.mask is None else self.tile("i1", record.mask, record.mask.shape)
        stored = -1 if record.stored is None else self.value(record.stored)
        return record.kind, record.buffer, elements, mask, record.bytes, stored

    # Values

    def value(self, thing: object) -> int:
        key = (id(thing.data), id(thing.dtype), thing.is_block) if isinstance(thing, Seen) else id(thing)
        number = self.objects.get(key)
        if number is None:
            number = self.objects[key] = self.new_value(thing)
        return number

    def new_value(self, thing: object) -> int:
        match thing:
            case Seen():
                return self.seen(*thing)
            case tl.constexpr():
                return self.new_value(thing.value)
            case Number():
                return self.new_value(thing.number)
            case tl.tensor() | tl.core.tensor_descriptor_base():
                return self.tensor(thing)
            case tl.core.tuple():
                return self.new_value(tuple(thing.values))
            case tuple() | list():
                items = tuple(self.value(item) for item in thing)
                return self.intern(("l", items), lambda: Group(tuple(self.values[item] for item in items)))
            case bool():
                scalar = Scalar(str(thing), "bool")
            case int():
                scalar = Scalar(str(thing), "int")
            case float():
                scalar = Scalar(repr(thing), "float")
            case str():
                scalar = Scalar(thing, "str")
            case None:
                scalar = Scalar("None", "none")
            case tl.dtype() | torch.dtype():
                scalar = Scalar(str(thing), "dtype")
            case np.generic():
                return self.new_value(thing.item())
            case _:
                text = getattr(thing, "__name__", type(thing).__name__)
                return self.intern(("x", text), lambda: Other(text))
        return self.intern(scalar, lambda: scalar)

    def intern(self, key: object, make: Callable[[], Value]) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.values)
            self.values.append(make())
        return number

    def tensor(self, tensor: Any) -> int:
        handle = tensor.handle
        if isinstance(handle, interpreter.BlockPointerHandle | interpreter.TensorDescHandle):
            return self.block_pointer(handle)
        if isinstance(handle, interpreter.TensorHandle):
            return self.value(Seen.of(tensor))
        return self.intern(("x", "nothing"), lambda: Other("nothing"))

    def seen(self, data: NDArray[Any], dtype: Any, is_block: bool) -> int:
        shape = data.shape if is_block or data.size != 1 else ()
        if dtype.is_ptr():
            return self.pointers(data, shape)
        name = dtype_name(dtype)
        if name == "i1":
            return self.tile(name, data != 0, shape)
        if data.dtype != stored_dtype(name):  # the interpreter keeps some integers narrower than their type
            data = data.astype(stored_dtype(name))
        if data.dtype.kind in "iu" and dtype.is_int():
            return self.integers(name, data, shape)
        return self.tile(name, data, shape)

    def tile(self, dtype: str, data: NDArray[Any], shape: tuple[int, ...]) -> int:
        stored = stored_dtype(dtype)
        raw = data.astype(stored, copy=False).tobytes()
        return self.intern((dtype, shape, raw), lambda: Tile(dtype, shape, np.frombuffer(raw, stored).reshape(shape)))

    def integers(self, dtype: str, data: NDArray[Any], shape: tuple[int, ...]) -> int:
        strides = _affine(data) if shape else None
        if strides is None:
            return self.tile(dtype, data, shape)
        base = int(data.flat[0])
        return self.intern(("a", dtype, shape, base, strides), lambda: Affine(dtype, shape, base, strides))

    def pointers(self, data: NDArray[np.uint64], shape: tuple[int, ...]) -> int:
        tags = data >> np.uint64(TAG_SHIFT)
        number = self.memory.number_of(int(data.flat[0]))
        if number is None or (tags != tags.flat[0]).any():
            text = "pointers into several buffers" if number is not None else "a pointer loaded from memory"
            return self.intern(("x", text), lambda: Other(text))
        elements = self.integers("i64", self.memory.regions[number].elements(data), shape)

        def make() -> Value:
            indices = self.values[elements]
            assert isinstance(indices, Tile | Affine)
            return Pointers(number, indices)

        return self.intern(("p", number, elements), make)

    def block_pointer(self, handle: Any) -> int:
        def numbers(handles: Any) -> tuple[int, ...]:
            return tuple(int(one.data.flat[0]) for one in handles)

        number = self.memory.number_of(int(handle.base.data.flat[0]))
        if number is None:
            return self.intern(("x", "block"), lambda: Other("a block of memory whose pointer was loaded"))
        block = BlockPointer(
            number,
            numbers(handle.offsets) if isinstance(handle, interpreter.BlockPointerHandle) else None,
            tuple(int(size) for size in handle.block_shape),
            numbers(handle.shape),
            numbers(handle.strides),
        )
        return self.intern(block, lambda: block)


def _affine(data: NDArray[Any]) -> tuple[int, ...] | None:
    """The strides of integer `data` along each axis; None if it is not affine, or too large for a browser's doubles."""
    if not data.size:
        return None
    base = int(data.flat[0])
    strides, low, high = [], base, base
    for axis, length in enumerate(data.shape):
        if length > 1:
            second = tuple(int(k == axis) for k in range(data.ndim))
            strides.append(int(data[second]) - base)
            low, high = low + min(0, strides[-1] * (length - 1)), high + max(0, strides[-1] * (length - 1))
        else:
            strides.append(0)
    last = base + sum(stride * (length - 1) for stride, length in zip(strides, data.shape, strict=True))
    if low <= -EXACT_IN_A_DOUBLE or high >= EXACT_IN_A_DOUBLE or int(data.flat[-1]) != last:
        return None
    expected = np.array(base, dtype=np.int64)
    for stride, length in zip(strides, data.shape, strict=True):
        expected = expected[..., None] + np.arange(length, dtype=np.int64) * stride
    return tuple(strides) if np.array_equal(data, expected) else None
