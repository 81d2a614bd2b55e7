"""A launch's instructions and their lines in the kernel: PTX, Triton's output, and SASS, which the GPU runs.

PTX names its lines in `.loc`, and the calls between them in a comment. SASS's line table names only the innermost line.
If that line is in a function the kernel calls, PTX gives the kernel's line; all of them, if it is called from several.
Standard library only.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from explain import data
from explain.kept import kept

_DATA = data(__file__)
FILLS: Mapping[str, str] = _DATA["fills"]
"""The colour of each kind, in CSS."""
KINDS = tuple(FILLS)
"""What an instruction does. A label does nothing."""
LABEL = "label"
_OTHER = "integers, addresses"
_NEVER = "never runs (@!PT)"
_FRAME = re.compile(r"([^\s\[\]@/]+):(\d+):\d+")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+[^/]*(//.*)?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]+)"')
_SASS_LINE = re.compile(r'//## File "([^"]+)", line (\d+)')
_BRANCH = re.compile(r"BRA\b.*?(\.L_\w+)")
_SASS_CODE = re.compile(r"/\*[0-9a-f]+\*/\s+(.+?)\s*;")


@dataclass(frozen=True)
class Instruction:
    """One instruction, its kind, and the kernel's lines it may come from: usually one, none if unknown."""

    text: str
    kind: str
    lines: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Listing:
    """One kernel: its source from `first_line` of its file, its PTX and SASS; `error` says why there is no SASS.

    It equals only itself: thousands of instructions are not compared to find what was computed from them.
    """

    kernel: str
    first_line: int
    source: str
    ptx: tuple[Instruction, ...]
    sass: tuple[Instruction, ...]
    error: str = ""

    @classmethod
    def of(cls, kernel: str, file: str, first_line: int, source: str, ptx: str, sass: str, error: str = "") -> Listing:
        """Parses the compiler's texts; `file` is the kernel's source file."""
        name = PurePath(file).name
        own = range(first_line, first_line + len(source.splitlines()))
        called: dict[tuple[str, int], set[int]] = {}
        instructions = tuple(_ptx(ptx, own, called))
        return cls(kernel, first_line, source, instructions, _ran(tuple(_sass(sass, name, own, called))), error)

    def codes(self) -> dict[str, tuple[Instruction, ...]]:
        """What there is to read, by name."""
        return {name: code for name, code in (("SASS", self.sass), ("PTX", self.ptx)) if code}


def packed(listings: Sequence[Listing]) -> bytes:
    """The listings as a small file."""
    text = json.dumps([{**one.__dict__, "ptx": rows(one.ptx), "sass": rows(one.sass)} for one in listings])
    return gzip.compress(text.encode(), mtime=0)


def unpacked(data: bytes) -> tuple[Listing, ...]:
    """The listings in a file's bytes. Raises OSError, EOFError, ValueError, KeyError or TypeError for others."""
    return tuple(
        Listing(**{**one, "ptx": _instructions(one["ptx"]), "sass": _instructions(one["sass"])})
        for one in json.loads(gzip.decompress(data))
    )


