"""Pictures of Your first Triton kernel: both sources side by side, the vector in tiles, the lanes of one program."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explain import glossary
from explain.chapters.first_kernel.programs import Program
from explain.experiment import Experiment
from explain.figures.labels import text_width
from explain.figures.numbers import count, duration, number
from explain.figures.palette import css
from explain.figures.svg import button, picture, rect, text
from explain.gpus import Gpu
from explain.kept import kept
from explain.source.functions import function_source

MODULE = "kernels.vector"
CELL = 46.0
LEFT = 100.0
CHOSEN = "series-1"
"""The hue of the chosen program's elements."""


@dataclass(frozen=True)
class Part:
    """One thing that both programs do: its word, and how its line begins in PyTorch and in Triton."""

    word: str
    loop: str
    kernel: str


PARTS = (
    Part("program", "for program in", "program ="),
    Part("tile", "offsets =", "offsets ="),
    Part("mask", "mask =", "mask ="),
    Part("load", "a_tile =", "a ="),
    Part("load", "b_tile =", "b ="),
    Part("add", "c_tile =", "c ="),
    Part("store", "c[", "tl.store"),
)


@kept
def side_by_side() -> str:
    """The lines of the PyTorch loop and of the Triton kernel that do the same, as HTML: a table with both, and for a
    phone one listing below the other.

    A term has its definition where it stands first. Raises ValueError for a line of PARTS that is not in its source.
    """
    loop, kernel = (function_source(MODULE, name) for name in ("vector_add_in_pytorch", "vector_add_kernel"))
    body = PARTS[0].loop
    columns = (
        ("PyTorch: one tile after another", [(_line(loop, part.loop), part.loop != body) for part in PARTS]),
        ("Triton: many at once", [(_line(kernel, part.kernel), False) for part in PARTS]),
    )
    listings = "".join(_table([column]) for column in columns)
    return f'<div class="wide">{_table(columns)}</div><div class="narrow">{listings}</div>'


def _table(columns: Sequence[tuple[str, Sequence[tuple[str, bool]]]]) -> str:
    """A table with the word of each part and a column of code for each (title, lines)."""
    said: set[str] = set()
    headings = "".join(f"<th>{words}</th>" for words in ("", *(title for title, _ in columns)))
    rows = "".join(
        f"<tr><th>{part.word}</th>{''.join(_code(*lines[at], said) for _, lines in columns)}</tr>"
        for at, part in enumerate(PARTS)
    )
    return f'<table class="sources"><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>'


_TERMS = re.compile(r"(?:tl|triton)[.][a-z_]+|offsets|BLOCK_N")


def _code(line: str, in_loop: bool, said: set[str]) -> str:
    """A line, indented if it is `in_loop`; `said` are the terms before it, and gets those of this line."""

    def named(found: re.Match[str]) -> str:
        term = None if found[0] in said else glossary.find(found[0])
        said.add(found[0])
        return glossary.dotted(found[0], term) if term else found[0]

    return f"<td{' class=in-loop' * in_loop}><code>{_TERMS.sub(named, html.escape(line, quote=False))}</code></td>"


def launch_line() -> str:
    """The line of the wrapper that launches the kernel."""
    return _line(function_source(MODULE, "vector_add"), "vector_add_kernel[")


def _line(source: str, begins: str) -> str:
    found = [one.strip() for one in source.splitlines() if one.strip().startswith(begins)]
    if not found:
        raise ValueError(f"no line begins with {begins!r} in:\n{source}")
    return found[0]


def time_of(experiment: Experiment, gpu: Gpu) -> str:
    """What sets the time of a run of this size on the GPU, and of one with long vectors, as Markdown."""
    one_load = gpu.latencies.get("hbm")
    wait = f", but one load waits {duration(one_load.seconds)}" if one_load and one_load.seconds else ""
    return (
        "**For long vectors the time of this kernel is the time of its loads and stores.** "
        f"{count(experiment.values['n'])} elements are too few for that: HBM moves them in "
        f"{duration(_hbm_seconds(experiment, gpu))}{wait}."
    )


def _hbm_seconds(experiment: Experiment, gpu: Gpu) -> float:
    """How long HBM takes for the run's bytes at its full bandwidth."""
    work = experiment.traffic
    return (work.read_bytes + work.written_bytes) / gpu.hbm_bytes_per_second


@kept
def idle(experiment: Experiment, gpu: Gpu, *, narrow: bool = False) -> str:
    """The additions of a run, and the operations that the GPU could do while HBM moves the run's bytes, as bars."""
    done, could = experiment.traffic.flops, float(f"{_hbm_seconds(experiment, gpu) * gpu.fp32_flops_per_second:.2g}")
    rows = (
        ("the additions of this run", done, number(done)),
        (f"operations that an {gpu.name} could do meanwhile", could, f"about {number(could)}"),
    )
    wide, high = (360.0, 30.0) if narrow else (620.0, 34.0)
    room = wide - 16 - max(text_width(told, bold=True) for *_, told in rows)
    parts = []
    for i, (name, value, told) in enumerate(rows):
        y, long = 66.0 * i, room * value / max(done, could)
        parts += [
            text(0, y + 16, name, faint=True),
            rect(0, y + 24, long, high, css(CHOSEN if not i else "slate"), title=f"{name}: {told}"),
            text(long + 8, y + 24 + high / 2 + 5, told, bold=True),
        ]
    return picture(wide, 66.0 + 24 + high + 4, "What the GPU could compute while HBM moves the bytes", parts, "46rem")


