"""Pictures of Memory hierarchy: levels to scale, in bytes and in time; S and P; a tiled matmul; trips to HBM."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explain.experiment import Experiment
from explain.figures.labels import begun, text_width, widest
from explain.figures.numbers import count, duration, fixed, moved, ratio, si
from explain.figures.palette import SYMBOLS, css
from explain.figures.svg import line, picture, rect, text
from explain.figures.tables import Column, markdown
from explain.gpus import Gpu
from explain.kept import kept
from explain.trace.model import Trace
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Term, tiles

REGISTER_CYCLES = 4.0
"""One dependent add or FMA, in clock cycles. The pictures of time call this one second."""
LEAST_NAMED = 44.0
"""The smallest square with a name inside, in units of the picture."""
HBM, CHIP, SCORES = css("hbm"), css("slate"), css("scores")


@dataclass(frozen=True)
class Level:
    """One level of the hierarchy: its name, its owner, its bytes, and the key of its latency."""

    name: str
    of: str
    bytes: int
    key: str


def levels(gpu: Gpu, host_bytes: int) -> list[Level]:
    """From the fastest to the slowest. `host_bytes` is the memory of the machine that runs the app."""
    return [
        Level("Registers", "of one SM", gpu.register_bytes_sm, "register"),
        Level("Shared memory", "of one SM", gpu.shared_bytes_sm, "shared"),
        Level("L2 cache", "of the GPU", gpu.l2_bytes, "l2"),
        Level(gpu.hbm, "of the GPU", gpu.hbm_bytes, "hbm"),
        Level("Host memory", "of this machine", host_bytes, "host"),
    ]


def farthest(gpu: Gpu) -> str:
    """The GPU's largest memory, with the words that HBM stands for."""
    return f"{gpu.hbm}, high-bandwidth memory," if gpu.hbm == "HBM" else gpu.hbm


@kept
def sizes(gpu: Gpu, *, narrow: bool = False) -> str:
    """The GPU's memories as squares, area for bytes: L2 in the corner of HBM, and enlarged with the rest of the chip.

    The chip stands beside HBM, in a narrow picture below it.
    """
    side, top, gap = 330.0, 38.0, 28.0
    dot = side * math.sqrt(gpu.l2_bytes / gpu.hbm_bytes)
    dot_x, dot_y = side - dot - 6, top + side - dot - 6 if narrow else top + 6  # the lines leave HBM at once
    chip = (
        ("L2 cache", gpu.l2_bytes, 0),
        ("shared memory", gpu.shared_bytes_all, gpu.shared_bytes_sm),
        ("registers", gpu.register_bytes, gpu.register_bytes_sm),
    )
    unit = (300.0 if narrow else 490.0) / sum(math.sqrt(size) for _, size, _ in chip)
    l2 = unit * math.sqrt(gpu.l2_bytes)
    x, high = (12.0, top + side + 50) if narrow else (side + 70, top + 6)
    ground = high + unit * math.sqrt(max(size for _, size, _ in chip))
    corners = ((dot_x, x), (dot_x + dot, x + l2)) if narrow else ((dot_x + dot, x), (dot_x + dot, x))
    small = 14 if narrow else 21
    name_x, name_y = side / 2, top + side / 2
    times_l2 = fixed(gpu.hbm_bytes / gpu.l2_bytes, 0)
    corner = (dot_x + dot, dot_y - 10) if narrow else (dot_x - 8, dot_y + 18)
    parts = [
        rect(0, top, side, side, HBM, opacity=0.35, stroke=HBM, title=f"{gpu.hbm}: {moved(gpu.hbm_bytes)}"),
        rect(dot_x, dot_y, dot, dot, CHIP, title=f"L2: {moved(gpu.l2_bytes)}"),
        text(*corner, f"L2 is this corner: 1 / {times_l2}", size=small, anchor="end"),
        text(name_x, name_y, gpu.hbm, size=30, anchor="middle", bold=True),
        text(name_x, name_y + 36, moved(gpu.hbm_bytes), size=26, anchor="middle"),
        text(
            x,
            ground + 94 if narrow else 24,
            f"These three are enlarged: each side × {fixed(l2 / dot, 0)}",
            bold=True,
            size=small,
        ),
    ]
    for (from_x, to_x), y, end in zip(corners, (dot_y, dot_y + dot), (ground - l2, ground), strict=True):
        parts.append(line(from_x, dot_y + dot if narrow else y, to_x, ground - l2 if narrow else end))
    for name, size, one in chip:
        edge, beside = unit * math.sqrt(size), [name, moved(size)]
        parts.append(rect(x, ground - edge, edge, edge, CHIP, opacity=0.35, stroke=CHIP, title=": ".join(beside)))
        if one:
            cell = unit * math.sqrt(one)
            parts.append(rect(x, ground - cell, cell, cell, CHIP, title=f"{name} of one SM: {moved(one)}"))
            beside.append("dark: one SM")
        for i, words in enumerate(beside):
            parts.append(text(x, ground + small + 7 + (small + 6) * i, words, size=small, bold=not i, faint=i == 2))
        x += max(edge, widest(beside, small, bold=True)) + gap
    height = max(ground + (104 if narrow else 96), top + side + 6)
    return picture(x, height, f"Memory of the {gpu.name} to scale, by area", parts, "28rem" if narrow else "75rem")


