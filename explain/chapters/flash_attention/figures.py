"""Pictures of FlashAttention: a tile in its SRAM, both loop orders' bytes, N²d²/M, the paper's algorithm."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from explain.chapters.flash_attention.algorithm import shortened
from explain.chapters.flash_attention.tiles import MOST_REGISTERS, NUM_WARPS, SIDES, Reads, capacity, parts
from explain.chapters.flash_attention.visits import Visits
from explain.chapters.sweeps.analysis import crossing
from explain.compile.cost import REGISTER_BYTES, REGISTER_UNIT, WARP, Cost, LaunchCost, allocated, occupancy, too_large
from explain.compile.listing import Spills
from explain.experiment import Experiment
from explain.figures.labels import listed, spread, text_width, wrapped
from explain.figures.numbers import capacity as bytes_on_chip
from explain.figures.numbers import count as counted
from explain.figures.numbers import duration, moved, percent, ratio
from explain.figures.palette import SYMBOLS, css, css_ink
from explain.figures.palette import kernel as kernel_hue
from explain.figures.svg import button, circle, line, path, picture, rect, text
from explain.figures.tables import Column, markdown
from explain.gpus import Gpu
from explain.kept import kept
from explain.trace.model import Trace
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Traffic

HUES = {"q": "hbm", "k": "hbm", "v": "hbm"}
"""Q, K and V are tiles of what lies in HBM; the other parts have hues of their own."""
CHIP, ALARM = css("slate"), css("alarm")
PLACES = {"shared": "Shared memory", "registers": "Registers"}
LEFT, TANK, BAR, PITCH = 86.0, 440.0, 40.0, 88.0
"""Where a tank begins, how long it is when full, its height, and from one to the next, in units of the picture."""
OVER = 60.0
"""The most that is drawn of what does not fit."""


@kept
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
        full = f"{MOST_REGISTERS} registers × {threads} threads" if every else bytes_on_chip(most)
        contents = [(part.name, part.bytes, css(HUES.get(part.quantity, part.quantity)), part.shape) for part in own]
        tank = [
            text(0, 16, name, bold=True),
            text(LEFT + TANK, 16, f"the most of one program: {full}", size=13, anchor="end", faint=True),
        ]
        tank += _tank(26, most, contents, "formula")
        if cost is not None:
            spilled = cost.spill_store_bytes * WARP * cost.num_warps if place == "registers" else 0
            tank += _tank(26 + PITCH, most, [_compiled(cost, place)], "compiler", spilled, _more(p, gpu, cost, place))
        else:
            tank += [*_rim(26 + PITCH), text(LEFT + 10, 26 + PITCH + 26, "not compiled yet", faint=True)]
        label = f"A tile's bytes in the {name.lower()} of the {gpu.name}"
        drawn.append(picture(LEFT + TANK + OVER + 8, 26 + 2 * PITCH - 20, label, tank, "46rem"))
    return drawn[0], drawn[1]


def _compiled(cost: LaunchCost, place: str) -> tuple[str, int, str, str]:
    if place == "shared":
        return "", cost.shared_bytes, CHIP, f"num_stages = {cost.num_stages}"
    return "", cost.register_bytes, CHIP, f"{cost.registers} per thread, {cost.num_warps} warps"


def _more(p: Mapping[str, Any], gpu: Gpu, cost: LaunchCost, place: str) -> str:
    """What the compiler's bytes hold that the formula does not count.

    On GPUs with asynchronous copies two buffers explain the shared memory of 16-bit tiles to the byte: the next K and
    V, or P̃ where the second matmul reads it from there. Elsewhere only the number is given.
    """
    if place == "registers":
        return f"{cost.registers} per thread: also addresses, masks, temporary values"
    own = {part.name: part.bytes for part in parts(p) if part.place == place}
    item = ITEM_BYTES[p["dtype"]]
    more = cost.shared_bytes - sum(own.values())
    if more <= 0:
        return "each array once" if more == 0 else ""
    buffers = {p["block_m"] * p["block_n"] * item: ": P̃", own["K tile"] + own["V tile"]: ": the next K and V"}
    known = buffers if item == 2 and gpu.compute_capability >= 80 else {}
    return f"+ {bytes_on_chip(more)}{known.get(more, '')}"


def _tank(
    y: float, most: int, contents: Sequence[tuple[str, int, str, str]], source: str, spilled: int = 0, note: str = ""
) -> list[str]:  # fmt: skip
    """One tank, filled from its left. `spilled` bytes stand right of a full one; the `note` stands below."""
    total, x = sum(count for _, count, _, _ in contents), LEFT
    drawn: list[str] = []
    small = []
    for what, count, colour, shape in contents:
        wide = max(0.0, min(TANK * count / most, LEFT + TANK + OVER - x))
        title = f"{what or source}: {shape} = {counted(count)} B"
        drawn.append(rect(x, y, wide, BAR, colour, opacity=0.45, stroke="currentColor", title=title))
        short, size = what.removesuffix(" tile"), bytes_on_chip(count)
        if text_width(short) + 4 <= wide:
            drawn.append(text(x + wide / 2, y + 25, short, anchor="middle"))
        small += [f"{short} {size}"] if short else []
        x += wide
    if x > LEFT + TANK + 0.5:
        drawn.append(rect(LEFT + TANK, y, x - LEFT - TANK, BAR, ALARM, opacity=0.3, stroke=ALARM, dashed=True))
    if spilled:
        wide, title = min(TANK * spilled / most, OVER), f"spilled: {counted(spilled)} B"
        drawn.append(rect(LEFT + TANK, y, wide, BAR, ALARM, opacity=0.75, dashed=True, stroke=ALARM, title=title))
    over = total > most
    warning = (
        f"overflows by {counted(total - most)} B" if over else f"spills {bytes_on_chip(spilled)}" if spilled else ""
    )
    alarm = css_ink("alarm")
    said, below = f"{counted(total)} B, {percent(total / most)}", y + BAR + 18
    told = LEFT + text_width(said, 14, bold=True) + 16
    return [
        *drawn,
        *_rim(y),
        text(0, y + 25, source),
        text(LEFT, below, said, bold=True, fill=alarm if over else ""),
        text(told, below, note or " · ".join(small), faint=True),
        text(LEFT + TANK, y - 6, warning, size=13, anchor="end", bold=True, fill=alarm),
    ]


def _rim(y: float) -> list[str]:
    return [
        line(LEFT, y, LEFT + TANK, y, opacity=0.9),
        line(LEFT, y + BAR, LEFT + TANK, y + BAR, opacity=0.9),
        line(LEFT, y, LEFT, y + BAR, opacity=0.9),
        line(LEFT + TANK, y - 6, LEFT + TANK, y + BAR + 6, opacity=0.9),
    ]


def verdict(cost: Cost, gpu: Gpu) -> str:
    """Whether the tile runs on the GPU, in bold, what limits its programs, and whether it spills, as Markdown."""
    spilling = [f"`{launch.kernel}`" for launch in cost.launches if launch.spill_store_bytes]
    where = f" in {listed(spilling)}" if len(cost.launches) > 1 else ""
    spilled = f"Registers spill{where}." if spilling else "Nothing spills."
    title = KERNELS[cost.kernel].title if len(cost.launches) == 1 and cost.kernel in KERNELS else ""
    if refused := " ".join(filter(None, (too_large(launch, gpu, title) for launch in cost.launches))):
        return f"**{refused}**\n\n{spilled}"
    fewest = min((occupancy(launch, gpu) for launch in cost.launches), key=lambda fits: fits.programs)
    count = f"{fewest.programs} programs" if fewest.programs != 1 else "one program"
    limits = [name for name, fits in fewest.by_limit.items() if fits == fewest.programs]
    limit = f"The limit: {limits[0]}." if len(limits) == 1 else f"The limits: {' and '.join(limits)}."
    return f"**An SM of the {gpu.name} holds {count} at a time.** {limit} {spilled}"


def registers_told(launch: LaunchCost, gpu: Gpu, spills: Spills | None = None) -> str:
    """The registers that a thread and a program of the launch take, as a calculation, and what a thread spills.

    `spills`, if known: where the instructions that spill are.
    """
    threads, taken = WARP * launch.num_warps, allocated(launch, gpu)["registers"]
    each = f"{launch.registers} registers"
    if launch.registers * threads < taken:
        steps = f"(the GPU gives them in steps of {REGISTER_UNIT // WARP})"
        each = f"{launch.registers} registers, rounded up to {taken // threads} {steps}: {taken // threads}"
    said = (
        f"Registers belong to a thread. A program has {launch.num_warps} warps, so {threads} threads. Here {each} × "
        f"{threads} threads = {counted(taken)} per program."
    )
    if not launch.spill_store_bytes:
        return said
    most = min(MOST_REGISTERS, gpu.register_bytes_sm // launch.num_warps // WARP // REGISTER_BYTES)
    why = (
        f"A thread may have {most} registers, and this one has them all."
        if launch.registers >= most
        else f"A thread may have {most} registers. ptxas stopped at {launch.registers} and does not say why, so "
        f"{launch.registers} is not what the tile needs."
    )
    return (
        f"{said}\n\n{why} The other values spill to local memory, in {gpu.hbm} behind the caches: {launch.spills} per "
        f"thread, each instruction counted once. {_spills_told(spills)} These bytes come on top of the tensors'."
    )


def _spills_told(spills: Spills | None) -> str:
    """How often the instructions that spill run, in sentences."""
    if spills is None:
        return "One in a loop moves its bytes in every iteration."
    told = _run("store", spills.stores_in_loop, spills.stores), _run("load", spills.loads_in_loop, spills.loads)
    return " ".join(filter(None, told))


def _run(what: str, looped: int, every: int) -> str:
    """How often the `every` stores, or loads, of spilled registers run, of which `looped` are in a loop."""
    s = "s" * (every != 1)
    if not every:
        return ""
    if looped == every:
        return f"Its {counted(every)} {what}{s} run{'s' * (every == 1)} in each iteration of a loop."
    if not looped:
        return f"Its {counted(every)} {what}{s} run{'s' * (every == 1)} at most once, outside the loops."
    return f"Of its {counted(every)} {what}{s}, {counted(looped)} run in each iteration of a loop."


@kept
def grid(
    costs: Mapping[tuple[int, int], Cost], gpu: Gpu, here: tuple[int, int], *, narrow: bool = False
) -> str:  # fmt: skip
    """The tiles to choose from: how many programs an SM holds of each, and which spill. `here` is the chosen tile.

    A press chooses "64x32": BLOCK_M and BLOCK_N. The other numbers are in a tile's hover text. `narrow` is for a phone.
    """
    cell, high, left, top = (70.0, 44.0, 84.0, 66.0) if narrow else (150.0, 44.0, 84.0, 46.0)
    drawn = [
        text(0, 15, f"Programs that an SM of the {gpu.name} holds", bold=True),
        text(left + cell * len(SIDES) - 4, 36 if narrow else 15, "BLOCK_N, keys →", anchor="end", faint=True),
        text(0, top - 8, "BLOCK_M ↓" if narrow else "BLOCK_M, queries ↓", faint=True),
    ]
    for i, block_m in enumerate(SIDES):
        drawn += [
            text(left - 12, top + high * i + 27, str(block_m), anchor="end", bold=True),
            text(left + cell * i + cell / 2, top - 8, str(block_m), anchor="middle", bold=True),
        ]
        for j, block_n in enumerate(SIDES):
            x, y = left + cell * j, top + high * i
            tile, chosen = (block_m, block_n), (block_m, block_n) == here
            fill, opacity, words, more, told = _cell(costs.get(tile), gpu)
            ink = css_ink("alarm") if more or words == "too large" else ""
            known = words.isdigit()
            words, size = ("–" if narrow and words == "not compiled" else words), 12 if narrow else 14
            middle = x + cell / 2 - (text_width(more, size) / 2 + 4 if more else 2)
            parts = [
                rect(x + 2, y + 2, cell - 8, high - 8, fill, opacity=2.4 * opacity if chosen else opacity),
                text(middle, y + 28 - (not known), words, size=20 if known else size, anchor="middle", bold=known,
                     fill="" if known else ink, faint=not known and not ink),
            ]  # fmt: skip
            if more:
                parts.append(text(middle + (8 if narrow else 14), y + 27, more, size=size, bold=True, fill=ink))
            name = f"{block_m} × {block_n}: {told}"
            key = f"{block_m}x{block_n}"
            drawn.append(button(key, name, x, y, cell - 4, high - 4, parts, chosen=chosen))
    width, below = left + cell * len(SIDES), top + high * len(SIDES)
    meant = [
        *wrapped("More programs are not the goal: a larger tile reads K and V less often.", width),
        *wrapped("spills: its registers run out, so the compiler moves values to memory and back.", width),
    ]
    drawn += [text(0, below + 20 * (at + 1), words, faint=True) for at, words in enumerate(meant)]
    label = f"Programs per SM of the {gpu.name}, by tile"
    return picture(width, below + 20 * len(meant) + 8, label, drawn, "48rem")


def _cell(cost: Cost | None, gpu: Gpu) -> tuple[str, float, str, str, str]:
    """A tile in the grid: fill, opacity, its main word, its warning, its hover text."""
    if cost is None:
        return CHIP, 0.08, "not compiled", "", "not compiled"
    launch = cost.launches[0]
    fits = occupancy(launch, gpu)
    spilled = launch.spill_store_bytes
    told = (
        f"{bytes_on_chip(launch.shared_bytes)} shared memory, {launch.registers} registers per thread"
        f"{f', spills per thread: {launch.spills}' if spilled else ''}; "
    )
    if not fits.programs:
        return ALARM, 0.25, "too large", "", f"{told}too large"
    told += f"{fits.programs} per SM, limited by {fits.limit}"
    if spilled:
        return ALARM, 0.12, str(fits.programs), "spills", told
    return CHIP, 0.2, str(fits.programs), "", told  # one tint: more programs are not the goal


def faster(seconds: Mapping[str, Mapping[int, float]], setting: Mapping[str, Any], gpu: Gpu) -> str:
    """From which measured N on FlashAttention is faster than standard attention, and what the N below have; Markdown.

    `seconds` has standard attention first.
    """
    standard, flash = seconds.values()
    found = crossing({float(n): one for n, one in standard.items()}, {float(n): one for n, one in flash.items()})
    if found is None or found.first is None:
        return "FlashAttention does not stay faster from any measured N on."
    after = [one for n, one in found.ratios.items() if n >= found.first]
    before = {n: one for n, one in found.ratios.items() if n < found.first}
    said = (
        f"From **N = {counted(int(found.first))}** on, **FlashAttention** is faster than **standard attention**, up to "
        f"{ratio(max(after))}: it saves the bytes of S and P. Time falls less than the bytes: "
        "the same matmuls remain."
    )
    mixed = bool(before) and min(before.values()) < 1 < max(before.values())
    if found.x:
        at = f"N ≈ {found.x:,.0f}"
        said += f" The curves cross at {at}." + (" Below it, neither is always faster." if mixed else "")
    if before:
        longest = int(max(before))
        programs = setting["heads"] * -(-longest // setting["block_m"])
        least, most = (ratio(pick(before.values())) for pick in (min, max))
        said += f"\n\nBelow N = {counted(int(found.first))}, the speedup is {least} to {most}."
        if programs < gpu.sms:
            said += (
                f" A program takes {setting['block_m']} queries of a head. So at N = {counted(longest)} FlashAttention "
                f"has {programs} programs for {gpu.sms} SMs."
            )
    return said


@kept
def crossing_chart(seconds: Mapping[str, Mapping[int, float]], predicted: bool, *, narrow: bool = False) -> str:
    """The second kernel's speedup over the first by N, above and below a line at 1; both times at each N below it.

    Both axes are logarithmic. Predicted speedups are dashed. `narrow` is for a phone: every second N, the longest last.
    """
    top, high, step, row = 48.0, 200.0, 62.0 if narrow else 92.0, 24.0
    if narrow:
        seconds = {name: {n: own[n] for n in [*own][::-2][::-1]} for name, own in seconds.items()}
    (standard, slow), (flash, fast) = seconds.items()
    names = ("N", KERNELS[standard].short, KERNELS[flash].short)
    apart, title = 48, f"speedup of {KERNELS[flash].short} over {KERNELS[standard].short} (log scale)"
    if narrow:
        apart, title = 30, "speedup (log scale)"
    left = text_width(max(names, key=text_width)) + apart + 12
    gains = {n: slow[n] / fast[n] for n in slow}
    low, up = (math.log2(pick([1.0, *gains.values()])) for pick in (min, max))
    x = {n: left + step * at for at, n in enumerate(gains)}
    end, base = max(x.values()) + (24 if narrow else 40), top + high + 20

    def height(gain: float) -> float:
        return top + high * (up - math.log2(gain)) / (up - low or 1.0)

    hue, dashes = kernel_hue(KERNELS[flash].hue), ' stroke-dasharray="6 5"' * predicted
    points = " ".join(f"{at:.1f},{height(gains[n]):.1f}" for n, at in x.items())
    drawn = [
        text(0 if narrow else left - apart + 8, 16, title, faint=True),
        line(left - apart + 8, height(1.0), end, height(1.0), opacity=0.6),
        text(left - apart, height(1.0) + 5, "1: equal", anchor="end", faint=True),
        f'<polyline points="{points}" fill="none" stroke="{css(hue)}" stroke-width="3"{dashes}/>',
    ]
    y = [height(gain) for gain in gains.values()]
    for number, (n, at) in enumerate(x.items()):
        beside = {-8: y[max(number - 1, 0)], 8: y[min(number + 1, len(y) - 1)]}
        rises = {side: (y[number] - other) / step for side, other in beside.items()}
        higher, lower = ([side for side, rise in rises.items() if sign * rise > 0.4] for sign in (1, -1))
        above = bool(lower) or (gains[n] >= 1 and not higher)  # a steep line crosses a number on its side of the dot
        aside = -higher[0] if higher and lower else 0
        anchor = {-8: "end", 0: "middle", 8: "start"}[aside]
        drawn += [
            circle(at, height(gains[n]), 6, css(hue), title=f"N = {counted(n)}: {ratio(gains[n])}"),
            text(at + aside, height(gains[n]) + (-12 if above else 24), ratio(gains[n]), anchor=anchor, bold=True),
            text(at, base + row, counted(n), anchor="middle"),
            text(
                at, base + 2 * row, duration(slow[n]), anchor="middle", fill=css_ink(kernel_hue(KERNELS[standard].hue))
            ),
            text(at, base + 3 * row, duration(fast[n]), anchor="middle", fill=css_ink(hue)),
        ]
    drawn += [
        text(left - apart, base + at * row, name, anchor="end", faint=True) for at, name in enumerate(names, start=1)
    ]
    label = f"Speedup of {KERNELS[flash].short} over {KERNELS[standard].short} by N"
    return picture(end + 8, base + 3 * row + 10, label, drawn, "58rem")


@kept
def reads_chart(rows: Sequence[Reads]) -> str:
    """Bytes of K and V that the programs read, against BLOCK_M, both logarithmic, with the line of 8 N² d² / M."""
    left, top, step, high = 112.0, 30.0, 96.0, 200.0
    item = rows[0].bytes / rows[0].by_formula
    theorem = [row.by_theorem * item for row in rows]
    low, up = math.log2(min(theorem)), math.log2(max(theorem))
    x = [left + step * i for i in range(len(rows))]
    y = [top + high * (up - math.log2(count)) / (up - low) for count in theorem]
    drawn = [
        text(left, 16, "bytes read of K and V; both axes: log scale", faint=True),
        line(left - 24, top + high + 24, x[-1] + 60, top + high + 24, opacity=0.6),
        line(x[0], y[0], x[-1], y[-1], stroke=CHIP, opacity=1),
        text((x[1] + x[2]) / 2 + 18, (y[1] + y[2]) / 2 - 6, "8 N² d² / M: twice the tile, half the bytes"),
        text(left - 36, top + high + 44, "BLOCK_M", anchor="end", faint=True),
        text(left - 36, top + high + 68, "M, elements", anchor="end", faint=True),
    ]
    for row, at in zip(rows, x, strict=True):
        height = top + high * (up - math.log2(row.bytes)) / (up - low)
        drawn += [
            circle(at, height, 6, css("hbm"), title=f"BLOCK_M = {row.block_m}: {counted(row.bytes)} B"),
            text(at - 12, height + 20, moved(row.bytes), anchor="end", bold=True),
            text(at, top + high + 44, str(row.block_m), anchor="middle"),
            text(at, top + high + 68, counted(row.on_chip), anchor="middle"),
        ]
    return picture(x[-1] + 70, top + high + 76, "Bytes of K and V read, against BLOCK_M", drawn, "44rem")


Group = tuple[Mapping[str, Sequence[str]], str]
"""Quantities with the buffers that hold each, and the hue of their bytes."""
GROUPS: tuple[Group, ...] = (
    ({"O": ("o", "o_hbm"), "m": ("m_hbm",), "ℓ": ("l_hbm",), "L": ("lse",)}, "acc"),
    ({"Q": ("q",)}, "hbm"),
    ({"K": ("k",), "V": ("v",)}, "hbm"),
)
"""What the two loop orders move."""
WITH_SCORES: tuple[Group, ...] = (
    ({"Q": ("q",), "K": ("k",), "V": ("v",)}, "hbm"),
    ({"O": ("o",)}, "acc"),
    ({"L": ("lse",)}, "acc"),
    ({"S": ("s",)}, "scores"),
    ({"P": ("p",)}, "p"),
)
"""What standard attention and FlashAttention move."""


@dataclass(frozen=True)
class Share:
    """A group of buffers' bytes in one run, read and written, by formula and by trace."""

    read: int
    written: int
    traced_read: int
    traced_written: int


