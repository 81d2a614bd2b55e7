"""What the page of puzzles shows: the path, the equations, what one program touches, and a judgement in words."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path

from explain.difference.compare import Difference
from explain.experiment import Experiment
from explain.figures import svg, tables
from explain.figures.labels import listed, text_width
from explain.figures.numbers import count, number
from explain.figures.palette import css
from explain.kept import kept
from explain.puzzles.command import never_stored, values
from explain.puzzles.judge import Judgement
from explain.puzzles.predictions import DIGITS, SIZES, Prediction
from explain.puzzles.puzzles import Puzzle, ladder, nothing_to_fix
from explain.trace.model import Buffer, Launch, Scalar, Trace

PATH = Path(__file__).with_name("path.css").read_text(encoding="utf-8")
TRAFFIC = ("bytes read", "bytes written", "FLOPs of whole tiles")
BITING = {
    "large_magnitude": "numbers of ±10,000", "everything_masked": "all −∞", "far_below_zero": "all near −5,000,000",
    "one_hot": "one number far above the rest",
}  # fmt: skip
"""The inputs that break most kernels, as a reader says them."""
FILL = css("hbm")
KIND, WIDE, LARGEST_CELL, HIGHEST, THINNEST = 52.0, 360.0, 14.0, 96.0, 10.0
"""Of the picture: the width of the word "writes" and of the buffers, the largest cell, the greatest and the least
height of a buffer."""
HEAD, BELOW, APART = 38.0, 14.0, 18.0


def path(here: str, solved: Collection[str], kept: str) -> str:
    """The puzzles in their order and groups as HTML for `pressable`: those solved ticked, the present one marked.

    `kept` says where the ticks are kept, as in "kept on this computer". On a narrow screen the list is folded.
    """
    grouped = [(group, [*ones]) for group, ones in itertools.groupby(ladder().values(), key=lambda one: one.group)]
    groups = "".join(
        f"<h2>{group}</h2>{_left_out(ones)}<ol>{''.join(_stop(one.name, one, here, solved) for one in ones)}</ol>"
        for group, ones in grouped
    )
    at = f"{position(here)} of {len(ladder())}"
    done = f"{len(solved)} of {len(ladder())} solved, {kept}"
    listed = f'<nav aria-label="Puzzles">{groups}</nav>'
    folded = f"<summary><b>Puzzle {at}</b>: {escape(ladder()[here].title)}<small>{done}</small></summary>"
    return (
        f'<style>{PATH}</style><div class="wide"><p>{done}</p>{listed}</div>'
        f'<div class="narrow"><details>{folded}{listed}</details></div>'
    )


def _left_out(ones: Sequence[Puzzle | Prediction]) -> str:
    """Above the bugs: which number is left out, and why."""
    bugs = any(isinstance(one, Puzzle) and one.exhibit for one in ones)
    return "".join(f"<p>{escape(said)}</p>" for said in nothing_to_fix()) if bugs else ""


def position(name: str) -> int:
    """A puzzle's number on the path, from 1."""
    return [*ladder()].index(name) + 1


def _stop(name: str, one: Puzzle | Prediction, here: str, solved: Collection[str]) -> str:
    state = ("solved" if name in solved else "") + (" here" if name == here else "")
    current = ' aria-current="step"' if name == here else ""
    tick = "<i>✓</i>" if name in solved else "<i></i>"
    said = f"{one.title}{', solved' if name in solved else ''}"
    return (
        f'<li class="{state}"><button data-press="{name}" aria-label="{escape(said)}" title="{escape(one.title)}"'
        f"{current}>{tick}{escape(one.label or one.title)}</button></li>"
    )


def headline(found: Judgement) -> str:
    """The judgement in one sentence."""
    if found.right:
        return f"**Right.** All {found.cases} cases are within their tolerance."
    if found.too_many_bytes:
        return found.message
    at = f"**Line {found.line}:** " if found.line else "**Not yet.** "
    return f"{at}{tables.plain(found.message)}"


def case(found: Judgement) -> str:
    """A sentence about the first case that fails; empty if none does."""
    one = found.failing
    if one is None or found.too_many_bytes:
        return ""
    before = f", after {found.passed} that pass" if found.passed else ""
    holds = one.preset.help.partition(":")[0]
    return f"First case that fails{before}: {_sizes(one)}. Inputs: {holds[0].lower()}{holds[1:]} (*{one.inputs}*)."


