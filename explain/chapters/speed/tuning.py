"""One rung at many tile sizes, warps and stages: what `benchmarks/tuning_grid.py` measured, as values and a map.

The file is JSON: {"provenance", "commit", "method", "before", "after", "grids"}. "before" and "after" are the GPU's
clocks and temperature. "grids" has an object per `Grid` with an object per `Point`, under the names of their fields.
Imports neither streamlit nor torch.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from explain.chapters.speed import readable
from explain.chapters.speed.rungs import BY_NAME, Rung, Step
from explain.compile.cost import Footprint, occupancy
from explain.device.measurement import Provenance
from explain.figures import labels, numbers, palette, svg
from explain.figures.tables import csv_of
from explain.gpus import Gpu
from explain.plain import made
from explain.records import results
from explain.records.results import ResultFileError
from kernels.catalog import KERNELS

RUNGS = ("pipelined", "tma")
SETTINGS = ("block_m", "block_n", "warps", "stages")
VALUES = ((64, 128, 256), (32, 64, 128), (4, 8), (1, 2, 3, 4))
"""The values of each setting; a grid has all their combinations."""
FILE = results.BENCHMARKS / "tuning_grid.json"
COMPILED = results.RECORDINGS / "tuning-compiled.json"
"""The same settings compiled, never run: no times (`python -m explain record tuning`)."""
COMMAND = "python benchmarks/tuning_grid.py --out benchmarks/results/tuning_grid.json"
FAILURES: Mapping[str, tuple[str, str]] = {
    "shared memory": ("too large", "its tiles do not fit shared memory"),
    "registers": ("registers", "its threads need more registers than an SM has"),
    "wrong": ("wrong result", "its error exceeds the tolerance"),
    "error": ("cannot run", "it could not be run"),
    "silent": ("no answer", "it did not answer in time"),
}
"""Why a point has no time: in two words, and in a sentence. The point's own `why` has the details."""


@dataclass(frozen=True)
class Point:
    """One setting. `seconds` is the median of a launch, with its 20% and 80% quantiles.

    Without a time, `failure` is one of FAILURES and `why` has the details; both are empty if the run was cut short.
    `error` is error ÷ tolerance: ≤ 1 passes. The compiler reports the rest: bytes of shared memory per program,
    registers per thread, and spills, the 4-byte values per thread that found no register.
    """

    block_m: int
    block_n: int
    warps: int
    stages: int
    seconds: float | None = None
    p20: float | None = None
    p80: float | None = None
    error: float | None = None
    failure: str = ""
    why: str = ""
    shared_bytes: int | None = None
    registers: int | None = None
    spills: int | None = None

    def __post_init__(self) -> None:
        if self.failure and self.failure not in FAILURES:
            raise ValueError(f"failure={self.failure}: must be one of {', '.join(FAILURES)}")

    def programs(self, gpu: Gpu) -> int | None:
        """How many programs of it an SM holds at once, by formula; None without the compiler's report."""
        if self.shared_bytes is None or self.registers is None:
            return None
        return occupancy(Footprint("", self.warps, self.stages, self.shared_bytes, self.registers, 0), gpu).programs

    @property
    def settings(self) -> tuple[int, int, int, int]:
        """block_m, block_n, warps and stages: which point of a grid it is."""
        return self.block_m, self.block_n, self.warps, self.stages


@dataclass(frozen=True)
class Grid:
    """All settings of one rung at one shape. `code` is the measured code's digest, `work` a launch's FLOPs."""

    rung: str
    code: str
    shape: tuple[int, int, int, int]
    dtype: str
    causal: bool
    work: float
    points: tuple[Point, ...]

    @property
    def timed(self) -> tuple[Point, ...]:
        """The points that have a time, fastest first."""
        return tuple(sorted((p for p in self.points if p.seconds is not None), key=lambda p: p.seconds or 0.0))

    def rate(self, point: Point) -> float:
        """FLOP/s of a timed point."""
        return self.work / (point.seconds or math.inf)

    @property
    def words(self) -> str:
        """ "2 × 16 × 8,192 × 128, bf16, causal": batch, heads, N, d."""
        shape = " × ".join(map(numbers.count, self.shape))
        return f"{shape}, {self.dtype}{', causal' if self.causal else ''}"

    def csv(self) -> str:
        """Every setting, a line each."""
        return csv_of([[one.name for one in fields(Point)], *map(astuple, self.points)])


