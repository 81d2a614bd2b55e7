"""The trace file: what is written comes back, and nothing else is read."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import weakref
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from explain.trace.file import ENVELOPE, MAX_NESTED, TraceFileError, check_writable, read, to_bytes, write
from explain.trace.model import Affine, Pointers, Tile, numbers
from explain.trace.recorder import recording
from tests.explain.trace import sample_kernels as kernels


@pytest.fixture(scope="module")
def trace():
    x, y = torch.arange(6.0), torch.empty(4)
    table = torch.tensor([x.data_ptr()])
    with recording() as recorder:
        kernels.softmax_online[(1,)](x, torch.empty(6), 6, BLOCK=4)
        kernels.calls_helpers[(1,)](x, y, BLOCK=4)
        kernels.tuples[(1,)]((x, x[2:]), y)
        kernels.bf16_arithmetic[(1,)](*(torch.randn(8).bfloat16() for _ in range(3)), BLOCK=8)
        kernels.through_table[(1,)](table, y, BLOCK=4)
        kernels.device_descriptor[(1,)](torch.randn(6, 12), torch.zeros(6, 12), 6, 12, BLOCK=4)
    return recorder.trace(experiment={"kernel": "several", "scale": 0.5}, created="2026-01-01T00:00:00+00:00")


@pytest.fixture(scope="module")
def data(trace):
    return to_bytes(trace)


def test_round_trip(trace, data):
    again = read(data)
    assert to_bytes(again) == data
    assert again.launches == trace.launches or str(again.launches) == str(trace.launches)
    assert (again.sources, again.names, again.experiment) == (trace.sources, trace.names, trace.experiment)
    assert (again.created, again.producer) == (trace.created, trace.producer)
    for step in range(trace.steps):
        assert (again.line(step), again.depth(step)) == (trace.line(step), trace.depth(step))
        assert again.counters(step) == trace.counters(step)
        mine, theirs = trace.state(step), again.state(step)
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            assert type(theirs[name]) is type(value)
            if isinstance(value, Tile | Affine | Pointers):
                assert np.array_equal(numbers(value), numbers(theirs[name]), equal_nan=True)
        for one, other in zip(trace.accesses(step), again.accesses(step), strict=True):
            assert (one.kind, one.buffer, one.bytes) == (other.kind, other.buffer, other.bytes)
            assert np.array_equal(one.indices(), other.indices())


@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, 2**40])
def test_a_number_of_any_size_is_kept(trace, largest):
    sizes = np.full_like(trace.columns.access_bytes, largest)
    again = read(to_bytes(replace(trace, columns=replace(trace.columns, access_bytes=sizes))))
    assert np.array_equal(again.columns.access_bytes, sizes)


def test_the_file_is_what_the_document_says(data):
    magic, version, zero, length, digest = ENVELOPE.unpack_from(data)
    assert (magic, version, zero, length) == (b"TILESCOP", 1, 0, len(data) - 56)
    assert hashlib.sha256(data[56:]).digest() == digest
    inflated = zlib.decompress(data[56:])
    (size,) = struct.unpack_from("<I", inflated)
    assert (4 + size) % 8 == 0
    header = json.loads(inflated[4 : 4 + size], parse_constant=pytest.fail)
    assert {value["k"] for value in header["values"]} == {"t", "a", "p", "b", "s", "l"}
    offsets = [value["o"] for value in header["values"] if value["k"] == "t"]
    offsets += [column["o"] for column in header["steps"].values()]
    assert {offset % 8 for offset in offsets} == {0}
    assert len(header["values"]) == len({json.dumps(value, sort_keys=True) for value in header["values"]})


def test_writing_is_atomic(trace, data, tmp_path, monkeypatch):
    path = tmp_path / "a.tilescope"
    assert write(trace, path) == len(data)
    assert path.read_bytes() == data
    path.write_bytes(b"old")

    def broken(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write(trace, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@given(st.data())
def test_a_cut_file_is_refused(data, source):
    length = source.draw(st.integers(0, len(data) - 1))
    with pytest.raises(TraceFileError, match=r"cut short|not a trace file"):
        read(data[:length])


@given(st.data())
def test_any_changed_byte_is_noticed(data, source):
    at = source.draw(st.integers(0, len(data) - 1) | st.integers(0, 60))
    flipped = bytearray(data)
    flipped[at] ^= source.draw(st.integers(1, 255))
    with pytest.raises(TraceFileError):
        read(bytes(flipped))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: b"PK\3\4" + data, "not a trace file"),
        (lambda data: b"", "not a trace file"),
        (lambda data: data + b"\0", "too long"),
        (lambda data: data[:8] + struct.pack("<I", 2) + data[12:], "format 2; this program reads format 1"),
        (lambda data: enveloped(b"no zlib"), "zlib"),
        (lambda data: enveloped(zlib.compress(b"{}") + b"more"), "zlib"),
        (lambda data: enveloped(zlib.compress(b"")), "no header"),
        (lambda data: enveloped(zlib.compress(struct.pack("<I", 1 << 30))), "does not fit"),
        (lambda data: enveloped(zlib.compress(struct.pack("<I", 4) + b"nono")), "JSON"),
        (lambda data: enveloped(zlib.compress(struct.pack("<I", 4) + b"[]  ")), "inconsistent: format"),
    ],
)
def test_refusals_say_why(change, says, data):
    with pytest.raises(TraceFileError, match=says):
        read(change(data))


def enveloped(payload: bytes) -> bytes:
    return ENVELOPE.pack(b"TILESCOP", 1, 0, len(payload), hashlib.sha256(payload).digest()) + payload


def rewritten(data: bytes, change) -> bytes:
    """The file with a header that `change` has altered, its digest right."""
    inflated = zlib.decompress(data[56:])
    (size,) = struct.unpack_from("<I", inflated)
    header = json.loads(inflated[4 : 4 + size])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(4 + len(text)) % 8)
    return enveloped(zlib.compress(struct.pack("<I", len(text)) + text + inflated[4 + size :]))


def setter(*path_and_value):
    *path, last, value = path_and_value

    def change(header):
        for key in path:
            header = header[key]
        header[last] = value

    return change


def first(kind):
    return lambda header: next(value for value in header["values"] if value["k"] == kind)


CHANGES = {
    "source of a name": setter("names", 0, [99, "x"]),
    "offset beyond the blob": setter("steps", "line", "o", 1 << 40),
    "offset not aligned": setter("steps", "line", "o", 4),
    "negative offset": setter("steps", "line", "o", -8),
    "column too long": setter("steps", "line", "n", 1 << 40),
    "column too short": setter("steps", "depth", "n", 1),
    "float column": setter("steps", "line", "d", "f32"),
    "missing column": lambda header: header["steps"].pop("line"),
    "tile beyond the blob": lambda header: first("t")(header).update(s=[1 << 40]),
    "tile of negative size": lambda header: first("t")(header).update(s=[-1]),
    "unknown dtype": lambda header: first("t")(header).update(d="f31"),
    "strides of an affine tile": lambda header: first("a")(header).update(st=[1, 2, 3]),
    "float affine tile": lambda header: first("a")(header).update(d="f32"),
    "a value too few": lambda header: header["values"].pop(),
    "elements of a pointer": lambda header: first("p")(header).update(v=len(header["values"])),
    "tuple of itself": lambda header: first("l")(header).update(v=[header["values"].index(first("l")(header))]),
    "kind of value": lambda header: header["values"][0].update(k="?"),
    "scalar that is not a text": lambda header: first("s")(header).update(v=3),
    "launch's source": setter("launches", 0, "source", 99),
    "argument's value": setter("launches", 0, "arguments", [["x", 1 << 20]]),
    "two buffers of one name": lambda header: header["launches"][0]["buffers"].append(
        header["launches"][0]["buffers"][0]
    ),
    "totals": setter("launches", 0, "totals", "read_bytes", []),
    "no buffers": lambda header: [
        launch.update(buffers=[], totals={**launch["totals"], "read_bytes": [], "written_bytes": []})
        for launch in header["launches"]
    ],
    "buffer of a pointer": lambda header: first("p")(header).update(b=99),
    "buffer of a descriptor": lambda header: first("b")(header).update(b=99),
    "shape of a mask": lambda header: next(v for v in header["values"] if v.get("d") == "i1").update(s=[1]),
    "grid of two": setter("launches", 0, "grid", [1, 1]),
    "steps of a program": setter("launches", 0, "recorded", 0, "steps", 1),
    "first step of a program": setter("launches", 0, "recorded", 0, "first_step", 1),
    "true for a number": setter("launches", 0, "programs", True),
    "newer header": setter("format", 2),
    "no experiment": setter("experiment", 3),
    "names that are not a list": setter("names", 7),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_inconsistent_header_is_refused(name, data):
    with pytest.raises(TraceFileError, match=r"header"):
        read(rewritten(data, CHANGES[name]))


def test_a_value_is_one_object_while_it_is_held_and_none_when_nobody_needs_it(data):
    values = read(data).values
    number = next(at for at, value in enumerate(values) if isinstance(value, Tile) and value.bits.size > 1)
    held = values[number]
    assert values[number] is held
    assert not held.bits.flags.writeable
    gone = weakref.ref(held)
    del held
    assert gone() is None
    assert values[-1] is values[len(values) - 1]
    assert [type(value) for value in values[:3]] == [type(values[at]) for at in range(3)]
    with pytest.raises(IndexError):
        values[len(values)]


def test_tuples_that_would_exhaust_a_reader_are_read_or_refused_at_once(data):
    def nested(deep, wide):
        def change(header):
            for _ in range(deep):
                header["values"].append({"k": "l", "v": [len(header["values"]) - 1] * wide})
            header["launches"][0]["arguments"][0][1] = len(header["values"]) - 1

        return change

    assert len(read(rewritten(data, nested(MAX_NESTED - 2, 1000))).launches[0].arguments[0][1].items) == 1000
    with pytest.raises(TraceFileError, match=f"{MAX_NESTED + 1} deep"):
        read(rewritten(data, nested(100_000, 1)))


def test_an_untouched_header_is_read(data):
    assert read(rewritten(data, lambda header: None)).steps == read(data).steps


def test_a_missing_file_is_the_file_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.tilescope")


def test_what_a_killed_writer_left_is_removed(trace, tmp_path):
    path = tmp_path / "a[1].tilescope"
    names = [".a[1].tilescope.1.partial", ".a[1].tilescope.2.partial", ".b.tilescope.3.partial", ".a[1].tilescope.4"]
    old, young, other, foreign = (tmp_path / name for name in names)
    for file in (old, young, other, foreign):
        file.touch()
    for file in (old, other, foreign):
        os.utime(file, (0, 0))
    write(trace, path)
    assert set(tmp_path.iterdir()) == {path, young, other, foreign}


@pytest.mark.parametrize("place", ["no/such/folder", ""])
def test_a_place_that_cannot_be_written_is_named(trace, tmp_path, place):
    path = tmp_path / place / "a.tilescope"
    if not place:
        path.mkdir()
    for attempt in (lambda: check_writable(path), lambda: write(trace, path)):
        with pytest.raises(OSError, match="directory") as raised:
            attempt()
        assert raised.value.filename == str(path)
        assert "partial" not in str(raised.value)
    assert list(tmp_path.rglob("*.partial")) == []


def test_a_check_changes_nothing(tmp_path):
    path = tmp_path / "a.tilescope"
    path.write_bytes(b"old")
    check_writable(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"