def counts(code: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions of each kind there are, in the order of KINDS, without labels."""
    found = [one.kind for one in code]
    return {kind: found.count(kind) for kind in KINDS if kind != LABEL and kind in found}


@dataclass(frozen=True)
class Spills:
    """How many instructions store a spilled register and load one: those in a loop, and all of them."""

    stores_in_loop: int
    stores: int
    loads_in_loop: int
    loads: int


@kept
def spills(listing: Listing) -> Spills:
    """How many SASS instructions store and load spilled registers."""
    inside, every = ([one.text for one in code if one.kind == "spill"] for code in (in_loops(listing), listing.sass))
    (stored, loaded), (stores, loads) = (
        (sum("STL" in text for text in texts), sum("LDL" in text for text in texts)) for texts in (inside, every)
    )
    return Spills(stored, stores, loaded, loads)


@kept
def loops(listing: Listing) -> list[tuple[Instruction, ...]]:
    """The loops of SASS that are in no other loop, in order: each from a label to the last branch back to it."""
    code = listing.sass
    labels = {one.text.rstrip(":"): at for at, one in enumerate(code) if one.kind == LABEL}
    back = ((labels.get(target[1], at), at) for at, one in enumerate(code) if (target := _BRANCH.search(one.text)))
    spans: list[tuple[int, int]] = []
    for begin, end in sorted((one for one in back if one[0] < one[1]), key=lambda one: (one[0], -one[1])):
        if not spans or begin > spans[-1][1]:
            spans.append((begin, end))
    return [tuple(one for one in code[begin : end + 1] if one.kind != LABEL) for begin, end in spans]


@kept
def in_loops(listing: Listing) -> tuple[Instruction, ...]:
    """The SASS instructions in any loop."""
    return tuple(one for body in loops(listing) for one in body)


def _ptx(text: str, own: range, called: dict[tuple[str, int], set[int]]) -> Iterator[Instruction]:
    """The instructions of a PTX module's kernel. Adds to `called` the kernel's lines that call each outside line."""
    files = {int(number): PurePath(path).name for number, path in _FILE.findall(text)}
    lines: tuple[int, ...] = ()
    for raw in text[text.find("\n{") : text.rfind("\n}")].splitlines():
        if location := _LOC.match(raw.strip()):
            frames = _FRAME.findall(location[3] or "") or [(files.get(int(location[1]), ""), location[2])]
            line = int(frames[-1][1])
            lines = (line,) if line in own else ()
            inner = (frames[0][0], int(frames[0][1]))
            called.setdefault(inner, set()).update(lines)
            continue
        line_text = " ".join(re.sub(r"//.*", "", raw).split())
        if re.fullmatch(r"\$L__(tmp|func)\w*:", line_text):  # a label for the debugger
            continue
        if line_text.endswith(":"):
            yield Instruction(line_text, LABEL, ())
        elif line_text.endswith(";") and not line_text.startswith("."):
            code = line_text.strip("{} ").rstrip("; ")
            yield Instruction(code, _kind(code, _DATA["ptx"]), lines)


def _sass(text: str, name: str, own: range, called: Mapping[tuple[str, int], set[int]]) -> Iterator[Instruction]:
    """The instructions in nvdisasm's output with line numbers."""
    lines: tuple[int, ...] = ()
    for raw in text.splitlines():
        if location := _SASS_LINE.search(raw):
            file, line = PurePath(location[1]).name, int(location[2])
            at_home = file == name and line in own
            lines = (line,) if at_home else tuple(sorted(called.get((file, line), ())))
        elif found := _SASS_CODE.search(raw):
            yield Instruction(found[1], _kind(found[1], _DATA["sass"]), lines)
        elif raw.startswith(".L_"):
            yield Instruction(raw.strip(), LABEL, ())


def _ran(code: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """The instructions of SASS without what ptxas adds behind the last one: a branch to itself, and NOPs. They never
    run.
    """
    end = len(code)
    while end and (code[end - 1].kind == LABEL or code[end - 1].text == "NOP"):
        end -= 1
    if end > 1 and (target := _BRANCH.search(code[end - 1].text)) and code[end - 2].text == f"{target[1]}:":
        return code[: end - 2]
    return code[:end]


def _kind(code: str, patterns: Mapping[str, str]) -> str:
    if code.startswith("@!PT "):  # PT is always true: ptxas writes such loads among Hopper's matmuls
        return _NEVER
    mnemonic = re.sub(r"^@!?\S+\s+", "", code)
    return next((kind for kind, pattern in patterns.items() if re.match(pattern, mnemonic)), _OTHER)


def rows(code: Sequence[Instruction]) -> list[list[Any]]:
    """The instructions as JSON: [text, number of its kind, line, …]."""
    return [[one.text, KINDS.index(one.kind), *one.lines] for one in code]


def _instructions(rows: Sequence[Sequence[Any]]) -> tuple[Instruction, ...]:
    return tuple(Instruction(text, KINDS[kind], tuple(lines)) for text, kind, *lines in rows)