@kept
def tiles(programs: Sequence[Program], chosen: int) -> str:
    """Programs × lanes: a row for each program, a cell for each lane; lanes that the mask turns off are dashed.

    A cell has the number of its element. Each row can be pressed.
    """
    lanes, parts = len(programs[0].offsets), []
    for program in programs:
        y, hue = 4 + 44.0 * program.number, css(CHOSEN if program.number == chosen else "slate")
        off = lanes - program.working
        cells = [text(8, y + 24, f"program {program.number}", bold=program.number == chosen)]
        for lane, (offset, on) in enumerate(zip(program.offsets, program.mask, strict=True)):
            x = LEFT + lane * CELL
            cells.append(_cell(x, y, 36, hue if on else "none", f"element {offset}" if on else "off", on=bool(on)))
            cells.append(text(x + CELL / 2, y + 24, f"{offset}", anchor="middle", faint=not on))
        said = f"program {program.number}: elements {program.offsets[0]} to {program.offsets[program.working - 1]}"
        said += f", {off} lanes off" if off else ""
        width = LEFT + lanes * CELL + 4
        parts.append(button(str(program.number), said, 0, y - 3, width, 42, cells, chosen=program.number == chosen))
    height = 4 + 44.0 * len(programs) + 24
    parts.append(text(LEFT, height - 6, "the numbers of the elements; dashed: past the end", faint=True))
    return picture(LEFT + lanes * CELL + 8, height, f"{len(programs)} programs of {lanes} lanes", parts, "46rem")


@kept
def offsets(program: Program, *, narrow: bool = False) -> str:
    """How a program finds its elements: program × BLOCK_N + lane = offsets. `narrow` fits a phone."""
    lanes = len(program.offsets)
    rows = (
        ("program × BLOCK_N", [f"{program.number} × {lanes}"] * lanes, "slate"),
        ("+ arange(0, BLOCK_N)", [str(lane) for lane in range(lanes)], "slate"),
        ("= offsets", [str(offset) for offset in program.offsets], CHOSEN),
    )
    return _rows(rows, np.ones(lanes, bool), f"The offsets of program {program.number}", narrow)


@kept
def pointers(program: Program, item_bytes: int, *, narrow: bool = False) -> str:
    """Where a program's elements of a are: the pointer, plus the offsets; in bytes, and what is there. `narrow` fits a
    phone.
    """
    rows = (
        ("offsets", [str(offset) for offset in program.offsets], CHOSEN),
        ("a_ptr + offsets, in bytes", [f"+{offset * item_bytes}" for offset in program.offsets], "slate"),
        ("a", _values(program.a, program.mask), "hbm"),
    )
    return _rows(rows, program.mask, f"The addresses from which program {program.number} loads a", narrow)


@kept
def masked(program: Program, n: int, *, narrow: bool = False) -> str:
    """The mask of a program, and what it adds and stores. `narrow` fits a phone."""
    rows = (
        ("offsets", [str(offset) for offset in program.offsets], CHOSEN),
        (f"mask = offsets < {n}", ["on" if on else "off" for on in program.mask], "slate"),
        ("a, loaded", _values(program.a), "hbm"),
        ("b, loaded", _values(program.b), "hbm"),
        ("c, stored", _values(program.c, program.mask), "acc"),
    )
    label = f"The lanes of program {program.number}: which are on, and what they store"
    return _rows(rows, program.mask, label, narrow)


def _values(tile: np.ndarray, mask: np.ndarray | None = None) -> list[str]:
    """The numbers of a tile; with a mask, none in a lane that is off."""
    mask = np.ones(len(tile), bool) if mask is None else mask
    return [number(float(value)) if on else "" for value, on in zip(tile, mask, strict=True)]


def _rows(rows: Sequence[tuple[str, Sequence[str], str]], mask: np.ndarray, label: str, narrow: bool) -> str:
    """Rows of one cell per lane, each with its name and hue; a lane that is off is dashed. The name stands beside its
    row, above it in a `narrow` picture.
    """
    left, pitch, parts = (0.0, 66.0, []) if narrow else (170.0, 42.0, [])
    for at, (name, cells, hue) in enumerate(rows):
        y = 4 + pitch * at
        if narrow:
            parts.append(text(0, y + 14, name, bold=True))
            y += 22
        else:
            parts.append(text(left - 12, y + 23, name, anchor="end", bold=True))
        for lane, (words, on) in enumerate(zip(cells, mask, strict=True)):
            x = left + lane * CELL
            parts.append(_cell(x, y, 34, css(hue) if on else "none", words, on=bool(on)))
            parts.append(text(x + CELL / 2, y + 23, words, anchor="middle", faint=not on, size=13))
    return picture(left + len(mask) * CELL + 4, 4 + pitch * len(rows), label, parts, "48rem")


def _cell(x: float, y: float, high: float, fill: str, title: str, *, on: bool, wide: float = CELL) -> str:
    return rect(
        x + 1, y, wide - 2, high, fill, opacity=0.32, stroke=fill if on else "currentColor", dashed=not on, title=title
    )