def shares(experiment: Experiment, trace: Trace) -> list[Share]:
    """An attention kernel's bytes in three groups: O with m, ℓ and L; Q; K and V."""
    formula = experiment.traffic
    (launch,) = trace.launches
    found = []
    for held, _ in GROUPS:
        buffers = [buffer for own in held.values() for buffer in own]
        read, written = (_bytes(formula, buffers, way) for way in (False, True))
        traced = [
            sum(counts.get(f"{buffer}_ptr", 0) for buffer in buffers)
            for counts in (launch.read_bytes, launch.written_bytes)
        ]
        found.append(Share(read, written, *traced))
    return found


def _bytes(formula: Traffic, buffers: Sequence[str], written: bool) -> int:
    return sum(term.bytes for term in formula.terms if term.buffer in buffers and term.written == written)


def _moving(formulas: Sequence[Traffic], held: Mapping[str, Sequence[str]], written: bool) -> str:
    """The quantities with bytes this way in one of the runs: "O, m and ℓ"."""
    *most, last = [name for name, own in held.items() if any(_bytes(one, own, written) for one in formulas)] or [""]
    return f"{', '.join(most)} and {last}" if most else last


@kept
def shares_table(runs: Sequence[tuple[Experiment, Trace]]) -> str:
    """The groups' bytes, one row per run, by formula and by trace, as Markdown."""
    rows = []
    for experiment, trace in runs:
        state, q, kv = shares(experiment, trace)
        whole = sum(s.read + s.written for s in (state, q, kv))
        traced = sum(s.traced_read + s.traced_written for s in (state, q, kv))
        own = (f"**{counted(state.read)}**", f"**{counted(state.written)}**")
        rows.append((experiment.entry.title, *own, q.read, kv.read, whole, traced))
    formulas = [experiment.traffic for experiment, _ in runs]
    read, written = (_moving(formulas, GROUPS[0][0], way) for way in (False, True))
    headings = (
        f"{read}: read", f"{written}: written", "Q: read", "K and V: read", "total bytes, formula",
        "total bytes, trace",
    )  # fmt: skip
    return markdown(("kernel", *map(Column, headings)), rows)


