"""A question to the hall and its answers, on disk: whoever reads the file, another process too, sees the same.

One file holds one question: a line for it, a line for each answer, and one when it is revealed or closed. Lines are
only ever added, each in one write, so several processes may add at once. The next question is a new file, put in the
old one's place.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from explain.exercises import typed_number
from explain.figures.numbers import number
from explain.lecture import KEPT_S
from explain.plain import made, plain

KINDS = ("number", "choice", "cell")
MOST_WORDS = 300
"""Characters of a question."""
OPTIONS, MOST_OPTION = range(2, 9), 80
"""How many options a choice may have, and the characters of one."""
MOST_SIDE = 128
"""Rows, and columns, of a map."""
MOST_TYPED = 32
"""Characters of a number."""
LARGEST = 3.5e38
"""The largest float32."""
MOST_PHONES = 2000
MOST_CHANGES = 20
"""How often one phone may change its answer to one question."""
DIGITS = 4
"""Significant digits of a bar's numbers."""
MOST_BARS = 12
"""Different numbers with a bar of their own; more are counted in bins."""
COARSE = 0.05
"""The largest relative error of a number that is right to its digits, as in explain/player/watch.js."""

Value = str | int | tuple[int, int]
"""A number as it was typed, the place of an option, or a cell's row and column."""


class RefusedError(ValueError):
    """What was sent cannot be taken; the message says why, `status` is HTTP's."""

    def __init__(self, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class Question:
    """What is asked, without the answer. `options` has a choice's, `shape` the rows and columns of a map, `axes` their
    names, such as ("queries", "keys").
    """

    id: str
    kind: str
    words: str
    options: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: object) -> Question:
        """A new question from what a lecturer's player sends. Raises RefusedError."""
        if not isinstance(data, Mapping):
            raise RefusedError("A question is an object with kind and words.")
        kind, words = data.get("kind"), data.get("words")
        if kind not in KINDS:
            raise RefusedError(f"kind={_short(kind)}: must be one of {', '.join(KINDS)}.")
        if not _is_text(words, MOST_WORDS):
            raise RefusedError(f"words: must be a text of 1 to {MOST_WORDS} characters.")
        options, shape, axes = (data.get(name) or [] for name in ("options", "shape", "axes"))
        if not isinstance(options, list) or not all(_is_text(one, MOST_OPTION) for one in options):
            raise RefusedError(f"options: must be texts of 1 to {MOST_OPTION} characters.")
        if (len(set(options)) if kind == "choice" else 2) not in OPTIONS or len(set(options)) != len(options):
            raise RefusedError(f"options: a choice has {OPTIONS[0]} to {OPTIONS[-1]} different ones.")
        if not isinstance(shape, list) or (kind == "cell" and len(shape) != 2):
            raise RefusedError("shape: a map has rows and columns.")
        if not all(_is_whole(side, MOST_SIDE + 1) and side > 0 for side in shape):
            raise RefusedError(f"shape={_short(shape)}: each side must be 1 to {MOST_SIDE}.")
        if not isinstance(axes, list) or len(axes) > 2 or not all(_is_text(one, MOST_OPTION) for one in axes):
            raise RefusedError("axes: must be the names of rows and columns.")
        own = {"choice": {"options": tuple(options)}, "cell": {"shape": tuple(shape), "axes": tuple(axes)}}
        return cls(secrets.token_hex(8), str(kind), str(words).strip(), **own.get(str(kind), {}))

    def value(self, given: object) -> Value:
        """An answer that this question can have. Raises RefusedError, in words for who gave it."""
        match self.kind:
            case "number":
                if not _is_text(given, MOST_TYPED):
                    raise RefusedError(f"Type a number of at most {MOST_TYPED} characters.")
                text = str(given).strip()
                _read(text)
                return text
            case "choice":
                if not _is_whole(given, len(self.options)):
                    raise RefusedError("Choose one of the options.")
                return given  # type: ignore[return-value]
            case _:
                if not _is_cell(given, self.shape):
                    raise RefusedError(f"Choose a cell of the map: {self.shape[0]} rows, {self.shape[1]} columns.")
                return tuple(given)  # type: ignore[arg-type, return-value]

    def right(self, given: object) -> Any:
        """The right answer, as a reveal sends it: a number's text, an option's place, or cells. Raises RefusedError."""
        if self.kind != "cell":
            return self.value(given)
        rows, columns = self.shape
        if not isinstance(given, list) or not 0 < len(given) <= rows * columns:
            raise RefusedError("The right cells are a list of one or more.")
        return tuple(dict.fromkeys(self.value(cell) for cell in given))


