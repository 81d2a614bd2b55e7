"""The papers' figures beside ours: what a GPU's record says of the same work, on the paper's axes, with what the paper says or prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from explain.chapters.papers import flashattention, milakov
from explain.chapters.papers.milakov import Figure, Said
from explain.chapters.sweeps.analysis import slope
from explain.experiment import Experiment
from explain.figures import numbers, palette
from explain.figures.lines import Line, chart, colour_of
from explain.figures.numbers import si
from explain.figures.plot import plot
from explain.gpus import GPUS, known_as
from explain.records.model import Record
from kernels.catalog import KERNELS

PAPER = palette.mid("slate")  # a paper's values are slate, and dashed
Pair = tuple[go.Figure, go.Figure]
"""Two charts that stand beside each other."""


def _suffix(records: Mapping[str, Record], name: str) -> str:
    return f", {name}" if len(records) > 1 else ""


# Milakov & Gimelshein


V = "V, elements in a row"


def rates(figure: Figure, records: Mapping[str, Record]) -> Pair:
    """One of figures 1 to 4: elements a second against V, and how many times as fast the better kernel is, beside what the paper says of it."""
    lines = [
        Line(
            _billions(milakov.rates(record, figure, kernel)),
            KERNELS[kernel].short + _suffix(records, name),
            colour_of(kernel),
        )
        for name, record in records.items()
        for kernel in figure.kernels
    ]
    gains = [
        Line(
            milakov.gains(record, figure, fast),
            KERNELS[fast].short + _suffix(records, name),
            colour_of(fast),
            dashed=n > 0,
        )
        for n, (name, record) in enumerate(records.items())
        for fast in figure.fast
    ]
    return (
        chart(f"Figure {figure.number}: {figure.title}", lines, x=V, y="10⁹ elements a second", unit="·10⁹/s"),
        chart(
            f"times as fast as {KERNELS[figure.slow].short}", [*gains, *_said(figure.said, figure.lengths[-1])],
            x=V, y="times as fast", unit="×",
        ),
    )  # fmt: skip


def _billions(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    return [(x, y / 1e9) for x, y in points]


def _said(said: Sequence[Said], last: float) -> list[Line]:
    """What the paper says as lines at the height of its ratio; of a band, both edges."""
    lines = []
    for one in said:
        ratios = one.ratio if isinstance(one.ratio, tuple) else (one.ratio,)
        end = last if one.until is None else one.until
        for ratio in ratios:
            points = [(one.at, ratio)] if end == one.at else [(one.at, ratio), (end, ratio)]
            lines.append(Line(points, f"paper: {ratio:g}×", PAPER, dashed=True))
    return lines


def knee(record: Record) -> Pair:
    """How often an element of x is read from DRAM, and how often it crosses from L2 to an SM, against V: figure 1's kernels."""
    dram, l2 = (
        chart(
            f"reads of an element {where}", x=V, y="times", unit=" times", lines=[
                Line(milakov.reads(record, kernel, level), KERNELS[kernel].short, colour_of(kernel))
                for kernel in ("softmax_naive", "softmax_safe", "softmax_online")
            ],
        )
        for level, where in (("dram", "from DRAM"), ("l2", "from L2 by an SM"))
    )  # fmt: skip
    return dram, l2


ONCE, MORE = 1.1, 1.5
"""Reads of an element up to which it counts as read once, and from which as read again."""