@kept
def traffic_bars(runs: Sequence[tuple[str, Traffic]], groups: Sequence[Group], *, narrow: bool = False) -> str:
    """The groups' bytes by formula, as a bar under the title of each run; the bars have one scale. A group's reads and
    writes stand in the order of the run; a part too small for its name has it below. `narrow` is for a phone."""
    totals = [formula.read_bytes + formula.written_bytes for _, formula in runs]
    left, width, high, drawn = 2.0, 236.0 if narrow else 440.0, 94.0, []
    for i, (title, formula) in enumerate(runs):
        x, y = left, high * i + 22
        drawn.append(text(left, y - 8, title, bold=True))
        small: list[tuple[float, str]] = []
        for held, hue in groups:
            buffers = [buffer for own in held.values() for buffer in own]
            for written in dict.fromkeys(term.written for term in formula.terms if term.buffer in buffers):
                count, opacity = _bytes(formula, buffers, written), 0.5 if written else 0.3
                words = f"{_moving([formula], held, written)} {'written' if written else 'read'}"
                long, label = width * count / max(totals), f"{words}: {counted(count)} B"
                drawn.append(rect(x, y, long, 34, css(hue), opacity=opacity, stroke="currentColor", title=label))
                if long > text_width(words, 12) + 10:
                    drawn.append(text(x + 5, y + 22, words, size=12))
                else:
                    small.append((x + long / 2, words))
                x += long
        whole = moved(totals[i]) if totals[i] >= 1e6 else f"{counted(totals[i])} B"
        drawn.append(text(x + 10, y + 22, whole, bold=True))
        extents = [text_width(words, 12) + 14 for _, words in small]
        for at, (middle, words) in zip(spread([at for at, _ in small], extents, left), small, strict=True):
            drawn.append(path(f"M{middle:.1f} {y + 34}v3L{at:.1f} {y + 41}", "currentColor", thick=1, opacity=0.6))
            drawn.append(text(at, y + 54, words, anchor="middle", size=12, faint=True))
    label = f"HBM bytes of {' and '.join(title for title, _ in runs)}"
    return picture(left + width + (80 if narrow else 100), high * len(runs), label, drawn, "46rem")


