"""Pictures of FlashAttention: a tile in its SRAM, both loop orders' bytes, N²d²/M, the paper's algorithm."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explain.chapters.flash_attention.tiles import MOST_REGISTERS, NUM_WARPS, SIDES, Reads, capacity, parts
from explain.chapters.flash_attention.visits import Visits
from explain.compile.cost import REGISTER_BYTES, WARP, Cost, LaunchCost, occupancy, too_large
from explain.experiment import Experiment
from explain.figures.labels import spread, text_width, widest
from explain.figures.numbers import capacity as bytes_on_chip
from explain.figures.numbers import count as counted
from explain.figures.numbers import duration, fixed, moved, percent, ratio
from explain.figures.palette import css, css_ink
from explain.figures.palette import kernel as kernel_hue
from explain.figures.svg import circle, line, picture, rect, text
from explain.figures.tables import Column, markdown
from explain.gpus import Gpu
from explain.trace.model import Trace
from kernels.catalog import KERNELS
from kernels.traffic import Traffic

HUES = {"q": "hbm", "k": "hbm", "v": "hbm"}
"""Q, K and V are tiles of what lies in HBM; the other parts have hues of their own."""
CHIP, ALARM = css("slate"), css("alarm")
PLACES = {"shared": "Shared memory", "registers": "Registers"}
LEFT, TANK, BAR, PITCH = 86.0, 440.0, 40.0, 88.0
"""Where a tank begins, how long it is when full, its height, and from one to the next, in units of the picture."""
OVER = 60.0
"""The most that is drawn of what does not fit."""


def tanks(p: Mapping[str, Any], gpu: Gpu, cost: LaunchCost | None) -> tuple[str, str]:
    """The bytes of a program's tile in shared memory, and in registers: by formula, and below it as compiled.

    A full tank is the most that one program may use on `gpu`; what does not fit stands right of it.
    """
    drawn = []
    for place, name in PLACES.items():
        own = [part for part in parts(p) if part.place == place]
        most = capacity(gpu, place)
        threads = WARP * NUM_WARPS
        every = most == MOST_REGISTERS * REGISTER_BYTES * threads
        full = f"{MOST_REGISTERS} × {threads} threads" if every else bytes_on_chip(most)
        contents = [(part.name, part.bytes, css(HUES.get(part.quantity, part.quantity)), part.shape) for part in own]
        tank = [text(0, 16, name, bold=True), text(LEFT + TANK, 16, f"full: {full}", size=13, anchor="end", faint=True)]
        tank += _tank(26, most, contents, "formula")
        if cost is not None:
            spilled = cost.stack_bytes * WARP * cost.num_warps if place == "registers" else 0
            tank += _tank(26 + PITCH, most, [_compiled(cost, place)], "compiler", spilled)
        else:
            tank += [*_rim(26 + PITCH), text(LEFT + 10, 26 + PITCH + 26, "not compiled yet", faint=True)]
        label = f"A tile's bytes in the {name.lower()} of the {gpu.name}"
        drawn.append(picture(LEFT + TANK + OVER + 8, 26 + 2 * PITCH - 20, label, tank, "46rem"))
    return drawn[0], drawn[1]


def _compiled(cost: LaunchCost, place: str) -> tuple[str, int, str, str]:
    if place == "shared":
        return "", cost.shared_bytes, CHIP, f"num_stages = {cost.num_stages}"
    return "", cost.register_bytes, CHIP, f"{cost.registers} per thread, {cost.num_warps} warps"


def _tank(
    y: float, most: int, contents: Sequence[tuple[str, int, str, str]], source: str, spilled: int = 0
) -> list[str]:  # fmt: skip
    """One tank, filled from its left. `spilled` bytes stand right of a full one."""
    total, x = sum(count for _, count, _, _ in contents), LEFT
    drawn: list[str] = []
    small = []
    for what, count, colour, shape in contents:
        wide = max(0.0, min(TANK * count / most, LEFT + TANK + OVER - x))
        title = f"{what or source}: {shape} = {count:,} B"
        drawn.append(rect(x, y, wide, BAR, colour, opacity=0.45, stroke="currentColor", title=title))
        short, size = what.removesuffix(" tile"), bytes_on_chip(count)
        if text_width(short) + 10 <= wide:
            drawn.append(text(x + wide / 2, y + 25, short, anchor="middle"))
        small += [f"{short} {size}"] if short else []
        x += wide
    if x > LEFT + TANK + 0.5:
        drawn.append(rect(LEFT + TANK, y, x - LEFT - TANK, BAR, ALARM, opacity=0.3, stroke=ALARM, dashed=True))
    if spilled:
        wide, title = min(TANK * spilled / most, OVER), f"spilled: {spilled:,} B"
        drawn.append(rect(LEFT + TANK, y, wide, BAR, ALARM, opacity=0.75, dashed=True, stroke=ALARM, title=title))
    over = total > most
    warning = f"overflows by {total - most:,} B" if over else f"spills {bytes_on_chip(spilled)}" if spilled else ""
    alarm = css_ink("alarm")
    said, below = f"{total:,} B, {percent(total / most)}", y + BAR + 18
    told = LEFT + text_width(said, 14, bold=True) + 16
    return [
        *drawn,
        *_rim(y),
        text(0, y + 25, source),
        text(LEFT, below, said, bold=True, fill=alarm if over else ""),
        text(told, below, " · ".join(small), size=13, faint=True),
        text(LEFT + TANK, y - 6, warning, size=13, anchor="end", bold=True, fill=alarm),
    ]


def _rim(y: float) -> list[str]:
    return [
        line(LEFT, y, LEFT + TANK, y, opacity=0.9),
        line(LEFT, y + BAR, LEFT + TANK, y + BAR, opacity=0.9),
        line(LEFT, y, LEFT, y + BAR, opacity=0.9),
        line(LEFT + TANK, y - 6, LEFT + TANK, y + BAR + 6, opacity=0.9),
    ]


def cost_table(cost: Cost, gpu: Gpu) -> str:
    """The compiler's figures for each launch, and how many of its programs an SM holds, as Markdown."""
    rows = []
    for launch in cost.launches:
        fits = occupancy(launch, gpu)
        stored, loaded = launch.spill_store_bytes, launch.spill_load_bytes
        shared = f"{launch.shared_bytes:,} of {gpu.shared_bytes:,} B"
        spills = f"**{stored:,} B** stored, {loaded:,} B loaded" if stored else "none"
        held = f"**{fits.programs}** ({fits.programs * launch.num_warps} of {gpu.warps_sm} warps)"
        seconds = f"{fixed(launch.seconds, 1)} s"
        rows.append((f"`{launch.kernel}`", shared, launch.registers, spills, held, fits.limit, seconds))
    columns = (
        "kernel", Column("shared memory per program, of the most allowed"),
        Column("registers per thread"), Column("spills per thread"),
        Column("programs per SM"), "limited by", Column("compile time"),
    )  # fmt: skip
    return markdown(columns, rows)


