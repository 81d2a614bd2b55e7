"""Reads and writes trace files, format 1. Specification: docs/trace-format.md."""

from __future__ import annotations

import errno
import functools
import glob
import hashlib
import json
import math
import os
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, cast, overload
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from explain.trace.model import (
    FORMAT,
    KINDS,
    Affine,
    BlockPointer,
    Buffer,
    Columns,
    Counters,
    Failure,
    Finding,
    Flops,
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

MAGIC = b"TILESCOP"
ENVELOPE = struct.Struct("<8sIIQ32s")
ALIGN = 8
LEVEL = 4
MAX_INFLATED = 1 << 30  # bytes; a larger payload is not a trace of this project
MAX_NESTED = 16  # tuples in tuples; more would be a file that is made to exhaust its reader
INT32_END = 1 << 31
PARTIAL = ".partial"
STALE_SECONDS = 3600  # longer than any run of a worker


class TraceFileError(ValueError):
    """The file is not a readable trace; the message says why."""


def write(trace: Trace, path: str | Path) -> int:
    """Writes the file atomically and returns its size in bytes: readers see the old file or the whole new one.

    Raises OSError that names `path`.
    """
    path = Path(path)
    data = to_bytes(trace)
    with _beside(path) as (file, temporary):
        _remove_stale(path)
        os.fchmod(file.fileno(), 0o644)  # mkstemp makes it 0600, and others could not read a shared recording
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, path)
    return len(data)


def check_writable(path: str | Path) -> None:
    """Raises the OSError that `write` would raise; changes nothing."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with _beside(path):
        pass


def is_replaceable(path: Path) -> bool:
    """Whether writing a trace to `path` destroys nothing else: there is no such file yet, or it is a trace itself."""
    if not path.exists():
        return True
    if not path.is_file():  # a device such as /dev/full, a pipe
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextmanager
def _beside(path: Path) -> Iterator[tuple[BinaryIO, str]]:
    """A temporary file in the same folder; it is deleted afterwards unless it was moved."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file, temporary
        finally:
            with suppress(OSError):
                os.unlink(temporary)
    except OSError as error:
        if error.filename is not None:  # name the file the caller asked for, not the temporary one
            error.filename, error.filename2 = str(path), None
        raise


def _remove_stale(path: Path) -> None:
    """Removes the temporary files of killed writers of `path`; a recent one may still be in use."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*{PARTIAL}"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > STALE_SECONDS:
                partial.unlink()


@dataclass(frozen=True)
class TraceFile:
    """A trace file's bytes, decoded once, when `trace` is first read."""

    data: bytes
    most: int = field(default=MAX_INFLATED, kw_only=True)
    """A larger content, unpacked, is refused. Bytes."""

    @functools.cached_property
    def trace(self) -> Trace:
        """The trace in the file. Raises TraceFileError."""
        return read(self.data, self.most)


def read(source: str | Path | bytes, most: int = MAX_INFLATED) -> Trace:
    """Decodes a trace from a path or from a file's bytes. `most` bytes is the largest content, unpacked.

    Raises TraceFileError, or OSError from the file system.
    """
    return _parse(_inflate(source if isinstance(source, bytes) else Path(source).read_bytes(), most))