class Poll:
    """The hall's one question, in `folder`. Not safe from several threads; from several processes it is."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "question"
        self._file: FileIO | None = None
        self._forget()

    def _forget(self) -> None:
        if self._file:
            self._file.close()
        self._file, self._at = None, 0
        self.question: Question | None = None
        self.answer: Any = None
        """The right one, once it is revealed."""
        self.closed = False
        self.answers: dict[str, Value] = {}
        """By phone, in the order of their first answers."""
        self.lines = 0
        """How many have been read."""
        self._changes: Counter[str] = Counter()

    @property
    def open(self) -> bool:
        """Whether answers are taken."""
        return self.question is not None and not self.closed and self.answer is None

    @property
    def stage(self) -> tuple[str, bool, bool]:
        """What phones wait for: another question, its end, its answer."""
        return (self.question.id if self.question else "", self.closed, self.answer is not None)

    def read(self) -> bool:
        """Takes in what was written since; whether that was anything."""
        before = self.stage
        try:
            status = self._path.stat()
            if time.time() - status.st_mtime > KEPT_S:
                raise FileNotFoundError
            if self._file is None or not os.path.samestat(status, os.fstat(self._file.fileno())):
                self._forget()
                self._file = _opened(self._path)
        except OSError:
            self._forget()
            return self.stage != before
        self._file.seek(self._at)
        whole = self._file.read().rpartition(b"\n")[0]  # the last line may still be being written
        self._at += len(whole) + (1 if whole else 0)
        for line in whole.split(b"\n"):
            self._take(line)
        return bool(whole) or self.stage != before

    def _take(self, line: bytes) -> None:
        """One line of the file. What cannot be read is left out: of a write that was cut off, or of an older app."""
        self.lines += 1
        try:
            said = json.loads(line)
            if "question" in said:
                self.question = made(Question, said["question"])
            elif not self.open or self.question is None:
                return
            elif "by" in said:
                self.answers[said["by"]] = self.question.value(said["value"])
                self._changes[said["by"]] += 1
            elif "right" in said:
                self.answer = self.question.right(said["right"])
            elif "closed" in said:
                self.closed = True
        except (ValueError, TypeError, KeyError):
            return

    def put(self, question: Question) -> None:
        """Opens a question; the one before is gone. The same one that is still open stays, with its answers: so a
        lecturer who has loaded the page again asks on. Raises OSError.
        """
        self.read()
        if self.open and self.question and replace(question, id=self.question.id) == self.question:
            return
        self._forget()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f"question.{os.getpid()}")
        beside.write_bytes(_line(question=plain(question)))
        beside.chmod(0o600)
        beside.replace(self._path)
        self.read()

    def take(self, id: str, phone: str, given: object) -> Value:
        """Counts a phone's answer to the question with this id; returns it as it counts. Raises RefusedError."""
        question = self._asked(id)
        value, who = question.value(given), _name(phone)
        if self.answers.get(who) == value:
            return value
        if who not in self.answers and len(self.answers) >= MOST_PHONES:
            raise RefusedError(f"{MOST_PHONES} phones have answered: no more are counted.", 429)
        if self._changes[who] > MOST_CHANGES:
            raise RefusedError("You have changed your answer often enough; the last one counts.", 429)
        self._add(by=who, value=value)
        if self.answers.get(who) != value:  # revealed by another process meanwhile
            raise RefusedError("This question is closed.", 409)
        return value

    def reveal(self, id: str, right: object) -> None:
        """Ends the question with this id, and says what is right. Raises RefusedError."""
        self._add(right=self._asked(id).right(right))

    def close(self, id: str) -> None:
        """Ends the question with this id without an answer. Raises RefusedError."""
        self._asked(id)
        self._add(closed=True)

    def mine(self, phone: str) -> Value | None:
        """The answer of a phone."""
        return self.answers.get(_name(phone))

    def is_right(self, phone: str) -> bool:
        """Whether a phone's answer is right; False while that is not known."""
        mine = self.mine(phone)
        if self.question is None or self.answer is None or mine is None:
            return False
        return _is_right(self.question, mine, self.answer)

    def _asked(self, id: str) -> Question:
        self.read()
        if self.question is None or self.question.id != id or not self.open:
            raise RefusedError("This question is closed.", 409)
        return self.question

    def _add(self, **said: object) -> None:
        assert self._file is not None
        self._file.write(_line(**said))
        self.read()

    def tally(self) -> dict[str, Any]:
        """How many have answered what, as JSON: "count"; "bars" of a number or a choice, in order, each with "label",
        "count", "right" (its right answers) and "holds" (it has the right answer), or "cells" of a map: [row, column,
        count]. Once it is revealed also "right", how many are right, and "answer", in words; of a map "rightCells".
        """
        if self.question is None:
            return {"count": 0, "bars": []}
        given, answer = list(self.answers.values()), self.answer
        right = [answer is not None and _is_right(self.question, one, answer) for one in given]
        out: dict[str, Any] = {"count": len(given)}
        if self.question.kind == "cell":
            out["cells"] = [[*cell, count] for cell, count in sorted(Counter(given).items())]  # type: ignore[misc]
        elif self.question.kind == "choice":
            counts = Counter(given)
            out["bars"] = [
                {"label": label, "count": counts[i], "right": counts[i] * (i == answer), "holds": i == answer}
                for i, label in enumerate(self.question.options)
            ]
        else:
            values = [_read(str(one))[0] for one in given]
            out["bars"] = bars(list(zip(values, right, strict=True)), None if answer is None else _read(answer)[0])
        if answer is not None:
            out |= {"right": sum(right), **_told(self.question, answer)}
        return out