@kept
def sizes_log(gpu: Gpu) -> str:
    """The bytes of the GPU's levels as bars on a logarithmic scale."""
    rows = [level for level in levels(gpu, 0) if level.key != "host"]
    low, high = 4, math.ceil(math.log10(max(level.bytes for level in rows)))
    left, width = widest((level.name for level in rows), bold=True) + 24, 330.0
    parts = []
    for power in range(6, high + 1, 3):
        x, end = left + width * (power - low) / (high - low), 52.0 * len(rows)
        parts += [line(x, 8, x, end + 8, opacity=0.25)]
        parts += [text(x, end + 26, moved(10**power), anchor="middle", faint=True)]
    for i, level in enumerate(rows):
        y, length = 52 * i + 12, width * (math.log10(level.bytes) - low) / (high - low)
        parts += [
            text(left - 12, y + 16, level.name, anchor="end", bold=True),
            text(left - 12, y + 32, level.of, anchor="end", faint=True, size=12),
            rect(left, y, length, 32, HBM if level.key == "hbm" else CHIP, opacity=0.8),
            text(left + length + 8, y + 21, moved(level.bytes)),
        ]
    return picture(left + width + 90, 52 * len(rows) + 36, f"Memory of the {gpu.name}, logarithmic", parts, "50rem")


@kept
def times(gpu: Gpu, host_bytes: int, *, logarithmic: bool = False, narrow: bool = False) -> str:
    """The time of one load from each level as bars, if one register operation took a second. `narrow` fits a phone."""
    rows = levels(gpu, host_bytes)
    cycles = {level.key: gpu.latencies[level.key].cycles for level in rows if level.key in gpu.latencies}
    longest = max(cycles.values(), default=1.0)
    left, width = widest((level.name for level in rows), bold=True) + 24, 160.0 if narrow else 300.0
    parts = []
    for i, level in enumerate(rows):
        y = 52 * i + 8
        parts.append(text(left - 12, y + 21, level.name, anchor="end", bold=True))
        if level.key not in cycles:
            parts.append(text(left + 4, y + 21, "no published figure", faint=True))
            continue
        own = cycles[level.key]
        share = (
            (1 + math.log(own / REGISTER_CYCLES) if own >= REGISTER_CYCLES else own / REGISTER_CYCLES)
            if logarithmic
            else own
        )
        full = 1 + math.log(longest / REGISTER_CYCLES) if logarithmic else longest
        length = width * share / full
        colour = HBM if level.key == "hbm" else CHIP
        parts += [
            rect(left, y, length, 32, colour, opacity=0.8, title=gpu.latencies[level.key].source),
            text(left + length + 8, y + 15, duration(round(own) / REGISTER_CYCLES), bold=True),
            text(left + length + 8, y + 31, f"{fixed(own, 0)} cycles", faint=True, size=12),
        ]
    if logarithmic:
        parts.append(text(left, 52 * len(rows) + 14, "logarithmic scale", size=12, faint=True))
    return picture(left + width + 100, 52 * len(rows) + 22, f"Time of one load on the {gpu.name}", parts, "44rem")


def latency_sources(gpu: Gpu) -> str:
    """Who measured each latency, as one line of Markdown; a bar's hover text has the command."""
    by_source: dict[str, list[str]] = {}
    for level, latency in gpu.latencies.items():
        source = re.sub(r" \(python -m .*?\)", "", latency.source)
        by_source.setdefault(source, []).append({"l2": "L2", "hbm": gpu.hbm}.get(level, level))
    if len(by_source) == 1:
        (source,) = by_source
        return begun(source)
    return "; ".join(f"{', '.join(found)}: {source}" for source, found in by_source.items())