@dataclass(frozen=True)
class Tuning:
    """One run of the benchmark: where, when and how it ran, the GPU's state before and after, and its grids."""

    provenance: Provenance
    commit: str
    method: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()

    @property
    def source(self) -> str:
        """Where its numbers come from, for a caption."""
        return f"recorded · {self.provenance.words} · {self.method}"

    def of(self, rung: str) -> Grid | None:
        """A rung's grid; None if it has none."""
        return next((grid for grid in self.grids if grid.rung == rung), None)


def grids(shape: Sequence[int], dtype: str, causal: bool, gpu: str) -> dict[str, Grid]:
    """The timed grids on this shape and GPU, by the rung's short name; empty if none was tuned."""
    try:
        found = load(FILE)
    except ResultFileError:
        return {}
    timed = [grid for grid in found.grids if grid.timed] if found and found.provenance.gpu == gpu else []
    own = [grid for grid in timed if (grid.shape, grid.dtype, grid.causal) == (tuple(shape), dtype, causal)]
    return {KERNELS[f"rung:{grid.rung}"].short: grid for grid in own}


def winners_told(grids: Mapping[str, Grid]) -> str:
    """Each kernel's fastest setting, by its short name, and whether they differ; markdown, empty without times."""
    best = {name: grid.timed[0].settings for name, grid in grids.items() if grid.timed}
    if not best:
        return ""
    each = "; ".join(f"{name} is fastest with {readable.Setting(*one).words}" for name, one in best.items())
    differ = "**Each kernel has its own best setting.** " if len(set(best.values())) > 1 else ""
    return f"{differ}{each[0].upper()}{each[1:]}."


def two_changes_told(step: Step, lower: Rung, grid: Grid | None) -> str:
    """That a kernel has a larger tile than the one below and a producer warp, and what each gains alone by the settings
    of the one below, `grid`; markdown, empty where the tile stays the same.
    """
    if not step.rung.gluon or lower.gluon:
        return ""
    was, now = readable.of_rung(lower), readable.of_rung(step.rung)
    if was.block_n == now.block_n:
        return ""
    said = f"**Two changes.** The tile has {now.block_n} keys, not {was.block_n}, and one warp only loads. "
    timed = {point.settings: point for point in grid.timed} if grid else {}
    first, alike = timed.get(astuple(was)), [p for p in timed.values() if p.settings[:3] == astuple(now)[:3]]
    if not grid or not first or not alike or not step.per_second:
        return f"{said}On this shape we did not time them separately."

    def reached(point: Point) -> str:
        return f"{numbers.si(grid.rate(point), 'FLOP/s')} with {readable.Setting(*point.settings).words}"

    said += (
        f"*Tuning* has {lower.label} with both tiles:\n\n"
        f"- **Larger tile, no producer warp:** {lower.label} reaches {reached(first)}. It reaches {reached(alike[0])}."
    )
    if all(point.spills == 0 for point in alike):
        said += " It spills nothing there, so this tile does not need the producer’s registers."
    if same := timed.get(astuple(now)):
        said += (
            f"\n- **Producer warp, same setting:** with {now.words}, {lower.label} reaches "
            f"{numbers.si(grid.rate(same), 'FLOP/s')} and this kernel {numbers.si(step.per_second, 'FLOP/s')}, "
            f"{numbers.ratio(step.per_second / grid.rate(same))} as fast."
        )
    if grid.rate(alike[0]) > step.per_second:
        said += f"\n\nWith {_stages(alike[0].stages)}, {lower.label} at this tile is faster than this kernel."
    return said


def completed(grid: Grid, compiled: Grid | None) -> Grid:
    """The grid, with the compiler's reason for settings that did not answer because they do not fit.

    The grid is unchanged if other code or another shape was compiled.
    """
    if compiled is None or (compiled.code, compiled.words) != (grid.code, grid.words):
        return grid
    known = {point.settings: point for point in compiled.points if point.failure}
    points = (known.get(point.settings, point) if point.failure == "silent" else point for point in grid.points)
    return replace(grid, points=tuple(points))