_OFTEN_ONE = ("batch", "heads", "kv_heads")


def difference(found: Difference) -> str:
    """The first difference from our kernel as Markdown: the reader's line, both values, the likely cause.

    It does not show our own line: that would be the solution.
    """
    lacking = [f"{said}\n" for said in never_stored(found)]
    line = f"**First difference**, line {found.wrong.line}, `{found.wrong.code.strip()}`:"
    cause = f"\n\n**Likely cause**: {found.cause}." if found.cause else ""
    return "\n".join([*lacking, line, values(found)]) + cause


def traffic(found: Judgement) -> str:
    """A table of the largest case's bytes and FLOPs, the reader's and our kernel's; empty if a case fails."""
    if not found.traffic or not found.measured_at:
        return ""
    rows = [("yours", *map(count, found.traffic)), ("our kernel", *map(count, found.least))]
    return tables.markdown((f"at {_sizes(found.measured_at)}", *map(tables.Column, TRAFFIC)), rows)


def _sizes(one: Experiment) -> str:
    return ", ".join(f"{name} = {value}" for name, value in one.values.items() if value != 1 or name not in _OFTEN_ONE)


@kept
def checked_on(puzzle: Puzzle) -> str:
    """What a check runs, in one sentence."""
    cases = puzzle.cases(seed=0)
    dtypes = ", ".join(dict.fromkeys(str(one.values["dtype"]) for one in cases))
    biting = [words for one, words in BITING.items() if any(one == case.inputs for case in cases)]
    return f"A check runs {len(cases)} small cases: {dtypes}; several shapes; inputs such as {', '.join(biting)}."


def errors(found: Judgement) -> dict[int, str]:
    """The messages beside the reader's text, by line number."""
    if found.line:
        return {found.line: found.message}
    if found.difference is not None:
        cause = f" {found.difference.cause}." if found.difference.cause else ""
        said = f"First difference: {values(found.difference)}{cause}"
        return {found.difference.wrong.line: re.sub(r"\*\*|`", "", said)}
    return {}


