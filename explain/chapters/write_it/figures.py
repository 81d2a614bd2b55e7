"""A judgement in words, and what one program of the kernel reads and writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection

from explain.figures import svg, tables
from explain.figures.numbers import count
from explain.figures.palette import css
from explain.puzzles.judge import Judgement
from explain.trace.model import Buffer, Launch, Trace

TRAFFIC = ("bytes read", "bytes written", "FLOPs")
WIDE, LARGEST_CELL, HIGHEST = 420.0, 14.0, 120.0
"""Of a buffer's picture: its width, its largest cell and its height, in units of the picture."""
HEAD, BELOW = 22.0, 12.0


def headline(found: Judgement) -> str:
    """The judgement in one sentence."""
    if found.right:
        return f"Right: all {found.cases} cases are within their tolerance."
    if found.too_many_bytes:
        return found.message
    at = f"line {found.line}: " if found.line else ""
    return f"{at}{tables.plain(found.message)}"


def case(found: Judgement) -> str:
    """The smallest case that fails."""
    one = found.failing
    if one is None or found.too_many_bytes:
        return ""
    sizes = ", ".join(f"{name} {value}" for name, value in one.values.items())
    before = f"{count(found.passed)} smaller cases pass. This one fails" if found.passed else "The smallest case fails"
    return f"{before}: inputs *{one.inputs}*, {sizes}."


def traffic(found: Judgement) -> str:
    """What the largest case moved and computed beside the formula's, as a table; empty if not every case passes."""
    rows = list(zip(TRAFFIC, found.traffic, found.least, strict=False))
    return tables.markdown(("at the largest case", tables.Column("yours"), tables.Column("our kernel")), rows)


def errors(found: Judgement) -> dict[int, str]:
    """What stands beside which line of the reader's text."""
    if found.line:
        return {found.line: found.message}
    if found.difference is not None:
        wrong = found.difference.wrong
        return {wrong.line: f"First difference: {wrong.variable}. {found.difference.cause or ''}".strip()}
    return {}


def reach(trace: Trace, functions: Collection[str]) -> str:
    """The buffers of the launch that runs one of these kernels, with the elements that its middle program touches."""
    launch = next(one for one in trace.launches if trace.sources[one.source].function in functions)
    program = launch.recorded[len(launch.recorded) // 2]
    parts, y = [], 0.0
    for name, kind in (("load", "reads"), ("store", "writes")):
        for buffer, elements in _touched(trace, launch, program.first_step, program.steps, name):
            drawn, high = _buffer(buffer, elements, kind, y)
            parts.append(drawn)
            y += high
    place = ", ".join(map(str, program.id[: max(1, sum(side > 1 for side in launch.grid))]))
    parts.append(svg.text(0, y + 12, f"Filled: what program {place} of {count(launch.programs)} touches.", faint=True))
    label = f"The elements that one program of {', '.join(functions)} reads and writes"
    return svg.picture(WIDE, y + 20, label, parts, f"{WIDE:g}px")


def _touched(trace: Trace, launch: Launch, first: int, steps: int, kind: str) -> list[tuple[Buffer, set[int]]]:
    """Each buffer that these steps load from or store to, with the elements."""
    found: dict[str, set[int]] = {}
    for step in range(first, first + steps):
        for access in trace.accesses(step):
            if access.kind == kind:
                found.setdefault(access.buffer.name, set()).update(access.indices().tolist())
    return [(buffer, found[buffer.name]) for buffer in launch.buffers if buffer.name in found]


def _buffer(buffer: Buffer, elements: Collection[int], kind: str, y: float) -> tuple[str, float]:
    """One buffer as rows of its last dimension, and the height that it takes."""
    columns = buffer.shape[-1]
    rows = math.prod(buffer.shape[:-1])
    cell = min(LARGEST_CELL, WIDE / columns, HIGHEST / rows)
    shape = " × ".join(map(str, buffer.shape))
    parts = [
        svg.text(0, y + 14, f"{buffer.name}, {shape}: it {kind} {count(len(elements))} of {count(rows * columns)}")
    ]
    parts.append(svg.rect(0, y + HEAD, columns * cell, rows * cell, "none", stroke="var(--muted)"))
    for row, below, start, end in _runs(sorted(elements), columns):
        box = (start * cell, y + HEAD + row * cell, (end - start) * cell, (below - row) * cell)
        parts.append(svg.rect(*box, css("hbm")))
    return "".join(parts), HEAD + rows * cell + BELOW


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