def verdict(cost: Cost, gpu: Gpu) -> str:
    """Whether the tile runs on the GPU, and its price, in a sentence or two."""
    if refused := " ".join(filter(None, (too_large(launch, gpu) for launch in cost.launches))):
        return refused
    worst = max(cost.launches, key=lambda launch: launch.spill_store_bytes)
    fewest = min((occupancy(launch, gpu) for launch in cost.launches), key=lambda fits: fits.programs)
    spilled = ""
    if worst.spill_store_bytes:
        spilled = (
            f" The registers are too few: each thread needs {worst.stack_bytes:,} bytes of local memory, which lies "
            f"in {gpu.hbm} behind the caches. It stores and loads them as it runs. The traffic formula does not count "
            "these bytes."
        )
    count = f"{fewest.programs} programs" if fewest.programs != 1 else "one program"
    limits = [name for name, fits in fewest.by_limit.items() if fits == fewest.programs]
    limit = f"The limit: {limits[0]}." if len(limits) == 1 else f"The limits: {' and '.join(limits)}."
    return f"An SM holds {count} at a time. {limit}{spilled}"


def grid(costs: Mapping[tuple[int, int], Cost], gpu: Gpu, here: tuple[int, int]) -> str:
    """Every tile that was compiled for this GPU: programs per SM, and spills. `here` is the chosen tile."""
    cell, high, left, top = 150.0, 56.0, 110.0, 44.0
    drawn = [
        text(left + cell * len(SIDES) / 2, 14, "BLOCK_N", anchor="middle", bold=True),
        text(0, top + 20, "BLOCK_M", bold=True),
    ]
    for i, block_m in enumerate(SIDES):
        drawn += [
            text(left - 10, top + high * i + 33, str(block_m), anchor="end"),
            text(left + cell * i + cell / 2, top - 10, str(block_m), anchor="middle"),
        ]
        for j, block_n in enumerate(SIDES):
            x, y = left + cell * j, top + high * i
            cost = costs.get((block_m, block_n))
            if cost is None:
                drawn += [
                    rect(x, y, cell - 4, high - 4, CHIP, opacity=0.08),
                    text(x + cell / 2, y + 32, "not compiled", anchor="middle", faint=True),
                ]
                continue
            launch = cost.launches[0]
            fits = occupancy(launch, gpu)
            fill, opacity = (
                (CHIP, 0.08 if launch.spill_store_bytes else 0.12 + 0.04 * min(fits.programs, 10))
                if fits.programs
                else (ALARM, 0.25)
            )
            words = f"{fits.programs} per SM" if fits.programs else "too large"
            more = (
                f"spills {launch.spill_store_bytes:,} B"
                if launch.spill_store_bytes
                else f"{bytes_on_chip(launch.shared_bytes)}, {launch.registers} reg."
            )
            spills = bool(launch.spill_store_bytes)
            title = (
                f"{block_m} × {block_n}: {launch.shared_bytes:,} B shared memory, {launch.registers} registers per "
                f"thread, limited by {fits.limit}"
            )
            border = "currentColor" if (block_m, block_n) == here else "none"
            ink = css_ink("alarm") if spills else ""
            drawn += [
                rect(x, y, cell - 4, high - 4, fill, opacity=opacity, stroke=border, title=title),
                text(x + cell / 2 - 2, y + 23, words, anchor="middle", bold=True),
                text(x + cell / 2 - 2, y + 42, more, anchor="middle", size=12, bold=spills, fill=ink),
            ]
    label = f"Programs per SM of the {gpu.name}, by tile"
    return picture(left + cell * len(SIDES), top + high * len(SIDES), label, drawn, "48rem")