def to_bytes(trace: Trace) -> bytes:
    """The trace file's bytes. Equal traces give equal bytes."""
    blob = _Blob()
    header = json.dumps(_header(trace, blob), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = header.encode()
    text += b" " * (-(4 + len(text)) % ALIGN)
    payload = zlib.compress(b"".join([struct.pack("<I", len(text)), text, *blob.parts]), LEVEL)
    return ENVELOPE.pack(MAGIC, FORMAT, 0, len(payload), hashlib.sha256(payload).digest()) + payload


class _Blob:
    """Arrays one after another, each at an offset that is a multiple of 8 bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, array: NDArray[Any]) -> int:
        data = np.ascontiguousarray(array).tobytes()
        offset, padding = self.size, -len(data) % ALIGN
        self.parts += [data, b"\0" * padding]
        self.size += len(data) + padding
        return offset


def _header(trace: Trace, blob: _Blob) -> dict[str, Any]:
    values = list(trace.values)  # held, so that each keeps its id
    numbers: dict[int, int] = {id(value): index for index, value in enumerate(values)}
    return {
        "format": FORMAT,
        "created": trace.created,
        "producer": dict(trace.producer),
        "experiment": trace.experiment,
        "sources": [
            {"function": s.function, "file": s.file, "first_line": s.first_line, "text": s.text,
             "spans": {str(first): last for first, last in s.spans.items()}}
            for s in trace.sources
        ],
        "names": [list(name) for name in trace.names],
        "values": [_value(value, blob, numbers) for value in values],
        "launches": [_launch(launch, numbers) for launch in trace.launches],
        "steps": {
            column.name: _column(getattr(trace.columns, column.name), blob) for column in fields(Columns)
        },
        **_report(trace.report),
    }  # fmt: skip


def _report(report: Report) -> dict[str, Any]:
    if report == Report():
        return {}
    said = asdict(report)
    if report.findings is None:
        del said["findings"]
    return {"report": said}


def _column(array: NDArray[Any], blob: _Blob) -> dict[str, Any]:
    if array.dtype == np.uint8:
        return {"d": "u8", "o": blob.add(array), "n": len(array)}
    wide = len(array) and (array.max() >= INT32_END or array.min() < -INT32_END)
    dtype = "i64" if wide else "i32"  # JavaScript reads 32-bit integers as plain numbers
    return {"d": dtype, "o": blob.add(array.astype(stored_dtype(dtype))), "n": len(array)}


def _value(value: Value, blob: _Blob, numbers: Mapping[int, int]) -> dict[str, Any]:
    match value:
        case Tile():
            return {"k": "t", "d": value.dtype, "s": list(value.shape), "o": blob.add(value.bits)}
        case Affine():
            return {"k": "a", "d": value.dtype, "s": list(value.shape), "b": value.base, "st": list(value.strides)}
        case Pointers():
            return {"k": "p", "b": value.buffer, "v": numbers[id(value.elements)]}
        case BlockPointer():
            offsets = None if value.offsets is None else list(value.offsets)
            return {"k": "b", "b": value.buffer, "offsets": offsets, "block": list(value.block),
                    "shape": list(value.shape), "strides": list(value.strides)}  # fmt: skip
        case Scalar():
            return {"k": "s", "v": value.text, "d": value.kind}
        case Other():
            return {"k": "x", "v": value.text}
        case Group():
            return {"k": "l", "v": [numbers[id(item)] for item in value.items]}


def _launch(launch: Launch, numbers: Mapping[int, int]) -> dict[str, Any]:
    names = [buffer.name for buffer in launch.buffers]
    return {
        "source": launch.source,
        "grid": list(launch.grid),
        "programs": launch.programs,
        "arguments": [[name, numbers[id(value)]] for name, value in launch.arguments],
        "buffers": [
            {"name": b.name, "dtype": b.dtype, "item_bytes": b.item_bytes, "shape": list(b.shape),
             "strides": list(b.strides), "storage_offset": b.storage_offset}
            for b in launch.buffers
        ],
        "recorded": [{"id": list(p.id), "first_step": p.first_step, "steps": p.steps} for p in launch.recorded],
        "totals": {
            "read_bytes": [launch.read_bytes[name] for name in names],
            "written_bytes": [launch.written_bytes[name] for name in names],
            "flops": {"matmul": launch.flops.matmul, "exp": launch.flops.exp, "other": launch.flops.other},
        },
    }  # fmt: skip


# Reading


def _inflate(data: bytes, most: int) -> bytes:
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise TraceFileError("not a trace file: it does not start with TILESCOP")
    if len(data) < ENVELOPE.size:
        raise TraceFileError(
            f"the trace file is cut short: it has {len(data)} bytes, and the envelope alone needs {ENVELOPE.size}"
        )
    _, version, zero, length, digest = ENVELOPE.unpack_from(data)
    if version > FORMAT:
        raise TraceFileError(f"the trace has format {version}; this program reads format {FORMAT}: update it")
    if version != FORMAT or zero:
        raise TraceFileError("the trace file was altered: its envelope is not valid")
    payload = data[ENVELOPE.size :]
    if len(payload) != length:
        how = "cut short" if len(payload) < length else "too long"
        raise TraceFileError(f"the trace file is {how}: its payload has {len(payload)} bytes, not {length}")
    if hashlib.sha256(payload).digest() != digest:
        raise TraceFileError("the trace file was altered: its SHA-256 does not match its payload")
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(payload, most)
    except zlib.error as error:
        raise TraceFileError(f"the trace file's payload is not a zlib stream: {error}") from error
    if not stream.eof or stream.unused_data:
        raise TraceFileError("the trace file's payload is not one complete zlib stream")
    return inflated


def _parse(inflated: bytes) -> Trace:
    if len(inflated) < 4:
        raise TraceFileError("the trace has no header")
    (size,) = struct.unpack_from("<I", inflated)
    if 4 + size > len(inflated) or (4 + size) % ALIGN:
        raise TraceFileError(f"the trace's header of {size} bytes does not fit its {len(inflated)} bytes")
    try:
        header = json.loads(inflated[4 : 4 + size])
    except ValueError as error:
        raise TraceFileError(f"the trace's header is not JSON: {error}") from error
    try:
        return _Reader(header, memoryview(inflated)[4 + size :]).trace()
    except TraceFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise TraceFileError(
            f"the trace's header does not follow the format: {type(error).__name__} {error}"
        ) from error


def _require(condition: object, what: str) -> None:
    if not condition:
        raise TraceFileError(f"the trace's header is inconsistent: {what}")


class _Values(Sequence[Value]):
    """The values of a file, each made when it is asked for, and the same object as long as anyone holds it.

    A class has hundreds of traces in memory, each with hundreds of values, and looks at few. Each object that stays
    would make Python's full garbage collections longer, but for plain tuples of numbers and texts: `parts` describes
    each value as one, its kind in the file first.
    """

    def __init__(self, parts: Sequence[tuple[Any, ...]], blob: NDArray[np.uint8]) -> None:
        self._parts = tuple(parts)
        self._blob = blob
        self._alive: WeakValueDictionary[int, Value] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, number: int) -> Value: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Value, ...]: ...
    def __getitem__(self, number: int | slice) -> Value | tuple[Value, ...]:
        if isinstance(number, slice):
            return tuple(self[one] for one in range(len(self))[number])
        at = range(len(self))[number]
        return self._alive.get(at) or self._alive.setdefault(at, self._made(*self._parts[at]))

    def described(self, number: int) -> tuple[Any, ...]:
        """A value's kind and parts, without making it."""
        return self._parts[number]

    def buffers(self, numbers: Iterable[int]) -> set[int]:
        """The buffers that these values point to, and those in their tuples."""
        found, seen, waiting = set(), set(), list(numbers)
        while waiting:
            if (number := waiting.pop()) in seen:
                continue
            seen.add(number)
            match self._parts[number]:
                case ("p" | "b", int(buffer), *_):
                    found.add(buffer)
                case ("l", _, *items):
                    waiting += items
        return found

    def _made(self, kind: str, *parts: Any) -> Value:
        match kind:
            case "t":
                dtype, shape, start = parts
                stored = stored_dtype(dtype)
                end = start + math.prod(shape) * stored.itemsize
                return Tile(dtype, shape, self._blob[start:end].view(stored).reshape(shape))
            case "a":
                return Affine(*parts)
            case "p":
                buffer, elements = parts
                return Pointers(buffer, cast("Tile | Affine", self[elements]))
            case "b":
                return BlockPointer(*parts)
            case "s":
                return Scalar(*parts)
            case "x":
                return Other(*parts)
        _, *items = parts
        return Group(tuple(self[item] for item in items))


class _Reader:
    """Builds a Trace from a header and checks each number in it."""

    def __init__(self, header: Any, blob: memoryview) -> None:
        _require(isinstance(header, dict) and header.get("format") == FORMAT, "format")
        self.header: dict[str, Any] = header
        self.blob = np.frombuffer(blob, np.uint8)

    def trace(self) -> Trace:
        header = self.header
        sources = tuple(self.source(one) for one in header["sources"])
        names = tuple((_index(s, len(sources), "name's source"), _text(n, "name")) for s, n in header["names"])
        values = self.values(header["values"])
        columns = self.columns(header["steps"])
        launches = tuple(self.launch(one, sources, values) for one in header["launches"])
        self.check_columns(columns, sources, names, values, launches)
        experiment = header["experiment"]
        _require(experiment is None or isinstance(experiment, dict), "experiment")
        producer = {_text(k, "producer"): _text(v, "producer") for k, v in header["producer"].items()}
        return Trace(
            _text(header["created"], "created"), producer, experiment, sources, names, values, launches, columns,
            self.report(header.get("report"), len(columns.line)),
        )  # fmt: skip

    def report(self, one: dict[str, Any] | None, steps: int) -> Report:
        if one is None:
            return Report()
        failure = one["failure"]
        if failure is not None:
            message, traceback = (_text(failure[part], "failure") for part in ("message", "traceback"))
            failure = Failure(_index(failure["step"], steps, "failing step"), message, traceback)
        findings = one.get("findings")
        return Report(
            tuple(_text(note, "note") for note in one["notes"]),
            _text(one["output"], "output"),
            failure,
            None if findings is None else tuple(self.finding(found, steps) for found in findings),
        )

    def finding(self, one: dict[str, Any], steps: int) -> Finding:
        what = "finding"
        return Finding(
            _text(one["sort"], what), bool(one["error"]), _index(one["step"], steps, what), _integer(one["line"], what),
            _text(one["kernel"], what), _triple(one["program"], what), _text(one["words"], what),
            _text(one["remedy"], what), _text(one["buffer"], what), _signed(one["element"], what),
            _integers(one["index"], what), _integer(one["times"], what),
        )  # fmt: skip

    def source(self, one: dict[str, Any]) -> Source:
        spans = {int(first): _integer(last, "span") for first, last in one["spans"].items()}
        return Source(
            _text(one["function"], "function"), _text(one["file"], "file"),
            _integer(one["first_line"], "first_line"), _text(one["text"], "text"), spans,
        )  # fmt: skip

    def place(self, dtype: str, offset: object, count: int) -> slice:
        """Where an array is in the blob, in bytes."""
        start = _integer(offset, "offset")
        end = start + count * stored_dtype(dtype).itemsize
        _require(start % ALIGN == 0 and end <= len(self.blob), f"array at {start}")
        return slice(start, end)

    def columns(self, described: dict[str, Any]) -> Columns:
        arrays: dict[str, NDArray[Any]] = {}
        for name in (column.name for column in fields(Columns)):
            if name == "access_stored" and name not in described:  # recorded before it was
                arrays[name] = np.full(len(arrays["access_value"]), -1)
                continue
            one = described[name]
            _require(one["d"] in {"u8", "i32", "i64"}, f"dtype of column {name}")
            place = self.place(one["d"], one["o"], _integer(one["n"], "column length"))
            arrays[name] = self.blob[place].view(stored_dtype(one["d"]))
        return Columns(**arrays)

    def values(self, described: Sequence[dict[str, Any]]) -> _Values:
        parts: list[tuple[Any, ...]] = []
        for one in described:  # a value refers to earlier ones only
            parts.append(self.value(one, parts))
        return _Values(parts, self.blob)

    def value(self, one: dict[str, Any], earlier: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """A value's kind and parts, as `_Values` makes it of them."""
        kind = one["k"]
        if kind == "t":
            shape = _sizes(one["s"], "shape")
            place = self.place(one["d"], one["o"], math.prod(shape))
            return kind, sys.intern(_text(one["d"], "dtype")), shape, place.start
        if kind == "a":
            shape, strides = _sizes(one["s"], "shape"), _integers(one["st"], "strides")
            _require(len(shape) == len(strides) and stored_dtype(one["d"]).kind in "iu", "affine tile")
            return kind, sys.intern(one["d"]), shape, _signed(one["b"], "base"), strides
        if kind == "p":
            elements = _index(one["v"], len(earlier), "pointer's elements")
            _require(earlier[elements][0] in ("t", "a"), "pointer's elements")
            return kind, _integer(one["b"], "buffer"), elements
        if kind == "b":
            offsets = None if one["offsets"] is None else _integers(one["offsets"], "offsets")
            return (
                kind, _integer(one["b"], "buffer"), offsets, _sizes(one["block"], "block"),
                _integers(one["shape"], "shape"), _integers(one["strides"], "strides"),
            )  # fmt: skip
        if kind == "s":
            return kind, _text(one["v"], "scalar"), sys.intern(_text(one["d"], "scalar's kind"))
        if kind == "x":
            return kind, _text(one["v"], "value")
        _require(kind == "l", f"value of kind {kind!r}")
        items = [_index(item, len(earlier), "tuple's item") for item in one["v"]]
        nested = 1 + max((earlier[item][1] for item in items if earlier[item][0] == "l"), default=0)
        _require(nested <= MAX_NESTED, f"tuples in tuples, {nested} deep")
        return kind, nested, *items

    def launch(self, one: dict[str, Any], sources: Sequence[Source], values: Sequence[Value]) -> Launch:
        source = _index(one["source"], len(sources), "launch's source")
        buffers = tuple(
            Buffer(
                _text(b["name"], "buffer's name"), _text(b["dtype"], "buffer's dtype"),
                _integer(b["item_bytes"], "item_bytes"), _sizes(b["shape"], "shape"),
                _integers(b["strides"], "strides"), _integer(b["storage_offset"], "storage_offset"),
            )
            for b in one["buffers"]
        )  # fmt: skip
        names = [buffer.name for buffer in buffers]
        _require(len(set(names)) == len(names), "two buffers with the same name")
        totals = one["totals"]
        read, written = _sizes(totals["read_bytes"], "totals"), _sizes(totals["written_bytes"], "totals")
        _require(len(read) == len(written) == len(buffers), "totals of a launch")
        return Launch(
            source,
            sources[source].function,
            _triple(one["grid"], "grid"),
            _integer(one["programs"], "programs"),
            tuple((_text(n, "argument"), values[_index(v, len(values), "argument")]) for n, v in one["arguments"]),
            buffers,
            tuple(
                Program(_triple(p["id"], "id"), _integer(p["first_step"], "first_step"), _integer(p["steps"], "steps"))
                for p in one["recorded"]
            ),
            Counters(
                dict(zip(names, read, strict=True)),
                dict(zip(names, written, strict=True)),
                Flops(*(_integer(totals["flops"][key], "flops") for key in ("matmul", "exp", "other"))),
            ),
        )

    def check_columns(
        self,
        c: Columns,
        sources: Sequence[Source],
        names: Sequence[tuple[int, str]],
        values: _Values,
        launches: Sequence[Launch],
    ) -> None:
        steps = len(c.line)
        for name, at in (("change", c.change_at), ("access", c.access_at)):
            columns = {f.name: getattr(c, f.name) for f in fields(Columns) if f.name.startswith(name + "_")}
            rows = {len(array) for key, array in columns.items() if not key.endswith("_at")}
            _require(len(at) == steps + 1 and len(rows) == 1, f"length of the {name} columns")
            _require(at[0] == 0 and at[-1] == rows.pop() and (np.diff(at) >= 0).all(), f"{name}_at")
        for column in (c.source, c.depth, c.flops_matmul, c.flops_exp, c.flops_other):
            _require(len(column) == steps, "length of the step columns")
        spans = [program for launch in launches for program in launch.recorded]
        at_step = 0
        for program in spans:
            _require(program.first_step == at_step and program.steps >= 1, "steps of the recorded programs")
            at_step += program.steps
        _require(at_step == steps, "steps of the recorded programs")
        _within(c.source, 0, len(sources), "step's source")
        _within(c.depth, 0, steps + 1, "step's depth")
        _within(c.change_name, 0, len(names), "changed name")
        _within(c.change_value, 0, len(values), "changed value")
        _within(c.access_kind, 0, len(KINDS), "access kind")
        _within(c.access_value, 0, len(values), "access's elements")
        _within(c.access_mask, -1, len(values), "access's mask")
        _within(c.access_stored, -1, len(values), "access's stored value")
        self.check_accesses(c, values, launches)

    def check_accesses(self, c: Columns, values: _Values, launches: Sequence[Launch]) -> None:
        for elements, mask in {*zip(c.access_value.tolist(), c.access_mask.tolist(), strict=True)}:
            kind, _, shape, *_ = (*values.described(elements), None, None)
            _require(kind in ("t", "a"), "access's elements")
            lanes = values.described(mask)[:3] if mask >= 0 else ("t", "i1", shape)
            _require(lanes == ("t", "i1", shape), "access's mask")
        for launch, one in zip(launches, self.header["launches"], strict=True):
            count = len(launch.buffers)
            pointers = {number for _, number in one["arguments"]}
            for program in launch.recorded:
                steps = slice(program.first_step, program.first_step + program.steps + 1)
                rows, changes = c.access_at[steps], c.change_at[steps]
                _within(c.access_buffer[rows[0] : rows[-1]], 0, count, "access's buffer")
                pointers |= {*c.change_value[changes[0] : changes[-1]].tolist()}
                pointers |= {*c.access_stored[rows[0] : rows[-1]].tolist()} - {-1}
            _require(all(buffer < count for buffer in values.buffers(pointers)), "pointer's buffer")


def _within(column: NDArray[Any], low: int, end: int, what: str) -> None:
    _require(not len(column) or (column.min() >= low and column.max() < end), what)


def _text(value: object, what: str) -> str:
    _require(isinstance(value, str), what)
    return str(value)


def _signed(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TraceFileError(f"the trace's header is inconsistent: {what}")
    return value


def _integer(value: object, what: str) -> int:
    number = _signed(value, what)
    _require(number >= 0, what)
    return number


def _index(value: object, end: int, what: str) -> int:
    number = _integer(value, what)
    _require(number < end, what)
    return number


def _integers(values: object, what: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise TraceFileError(f"the trace's header is inconsistent: {what}")
    return tuple(_signed(value, what) for value in values)


def _sizes(values: object, what: str) -> tuple[int, ...]:
    numbers = _integers(values, what)
    _require(all(number >= 0 for number in numbers), what)
    return numbers


def _triple(values: object, what: str) -> tuple[int, int, int]:
    numbers = _sizes(values, what)
    _require(len(numbers) == 3, what)
    return numbers[0], numbers[1], numbers[2]