def knee_words(record: Record) -> str:
    """Where the gain begins on this GPU and in the paper, and which reads begin there; and how long a row may be so that its cache holds it."""
    begins = milakov.knee(milakov.gains(record, milakov.FIGURES[0]))
    safe = milakov.reads(record, "softmax_safe", "dram")
    once = max((cols for cols, times in safe if times <= ONCE), default=None)
    again = min((cols for cols, times in safe if times >= MORE), default=None)
    said = [
        f"On the {short(record)} online softmax is at least {milakov.GAIN:g} times as fast "
        + (f"from **V = {begins:,}** on" if begins else "at no V measured")
        + "; on the paper's V100 all three were alike up to V = 1,000."
    ]
    near = next((cols for cols, times in milakov.reads(record, "softmax_safe", "l2") if times >= MORE), None)
    if near:
        said.append(
            f"From V = {near:,} on an SM's own L1 no longer holds its rows, and the later passes go to L2, which is still near."
        )
    if once and again:
        said.append(
            f"Up to V = {once:,} the safe softmax reads an element **once** from DRAM, though its three passes ask for it three times. From V = {again:,} on L2 gives up too, "
            f"and it is read {safe[-1][1]:.1f} times in the end. Only then do fewer passes mean fewer bytes from DRAM."
        )
    known = GPUS.get(known_as(record.gpu) or "")
    if known:
        said.append(
            f"A row has its own program, and an SM has threads for {32 * known.warps_sm // milakov.THREADS} of ours. So at most "
            f"{known.sms * (32 * known.warps_sm // milakov.THREADS):,} rows are in flight, and {numbers.capacity(known.l2_bytes)} of L2 hold them all up to V = {milakov.fits_l2(known):,}; "
            f"more where registers let fewer programs in. The V100, with {numbers.capacity(milakov.THEIR_L2_BYTES)} of L2 for {milakov.THEIR_SMS} SMs, holds them up to V = {milakov.fitted_theirs():,}."
        )
    return " ".join(said)


def larger_k(records: Mapping[str, Record]) -> str:
    """The gain of the fused kernels as K grows, the paper's and ours, as markdown."""
    found = {
        KERNELS[fast].short + _suffix(records, name): dict(milakov.gains_by_k(record, fast))
        for name, record in records.items()
        for fast in milakov.FIGURES[2].fast
    }
    lines = [f"| K | the paper | {' | '.join(found)} |", f"|---:|---:|{'---:|' * len(found)}"]
    for said in milakov.LARGER_K:
        ours = (f"**{gains[said.at]:.2g}×**" if said.at in gains else "not measured" for gains in found.values())
        lines.append(f"| {said.at} | {said.ratio:g}× | {' | '.join(ours)} |")
    return "\n".join(lines)


def topk_words(record: Record) -> str:
    """How much of the bandwidth each fused kernel gets at figure 3's longest row of the text: whether bytes are what it waits for."""
    roof = record.roofs.get("hbm")
    said = []
    for fast in milakov.FIGURES[2].fast:
        rate = milakov.rate(record.point(milakov.experiment(fast, 4000, milakov.LONG)))
        if rate and roof:
            read = 4 * rate
            said.append(
                f"**{KERNELS[fast].short}** reads {si(read, 'B/s')}, {read / roof.per_second:.0%} of what HBM gives"
            )
    return f"On the {short(record)}, at V = {milakov.LONG:,}: {'; '.join(said)}." if said else ""


def tiles_words(record: Record) -> str:
    """What other tiles would have taken, in a sentence; "" where none was measured."""
    fast, taken = milakov.FIGURES[2].fast[0], []
    for block_n in milakov.TILES:
        point = record.point(milakov.by_tile(fast, block_n))
        if point and point.timing:
            taken.append(f"{block_n:,}: {point.timing.median_ms:.3g} ms")
    return f"{short(record)}, {KERNELS[fast].short}, tiles of {', '.join(taken)}." if taken else ""


def accesses(counted: Mapping[str, float | None]) -> str:
    """Accesses an element: the paper's, the formula's and those counted in the traces, as markdown."""
    lines = ["| kernel | the paper | formula | trace | where |", "|---|---:|---:|---:|---|"]
    for kernel, (papers, where) in milakov.PAPERS_ACCESSES.items():
        experiment = milakov.counting(kernel)
        formula = milakov.accesses(experiment, experiment.entry.formula(experiment.values).totals())
        traced = counted.get(kernel)
        said = "not recorded" if traced is None else f"**{traced:g}**"
        lines.append(f"| {KERNELS[kernel].title} | {papers} | {formula:g} | {said} | {where} |")
    return "\n".join(lines)


