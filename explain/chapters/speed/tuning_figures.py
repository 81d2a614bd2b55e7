"""Autotuning as a picture: a cell a setting, coloured by its time, with those that do not fit or spill marked. Values in; SVG and sentences out."""

from __future__ import annotations

from collections.abc import Mapping

from explain.chapters.speed.tuning_grid import TROUBLES, Grid, Point
from explain.figures import numbers, palette, svg
from explain.gpus import Gpu

FAST, PLAIN = "#2388C7", palette.css("slate")
LEFT, TOP, WIDE, HIGH = 118.0, 46.0, 92.0, 38.0
SPILLED = "⚠"
"""Marks a setting whose registers do not suffice."""
SHORT: Mapping[str, str] = {
    "shared memory": "does not fit",
    "registers": "registers",
    "wrong": "wrong result",
    "error": "cannot run",
    "silent": "no answer",
}
"""The kinds of trouble, short enough for a cell."""


def grid(of: Grid) -> str:
    """Tile sizes down, warps and stages across. A cell has its time and is the fuller the faster; without times it has what the compiler says of it."""
    rows = sorted({(point.block_m, point.block_n) for point in of.points})
    columns = sorted({(point.warps, point.stages) for point in of.points})
    best = of.timed[0] if of.timed else None
    parts = _heads(rows, columns)
    for point in of.points:
        x = LEFT + WIDE * columns.index((point.warps, point.stages))
        y = TOP + HIGH * rows.index((point.block_m, point.block_n))
        parts.append(_cell(x, y, point, best))
    words = f"{of.rung} at {len(of.points)} settings of its tile, warps and stages, on {of.words}"
    return svg.picture(LEFT + WIDE * len(columns) + 4, TOP + HIGH * len(rows) + 4, words, parts, "1100px")


def _heads(rows: list[tuple[int, int]], columns: list[tuple[int, int]]) -> list[str]:
    parts = [svg.text(LEFT - 12, TOP - 8, "queries × keys", size=12, anchor="end", faint=True)]
    for at, (warps, stages) in enumerate(columns):
        x = LEFT + WIDE * at
        if at == 0 or columns[at - 1][0] != warps:
            parts.append(svg.text(x + 4, 16, f"{warps} warps", size=13, bold=True))
        parts.append(svg.text(x + WIDE / 2, TOP - 8, f"{stages} stage{'s' * (stages > 1)}", size=12, anchor="middle", faint=True))  # fmt: skip
    for at, (block_m, block_n) in enumerate(rows):
        y = TOP + HIGH * at
        parts.append(svg.text(LEFT - 12, y + 24, f"{block_m} × {block_n}", anchor="end"))
        if at and rows[at - 1][0] != block_m:
            parts.append(svg.line(8, y - 0.5, LEFT + WIDE * len(columns), y - 0.5, opacity=0.35))
    return parts


def _cell(x: float, y: float, point: Point, best: Point | None) -> str:
    inside = (x + 2, y + 2, WIDE - 4, HIGH - 4)
    middle, spills = x + WIDE / 2, bool(point.spills)
    mark = f" {SPILLED}" if spills else ""
    if point.trouble:
        box = svg.rect(
            *inside, palette.css("alarm"), opacity=0.06, stroke=palette.css("alarm"), dashed=True, title=said(point)
        )
        return box + svg.text(middle, y + 24, SHORT[point.trouble], size=12, anchor="middle", fill="var(--alarm)")
    if point.seconds is None or best is None or best.seconds is None:
        box = svg.rect(
            *inside, palette.css("warning") if spills else PLAIN, opacity=0.35 if spills else 0.18, title=said(point)
        )
        lines = (f"{point.registers} regs{mark}", numbers.capacity(point.shared_bytes or 0)) if point.registers else ("not compiled", "")  # fmt: skip
        return box + "".join(svg.text(middle, y + 17 + 14 * at, line, size=12, anchor="middle") for at, line in enumerate(lines))  # fmt: skip
    share = best.seconds / point.seconds
    fastest = point == best
    box = svg.rect(*inside, FAST, opacity=0.06 + 0.64 * share**2, stroke="currentColor" if fastest else "none", title=said(point))  # fmt: skip
    return box + svg.text(middle, y + 24, f"{1e3 * point.seconds:.3g} ms{mark}", anchor="middle", bold=fastest)


def said(point: Point) -> str:
    """A setting, and all that is known of it."""
    parts = [f"{point.block_m} × {point.block_n}, {point.warps} warps, {point.stages} stage{'s' * (point.stages > 1)}"]
    if point.seconds is not None:
        parts.append(f"{1e3 * point.seconds:.4g} ms")
    if point.trouble:
        parts.append(f"{TROUBLES[point.trouble]}{f': {point.why}' if point.why else ''}")
    if point.registers is not None:
        parts.append(f"{point.registers} registers a thread")
    if point.spills:
        parts.append(f"{4 * point.spills:,} B of each thread's values in slow memory, for want of registers")
    if point.shared_bytes is not None:
        parts.append(f"{point.shared_bytes:,} B of shared memory a program")
    return "; ".join(parts)


def told(of: Grid, gpu: Gpu | None) -> list[str]:
    """What the grid comes to, in sentences."""
    many, timed = len(of.points), of.timed
    out = [point for point in of.points if point.trouble == "shared memory"]
    spilled = [point for point in of.points if point.spills]
    sentences = []
    if timed and timed[0].seconds and timed[-1].seconds:
        best, worst = timed[0], timed[-1]
        sentences += [
            f"Of {many} settings {len(timed)} have a time. The fastest, **{best.block_m} × {best.block_n} with {best.warps} warps and {best.stages} stages**, takes "
            f"{1e3 * timed[0].seconds:.3g} ms: {of.work / timed[0].seconds / 1e12:,.0f} TFLOP/s.",
            f"The slowest takes **{timed[-1].seconds / timed[0].seconds:.1f} times** as long, for the same result: {worst.block_m} × {worst.block_n}, {worst.warps} warps, {worst.stages} "
            f"stage{'s' * (worst.stages > 1)}.",
        ]
    if out:
        room = f" of {numbers.capacity(gpu.shared_bytes)}" if gpu else ""
        sentences.append(
            f"{len(out)} of {many} do not fit the shared memory{room} that a program may have: each stage holds a tile of K and one of V."
        )
    if spilled:
        fewest = {point.warps for point in spilled}
        with_warps = f", all with {fewest.pop()} warps" if len(fewest) == 1 else ""
        sentences.append(
            f"{len(spilled)} spill{with_warps}: S, P̃ and Õ of a tile are spread over the registers of its threads, 255 each at most, and the fewer warps, the more each must hold."
        )
    return sentences


def table(of: Grid) -> str:
    """Every setting as CSV."""
    names = ("block_m", "block_n", "warps", "stages", "seconds", "trouble", "shared_bytes", "registers", "spills")
    lines = [",".join(names)]
    for point in of.points:
        lines.append(",".join("" if getattr(point, name) is None else str(getattr(point, name)) for name in names))
    return "\n".join(lines)
