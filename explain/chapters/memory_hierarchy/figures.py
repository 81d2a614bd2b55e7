"""Chapter 4's pictures: the levels of a GPU's memory to scale, in size and in time; S and P beside Q, K, V, O; a tiled product; trips to HBM."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from explain.experiment import Experiment
from explain.figures.svg import CHIP, HBM, PROBABILITIES, SCORES, duration, line, picture, rect, size, text
from explain.gpus import Gpu
from explain.trace.model import Trace
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Term, tiles

REGISTER_CYCLES = 4.0
"""Of a dependent add or FMA on each GPU here that was measured: what is called a second in the pictures of time."""


@dataclass(frozen=True)
class Level:
    """One level of the hierarchy: its name, what holds it, its bytes, and the key of its latency."""

    name: str
    of: str
    bytes: int
    key: str


def levels(gpu: Gpu, host_bytes: int) -> list[Level]:
    """From the fastest to the slowest. `host_bytes` is the memory of the machine that asks."""
    return [
        Level("Registers", "of one SM", gpu.register_bytes_sm, "register"),
        Level("Shared memory", "of one SM", gpu.shared_bytes_sm, "shared"),
        Level("L2 cache", "of the GPU", gpu.l2_bytes, "l2"),
        Level(gpu.hbm, "of the GPU", gpu.hbm_bytes, "hbm"),
        Level("Host memory", "of this machine", host_bytes, "host"),
    ]


def sizes(gpu: Gpu) -> tuple[str, str]:
    """The GPU's memories as squares whose areas are their bytes: as they are, and the chip's own magnified until they can be seen."""
    side, top = 380.0, 34.0
    small = side * math.sqrt(gpu.l2_bytes / gpu.hbm_bytes)
    outer = [
        text(0, 20, f"{gpu.hbm}, {size(gpu.hbm_bytes)}, and the L2 cache in its corner", bold=True),
        rect(0, top, side, side, HBM, opacity=0.35, stroke=HBM, title=f"{gpu.hbm}: {size(gpu.hbm_bytes)}"),
        rect(side - small - 6, top + 6, small, small, CHIP, title=f"L2: {size(gpu.l2_bytes)}"),
        text(12, top + side - 14, f"{gpu.hbm_bytes / gpu.l2_bytes:,.0f} times the bytes of L2"),
    ]
    chip = (
        ("L2 cache", gpu.l2_bytes, 0),
        ("shared memory", gpu.shared_bytes_all, gpu.shared_bytes_sm),
        ("registers", gpu.register_bytes, gpu.register_bytes_sm),
    )
    gap, width = 20.0, 520.0
    unit = (width - 2 * gap) / sum(math.sqrt(count) for _, count, _ in chip)
    ground = top + unit * math.sqrt(max(count for _, count, _ in chip))
    x, inner = (
        0.0,
        [text(0, 20, f"The same L2, {unit * math.sqrt(gpu.l2_bytes) / small:,.0f} times as wide", bold=True)],
    )
    for name, count, one in chip:
        edge = unit * math.sqrt(count)
        title = f"{name}: {size(count)}"
        inner.append(rect(x, ground - edge, edge, edge, CHIP, opacity=0.35, stroke=CHIP, title=title))
        inner += [text(x, ground + 22, name, bold=True), text(x, ground + 42, size(count))]
        if one:
            cell = unit * math.sqrt(one)
            inner += [
                rect(x, ground - cell, cell, cell, CHIP, title=f"{name} of one SM: {size(one)}"),
                text(x, ground + 62, f"{gpu.sms} × {size(one)}", faint=True),
            ]
        x += edge + gap
    label = f"Memory of the {gpu.name} to scale, by area"
    return (
        picture(side + 4, side + top + 6, label, outer, "26rem"),
        picture(width + 40, ground + 74, f"{label}, magnified", inner, "46rem"),
    )


def sizes_log(gpu: Gpu, host_bytes: int) -> str:
    """The levels' bytes as bars on a logarithmic scale, which shows all of them and hides how far apart they are."""
    rows = levels(gpu, host_bytes)
    low, high = 14, math.ceil(math.log2(max(level.bytes for level in rows)))
    left, width = 130.0, 330.0
    parts = []
    for power in range(20, high + 1, 5):
        x = left + width * (power - low) / (high - low)
        parts += [
            line(x, 8, x, 52 * len(rows) + 8, opacity=0.25),
            text(
                x,
                52 * len(rows) + 26,
                size(2**power) if power < 30 else f"{2 ** (power - 30)} GiB",
                anchor="middle",
                faint=True,
            ),
        ]
    for i, level in enumerate(rows):
        y, length = 52 * i + 12, width * (math.log2(level.bytes) - low) / (high - low)
        parts += [
            text(left - 12, y + 16, level.name, anchor="end", bold=True),
            text(left - 12, y + 32, level.of, anchor="end", faint=True, size=12),
            rect(left, y, length, 32, HBM if level.key == "hbm" else CHIP, opacity=0.8),
            text(left + length + 8, y + 21, size(level.bytes)),
        ]
    return picture(550, 52 * len(rows) + 36, f"Memory of the {gpu.name}, logarithmic", parts, "50rem")


