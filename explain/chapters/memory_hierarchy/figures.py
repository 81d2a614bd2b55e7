"""Pictures of Memory hierarchy: levels to scale, in bytes and in time; S and P; a tiled matmul; trips to HBM."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from explain.experiment import Experiment
from explain.figures.labels import text_width, widest
from explain.figures.numbers import duration, fixed, moved, ratio, si
from explain.figures.palette import SYMBOLS, css
from explain.figures.svg import line, picture, rect, text
from explain.figures.tables import Column, markdown
from explain.gpus import Gpu
from explain.trace.model import Trace
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Term, tiles

REGISTER_CYCLES = 4.0
"""One dependent add or FMA, in clock cycles. The pictures of time call this one second."""
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


def sizes(gpu: Gpu, *, narrow: bool = False) -> str:
    """The GPU's memories as squares, area for bytes: L2 in the corner of HBM, and enlarged with the rest of the chip.

    The chip stands beside HBM, in a narrow picture below it.
    """
    side, top, gap = 330.0, 34.0, 24.0
    dot = side * math.sqrt(gpu.l2_bytes / gpu.hbm_bytes)
    dot_x, dot_y = side - dot - 6, top + 6
    chip = (
        ("L2 cache", gpu.l2_bytes, 0),
        ("shared memory", gpu.shared_bytes_all, gpu.shared_bytes_sm),
        ("registers", gpu.register_bytes, gpu.register_bytes_sm),
    )
    unit = (300.0 if narrow else 490.0) / sum(math.sqrt(size) for _, size, _ in chip)
    l2 = unit * math.sqrt(gpu.l2_bytes)
    x, high = (12.0, top + side + 50) if narrow else (side + 80, top + 6)
    ground = high + unit * math.sqrt(max(size for _, size, _ in chip))
    corners = ((dot_x, x), (dot_x + dot, x + l2)) if narrow else ((dot_x + dot, x), (dot_x + dot, x))
    parts = [
        text(0, 20, f"{gpu.hbm}, {moved(gpu.hbm_bytes)}", bold=True),
        rect(0, top, side, side, HBM, opacity=0.35, stroke=HBM, title=f"{gpu.hbm}: {moved(gpu.hbm_bytes)}"),
        rect(dot_x, dot_y, dot, dot, CHIP, title=f"L2: {moved(gpu.l2_bytes)}"),
        text(12, top + 26, f"{fixed(gpu.hbm_bytes / gpu.l2_bytes, 0)} times as large as L2, its corner"),
        text(x, ground + 94 if narrow else 20, f"Enlarged: each side × {fixed(l2 / dot, 0)}", bold=True),
    ]
    for (from_x, to_x), y, end in zip(corners, (dot_y, dot_y + dot), (ground - l2, ground), strict=True):
        parts.append(line(from_x, dot_y + dot if narrow else y, to_x, ground - l2 if narrow else end))
    for name, size, one in chip:
        edge, beside = unit * math.sqrt(size), [name, moved(size)]
        parts.append(rect(x, ground - edge, edge, edge, CHIP, opacity=0.35, stroke=CHIP, title=": ".join(beside)))
        if one:
            cell = unit * math.sqrt(one)
            parts.append(rect(x, ground - cell, cell, cell, CHIP, title=f"{name} of one SM: {moved(one)}"))
            beside.append(f"{gpu.sms} × {moved(one)}")
        for i, words in enumerate(beside):
            parts.append(text(x, ground + 22 + 20 * i, words, bold=not i, faint=i == 2))
        x += max(edge, widest(beside, bold=True)) + gap
    height = max(ground + (104 if narrow else 74), top + side + 6)
    return picture(x, height, f"Memory of the {gpu.name} to scale, by area", parts, "28rem" if narrow else "60rem")


def sizes_log(gpu: Gpu, host_bytes: int) -> str:
    """The levels' bytes as bars on a logarithmic scale."""
    rows = levels(gpu, host_bytes)
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


def times(gpu: Gpu, host_bytes: int, *, logarithmic: bool = False) -> str:
    """The time of one load from each level as bars, if one register operation took a second."""
    rows = levels(gpu, host_bytes)
    cycles = {level.key: gpu.latencies[level.key].cycles for level in rows if level.key in gpu.latencies}
    longest = max(cycles.values(), default=1.0)
    left, width = widest((level.name for level in rows), bold=True) + 24, 300.0
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
    """Who measured each latency, as one line of Markdown."""
    by_source: dict[str, list[str]] = {}
    for level, latency in gpu.latencies.items():
        by_source.setdefault(latency.source, []).append({"l2": "L2", "hbm": gpu.hbm}.get(level, level))
    return "; ".join(f"{', '.join(found)}: {source}" for source, found in by_source.items())