# FlashAttention


def table_2(record: Record) -> str:
    """Figure 2's table beside ours, forward and backward, as markdown."""
    lines = [
        f"| | GFLOPs, {flashattention.THEIR_GPU} paper | matmuls, counted | HBM, paper | HBM, least | DRAM, {record.gpu} | time, paper | time, {record.gpu} |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in flashattention.FIGURE_2:
        experiment = flashattention.gpt2(row.baseline)
        point = record.point(experiment)
        hbm = flashattention.hbm_bytes(point) if point else None
        time = point.timing.median_ms if point and point.timing else None
        flops = flashattention.matmul_flops(row)
        lines.append(
            f"| **{row.name}** | {row.gflops:g} | {flops / 1e9:,.0f} ({flops / 1e9 / row.gflops:.1f}×) | {row.hbm_gb:g} GB | "
            f"{flashattention.formula_bytes(experiment) / 1e9:.1f} GB | {_gb(hbm)} | {row.ms:g} ms | {_ms(time)} |"
        )
    return "\n".join(lines)


def forward_table(record: Record) -> str:
    """Figure 2's sizes, forward alone: our kernels and PyTorch's, as markdown."""
    lines = [
        "| forward | formula | L2 → SM | DRAM | time | memory beyond Q, K, V |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    baselines = (experiment for experiment in flashattention.BASELINES if not experiment.entry.gradient)
    for experiment in (*flashattention.OURS, *baselines):
        point = record.point(experiment)
        formula = f"{flashattention.formula_bytes(experiment) / 1e9:.2f} GB"
        at_least = formula if experiment.entry.steppable else f"at least {formula}"
        sm, hbm = (count(point) if point else None for count in (flashattention.sm_bytes, flashattention.hbm_bytes))
        time = point.timing.median_ms if point and point.timing else None
        memory = point.peak_bytes if point else None
        lines.append(
            f"| {experiment.entry.title} | {at_least} | {_gb(sm)} | {_gb(hbm)} | {_ms(time)} | {_gb(memory)} |"
        )
    return "\n".join(lines)


BLOCK = "B, rows of the tile that stays on chip"


def blocks(record: Record) -> Pair:
    """Figure 2, middle: bytes and time of the forward pass against the block size, in both loop orders."""
    moved, times = [], []
    for kernel in flashattention.IN_ORDER[1:]:
        axis = KERNELS[kernel].outer
        experiments = [flashattention.by_block(kernel, block) for block in flashattention.BLOCKS]
        found = flashattention.series(record, experiments, axis, flashattention.sm_bytes)
        moved.append(Line(_billions(found), KERNELS[kernel].short, colour_of(kernel)))
        points = ((experiment.values[axis], record.point(experiment)) for experiment in experiments)
        taken = [(block, point.timing.median_ms) for block, point in points if point and point.timing]
        times.append(Line(taken, KERNELS[kernel].short, colour_of(kernel)))
    return (
        chart("bytes between L2 and the SMs", moved, x=BLOCK, y="GB", unit=" GB"),
        chart("time", times, x=BLOCK, y="ms", unit=" ms"),
    )


def theorem(record: Record) -> Pair:
    """Theorem 2 on logarithmic axes: bytes against the tile that M allows, and against N at a fixed M; L2 to the SMs solid, DRAM dashed."""
    by_block, by_length = (
        [
            Line(_billions(found), f"{KERNELS[kernel].short}, {level}", colour_of(kernel), dashed=level == "DRAM")
            for kernel, level, found, _ in curves
        ]
        for curves in (_by_block(record), _by_length(record))
    )
    by_block.extend(_theory(by_block[-2], -1))
    by_length.extend(_theory(by_length[-2], 2))
    return (
        chart("larger tiles, N = 1,024", by_block, x=f"{BLOCK}: M = 4 d B", y="GB", unit=" GB", log=True, height=440),
        chart("longer sequences, tiles of 128 × 64", by_length, x="N", y="GB", unit=" GB", log=True, height=440),
    )


def _theory(beside: Line, power: int) -> list[Line]:
    """A line of the theory's slope, a little below a measured one, which is FlashAttention-2's between L2 and the SMs."""
    if len(beside.points) < 2:
        return []
    (x, y), (end, _) = beside.points[0], beside.points[-1]
    return [
        Line(
            [(x, 0.6 * y), (end, 0.6 * y * (end / x) ** power)],
            f"theory: slope {power}".replace("-", "−"),
            PAPER,
            dashed=True,
        )
    ]


LEVELS = (("L2 → SM", flashattention.sm_bytes), ("DRAM", flashattention.hbm_bytes))
Curve = tuple[str, str, list[tuple[int, int]], list[tuple[int, int]]]
"""A kernel, a level, all its points, and those that count for the slope: without the tiles whose registers spill."""


def _by_block(record: Record) -> list[Curve]:
    runs = {
        kernel: [flashattention.by_block(kernel, block) for block in flashattention.BLOCKS]
        for kernel in flashattention.IN_ORDER[1:]
    }
    return [
        curve
        for kernel, experiments in runs.items()
        for curve in _curves(record, kernel, experiments, KERNELS[kernel].outer)
    ]


def _by_length(record: Record) -> list[Curve]:
    runs = {
        kernel: [flashattention.by_length(kernel, n) for n in flashattention.LENGTHS]
        for kernel in flashattention.IN_ORDER
    }
    return [curve for kernel, experiments in runs.items() for curve in _curves(record, kernel, experiments, "seq_len")]


def _curves(record: Record, kernel: str, experiments: list[Experiment], axis: str) -> list[Curve]:
    points = {experiment: record.point(experiment) for experiment in experiments}
    whole = [experiment for experiment, point in points.items() if point and not flashattention.spilled(point)]
    return [
        (
            kernel,
            level,
            flashattention.series(record, experiments, axis, count),
            flashattention.series(record, whole, axis, count),
        )
        for level, count in LEVELS
    ]


def slopes(record: Record) -> str:
    """The fitted slopes of theorem 2's curves beside the theory's, as markdown; tiles whose registers spill are not fitted."""
    lines = [
        "| against | kernel | theory | formula, fitted | L2 → SM, fitted | DRAM, fitted |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for axis, theory, curves, experiment in (
        ("B, so M", "−1", _by_block(record), flashattention.by_block),
        ("N", "2", _by_length(record), flashattention.by_length),
    ):
        for kernel in dict.fromkeys(curve[0] for curve in curves):
            steps = flashattention.BLOCKS if axis != "N" else flashattention.LENGTHS
            formula = [(step, flashattention.formula_bytes(experiment(kernel, step))) for step in steps]
            fitted = {level: _power(whole) for name, level, _, whole in curves if name == kernel}
            cells = [_slope(_power(formula)), *(_slope(fitted[level]) for level, _ in LEVELS)]
            lines.append(f"| {axis} | {KERNELS[kernel].title} | {theory} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spills_words(record: Record) -> str:
    """Which tiles spill, and what that moves, in a sentence; "" where none does."""
    said = []
    for kernel in flashattention.IN_ORDER[1:]:
        for block in flashattention.BLOCKS:
            point = record.point(flashattention.by_block(kernel, block))
            if point and point.counters and flashattention.spilled(point):
                moved = point.counters.cold.spilled_bytes or 0
                said.append(f"{KERNELS[kernel].short}, B = {block}: {moved / 1e9:.1f} GB")
    if not said:
        return ""
    return f"Tiles whose registers do not fit spill to local memory, through L1 and L2: {'; '.join(said)}. They are drawn, and left out of the slopes."


def _power(points: Sequence[tuple[float, float]]) -> float | None:
    """The power of all of the points: the theorem's has no part that dies away."""
    return slope(dict(points), fitted=len(points))


def _slope(value: float | None) -> str:
    return "not measured" if value is None else f"**{value:.2f}**".replace("-", "−")


def tables(record: Record) -> Pair:
    """Tables 20 and 21: time and memory of forward and backward pass against N, the paper's A100 and this GPU."""
    charts = []
    for title, table, unit in (
        ("Table 20: time", flashattention.TABLE_20, "ms"),
        ("Table 21: memory", flashattention.TABLE_21, "MB"),
    ):
        lines = []
        for baseline, papers in table.items():
            theirs = [(n, value) for n, value in zip(flashattention.TABLE_LENGTHS, papers, strict=True) if value]
            lines.append(Line(theirs, f"{KERNELS[baseline].short}, A100", colour_of(baseline), dashed=True))
            lines.append(
                Line(_ours(record, baseline, unit), f"{KERNELS[baseline].short}, {short(record)}", colour_of(baseline))
            )
        charts.append(chart(title, lines, x="N", y=unit, unit=f" {unit}", log=True, height=440))
    time, memory = charts
    return time, memory


def _ours(record: Record, baseline: str, unit: str) -> list[tuple[float, float]]:
    found = []
    for seq_len in flashattention.TABLE_LENGTHS:
        point = record.point(flashattention.of_table(baseline, seq_len))
        if point is None:
            continue
        if unit == "ms" and point.timing:
            found.append((float(seq_len), point.timing.median_ms))
        if unit == "MB" and point.peak_bytes:
            found.append((float(seq_len), (point.peak_bytes + flashattention.inputs_bytes(seq_len)) / 1e6))
    return found


def short(record: Record) -> str:
    """The GPU's name without its maker's."""
    return record.gpu.removeprefix("NVIDIA ")


def hierarchy(record: Record) -> go.Figure:
    """Figure 1's pyramid as bars: the bandwidth of each level, the paper's A100 and what was measured here, on a logarithmic axis; with the sizes."""
    figure = plot()
    names = {"shared": "SRAM (shared memory)", "l1": "L1", "l2": "L2", "hbm": "HBM", "host": "host memory"}
    known = GPUS.get(known_as(record.gpu) or "")
    sizes = {"shared": known.shared_bytes_all, "l2": known.l2_bytes, "hbm": known.hbm_bytes} if known else {}
    ours = {level: record.roofs[level].per_second for level in names if level in record.roofs}
    papers = {level.roof: level for level in flashattention.FIGURE_1}
    for name, colour, values, held in (
        (
            short(record),
            palette.mid("series-1"),
            ours,
            {level: numbers.capacity(count) for level, count in sizes.items()},
        ),
        (
            flashattention.THEIR_GPU,
            PAPER,
            {k: v.bytes_per_second for k, v in papers.items()},
            {k: v.size for k, v in papers.items()},
        ),
    ):
        figure.add_bar(
            y=[names[level] for level in values], x=list(values.values()), orientation="h", name=name, marker_color=colour, textposition="outside", cliponaxis=False,
            text=[f"<b>{name}</b> {si(value, 'B/s')}" + (f", {held[level]}" if level in held else "") for level, value in values.items()],
            hovertemplate="%{y}: %{x:.3s}B/s<extra>" + name + "</extra>",
        )  # fmt: skip
    figure.update_xaxes(title="bytes a second", type="log", range=[9.5, 15.4], dtick=1, exponentformat="power")
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    figure.update_layout(
        height=90 + 75 * len(names), margin={"l": 8, "r": 8, "t": 8, "b": 8}, showlegend=False, bargap=0.25
    )
    return figure


def _gb(count: int | None) -> str:
    return "not measured" if count is None else f"**{count / 1e9:.2f} GB**"


def _ms(time: float | None) -> str:
    return "not measured" if time is None else f"**{time:.3g} ms**"