def times(gpu: Gpu, host_bytes: int, *, logarithmic: bool = False) -> str:
    """How long one load takes from each level, if a register took a second: bars of time, to scale or logarithmic."""
    rows = levels(gpu, host_bytes)
    cycles = {level.key: gpu.latencies[level.key].cycles for level in rows if level.key in gpu.latencies}
    longest = max(cycles.values(), default=1.0)
    left, width = 130.0, 300.0
    parts = []
    for i, level in enumerate(rows):
        y = 52 * i + 8
        parts.append(text(left - 12, y + 21, level.name, anchor="end", bold=True))
        if level.key not in cycles:
            parts.append(text(left + 4, y + 21, "no figure that could be checked", faint=True))
            continue
        own = cycles[level.key]
        share = (
            (1 + math.log(own / REGISTER_CYCLES) if own >= REGISTER_CYCLES else own / REGISTER_CYCLES)
            if logarithmic
            else own
        )
        full = 1 + math.log(longest / REGISTER_CYCLES) if logarithmic else longest
        length = width * share / full
        parts += [
            rect(
                left,
                y,
                length,
                32,
                HBM if level.key == "hbm" else CHIP,
                opacity=0.8,
                title=gpu.latencies[level.key].source,
            ),
            text(left + length + 8, y + 15, duration(own / REGISTER_CYCLES), bold=True),
            text(left + length + 8, y + 31, f"{own:,.0f} cycles", faint=True, size=12),
        ]
    return picture(530, 52 * len(rows) + 4, f"Time of one load on the {gpu.name}", parts, "46rem")


def latency_sources(gpu: Gpu) -> str:
    """Who measured the latencies, level by level, as one line of markdown."""
    by_source: dict[str, list[str]] = {}
    for level, latency in gpu.latencies.items():
        by_source.setdefault(latency.source, []).append({"l2": "L2", "hbm": gpu.hbm}.get(level, level))
    return "; ".join(f"{', '.join(found)}: {source}" for source, found in by_source.items())


def scores(seq_len: int, head_dim: int, dtype: str, gpu: Gpu) -> str:
    """One head's Q, K, V, O, S and P as rectangles of elements, one scale for both sides; on S, what the chip's memories hold."""
    item, side, top = ITEM_BYTES[dtype], 220.0, 40.0
    unit = side / seq_len
    narrow, small = unit * head_dim, size(seq_len * head_dim * item)
    x = 10.0
    parts = []
    for name in ("Q", "K", "V", "O"):
        parts += [
            rect(x, top, narrow, side, HBM, title=f"{name}: {seq_len:,} × {head_dim}, {small}"),
            text(x + narrow / 2, 28, name, anchor="middle", bold=True),
        ]
        x += max(narrow, 14) + 14
    parts.append(text(10, top + side + 20, f"{small} each", faint=True))
    left = x = max(x + 16, 140)
    for name, colour in (("S", SCORES), ("P", PROBABILITIES)):
        words = f"{seq_len:,} × {seq_len:,} = {size(seq_len**2 * item)}"
        parts += [
            rect(x, top, side, side, colour, opacity=0.7, title=f"{name}: {words}"),
            text(x, 28, name, bold=True),
            text(x, top + side + 20, words, faint=True),
        ]
        x += side + 24
    y = top + side + 56
    for name, count in (("L2", gpu.l2_bytes), ("shared memory of one program", gpu.shared_bytes)):
        held = unit * math.sqrt(count / item)
        if held <= side:
            filled = name != "L2"
            parts.append(
                rect(left, top, held, held, CHIP if filled else "none", stroke="currentColor", dashed=not filled)
            )
            words = "the dark square on S" if filled else "the dashed square on S"
        else:
            words = f"S fits in it {(held / side) ** 2:,.1f} times"
        parts += [
            text(left, y, f"{gpu.name}, {name}", bold=True),
            text(left + 290, y, f"{size(count)}: {words}", faint=True),
        ]
        y += 24
    return picture(x, y, f"Q, K, V, O, S and P of one head to scale for N = {seq_len}", parts, "48rem")