@kept
def scores(seq_len: int, head_dim: int, dtype: str, gpu: Gpu, *, narrow: bool = False) -> str:
    """One head's Q, K, V, O, S and P as rectangles, and the part of S that fits L2 and shared memory."""
    item, side, top = ITEM_BYTES[dtype], 118.0 if narrow else 280.0, 40.0
    unit = side / seq_len
    thin, small = unit * head_dim, moved(seq_len * head_dim * item)
    x = 10.0
    parts = []
    for name in ("Q", "K", "V", "O"):
        parts += [
            rect(x, top, thin, side, css(SYMBOLS[name]), title=f"{name}: {count(seq_len)} × {head_dim}, {small}"),
            text(x + thin / 2, 28, name, anchor="middle", bold=True),
        ]
        x += max(thin, 14) + (8 if narrow else 14)
    parts.append(text(10, top + side + 20, f"{small} each", faint=True))
    left = x = max(x + 6, 100) if narrow else max(x + 16, 140)
    for name in ("S", "P"):
        words = f"{count(seq_len)} × {count(seq_len)} = {moved(seq_len**2 * item)}"
        parts += [
            rect(x, top, side, side, css(SYMBOLS[name]), opacity=0.5, title=f"{name}: {words}"),
            text(x, 28, name, bold=True),
            text(x, top + side + 20, moved(seq_len**2 * item) if narrow else words, faint=True),
        ]
        x += side + (12 if narrow else 24)
    l2, shared = (unit * math.sqrt(count / item) for count in (gpu.l2_bytes, gpu.shared_bytes))
    y = top + side + 32
    in_l2 = (f"{gpu.name}'s L2, {moved(gpu.l2_bytes)}", f"L2, {moved(gpu.l2_bytes)}", "L2")
    size = moved(gpu.shared_bytes)
    in_shared = (f"{size} of shared memory for a program", f"{size}, one program", size)
    for names, held in ((in_l2, l2), (in_shared, shared)):
        if held > side:
            words = f"{names[0]}: S of one head fits {ratio((held / side) ** 2)}"
            parts.append(text(10 if narrow else left, y + 16, words, faint=True))
            x, y = max(x, (10 if narrow else left) + text_width(words) + 8), y + 24
    least = max(LEAST_NAMED, shared + 12 + text_width(size, bold=True))
    wide = least < l2 <= side  # then the words of both squares stand inside it
    if l2 <= side:
        parts += [
            rect(left, top, l2, l2, "none", stroke="currentColor", dashed=True),
            text(
                left + 5,
                top + (l2 - 7 if wide else max(l2 + 17, 34)),
                _fitting(in_l2, max(l2, LEAST_NAMED) - 8),
                bold=True,
            ),
        ]
    if shared <= side:
        beside = left + (max(shared, l2) if l2 <= least else shared) + 6
        parts += [
            rect(left, top, shared, shared, CHIP, stroke="currentColor"),
            text(beside, top + 15, _fitting(in_shared, left + (l2 if wide else side) - beside), bold=True),
        ]
    return picture(x, y, f"Q, K, V, O, S and P of one head to scale for N = {seq_len}", parts, "48rem")


def _fitting(names: Sequence[str], room: float) -> str:
    """The first of the names, longest first, that is at most `room` wide in bold; else the last."""
    return next((name for name in names if text_width(name, bold=True) <= room), names[-1])


@kept
def scores_table(seq_len: int, head_dim: int, dtype: str, heads: int, gpu: Gpu) -> str:
    """The bytes of S and P beside those of Q, K, V and O, for one head and for many, as Markdown."""
    item = ITEM_BYTES[dtype]
    small, large = 4 * seq_len * head_dim * item, 2 * seq_len**2 * item
    seconds = gpu.hbm_bytes_per_second
    rows = (
        ("one head", moved(small), moved(large), ratio(large / small)),
        (f"{heads} heads", moved(heads * small), moved(heads * large), ratio(large / small)),
        (
            f"{heads} heads at {si(seconds, 'B/s')}",
            duration(heads * small / seconds),
            duration(2 * heads * large / seconds),
            ratio(2 * large / small),
        ),
    )
    return markdown(("what", Column("Q, K, V and O"), Column("S and P"), Column("S and P ÷ the rest")), rows)