def crossing_chart(seconds: Mapping[str, Mapping[int, float]], predicted: bool) -> str:
    """Two kernels' times by N, both axes logarithmic, and the speedup at each N. Predicted ones are dashed."""
    left, top, high, step = 130.0, 54.0, 230.0, 92.0
    lengths = list(next(iter(seconds.values())))
    every = [one for times in seconds.values() for one in times.values()]
    low, up = math.log(min(every)), math.log(max(every))
    x = {n: left + step * i for i, n in enumerate(lengths)}
    end = x[lengths[-1]]
    drawn = [
        text(left - 30, 18, "time of one call (log scale)", faint=True),
        line(left - 30, top + high + 16, end + 30, top + high + 16, opacity=0.6),
    ]
    starts, ends = [], []
    for kernel, times in seconds.items():
        hue = kernel_hue(KERNELS[kernel].hue)
        points = [(x[n], top + high * (up - math.log(times[n])) / (up - low)) for n in lengths]
        dashes = ' stroke-dasharray="6 5"' * predicted
        path = " ".join(f"{at:.1f},{height:.1f}" for at, height in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{css(hue)}" stroke-width="3"{dashes}/>')
        for n, (at, height) in zip(lengths, points, strict=True):
            drawn.append(circle(at, height, 5, css(hue), title=f"N = {n:,}: {duration(times[n])}"))
        starts.append((points[0][1], css_ink(hue), duration(times[lengths[0]])))
        ends.append((points[-1][1], css_ink(hue), f"{KERNELS[kernel].short}, {duration(times[lengths[-1]])}"))
    for labels, at, anchor in ((starts, left - 12, "end"), (ends, end + 12, "start")):
        heights = spread([height for height, _, _ in labels], 20)
        for height, (_, ink, words) in zip(heights, labels, strict=True):
            drawn.append(text(at, height + 5, words, anchor=anchor, bold=True, fill=ink))
    drawn += [text(left - 40, top + high + 38, "N (log scale)", anchor="end", faint=True)]
    drawn += [text(left - 40, top + high + 62, "speedup", anchor="end", faint=True)]
    standard, flash = seconds.values()
    for n, at in x.items():
        drawn.append(text(at, top + high + 38, counted(n), anchor="middle"))
        drawn.append(text(at, top + high + 62, ratio(standard[n] / flash[n]), anchor="middle", bold=True))
    width = end + 36 + widest([words for _, _, words in ends], 14, bold=True)
    return picture(width, top + high + 70, "Times of both kernels by N, both axes logarithmic", drawn, "58rem")


def reads_chart(rows: Sequence[Reads]) -> str:
    """Bytes of K and V that the programs read, against BLOCK_M, both logarithmic, with the line of 8 N² d² / M."""
    left, top, step, high = 90.0, 30.0, 120.0, 230.0
    item = rows[0].bytes / rows[0].by_formula
    theorem = [row.by_theorem * item for row in rows]
    low, up = math.log2(min(theorem)), math.log2(max(theorem))
    x = [left + step * i for i in range(len(rows))]
    y = [top + high * (up - math.log2(count)) / (up - low) for count in theorem]
    drawn = [
        text(left, 16, "bytes read of K and V", faint=True),
        line(left - 24, top + high + 24, x[-1] + 60, top + high + 24, opacity=0.6),
        line(x[0], y[0], x[-1], y[-1], stroke=CHIP, opacity=1),
        text((x[1] + x[2]) / 2 + 18, (y[1] + y[2]) / 2 - 6, "8 N² d² / M: twice the tile, half the bytes"),
        text(left - 24, top + high + 44, "BLOCK_M", anchor="end", faint=True),
    ]
    for row, at in zip(rows, x, strict=True):
        height = top + high * (up - math.log2(row.bytes)) / (up - low)
        drawn += [
            circle(at, height, 6, css("hbm"), title=f"BLOCK_M = {row.block_m}: {row.bytes:,} B"),
            text(at - 12, height + 20, moved(row.bytes), anchor="end", bold=True),
            text(at, top + high + 44, str(row.block_m), anchor="middle"),
        ]
    return picture(x[-1] + 70, top + high + 50, "Bytes of K and V read, against BLOCK_M", drawn, "44rem")


def reads_table(rows: Sequence[Reads]) -> str:
    """M, and the elements of K and V that are read, for each BLOCK_M, as Markdown."""
    cells = [(str(row.block_m), row.on_chip, row.by_formula, moved(row.bytes)) for row in rows]
    columns = (
        Column("BLOCK_M"), Column("M = 4 d BLOCK_M, elements"), Column("K and V read = 8 N² d² / M, elements"),
        Column("bytes"),
    )  # fmt: skip
    return markdown(columns, cells)


_OUTPUT = ("o", "o_hbm", "m_hbm", "l_hbm", "lse")
Group = tuple[str, Sequence[str], str]
"""A name, the buffers that it holds, and the hue of their bytes."""
GROUPS: tuple[Group, ...] = (
    ("O, m, ℓ, L", _OUTPUT, "acc"), ("Q", ("q",), "hbm"), ("K and V", ("k", "v"), "hbm"),
)  # fmt: skip
WITH_SCORES: tuple[Group, ...] = (
    ("Q, K and V", ("q", "k", "v"), "hbm"), ("O", ("o",), "acc"), ("L", ("lse",), "acc"),
    ("S and P", ("s", "p"), "scores"),
)  # fmt: skip
"""What standard attention and FlashAttention move."""


@dataclass(frozen=True)
class Share:
    """A group of buffers' bytes in one run, read and written, by formula and by trace."""

    group: str
    read: int
    written: int
    traced_read: int
    traced_written: int


def shares(experiment: Experiment, trace: Trace) -> list[Share]:
    """An attention kernel's bytes in three groups: O with m, ℓ and L; Q; K and V."""
    formula = experiment.entry.formula(experiment.values)
    (launch,) = trace.launches
    found = []
    for group, buffers, _ in GROUPS:
        read, written = (_bytes(formula, buffers, way) for way in (False, True))
        traced = [
            sum(counts.get(f"{buffer}_ptr", 0) for buffer in buffers)
            for counts in (launch.read_bytes, launch.written_bytes)
        ]
        found.append(Share(group, read, written, *traced))
    return found


def _bytes(formula: Traffic, buffers: Sequence[str], written: bool) -> int:
    return sum(term.bytes for term in formula.terms if term.buffer in buffers and term.written == written)


def shares_table(runs: Sequence[tuple[Experiment, Trace]]) -> str:
    """The groups' bytes, one row per run, by formula and by trace, as Markdown."""
    rows = []
    for experiment, trace in runs:
        state, q, kv = shares(experiment, trace)
        whole = sum(s.read + s.written for s in (state, q, kv))
        traced = sum(s.traced_read + s.traced_written for s in (state, q, kv))
        own = (f"**{counted(state.read)}**", f"**{counted(state.written)}**")
        rows.append((experiment.entry.title, *own, q.read, kv.read, whole, traced))
    headings = ("O, m, ℓ, L: read", "written", "Q: read", "K and V: read", "total bytes, formula", "total bytes, trace")
    return markdown(("kernel", *map(Column, headings)), rows)


def traffic_bars(runs: Sequence[tuple[str, Traffic]], groups: Sequence[Group]) -> str:
    """The groups' bytes by formula, as a bar under the title of each run; the bars have one scale."""
    totals = [formula.read_bytes + formula.written_bytes for _, formula in runs]
    left, width, high, drawn = 2.0, 440.0, 88.0, []
    for i, (title, formula) in enumerate(runs):
        x, y = left, high * i + 22
        drawn.append(text(left, y - 8, title, bold=True))
        small: list[tuple[float, str]] = []
        for group, buffers, hue in groups:
            for written, way, opacity in ((False, "read", 0.35), (True, "written", 0.6)):
                if not (count := _bytes(formula, buffers, written)):
                    continue
                long, label = width * count / max(totals), f"{group}, {way}: {count:,} B"
                drawn.append(rect(x, y, long, 34, css(hue), opacity=opacity, stroke="currentColor", title=label))
                words = f"{group} {way}"
                if long > text_width(words, 12) + 10:
                    drawn.append(text(x + 5, y + 22, words, size=12))
                else:
                    small.append((x + long / 2, words))
                x += long
        drawn.append(text(x + 10, y + 22, f"{counted(totals[i])} B", bold=True))
        extents = [text_width(words, 12) + 14 for _, words in small]
        for at, (_, words) in zip(spread([at for at, _ in small], extents, left), small, strict=True):
            drawn.append(text(at, y + 50, words, anchor="middle", size=12, faint=True))
    label = f"HBM bytes of {' and '.join(title for title, _ in runs)}"
    return picture(left + width + 100, high * len(runs), label, drawn, "46rem")


def visit_grids(runs: Sequence[tuple[str, Visits]]) -> str:
    """The tiles of S in the order of the visits, a grid for each titled run; at the right, the program of each row and
    how often the row's O is written to HBM.
    """
    cell, gap, top = 54.0, 120.0, 64.0
    drawn, x, high = [], 92.0, 0.0
    for title, found in runs:
        rows, cols = (max(tile[axis] for tile in found.order) + 1 for axis in (0, 1))
        side = min(cell, 4 * cell / max(rows, cols))
        drawn.append(text(x, 16, title, bold=True))
        drawn.append(text(x + side * cols / 2, top - 12, "keys →", anchor="middle", faint=True))
        drawn.append(text(x - 10, top + side * rows / 2, "queries ↓", anchor="end", faint=True))
        for (i, j), (program, place) in found.order.items():
            at, y = x + side * j, top + side * i
            hover = f"program {program}, visit {place}: query tile {i}, key tile {j}"
            drawn.append(rect(at, y, side, side, css("scores"), opacity=0.2, stroke="currentColor", title=hover))
            if side >= 20:
                size = min(18, side / 2)
                drawn.append(text(at + side / 2, y + side / 2 + size / 3, str(place), anchor="middle", size=size))
        programs = {program for program, _ in found.order.values()}
        owners = {i: f"program {program}: " for (i, _), (program, _) in found.order.items() if len(programs) > 1}
        for i, stores in found.stores.items():
            if side >= 14:
                said = f"{owners.get(i, '')}O written {stores} ×"
                drawn.append(text(x + side * cols + 10, top + side * i + side / 2 + 5, said, fill=css_ink("acc")))
        many = len(programs)
        said = "1 program, one tile after another" if many == 1 else f"{many} programs, at the same time"
        drawn.append(text(x, top + side * rows + 24, said, faint=True))
        x, high = (
            x + max(side * cols + (190 if many > 1 else 110), text_width(title, 14, bold=True)) + gap,
            max(high, side * rows),
        )
    return picture(x - 60, top + high + 32, "The order in which each kernel visits the tiles of S", drawn, "58rem")


def algorithm_table(rows: Sequence[tuple[str, str, tuple[str, ...]]], source: str) -> str:
    """The algorithm's steps beside the kernel's lines and their numbers in `source`, as Markdown with HTML."""
    numbered = {line.strip(): number for number, line in reversed(list(enumerate(source.splitlines(), 1)))}

    def cells(number: str, words: str, codes: tuple[str, ...]) -> tuple[str, str, str, str]:
        said = re.sub(r"_([a-z])\b", r"<sub>\1</sub>", words)
        lines = "<br>".join(str(numbered.get(code, "")) for code in codes)
        return number, said, "<br>".join(f"`{code}`" for code in codes), lines

    rows_of_cells = [cells(*row) for row in rows]
    return markdown((Column("paper"), "what it does", "the kernel's lines", Column("line")), rows_of_cells)