def scores_table(seq_len: int, head_dim: int, dtype: str, heads: int, gpu: Gpu) -> str:
    """What S and P weigh against Q, K, V and O, one head and many, as markdown."""
    item = ITEM_BYTES[dtype]
    small, large = 4 * seq_len * head_dim * item, 2 * seq_len**2 * item
    lines = ["| | Q, K, V and O | S and P | S and P over the rest |", "|---|---:|---:|---:|"]
    lines.append(f"| one head | {size(small)} | {size(large)} | **{large / small:,.1f} ×** |")
    lines.append(f"| {heads} heads | {size(heads * small)} | {size(heads * large)} | {large / small:,.1f} × |")
    lines.append(
        f"| {heads} heads, moved once at {gpu.hbm_bytes_per_second / 1e12:.3g} TB/s | {_ms(heads * small / gpu.hbm_bytes_per_second)} | "
        f"{_ms(heads * large / gpu.hbm_bytes_per_second)} | |"
    )
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"


def product(p: Mapping[str, Any]) -> str:
    """Q Kᵀ cut into tiles: the strip of Q and the strip of K that one tile of S is made of."""
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
    return picture(
        left + wide + 12, top + tall + 28, "A tile of S and the tiles of Q and K that it takes", parts, "26rem"
    )


@dataclass(frozen=True)
class Trip:
    """One buffer's way between HBM and the chip in one launch: its bytes by the formula and in the trace."""

    launch: int
    kernel: str
    term: Term
    traced: int


_RENAMED = {"softmax_row_kernel": {"s": "x", "p": "y"}}
"""The second launch is the softmax chapter's own kernel, which calls S and P by its own names."""


def trips(experiment: Experiment, trace: Trace) -> Iterator[Trip]:
    """Each term of standard attention's formula with the launch it belongs to, which its own words begin with, and its bytes in the trace."""
    for term in experiment.entry.formula(experiment.values).terms:
        found = re.match(r"launch (\d+)", term.why)
        if found is None:
            raise ValueError(f"{experiment.kernel}: the term of {term.buffer} does not say which launch it belongs to")
        number = int(found[1])
        launch = trace.launches[number - 1]
        counted = launch.written_bytes if term.written else launch.read_bytes
        buffer = _RENAMED.get(launch.kernel, {}).get(term.buffer, term.buffer)
        yield Trip(number, launch.kernel, term, counted.get(f"{buffer}_ptr", 0))


def trips_table(experiment: Experiment, trace: Trace) -> str:
    """Every trip to HBM, launch by launch, as markdown; what N² elements make is bold."""
    lines = ["| launch | kernel | trip | elements | formula, bytes | trace, bytes |", "|---:|---|---|---:|---:|---:|"]
    totals: dict[bool, list[int]] = {False: [0, 0], True: [0, 0]}
    for trip in trips(experiment, trace):
        term, large = trip.term, trip.term.buffer in ("s", "p")
        mark = "**" if large else ""
        way = "write" if term.written else "read"
        times = f" × {term.times}" if term.times > 1 else ""
        lines.append(
            f"| {trip.launch} | `{trip.kernel}` | {way} {mark}{term.buffer.upper()}{mark} | {term.elements:,}{times} | {mark}{term.bytes:,}{mark} | {trip.traced:,} |"
        )
        totals[large][0] += term.bytes
        totals[large][1] += trip.traced
    for large, name in ((True, "S and P: four trips of N² elements"), (False, "Q, K, V and O")):
        lines.append(f"| | | *{name}* | | *{totals[large][0]:,}* | *{totals[large][1]:,}* |")
    return "\n".join(lines)


def product_reads(experiment: Experiment, trace: Trace) -> str:
    """How often launch 1 reads each element of Q and of K, by formula and by trace, as markdown."""
    p = experiment.values
    rows = [
        "| | tiles across | reads of each element, formula | reads of each element, trace |",
        "|---|---:|---:|---:|",
    ]
    for trip in trips(experiment, trace):
        if trip.launch == 1 and not trip.term.written:
            length, block = (p["kv_len"], p["block_n"]) if trip.term.buffer == "q" else (p["seq_len"], p["block_m"])
            traced = trip.traced / (trip.term.elements * trip.term.item_bytes)
            rows.append(
                f"| {trip.term.buffer.upper()} | ⌈{length} / {block}⌉ = {tiles(length, block)} | {trip.term.times} | {traced:g} |"
            )
    return "\n".join(rows)