@kept
def visit_grids(runs: Sequence[tuple[str, Visits]], *, narrow: bool = False) -> str:
    """The tiles of S in the order of the visits, a grid for each titled run; at the right, how often O is written to
    HBM: once for all rows, if they agree. `narrow` is for a phone: one grid below the other.
    """
    if narrow and len(runs) > 1:
        return "".join(visit_grids([run]) for run in runs)
    cell, gap, top, size = 50.0, 36.0, 58.0, 15.0
    drawn, x, high = [], 88.0, 0.0
    for title, found in runs:
        rows, cols = (max(tile[axis] for tile in found.order) + 1 for axis in (0, 1))
        side = min(cell, 4 * cell / max(rows, cols))
        right, low = x + side * cols, top + side * rows
        drawn.append(text(x, 16, title, size=size, bold=True))
        drawn.append(text(x + side * cols / 2, top - 12, "keys →", anchor="middle", size=size, faint=True))
        drawn.append(text(x - 10, top + side * rows / 2, "queries ↓", anchor="end", size=size, faint=True))
        for (i, j), (program, place) in found.order.items():
            at, y = x + side * j, top + side * i
            hover = f"program {program}, visit {place}: query tile {i}, key tile {j}"
            drawn.append(rect(at, y, side, side, css("scores"), opacity=0.2, stroke="currentColor", title=hover))
            if side >= 20:
                large = min(18, side / 2)
                drawn.append(text(at + side / 2, y + side / 2 + large / 3, str(place), anchor="middle", size=large))
        ink, often = css_ink("acc"), set(found.stores.values())
        if len(often) == 1:
            drawn.append(path(f"M{right + 8:.1f} {top}h6V{low:.1f}h-6", ink))
            drawn.append(text(right + 24, (top + low) / 2 - 4, "O written", size=size, fill=ink))
            drawn.append(text(right + 24, (top + low) / 2 + 16, f"{often.pop()} ×", size=size, bold=True, fill=ink))
        else:
            drawn += [
                text(right + 10, top + side * i + side / 2 + 5, f"O written {stores} ×", size=size, fill=ink)
                for i, stores in found.stores.items() if side >= 14
            ]  # fmt: skip
        many = len({program for program, _ in found.order.values()})
        said = "1 program, one tile after another" if many == 1 else f"{many} programs, at the same time"
        drawn.append(text(x, low + 24, said, size=size, faint=True))
        widest_text = max(text_width(title, size, bold=True), text_width(said, size))
        x, high = x + max(side * cols + 116, widest_text) + gap + 78, max(high, side * rows)
    return picture(
        x - gap - 70, top + high + 32, "The order in which each kernel visits the tiles of S", drawn, "58rem"
    )


