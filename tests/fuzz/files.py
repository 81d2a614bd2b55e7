"""Damaged files: each reader takes a file or says in a sentence what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from explain import ROOT, tours
from explain.chapters.your_run.view import LARGEST_INFLATED
from explain.engine import engine
from explain.player.view import view_of
from explain.puzzles import report
from explain.puzzles.answer import AnswerError, answer_of
from explain.puzzles.progress import Done, Progress
from explain.puzzles.puzzles import puzzles
from explain.records import registry
from explain.records.file import RecordFileError, _digest
from explain.trace.file import ENVELOPE, TraceFile, TraceFileError
from explain.workers import WorkerError
from kernels.parameters import ParameterError
from tests.fuzz.addresses import ODD
from tests.fuzz.found import Found

TOKENS = (
    *(odd.encode() for odd in ODD),
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"[" * 3000,
    b"{",
    b"}",
    b",",
    b"=",
    b"1e999",
)
A_VALUE = re.compile(rb'(?<=[:=\[,])\s*("(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)(?!\s*:)')
VALUES = (
    b"0",
    b"-1",
    b"3",
    b"1.5",
    b"-0.0",
    b"1e400",
    b"9" * 40,
    b"true",
    b"null",
    b"NaN",
    b'""',
    b'"x"',
    b'"9"',
    b"[]",
    b"{}",
)
LONGEST_SENTENCE = 600
"""Characters of an error: what it quotes of a file is cut."""


Change = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Reader:
    """Reads a kind of file; `refuses` are the errors that say what is wrong with one."""

    examples: tuple[bytes, ...]
    read: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]
    packed: Callable[[bytes, Change], bytes] | None = None
    """Changes what is packed in a file that has a checksum."""

    def look(self, number: int) -> Found:
        """Reads the damaged file of this number."""
        rng = random.Random(number)
        example = rng.choice(self.examples)
        inside = self.packed and rng.random() < 0.7

        def change(data: bytes) -> bytes:
            return damaged(data, rng, () if inside else self.examples)

        data = self.packed(example, change) if self.packed and inside else change(example)
        before, wrong, said = time.process_time(), "", "taken"
        try:
            self.read(data)
        except self.refuses as error:
            said = str(error)
            longest = max(map(len, said.split("\n")))  # a line may be each fault of a file
            if not 0 < longest <= LONGEST_SENTENCE or "Traceback" in said:
                wrong = f"it says {said[:200]!r}"
        except Exception as error:  # a page would show its traceback
            wrong = f"{type(error).__name__}: {error}"
        return Found(wrong and f"{number}: {wrong}", time.process_time() - before, said)


def damaged(data: bytes, rng: random.Random, others: tuple[bytes, ...]) -> bytes:
    """The bytes after one to four changes: a bit, a cut, a part twice or from another file, odd bytes, another value.

    Of every two files one has only other values, so that it is refused for what it says and not for how.
    """
    changed, only_values = bytearray(data), rng.random() < 0.5
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        end = min(len(changed), at + rng.choice((1, 4, 16, 100, 5000)))
        if (only_values or rng.random() < 0.2) and (value := _a_value(changed, rng)):
            other = _a_value(changed, rng) or value
            changed[value.start(1) : value.end(1)] = rng.choice((*VALUES, other[1]))
            continue
        match rng.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at:end]
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = changed[at:end] * rng.randint(1, 3)
            case 4:
                source = rng.choice(others or (data,))
                start = rng.randrange(len(source))
                changed[at:end] = source[start : start + end - at]
            case _:
                changed[at : min(end, at + 16)] = rng.choice(TOKENS)
    return bytes(changed)


def _a_value(text: bytearray, rng: random.Random) -> re.Match[bytes] | None:
    """The first value after any place, else the first of all: a record has 16,000, too many to find each time."""
    return A_VALUE.search(text, rng.randrange(len(text) + 1)) or A_VALUE.search(text)


def _packed_again(data: bytes, change: Change) -> bytes:
    """A trace file whose header, JSON, is changed, and whose checksum is right."""
    magic, version, flags, _, _ = ENVELOPE.unpack(data[: ENVELOPE.size])
    content = zlib.decompress(data[ENVELOPE.size :])
    length = 4 + struct.unpack("<I", content[:4])[0]
    header = change(content[4:length])
    header += b" " * (-(4 + len(header)) % 8)
    payload = zlib.compress(struct.pack("<I", len(header)) + header + content[length:], 1)
    return ENVELOPE.pack(magic, version, flags, len(payload), hashlib.sha256(payload).digest()) + payload


def _record_with_its_digest(data: bytes, change: Change) -> bytes:
    """A record of a GPU that is changed, and whose digest is right, if it is still a table."""
    changed = change(data)
    with suppress(ValueError, RecursionError):
        if isinstance(content := json.loads(changed), dict):
            rest = {name: value for name, value in content.items() if name not in ("format", "version", "digest")}
            return json.dumps({**content, "digest": _digest(rest)}).encode()
    return changed


def _trace(data: bytes) -> None:
    view_of(TraceFile(data, most=LARGEST_INFLATED).trace, "recorded")


def _tour(data: bytes) -> None:
    tour = tours.parse(data.decode(errors="replace"), "tour.toml")
    tours.resolved(tour, [engine().trace(experiment).trace for experiment in tour.runs])


def _answer(data: bytes) -> None:
    answer_of(data.decode(errors="replace"), "answer.py")


def _report(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        path.write_bytes(data)
        for name, done in report.read(path).items():
            report.answer_in(done, name)


def _answers() -> tuple[bytes, ...]:
    return tuple("\n\n\n".join([one.head(), *one.solution().values()]).encode() for one in puzzles().values())


def _reports() -> tuple[bytes, ...]:
    answers = (answer.decode() for answer in _answers())
    done = {name: Done(2, 1, "2026-01-01", answer) for name, answer in zip(puzzles(), answers, strict=True)}
    return (report.text_of(Progress(done)).encode(),)


def _all(pattern: str, most: int = 20_000) -> tuple[bytes, ...]:
    """The app's own files of this name that are not larger than `most` bytes."""
    return tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)) if path.stat().st_size <= most)


READERS = {
    "trace file": Reader(
        _all("explain/recordings/*.tilescope", 60_000), _trace, (TraceFileError, ParameterError), _packed_again
    ),
    "tour file": Reader(_all("explain/chapters/*/tours/*.toml"), _tour, (tours.TourError, WorkerError)),
    "record of a GPU": Reader(
        _all("explain/recordings/h200.json", 10**7), registry.uploaded, (RecordFileError,), _record_with_its_digest
    ),
    "answer": Reader(_answers(), _answer, (AnswerError,)),
    "report": Reader(_reports(), _report, (AnswerError,)),
}