@kept
def fate_of_scores(seq_len: int, dtype: str, heads: int, gpu: Gpu) -> str:
    """Whether S of one head, and S and P of many, fit in the GPU's L2, and what follows; as Markdown."""
    s = f"S of one head in {dtype}"
    one, every = ITEM_BYTES[dtype] * seq_len**2, 2 * heads * ITEM_BYTES[dtype] * seq_len**2
    cache = f"L2, {moved(gpu.l2_bytes)}"
    if one > gpu.l2_bytes:
        return f"**{s}, {moved(one)}, does not fit in {cache}.** So S and P go through {gpu.hbm}."
    if every > gpu.l2_bytes:
        return (
            f"{s}, {moved(one)}, fits in {cache}. But one head is not alone: **S and P of {heads} heads, "
            f"{moved(every)}, do not fit.** So they go through {gpu.hbm}."
        )
    return f"At this N, S and P of {heads} heads, {moved(every)}, still fit in {cache}. Choose a larger N."


@kept
def matmul(p: Mapping[str, Any]) -> str:
    """QKᵀ in tiles: the rows of Q and of K that one tile of S needs."""
    seq_len, kv_len, head_dim = p["seq_len"], p["kv_len"], p["head_dim"]
    unit = 300.0 / max(seq_len, kv_len)
    depth = min(max(unit * head_dim, 84.0), 150.0)
    left, top = depth + 36, depth + 46
    wide, tall = unit * kv_len, unit * seq_len
    m, n = min(p["block_m"], seq_len), min(p["block_n"], kv_len)
    row, col = min(1, tiles(seq_len, m) - 1), min(2, tiles(kv_len, n) - 1)
    y, x = top + unit * row * m, left + unit * col * n
    high, broad = min(unit * m, top + tall - y), min(unit * n, left + wide - x)
    parts = [
        rect(left, top, wide, tall, SCORES, opacity=0.18, stroke=SCORES),
        rect(12, top, depth, tall, HBM, opacity=0.18, stroke=HBM),
        rect(left, 22, wide, depth, HBM, opacity=0.18, stroke=HBM),
    ]
    parts += [line(left, top + unit * i, left + wide, top + unit * i, opacity=0.25) for i in range(m, seq_len, m)]
    parts += [line(left + unit * j, top, left + unit * j, top + tall, opacity=0.25) for j in range(n, kv_len, n)]
    parts += [
        rect(12, y, depth, high, HBM, opacity=0.85, title=f"the tile of Q: {m} × {head_dim}"),
        rect(x, 22, broad, depth, HBM, opacity=0.85, title=f"the tile of K: {n} × {head_dim}"),
        rect(x, y, broad, high, SCORES, opacity=0.9, title=f"the tile of S: {m} × {n}"),
        text(12 + depth / 2, top + tall + 20, f"Q, {seq_len} × {head_dim}", anchor="middle", size=15),
        text(left + wide / 2, 15, f"Kᵀ, {head_dim} × {kv_len}", anchor="middle", size=15),
        text(left + wide / 2, top + tall + 20, f"S, {seq_len} × {kv_len}", anchor="middle", size=15),
    ]
    said = "A tile of S, and the tiles of Q and K that it needs"
    return picture(left + wide + 12, top + tall + 28, said, parts, "28rem")


@dataclass(frozen=True)
class Trip:
    """One buffer's trip between HBM and the chip in one launch: its formula term, and its bytes in the trace."""

    launch: int
    kernel: str
    term: Term
    traced: int


def trips(experiment: Experiment, trace: Trace) -> Iterator[Trip]:
    """Each term of standard attention's formula, with its launch and its bytes in the trace."""
    for term in experiment.traffic.terms:
        found = re.match(r"launch (\d+)", term.why)
        if found is None:
            raise ValueError(
                f'{experiment.kernel}: the formula term of {term.buffer} must begin with its launch, as in "launch 1"'
            )
        number = int(found[1])
        launch = trace.launches[number - 1]
        counted = launch.written_bytes if term.written else launch.read_bytes
        own = {name: own for own, name in experiment.entry.buffers.get(launch.kernel, {}).items()}
        buffer = own.get(term.buffer, term.buffer)
        yield Trip(number, launch.kernel, term, counted.get(f"{buffer}_ptr", 0))


def share_of_scores(experiment: Experiment) -> float:
    """The share of S and P in all bytes that standard attention moves, by formula."""
    terms = experiment.traffic.terms
    return sum(term.bytes for term in terms if term.buffer in "sp") / sum(term.bytes for term in terms)


_LAUNCHES = ("S = QKᵀ / √d", "P = softmax(S)", "O = PV")