def algorithm_table(
    rows: Sequence[tuple[str, str, str, tuple[str, ...]]],
    source: str,
    steps: Callable[[Iterable[int]], Mapping[int, int]],
) -> str:
    """The algorithm's steps beside the kernel's lines, as HTML: numbered as in `source`, whole as hover text, those of
    the inner loop indented. `steps` gives for lines a step of the player that runs each.
    """
    of_line = {
        line.partition("  # ")[0].strip(): (at, line) for at, line in reversed([*enumerate(source.splitlines(), 1)])
    }
    at_step = steps(at for *_, codes in rows for at, _ in map(of_line.__getitem__, codes))
    drawn = []
    for number, words, symbols, codes in rows:
        told = re.sub(r"_([a-z])\b", r"<sub>\1</sub>", re.sub(r"`(.+?)`", r"<code>\1</code>", words))
        marks = "".join(
            f'<i style="--hue: {css(hue)}; color: {css_ink(hue)}">{symbol}</i>'
            for symbol, hue in ((symbol, SYMBOLS.get(symbol, "slate")) for symbol in symbols.split())
        )
        shown = "".join(
            f'<div title="{escape(code)}"><b>{of_line[code][0]}</b><code>{escape(shortened(code))}</code></div>'
            for code in codes
        )
        step = at_step.get(of_line[codes[0]][0])
        link = f'<a href="./flash_attention?step={step}&amp;row=15" target="_self">see it →</a>' if step else ""
        inner = all(of_line[code][1].startswith(" " * 8) for code in codes)
        cells = (f"<td>{number}</td>", f"<td>{told}</td>", f"<td>{marks}</td>", f"<td>{shown}</td>", f"<td>{link}</td>")
        drawn.append(f"<tr{' class=inner' * inner}>{''.join(cells)}</tr>")
    heads = "".join(f"<th>{head}</th>" for head in ("paper", "what it does", "sets", "the kernel's lines", ""))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(drawn)}</tbody></table>"