def row(numbers: Sequence[float], tile: int, across: int) -> str:
    """The row of a prediction: its tiles, `across` beside each other; `numbers` are those up to the end of `tile`."""
    size = SIZES["block_n"]
    tiles = SIZES["cols"] // size
    wide, high, gap = 150.0, 24.0 * size + 34, 14.0
    parts = []
    for one in range(tiles):
        x, y = one % across * (wide + gap) + 1, one // across * (high + gap) + 1
        first, hue = one * size, css("scores")
        now, later = one == tile, one > tile
        stroke = hue if now else "var(--line)"
        parts.append(
            svg.rect(x, y, wide, high, "none" if later else hue, opacity=0.28 if now else 0.08, stroke=stroke,
                     dashed=later)
        )  # fmt: skip
        words = f"x[{first}] … x[{first + size - 1}]"
        parts.append(svg.text(x + 10, y + 20, words, size=svg.SMALL, faint=not now, bold=now))
        said = ["not read yet"] if later else [_said(value) for value in numbers[first : first + size]]
        parts += [svg.text(x + 10, y + 44 + 24 * at, text, faint=later, bold=now) for at, text in enumerate(said)]
    bottom = -(-tiles // across) * (high + gap)
    wide = across * (wide + gap) - gap + 2
    label = f"A row of {tiles} tiles; {tile} are read"
    return svg.picture(wide, bottom, label, parts, f"{wide:g}px")


def _said(value: float) -> str:
    return number(value, DIGITS)


@kept
def reach(trace: Trace, functions: Collection[str]) -> tuple[str, str]:
    """What one program touches: a sentence, and a picture of the buffers with the elements that it reads and writes.

    The launch is the first that runs one of `functions`; the program is its last one, which has the rest of a tile.
    """
    launch = next(one for one in trace.launches if trace.sources[one.source].function in functions)
    program = launch.recorded[-1]
    touched = {
        kind: _touched(trace, launch, program.first_step, program.steps, name)
        for name, kind in (("load", "reads"), ("store", "writes"))
    }
    shapes = [buffer.shape for buffers in touched.values() for buffer, _ in buffers]
    rows, columns = max(math.prod(shape[:-1]) for shape in shapes), max(shape[-1] for shape in shapes)
    cell = min(LARGEST_CELL, WIDE / columns, HIGHEST / rows)
    parts, y = [], 0.0
    for kind, buffers in touched.items():
        parts.append(svg.text(0, y + 16, kind, bold=True))
        x, top, line = KIND, y, 0.0
        for buffer, elements in buffers:
            drawn, wide, high = _buffer(buffer, elements, cell)
            if x > KIND and x + wide > KIND + WIDE:
                x, top, line = KIND, top + line, 0.0
            parts.append(f'<g transform="translate({x:.1f} {top:.1f})">{drawn}</g>')
            x, line = x + wide + APART, max(line, high)
        y = top + line
    label = f"The elements that one program of {', '.join(functions)} reads and writes"
    return _place(launch, program.id), svg.picture(KIND + WIDE + 2, y, label, parts, f"{KIND + WIDE:g}px")


def _place(launch: Launch, program: Sequence[int]) -> str:
    """Which program of the launch is drawn, in the words of the kernel."""
    if launch.programs == 1:
        return "One program computes all of this small example. Filled: what it touches."
    axes = [axis for axis, side in enumerate(launch.grid) if side > 1]
    named = listed([f"`tl.program_id({axis})` = {program[axis]}" for axis in axes])
    scalars = {name: one.value for name, one in launch.arguments if isinstance(one, Scalar)}
    sides = [f"{name} = {value}" for name, value in scalars.items() if name.startswith("BLOCK_")]
    with_tile = f", with {listed(sides)}" if sides else ""
    programs = f"{count(launch.programs)} programs run your kernel{with_tile}."
    return f"{programs} Filled: the elements that the program with {named} reads and writes."


def _touched(trace: Trace, launch: Launch, first: int, steps: int, kind: str) -> list[tuple[Buffer, set[int]]]:
    """The buffers that these steps load from or store to (`kind`), each with the numbers of its elements."""
    found: dict[str, set[int]] = {}
    for step in range(first, first + steps):
        for access in trace.accesses(step):
            if access.kind == kind:
                found.setdefault(access.buffer.name, set()).update(access.indices().tolist())
    return [(buffer, found[buffer.name]) for buffer in launch.buffers if buffer.name in found]


def _buffer(buffer: Buffer, elements: Collection[int], cell: float) -> tuple[str, float, float]:
    """A drawing of one buffer, as rows of its last dimension, with its width and height."""
    columns, rows = buffer.shape[-1], math.prod(buffer.shape[:-1])
    high = max(cell, THINNEST / rows)
    total, sides = rows * columns, [str(one) for one in buffer.shape if one > 1]
    share = f"all {count(total)}" if len(elements) == total else f"{count(len(elements))} of {count(total)}"
    lines = ((buffer.name, False), (" × ".join(sides) + ", " + share if len(sides) > 1 else share, True))
    parts = [svg.text(0, 16 + 16 * at, words, size=13, faint=faint) for at, (words, faint) in enumerate(lines)]
    parts.append(svg.rect(0, HEAD, columns * cell, rows * high, "none", stroke="var(--muted)"))
    for first, below, start, end in _runs(sorted(elements), columns):
        parts.append(svg.rect(start * cell, HEAD + first * high, (end - start) * cell, (below - first) * high, FILL))
    wide = max(columns * cell, *(text_width(words, 13) for words, _ in lines))
    return "".join(parts), wide, HEAD + rows * high + BELOW


def _runs(elements: list[int], columns: int) -> list[tuple[int, int, int, int]]:
    """The elements as rectangles: (first row, row after the last, first column, column after the last)."""
    runs: list[tuple[int, int, int, int]] = []
    for row, in_row in itertools.groupby(elements, key=lambda element: element // columns):
        at = {element % columns for element in in_row}
        starts, ends = sorted(c for c in at if c - 1 not in at), sorted(c + 1 for c in at if c + 1 not in at)
        for start, end in zip(starts, ends, strict=True):
            above = next((run for run in runs if run[1:] == (row, start, end)), None)
            if above:
                runs.remove(above)
            runs.append((above[0] if above else row, row + 1, start, end))
    return runs