@kept
def trips_picture(experiment: Experiment, trace: Trace, *, narrow: bool = False) -> str:
    """Each launch's trips between HBM and the chip as arrows, as thick as their bytes, labelled with the trace's bytes.

    The launches stand side by side, in a narrow picture one below the other.
    """
    found = list(trips(experiment, trace))
    most, step, gap, high = max(trip.traced for trip in found), 104.0, 20.0, 230.0
    x = y = 0.0
    parts: list[str] = []
    for number, computed in enumerate(_LAUNCHES, 1):
        own = [trip for trip in found if trip.launch == number]
        wide = step * len(own)
        box = [
            rect(x, y, wide, 62, CHIP, opacity=0.14, stroke=CHIP),
            text(x + wide / 2, y + 26, f"launch {number}, on chip", anchor="middle", faint=True),
            text(x + wide / 2, y + 49, computed, anchor="middle", bold=True, size=17),
            rect(x, y + 184, wide, 40, HBM, opacity=0.25, stroke=HBM),
        ]
        parts += box
        for i, trip in enumerate(own):
            parts += _trip(trip, x + step * (i + 0.5), y, 2 + 26 * trip.traced / most)
        if narrow:
            parts.append(text(x + wide + 8, y + 209, "HBM", bold=True))
            y += high + gap
        else:
            x += wide + gap
    if not narrow:
        parts.append(text(x - gap + 10, 209, "HBM", bold=True, size=17))
    width, height = (3 * step + 48, y - gap) if narrow else (x + 38, high)
    said = "Trips between HBM and the chip, launch by launch"
    return picture(width, height, said, parts, "28rem" if narrow else "75rem")


def _trip(trip: Trip, x: float, y: float, thick: float) -> list[str]:
    """One arrow at `x`: up into the launch's box if its buffer is read, down into HBM if it is written."""
    name = trip.term.buffer.upper()
    tail, head, low = (y + 64, y + 182, -1) if trip.term.written else (y + 182, y + 64, 1)
    broad = thick / 2 + 5
    shape = (
        f"M{x - thick / 2:.1f} {tail:.1f}V{head + 14 * low:.1f}H{x - broad:.1f}L{x:.1f} {head:.1f}"
        f"L{x + broad:.1f} {head + 14 * low:.1f}H{x + thick / 2:.1f}V{tail:.1f}Z"
    )
    hover = f"{'write' if trip.term.written else 'read'} {name}: {count(trip.traced)} B"
    beside = x + broad + 5
    said = [(f"{count(trip.traced)} B", False)]
    if trip.term.times > 1:
        said.append((f"{trip.term.times} times", True))
    return [
        f'<path d="{shape}" fill="{css(SYMBOLS[name])}"><title>{hover}</title></path>',
        *(text(beside - 2, y + 112 + 18 * i, words, size=13, faint=faint) for i, (words, faint) in enumerate(said)),
        text(x, y + 210, name, anchor="middle", bold=True, size=17),
    ]


@kept
def trips_total(experiment: Experiment, trace: Trace) -> str:
    """The bytes of S and P and those of the rest, by formula and by trace, as Markdown."""
    found = list(trips(experiment, trace))
    said = []
    for large, name in ((True, "S and P, four trips of N² elements"), (False, "Q, K, V and O")):
        own = [trip for trip in found if (trip.term.buffer in ("s", "p")) == large]
        said.append(f"{name}: **{count(sum(trip.traced for trip in own))} B**")
    return " · ".join(said) + "  \n" + _agree(all(trip.traced == trip.term.bytes for trip in found))


@kept
def product_reads(experiment: Experiment, trace: Trace) -> str:
    """How often launch 1 reads each row of Q and of K, and why, as Markdown."""
    p = experiment.values
    said, same = [], True
    for trip in trips(experiment, trace):
        if trip.launch == 1 and not trip.term.written:
            of_q = trip.term.buffer == "q"
            length, block = (p["kv_len"], p["block_n"]) if of_q else (p["seq_len"], p["block_m"])
            traced = trip.traced / (trip.term.elements * trip.term.item_bytes)
            same &= traced == trip.term.times
            said.append(
                f"Each row of {trip.term.buffer.upper()} is loaded **{traced:g} ×**, once for each tile of "
                f"{'keys' if of_q else 'queries'}: ⌈{length} / {block}⌉ = {tiles(length, block)}."
            )
    return "  \n".join([*said, _agree(same)])


def _agree(same: bool) -> str:
    return "✓ formula and run agree" if same else "✗ formula and run differ"