def scores(seq_len: int, head_dim: int, dtype: str, gpu: Gpu, *, narrow: bool = False) -> str:
    """One head's Q, K, V, O, S and P as rectangles, and the part of S that fits L2 and shared memory."""
    item, side, top = ITEM_BYTES[dtype], 118.0 if narrow else 280.0, 40.0
    unit = side / seq_len
    thin, small = unit * head_dim, moved(seq_len * head_dim * item)
    x = 10.0
    parts = []
    for name in ("Q", "K", "V", "O"):
        parts += [
            rect(x, top, thin, side, css(SYMBOLS[name]), title=f"{name}: {seq_len:,} × {head_dim}, {small}"),
            text(x + thin / 2, 28, name, anchor="middle", bold=True),
        ]
        x += max(thin, 14) + (8 if narrow else 14)
    parts.append(text(10, top + side + 20, f"{small} each", faint=True))
    left = x = max(x + 6, 100) if narrow else max(x + 16, 140)
    for name in ("S", "P"):
        words = f"{seq_len:,} × {seq_len:,} = {moved(seq_len**2 * item)}"
        parts += [
            rect(x, top, side, side, css(SYMBOLS[name]), opacity=0.7, title=f"{name}: {words}"),
            text(x, 28, name, bold=True),
            text(x, top + side + 20, moved(seq_len**2 * item) if narrow else words, faint=True),
        ]
        x += side + (12 if narrow else 24)
    y = top + side + 56
    own = {"L2": gpu.l2_bytes, "shared memory, one program": gpu.shared_bytes}
    indent = 1.1 * widest((f"{gpu.name}, {name}" for name in own), bold=True) + 16  # small letters are set wider
    for name, count in own.items():
        held = unit * math.sqrt(count / item)
        if held <= side:
            filled = name != "L2"
            fill = CHIP if filled else "none"
            parts.append(rect(left, top, held, held, fill, stroke="currentColor", dashed=not filled))
            words = f"the {'filled' if filled else 'dashed'} square on S"
        else:
            words = f"all of S fits {ratio((held / side) ** 2)}"
        words = f"{moved(count)}: {words}"
        at, down = (10.0, 20) if narrow else (left + indent, 0)
        parts += [
            text(10 if narrow else left, y, f"{gpu.name}, {name}", bold=True),
            text(at, y + down, words, faint=True),
        ]
        x = max(x, at + text_width(words) + 8)
        y += 24 + down
    return picture(x, y, f"Q, K, V, O, S and P of one head to scale for N = {seq_len}", parts, "48rem")


def scores_table(seq_len: int, head_dim: int, dtype: str, heads: int, gpu: Gpu) -> str:
    """The bytes of S and P beside those of Q, K, V and O, for one head and for many, as Markdown."""
    item = ITEM_BYTES[dtype]
    small, large = 4 * seq_len * head_dim * item, 2 * seq_len**2 * item
    seconds = gpu.hbm_bytes_per_second
    rows = (
        ("one head", moved(small), moved(large), ratio(large / small)),
        (f"{heads} heads", moved(heads * small), moved(heads * large), ratio(large / small)),
        (
            f"{heads} heads, moved once at {si(seconds, 'B/s')}",
            duration(heads * small / seconds),
            duration(heads * large / seconds),
            "",
        ),
    )
    return markdown(("what", Column("Q, K, V and O"), Column("S and P"), Column("S and P ÷ the rest")), rows)


def matmul(p: Mapping[str, Any]) -> str:
    """QKᵀ in tiles: the rows of Q and of K that one tile of S needs."""
    seq_len, kv_len, head_dim = p["seq_len"], p["kv_len"], p["head_dim"]
    unit = 300.0 / max(seq_len, kv_len)
    depth = min(max(unit * head_dim, 40.0), 150.0)
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
        text(12 + depth / 2, top + tall + 18, f"Q, {seq_len} × {head_dim}", anchor="middle"),
        text(left + wide / 2, 15, f"Kᵀ, {head_dim} × {kv_len}", anchor="middle"),
        text(left + wide / 2, top + tall + 18, f"S, {seq_len} × {kv_len}", anchor="middle"),
    ]
    said = "A tile of S, and the tiles of Q and K that it needs"
    return picture(left + wide + 12, top + tall + 28, said, parts, "26rem")


@dataclass(frozen=True)
class Trip:
    """One buffer's trip between HBM and the chip in one launch: its formula term, and its bytes in the trace."""

    launch: int
    kernel: str
    term: Term
    traced: int


def trips(experiment: Experiment, trace: Trace) -> Iterator[Trip]:
    """Each term of standard attention's formula, with its launch and its bytes in the trace."""
    for term in experiment.entry.formula(experiment.values).terms:
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


def trips_table(experiment: Experiment, trace: Trace) -> str:
    """Every trip to HBM, launch by launch, as Markdown; the trips of N² elements are bold."""
    rows: list[tuple[object, ...]] = []
    totals: dict[bool, list[int]] = {False: [0, 0], True: [0, 0]}
    for trip in trips(experiment, trace):
        term, large = trip.term, trip.term.buffer in ("s", "p")
        mark = "**" if large else ""
        name = f"{'write' if term.written else 'read'} {mark}{term.buffer.upper()}{mark}"
        elements = f"{term.elements:,}" + (f", each {term.times} times" if term.times > 1 else "")
        rows.append((f"{trip.launch}", f"`{trip.kernel}`", name, elements, f"{mark}{term.bytes:,}{mark}", trip.traced))
        totals[large][0] += term.bytes
        totals[large][1] += trip.traced
    for large, name in ((True, "S and P: four trips of N² elements"), (False, "Q, K, V and O")):
        rows.append(("", "", f"*{name}*", "", *totals[large]))
    columns = (Column("launch"), "kernel", "trip", Column("elements"), Column("bytes, formula"), Column("bytes, trace"))
    return markdown(columns, rows)


def product_reads(experiment: Experiment, trace: Trace) -> str:
    """How often launch 1 reads each element of Q and of K, by formula and by trace, as Markdown."""
    p = experiment.values
    rows = []
    for trip in trips(experiment, trace):
        if trip.launch == 1 and not trip.term.written:
            length, block = (p["kv_len"], p["block_n"]) if trip.term.buffer == "q" else (p["seq_len"], p["block_m"])
            traced = trip.traced / (trip.term.elements * trip.term.item_bytes)
            across = f"⌈{length} / {block}⌉ = {tiles(length, block)}"
            rows.append((trip.term.buffer.upper(), across, trip.term.times, traced))
    reads = (Column(f"reads per element, {source}") for source in ("formula", "trace"))
    return markdown(("matrix", Column("tiles across"), *reads), rows)