def _told(question: Question, answer: Any) -> dict[str, Any]:
    match question.kind:
        case "number":
            return {"answer": number(_read(answer)[0], 4)}
        case "choice":
            return {"answer": question.options[answer]}
        case _:
            names = question.axes if len(question.axes) == 2 else ("row", "column")
            first = ", ".join(f"{name} {at}" for name, at in zip(names, answer[0], strict=True))
            more = f", or one of {len(answer) - 1} more" if len(answer) > 1 else ""
            return {"answer": f"{first}{more}", "rightCells": [list(cell) for cell in answer]}


def bars(given: Sequence[tuple[float, bool]], answer: float | None) -> list[dict[str, Any]]:
    """A histogram of numbers, each with whether it is right: equal ones on one bar, many different ones in bins."""
    finite = sorted(value for value, _ in given if math.isfinite(value))
    several = len({number(value, DIGITS) for value in finite}) > MOST_BARS
    edges = _edges(finite) if several else []
    if edges:
        inner = [f"{number(low, DIGITS)} to {number(high, DIGITS)}" for low, high in pairwise(edges)]
        names = [f"below {number(edges[0], DIGITS)}", *inner, f"{number(edges[-1], DIGITS)} or more"]
    else:
        inner = []
        shown = finite if answer is None else [*finite, answer]
        names = [number(value, DIGITS) for value in sorted(filter(math.isfinite, shown))]

    def name(value: float) -> str:
        alone = not edges or not math.isfinite(value)
        return number(value, DIGITS) if alone else names[bisect_right(edges, value)]

    order = dict.fromkeys([number(-math.inf), *names, number(math.inf), number(math.nan)])
    counts = Counter(name(value) for value, _ in given)
    right = Counter(name(value) for value, is_right in given if is_right)
    holds = None if answer is None else name(answer)
    return [
        {"label": label, "count": counts[label], "right": right[label], "holds": label == holds}
        for label in order
        if counts[label] or label == holds or label in inner
    ]


def _edges(ordered: Sequence[float]) -> list[float]:
    """Where bins end, at round numbers around most of the ordered values: what is far off does not stretch them."""
    low, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.05, 0.95))
    width = _round_up((high - low) / 8 or abs(low) / 10 or 1.0)
    first, last = math.floor(low / width), math.floor(high / width) + 1
    return [place * width for place in range(first, last + 1)]


def _round_up(width: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    width = max(width, 1e-300)
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))


def _read(text: str) -> tuple[float, float]:
    """A typed number and half a unit of its last digit; a comma is a point, as in the player. Raises RefusedError."""
    try:
        value, half = typed_number(text.replace(",", "."))
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if abs(value) > LARGEST and half:  # ∞ itself is an answer, and has no digits
        raise RefusedError("That is larger than any number of the run. Type ∞ for infinity.")
    return value, half


def _is_right(question: Question, given: Value, answer: Any) -> bool:
    """Whether an answer counts as right; a number as the player judges it: to its digits, if these are not too few."""
    if question.kind != "number":
        return given in answer if question.kind == "cell" else given == answer
    (value, half), (right, _) = _read(str(given)), _read(answer)
    if value == right or (math.isnan(value) and math.isnan(right)):
        return True
    off = abs(value - right)
    return math.isfinite(off) and off <= min(half * (1 + 1e-6), COARSE * abs(right))


def _name(phone: str) -> str:
    """A phone's name in the file; its cookie cannot be found from it."""
    return hashlib.sha256(phone.encode()).hexdigest()[:16]


def _line(**said: object) -> bytes:
    """Begun on a new line, whatever a write that was cut off has left."""
    return b"\n" + json.dumps(said, separators=(",", ":")).encode() + b"\n"


def _opened(path: Path) -> FileIO:
    """To read, and to add lines at its end whoever else does; a file that is gone is not made again. Raises OSError."""
    return FileIO(os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)), "r+")


def _is_text(value: object, most: int) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= most and value.isprintable()


def _is_whole(value: object, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def _is_cell(value: object, shape: Sequence[int]) -> bool:
    """Whether this is a row and a column of the map."""
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and all(_is_whole(at, side) for at, side in zip(value, shape, strict=True))  # type: ignore[call-overload]


def _short(value: object) -> str:
    return repr(value)[:40]