def empty(rung: str, shape: tuple[int, ...], causal: bool) -> Grid:
    """All settings of a rung at a shape (batch, heads, seq_len, head_dim), with nothing measured yet."""
    batch, heads, seq_len, head_dim = shape
    work = 4 * batch * heads * seq_len**2 * head_dim / (2 if causal else 1)
    points = tuple(Point(*values) for values in itertools.product(*VALUES))
    code = KERNELS[f"rung:{rung}"].code
    return Grid(rung, code, (batch, heads, seq_len, head_dim), "bf16", causal, work, points)


def load(path: Path = FILE) -> Tuning | None:
    """The result in a file, None if there is none. Raises ResultFileError."""
    return results.load(path, parse, COMMAND)


def save(path: Path, tuning: Tuning) -> None:
    """Writes the whole file at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results.write(path, asdict(tuning))


def parse(data: Mapping[str, Any]) -> Tuning:
    """The result in this JSON object. Raises TypeError or ValueError for any other object."""
    return made(Tuning, data)


CELL, PHONE_CELL, CELL_HIGH, GRID_TOP = 92.0, 74.0, 38.0, 46.0
SPILLED = "⚠"
"""Marks a setting that spills registers."""
CLIMBS = "in The climb"
"""Marks the setting that the climb uses."""


def used(of: Grid) -> tuple[int, int, int, int]:
    """The setting that the climb uses for this rung, from its source."""
    return astuple(readable.of_rung(BY_NAME[of.rung]))


@functools.lru_cache(maxsize=16)
def grid(of: Grid, hue: int, *, narrow: bool = False) -> str:
    """A map of the settings: tile sizes down, warps and stages across. A cell has a time, or the compiler's report; the
    stronger its colour, the faster. `narrow` is for a phone: a map for each number of warps, one below the other.
    """
    rows = sorted({(point.block_m, point.block_n) for point in of.points})
    columns = sorted({(point.warps, point.stages) for point in of.points})
    names = [f"{block_m} × {block_n}" for block_m, block_n in rows]
    left = 1.05 * max(labels.text_width("queries × keys", svg.SMALL), labels.widest(names)) + 16
    cell, high = PHONE_CELL if narrow else CELL, GRID_TOP + CELL_HIGH * len(rows) + 4
    warps = sorted({warps for warps, _ in columns})
    maps = [[column for column in columns if column[0] == one] for one in warps] if narrow else [columns]
    ends, climbs, colour = (of.timed[0], of.timed[-1]) if of.timed else None, used(of), palette.css(palette.kernel(hue))
    parts, right = [], left + cell * max(map(len, maps))
    for number, own in enumerate(maps):
        top = GRID_TOP + number * (high + 12)
        parts.append(svg.text(left - 12, top - 8, "queries × keys", size=svg.SMALL, anchor="end", faint=True))
        for at, (many, stages) in enumerate(own):
            x = left + cell * at
            if at == 0 or own[at - 1][0] != many:
                parts.append(svg.text(x + 4, top - 30, f"{many} warps", size=13, bold=True))
            parts.append(svg.text(x + cell / 2, top - 8, _stages(stages), size=svg.SMALL, anchor="middle", faint=True))
        for at, name in enumerate(names):
            y = top + CELL_HIGH * at
            parts.append(svg.text(left - 12, y + 24, name, anchor="end"))
            if at and rows[at - 1][0] != rows[at][0]:
                parts.append(svg.line(8, y - 0.5, right, y - 0.5, opacity=0.35))
        for point in of.points:
            if (point.warps, point.stages) in own:
                x = left + cell * own.index((point.warps, point.stages))
                y = top + CELL_HIGH * rows.index((point.block_m, point.block_n))
                parts.append(_cell(x, y, cell, point, ends, colour, point.settings == climbs))
    words = f"{of.rung} with {len(of.points)} settings of tile, warps and stages, on {of.words}"
    return svg.picture(right + 4, len(maps) * (high + 12) - 12, words, parts, "1100px")


def _stages(stages: int) -> str:
    return f"{stages} stage{'s' * (stages > 1)}"


def _cell(
    x: float, y: float, wide: float, point: Point, ends: tuple[Point, Point] | None, colour: str, climbs: bool
) -> str:  # fmt: skip
    """A setting's cell; `ends` are the fastest and the slowest, whose colours are furthest apart. `climbs`: it is the
    climb's own.
    """
    inside, middle = (x + 2, y + 2, wide - 4, CELL_HIGH - 4), x + wide / 2
    mark = f" {SPILLED}" if point.spills else ""
    if point.failure:
        alarm = palette.css("alarm")
        box = svg.rect(*inside, alarm, opacity=0.06, stroke=alarm, dashed=True, title=setting(point))
        words = FAILURES[point.failure][0]
        return box + svg.text(middle, y + 24, words, size=svg.SMALL, anchor="middle", fill=palette.css_ink("alarm"))
    if point.seconds is None or ends is None:
        hue = palette.css("warning" if point.spills else "slate")
        box = svg.rect(*inside, hue, opacity=0.35 if point.spills else 0.18, title=setting(point))
        lines = ["not compiled"]
        if point.registers:
            lines = [f"{point.registers} regs{mark}", numbers.capacity(point.shared_bytes or 0)]
        texts = (
            svg.text(middle, y + 17 + 14 * at, line, size=svg.SMALL, anchor="middle") for at, line in enumerate(lines)
        )
        return box + "".join(texts)
    fastest, (most, least) = point == ends[0], (1 / (one.seconds or 1.0) for one in ends)
    fill = 0.04 + 0.62 * ((1 / point.seconds - least) / (most - least or 1.0)) ** 1.5
    stroke = "currentColor" if fastest else "none"
    box = svg.rect(*inside, colour, opacity=fill, stroke=stroke, title=setting(point))
    below = CLIMBS if climbs else f"{SPILLED} {numbers.count(4 * point.spills)} B" if point.spills else ""
    words = f"{numbers.fixed(1e3 * point.seconds, 2)} ms{mark * climbs}"
    more = svg.text(middle, y + 32, below, size=svg.SMALL, anchor="middle") if below else ""
    return box + svg.text(middle, y + (17 if below else 24), words, anchor="middle", bold=fastest) + more


def setting(point: Point) -> str:
    """A setting and all that is known of it."""
    parts = [f"{point.block_m} × {point.block_n}, {point.warps} warps, {_stages(point.stages)}"]
    if point.seconds is not None:
        parts.append(numbers.duration(point.seconds))
    if point.failure:
        parts.append(f"{FAILURES[point.failure][1]}{f': {point.why}' if point.why else ''}")
    if point.registers is not None:
        parts.append(f"{point.registers} registers per thread")
    if point.spills:
        parts.append(f"{numbers.count(4 * point.spills)} B per thread spilled to local memory")
    if point.shared_bytes is not None:
        parts.append(f"{numbers.count(point.shared_bytes)} B of shared memory per program")
    return "; ".join(parts)


def grid_told(of: Grid, gpu: Gpu | None) -> str:
    """The result of the grid: the best and the worst setting, and what decides; markdown."""
    many, timed = len(of.points), of.timed
    out = sum(point.failure == "shared memory" for point in of.points)
    room = f" ({numbers.capacity(gpu.shared_bytes)} per program)" if gpu else ""
    unfit = f"{out} of {many} do not fit shared memory{room}." if out else ""
    decides = [one for one in (_spills(of), _programs(of, gpu), _loads(of, gpu)) if one]
    if not timed:
        return "\n\n".join(filter(None, [*decides, unfit]))
    best, worst = timed[0], timed[-1]
    slower = numbers.ratio((worst.seconds or 0.0) / (best.seconds or 1.0))
    said = f"The same source: **{slower}** between the best and the worst setting."
    if len(decides) > 1:
        said += f" {COUNTS[len(decides)]} things decide it:\n\n" + "\n".join(f"- {one}" for one in decides)
    elif decides:
        said += f"\n\n{decides[0]}"
    ends = (
        f"Fastest: **{_named(best)}**, {numbers.duration(best.seconds or 0.0)} "
        f"({numbers.si(of.work / (best.seconds or 1.0), 'FLOP/s')}). Slowest: {_named(worst)}, "
        f"{numbers.duration(worst.seconds or 0.0)}."
    )
    ran = f"{len(timed)} of {many} settings ran.{f' {unfit}' if unfit else ''}"
    return "\n\n".join([said, ends, ran])


COUNTS = {2: "Two", 3: "Three"}


def _spills(of: Grid) -> str:
    """How many settings spill, and where; markdown, empty if none does."""
    spilled = [point for point in of.points if point.spills and not point.failure]
    if not spilled:
        return ""
    with_warps = {point.warps for point in spilled}
    all_with = f", all with {with_warps.pop()} warps" if len(with_warps) == 1 else ""
    return (
        f"**Spills**: {len(spilled)} settings{all_with} ({SPILLED}). S, P̃ and Õ are spread over the registers of the "
        f"program's threads, at most 255 each. Fewer warps need more registers per thread.{_spilling(of.timed)}"
    )


Pair = tuple[Point, Point]


def stage_pairs(of: Grid, gpu: Gpu) -> tuple[list[Pair], list[Pair]]:
    """Timed settings that differ in one stage: those where an SM then holds fewer programs, and those where it holds as
    many. Only pairs in which neither spills.
    """
    known = {point.settings: point for point in of.timed}
    fewer: list[Pair] = []
    alike: list[Pair] = []
    for point in of.points:
        before = known.get(point.settings)
        after = known.get((*point.settings[:3], point.stages + 1))
        if not before or not after or before.spills or after.spills:
            continue
        was, now = before.programs(gpu), after.programs(gpu)
        if was is not None and now is not None and now <= was:
            (fewer if now < was else alike).append((before, after))
    return fewer, alike


def _slower(pair: Pair) -> float:
    return (pair[1].seconds or 0.0) / (pair[0].seconds or 1.0)


def _step(pair: Pair) -> str:
    """ "2.83 → 4.18 ms"."""
    before, after = (numbers.fixed(1e3 * (point.seconds or 0.0), 2) for point in pair)
    return f"{before} → {after} ms"


def _programs(of: Grid, gpu: Gpu | None) -> str:
    """What a stage more costs where an SM holds fewer programs; markdown, empty unless most pairs agree."""
    fewer = stage_pairs(of, gpu)[0] if gpu else []
    slower = [pair for pair in fewer if _slower(pair) > 1]
    if not gpu or len(slower) <= len(fewer) / 2:
        return ""
    before, after = most = max(slower, key=_slower)
    return (
        f"**Programs per SM**: where one more stage leaves room for fewer programs on an SM, the kernel gets slower in "
        f"{len(slower)} of {len(fewer)} pairs. {before.block_m} × {before.block_n}, {before.warps} warps, "
        f"{before.stages} → {_stages(after.stages)}: {numbers.capacity(before.shared_bytes or 0)} → "
        f"{numbers.capacity(after.shared_bytes or 0)} per program, {before.programs(gpu)} → {after.programs(gpu)} "
        f"programs, **{_step(most)}**."
    )


def _loads(of: Grid, gpu: Gpu | None) -> str:
    """What a stage more gains where an SM holds as many programs; markdown, empty unless most pairs agree."""
    alike = stage_pairs(of, gpu)[1] if gpu else []
    faster = [pair for pair in alike if _slower(pair) < 1]
    if len(faster) <= len(alike) / 2:
        return ""
    before, after = most = min(faster, key=_slower)
    worst = max(map(_slower, alike)) - 1
    others = f"In the other {len(alike) - len(faster)} it is at most {numbers.percent(worst, 1)} slower." * (worst > 0)
    return (
        "**Loads in flight**: a stage more loads further ahead. Where an SM still holds as many programs, the kernel "
        f"gets faster in {len(faster)} of {len(alike)} pairs. {before.block_m} × {before.block_n}, "
        f"{before.warps} warps, {before.stages} → {_stages(after.stages)}: **{_step(most)}**. {others}"
    ).strip()


def _named(point: Point) -> str:
    """A setting in a sentence."""
    return f"{point.block_m} × {point.block_n} with {point.warps} warps and {_stages(point.stages)}"


def _spilling(timed: Sequence[Point]) -> str:
    """That the fastest setting spills, and how much slower the fastest that does not is; empty if it does not."""
    if not timed or not timed[0].spills:
        return ""
    best, dry = timed[0], next((point for point in timed if point.spills == 0), None)
    said = f" A small spill can pay: the fastest setting spills {4 * (best.spills or 0)} B per thread."
    if dry is None:
        return said
    faster = numbers.percent((dry.seconds or 0.0) / (best.seconds or 1.0) - 1)
    said += f" It is {faster} faster than {_named(dry)}, which spills nothing."
    larger = best.block_m * best.block_n > dry.block_m * dry.block_n
    return f"{said} We did not separate the larger tile from the spill." if larger else said
