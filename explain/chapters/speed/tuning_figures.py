"""The map of a kernel's settings, and its result in sentences."""

from __future__ import annotations

import functools

from explain.chapters.speed.tuning import FAILURES, Grid
from explain.chapters.speed.tuning import Point as Setting
from explain.figures import labels, numbers, palette, svg
from explain.gpus import Gpu

CELL, CELL_HIGH, GRID_TOP = 92.0, 38.0, 46.0
SPILLED = "⚠"
"""Marks a setting that spills registers."""


@functools.lru_cache(maxsize=8)
def grid(of: Grid, hue: int) -> str:
    """Tile sizes down, warps and stages across. A cell has its time (darker is faster) or the compiler's report."""
    rows = sorted({(point.block_m, point.block_n) for point in of.points})
    columns = sorted({(point.warps, point.stages) for point in of.points})
    names = [f"{block_m} × {block_n}" for block_m, block_n in rows]
    left = 1.05 * max(labels.text_width("queries × keys", svg.SMALL), labels.widest(names)) + 16
    right, best = left + CELL * len(columns), of.timed[0] if of.timed else None
    parts = [svg.text(left - 12, GRID_TOP - 8, "queries × keys", size=svg.SMALL, anchor="end", faint=True)]
    for at, (warps, stages) in enumerate(columns):
        x = left + CELL * at
        if at == 0 or columns[at - 1][0] != warps:
            parts.append(svg.text(x + 4, 16, f"{warps} warps", size=13, bold=True))
        parts.append(svg.text(x + CELL / 2, GRID_TOP - 8, _stages(stages), size=svg.SMALL, anchor="middle", faint=True))
    for at, name in enumerate(names):
        y = GRID_TOP + CELL_HIGH * at
        parts.append(svg.text(left - 12, y + 24, name, anchor="end"))
        if at and rows[at - 1][0] != rows[at][0]:
            parts.append(svg.line(8, y - 0.5, right, y - 0.5, opacity=0.35))
    for point in of.points:
        x = left + CELL * columns.index((point.warps, point.stages))
        y = GRID_TOP + CELL_HIGH * rows.index((point.block_m, point.block_n))
        parts.append(_cell(x, y, point, best, palette.css(palette.kernel(hue))))
    words = f"{of.rung} with {len(of.points)} settings of tile, warps and stages, on {of.words}"
    return svg.picture(right + 4, GRID_TOP + CELL_HIGH * len(rows) + 4, words, parts, "1100px")


def _stages(stages: int) -> str:
    return f"{stages} stage{'s' * (stages > 1)}"


def _cell(x: float, y: float, point: Setting, best: Setting | None, colour: str) -> str:
    inside, middle = (x + 2, y + 2, CELL - 4, CELL_HIGH - 4), x + CELL / 2
    mark = f" {SPILLED}" if point.spills else ""
    if point.failure:
        alarm = palette.css("alarm")
        box = svg.rect(*inside, alarm, opacity=0.06, stroke=alarm, dashed=True, title=setting(point))
        words = FAILURES[point.failure][0]
        return box + svg.text(middle, y + 24, words, size=svg.SMALL, anchor="middle", fill=palette.css_ink("alarm"))
    if point.seconds is None or best is None or best.seconds is None:
        hue = palette.css("warning" if point.spills else "slate")
        box = svg.rect(*inside, hue, opacity=0.35 if point.spills else 0.18, title=setting(point))
        lines = ["not compiled"]
        if point.registers:
            lines = [f"{point.registers} regs{mark}", numbers.capacity(point.shared_bytes or 0)]
        texts = (
            svg.text(middle, y + 17 + 14 * at, line, size=svg.SMALL, anchor="middle") for at, line in enumerate(lines)
        )
        return box + "".join(texts)
    fastest = point == best
    fill, stroke = 0.06 + 0.5 * (best.seconds / point.seconds) ** 2, "currentColor" if fastest else "none"
    box = svg.rect(*inside, colour, opacity=fill, stroke=stroke, title=setting(point))
    words = f"{numbers.fixed(1e3 * point.seconds, 2)} ms{mark}"
    return box + svg.text(middle, y + 24, words, anchor="middle", bold=fastest)


def setting(point: Setting) -> str:
    """A setting and all that is known of it."""
    parts = [f"{point.block_m} × {point.block_n}, {point.warps} warps, {_stages(point.stages)}"]
    if point.seconds is not None:
        parts.append(numbers.duration(point.seconds))
    if point.failure:
        parts.append(f"{FAILURES[point.failure][1]}{f': {point.why}' if point.why else ''}")
    if point.registers is not None:
        parts.append(f"{point.registers} registers per thread")
    if point.spills:
        parts.append(f"{4 * point.spills:,} B per thread spilled to local memory")
    if point.shared_bytes is not None:
        parts.append(f"{point.shared_bytes:,} B of shared memory per program")
    return "; ".join(parts)


def grid_told(of: Grid, gpu: Gpu | None) -> str:
    """The result of the grid in sentences; markdown."""
    many, timed = len(of.points), of.timed
    out = sum(point.failure == "shared memory" for point in of.points)
    spilled = [point for point in of.points if point.spills]
    said = []
    if timed and timed[0].seconds and timed[-1].seconds:
        best, worst = timed[0], timed[-1]
        names = [f"{p.block_m} × {p.block_n} with {p.warps} warps and {_stages(p.stages)}" for p in (best, worst)]
        speed = numbers.si(of.work / timed[0].seconds, "FLOP/s")
        said.append(f"{len(timed)} of {many} settings ran.")
        said.append(f"Fastest: **{names[0]}**, {numbers.duration(timed[0].seconds)} ({speed}).")
        slower = numbers.ratio(timed[-1].seconds / timed[0].seconds)
        said.append(f"Slowest: {names[1]}, **{slower}** that time for the same result.")
    if out:
        room = f" ({numbers.capacity(gpu.shared_bytes)} per program)" if gpu else ""
        said.append(f"{out} of {many} do not fit shared memory{room}: each stage holds a tile of K and a tile of V.")
    if spilled:
        warps = {point.warps for point in spilled}
        all_with = f", all with {warps.pop()} warps" if len(warps) == 1 else ""
        said.append(
            f"{len(spilled)} spill registers{all_with}: a tile's S, P̃ and Õ are spread over the registers of the "
            "program's threads, at most 255 each, so fewer warps need more registers per thread."
        )
    if timed and timed[0].spills:
        said.append(f"The fastest spills {4 * timed[0].spills} B per thread: less than its larger tile saves.")
    return " ".join(said)
