"""FlashAttention's figures and tables beside ours: a GPU's record of the same work, on the paper's axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from explain.chapters.papers import flashattention
from explain.chapters.papers.comparison import HEIGHT, NEAR, PAPER, Pair, billions, compared, seconds_of, short
from explain.chapters.sweeps.analysis import jump, slope
from explain.experiment import Experiment
from explain.figures import numbers, palette
from explain.figures.lines import Line, chart, colour_of
from explain.figures.numbers import count, number, percent, ratio, si
from explain.figures.plot import FONT, logarithmic, plot
from explain.figures.tables import Column, markdown
from explain.gpus import card
from explain.records.model import Point, Record
from kernels.catalog import KERNELS

_slope = partial(numbers.fixed, decimals=2)
_gb = partial(numbers.aligned, unit="B", prefix="G")
_ms = partial(numbers.aligned, unit="s", prefix="m")


def _counted(point: Point | None, bytes_of: flashattention.Bytes) -> int | None:
    return bytes_of(point) if point else None


def _figure_2(record: Record) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Figure 2's two ratios, standard attention ÷ FlashAttention: bytes and time, each ours and the paper's."""
    first, *_, last = flashattention.FIGURE_2
    points = [record.point(flashattention.gpt2(row.baseline)) for row in (first, last)]
    moved, taken = ([of(point) for point in points] for of in (partial(_counted, bytes_of=flashattention.hbm_bytes),
        seconds_of))  # fmt: skip
    if not (moved[0] and moved[1] and taken[0] and taken[1]):
        return None
    return (moved[0] / moved[1], first.hbm_gb / last.hbm_gb), (taken[0] / taken[1], first.ms / last.ms)


def figure_2_verdict(record: Record) -> str:
    """Figure 2's two ratios, ours and the paper's; Markdown, "" if they were not measured."""
    if not (found := _figure_2(record)):
        return ""
    moved, taken = found
    first, *_, last = flashattention.FIGURE_2
    slow, fast = (
        row.ms / 1e3 / (seconds_of(record.point(flashattention.gpt2(row.baseline))) or 1.0) for row in (first, last)
    )
    because = (
        f"\n\nThe {short(record)} speeds up standard attention {ratio(slow)} and FlashAttention only {ratio(fast)}. So "
        "the gap in time is smaller."
    ) * (slow > NEAR * fast)
    return (
        f"**Standard attention ÷ FlashAttention**\n\n{compared('Bytes', *moved)}\n{compared('Time', *taken)}{because}"
    )


def figure_2_time(record: Record) -> str:
    """What limits each kernel of figure 2 on this GPU, in a Markdown list's line; "" if it was not measured."""
    first, *_, last = flashattention.FIGURE_2
    standard, flash = (record.point(flashattention.gpt2(row.baseline)) for row in (first, last))
    moved, slow, fast = _counted(standard, flashattention.hbm_bytes), seconds_of(standard), seconds_of(flash)
    copy, peak = (record.roofs.get(level) for level in ("hbm copy", "matmul fp16"))
    if not (moved and slow and fast and copy and peak):
        return ""
    return (
        "- *Time*: HBM became faster than the paper's, and standard attention reaches "
        f"{percent(moved / slow / copy.per_second)} of a copy's rate. PyTorch's FlashAttention-2 reaches "
        f"{percent(flashattention.matmul_flops(last) / fast / peak.per_second)} of the matmul peak.\n"
    )


def figure_2(record: Record) -> go.Figure | str:
    """Figure 2's two ratios as bars, the paper's and this GPU's; "" if they were not measured."""
    if not (found := _figure_2(record)):
        return ""
    figure, names = plot(), ("bytes at HBM", "time")
    sides = ((short(record), palette.mid("series-1")), (f"paper, {flashattention.THEIR_GPU}", PAPER))
    for (name, colour), values in zip(sides, zip(*found, strict=True), strict=True):
        figure.add_bar(
            y=names, x=values, orientation="h", name=name, marker_color=colour, textposition="outside",
            cliponaxis=False, text=[f"<b>{ratio(value)}</b> {name}" for value in values], hoverinfo="skip",
        )  # fmt: skip
    figure.update_xaxes(
        ticksuffix=" ×", showgrid=False, showticklabels=False, range=[0, 1.5 * max(max(pair) for pair in found)]
    )
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    figure.update_layout(
        title={"text": "standard attention ÷ FlashAttention", "font": {"size": FONT + 1}}, height=250,
        margin={"l": 8, "r": 8, "t": 44, "b": 8}, showlegend=False, bargap=0.25,
    )  # fmt: skip
    return figure


def theorem_verdict(record: Record) -> str:
    """FlashAttention-2's slopes between L2 and the SMs, beside theorem 2's; Markdown, "" if they were not measured."""
    found = [
        (
            axis,
            theory,
            power,
            "".join(f"; {axis} = {x} spills and is left out" for x, _ in every if x not in dict(whole)),
        )
        for axis, (*_, theory) in _STEPS.items()
        for kernel, level, every, whole in _curves(record, axis)
        if kernel == "flash_attention" and level == LEVELS[0][0] and (power := _power(whole)) is not None
    ]
    if not found:
        return ""
    near = all(abs(power - theory) < 0.2 for _, theory, power, _ in found)
    means = {"B": "Twice the tile, half the bytes", "N": "Twice N, four times the bytes"} if near else {}
    each = "\n".join(
        f"- {means.get(axis, f'Over {axis}')}: slope **{_slope(power)}** (theory {number(theory)}{less})"
        for axis, theory, power, less in found
    )
    return f"**{'Reproduced' if near else 'Other slopes'} between L2 and the SMs, by FlashAttention-2.**\n\n{each}"


def table_2(record: Record) -> str:
    """Figure 2's table beside ours, forward and backward, as Markdown."""
    rows = []
    for row in flashattention.FIGURE_2:
        experiment = flashattention.gpt2(row.baseline)
        point = record.point(experiment)
        flops = flashattention.matmul_flops(row)
        rows.append(
            (
                row.name, row.gflops, f"{number(flops / 1e9)} ({ratio(flops / 1e9 / row.gflops)})", 1e9 * row.hbm_gb,
                flashattention.formula_bytes(experiment), _counted(point, flashattention.hbm_bytes), row.ms / 1e3,
                seconds_of(point),
            )
        )  # fmt: skip
    columns = (
        "", Column("GFLOP, paper ¹"), Column("GFLOP, counted (÷ paper)"), Column("HBM, paper", _gb),
        Column("HBM, minimum", _gb), Column(f"HBM, {short(record)}", _gb), Column("time, paper", _ms),
        Column(f"time, {short(record)}", _ms),
    )  # fmt: skip
    return markdown(columns, rows)


def table_2_note() -> str:
    """Why the paper's FLOPs are not those counted; Markdown."""
    off = " and ".join(ratio(flashattention.matmul_flops(row) / 1e9 / row.gflops) for row in flashattention.FIGURE_2)
    return (
        f"¹ The paper's FLOPs are too low by nearly the same factor in both rows: {off}. Its author said that it may "
        "be off by a factor ([flash-attention issue 741](https://github.com/Dao-AILab/flash-attention/issues/741))."
        " Counted: a matmul has 2 N² d FLOPs per head. Standard attention has 6 matmuls. FlashAttention has 7: it "
        "recomputes S in the backward pass."
    )


def forward_table(record: Record) -> str:
    """The forward pass at figure 2's sizes, our kernels and PyTorch's, as Markdown."""
    rows = []
    baselines = (experiment for experiment in flashattention.BASELINES if not experiment.entry.gradient)
    for experiment in (*flashattention.OURS, *baselines):
        point = record.point(experiment)
        formula = _gb(flashattention.formula_bytes(experiment))
        rows.append(
            (
                experiment.entry.title, formula if experiment.entry.steppable else f"≥ {formula}",
                _counted(point, flashattention.sm_bytes), _counted(point, flashattention.hbm_bytes), seconds_of(point),
                point.peak_bytes if point else None,
            )
        )  # fmt: skip
    bytes_of = (Column(level, _gb) for level in ("formula", "L2 ↔ SM", "DRAM"))
    return markdown(("forward", *bytes_of, Column("time", _ms), Column("memory beyond Q, K, V", _gb)), rows)


BLOCK = "B, rows of the tile that stays on chip"


def blocks_told(record: Record) -> str:
    """The tile that moves the fewest bytes and the fastest one, for both loop orders; Markdown, "" if not measured."""
    said = []
    for kernel in flashattention.IN_ORDER[1:]:
        points = {block: record.point(flashattention.by_block(kernel, block)) for block in flashattention.BLOCKS}
        timed = {block: time for block, one in points.items() if (time := seconds_of(one))}
        moved = {block: most for block, one in points.items() if (most := _counted(one, flashattention.sm_bytes))}
        if not (timed and moved):
            continue
        fastest, least = min(timed, key=timed.__getitem__), min(moved, key=moved.__getitem__)
        where = "there" if fastest == least else f"at {fastest}"
        limits = ": bytes are not what limits it" if fastest < least else ""
        words = f"**{KERNELS[kernel].short}** moves the fewest bytes at B = {least}, and is fastest {where}{limits}."
        if spills := [block for block, one in points.items() if one and flashattention.spilled(one)]:
            words += f" At B = {', '.join(map(str, spills))} its tile does not fit the registers, and spills."
        said.append(words)
    return "\n\n".join(said)


def blocks(record: Record) -> Pair:
    """Figure 2, middle: bytes and time of the forward pass over the block size, for both loop orders."""
    moved, times = [], []
    for kernel in flashattention.IN_ORDER[1:]:
        experiments = [flashattention.by_block(kernel, block) for block in flashattention.BLOCKS]
        axis, name, colour = KERNELS[kernel].outer, KERNELS[kernel].short, colour_of(kernel)
        found = flashattention.series(record, experiments, axis, flashattention.sm_bytes)
        moved.append(Line(billions(found), name, colour))
        taken = ((one.values[axis], seconds_of(record.point(one))) for one in experiments)
        times.append(Line([(block, 1e3 * time) for block, time in taken if time], name, colour))
    return (
        chart("bytes between L2 and the SMs", moved, x=BLOCK, y="bytes, GB", unit=" GB", height=HEIGHT),
        chart("time", times, x=BLOCK, y="time, ms", unit=" ms", height=HEIGHT),
    )


TALL = 460
"""The height of a chart with many lines, each with its label near its end, in pixels."""


def theorem(record: Record) -> Pair:
    """Theorem 2 on logarithmic axes: bytes over the tile that fits M, and over N at a fixed M. L2 ↔ SM solid, DRAM
    dashed."""
    by_block, by_length = (
        [
            Line(billions(found), f"{KERNELS[kernel].short}, {level}", colour_of(kernel), dashed=level == "DRAM")
            for kernel, level, found, _ in _curves(record, axis)
        ]
        for axis in ("B", "N")
    )
    by_block.extend(_theory(by_block[-2], -1))
    by_length.extend(_theory(by_length[-2], 2))
    drawn = partial(chart, y="bytes, GB", unit=" GB", log=True, height=TALL)
    tiles = drawn("larger tiles, N = 1,024", by_block, x=f"{BLOCK}: M = 4 d B")
    for kernel, level, every, whole in _curves(record, "B"):
        if kernel != "flash_attention" or level != LEVELS[0][0]:
            continue
        for spills, moved in every:
            if spills in dict(whole):
                continue
            tiles.add_annotation(
                x=math.log10(spills), y=math.log10(moved / 1e9), ax=0, ay=-95, arrowhead=2, arrowwidth=1,
                text=f"B = {spills} spills registers", xanchor="right", font={"size": FONT},
            )  # fmt: skip
    lengths = drawn("longer sequences, tiles of 128 × 64", by_length, x="N")
    decades = [10.0**power for power in range(-3, 3)]
    lengths.update_yaxes(title="bytes", tickvals=decades, ticktext=[si(1e9 * gigabytes, "B") for gigabytes in decades])
    return tiles, lengths


def _theory(beside: Line, power: int) -> list[Line]:
    """A line of the theory's slope, a little below the measured line `beside`."""
    if len(beside.points) < 2:
        return []
    (x, y), (end, _) = beside.points[0], beside.points[-1]
    points = [(x, 0.6 * y), (end, 0.6 * y * (end / x) ** power)]
    return [Line(points, f"theory’s slope: {number(power)}", PAPER, dashed=True)]


LEVELS = (("L2 ↔ SM", flashattention.sm_bytes), ("DRAM", flashattention.hbm_bytes))
Curve = tuple[str, str, list[tuple[int, int]], list[tuple[int, int]]]
"""A kernel, a level, all its points, and the points that are fitted: tiles that spill registers are left out."""
_STEPS: Mapping[str, tuple[Sequence[str], Sequence[int], Callable[[str, int], Experiment], int]] = {
    "B": (flashattention.IN_ORDER[1:], flashattention.BLOCKS, flashattention.by_block, -1),
    "N": (flashattention.IN_ORDER, flashattention.LENGTHS, flashattention.by_length, 2),
}
"""Theorem 2's two axes: the kernels, the values, the experiment at a value, and the theory's slope."""


def _curves(record: Record, axis: str) -> list[Curve]:
    kernels, steps, experiment, _ = _STEPS[axis]
    curves: list[Curve] = []
    for kernel in kernels:
        name = KERNELS[kernel].outer if axis == "B" else "seq_len"
        points = {one: record.point(one) for one in (experiment(kernel, step) for step in steps)}
        fitted = [one for one, point in points.items() if point and not flashattention.spilled(point)]
        for level, bytes_of in LEVELS:
            every, whole = (flashattention.series(record, ones, name, bytes_of) for ones in (list(points), fitted))
            curves.append((kernel, level, every, whole))
    return curves


def slopes(record: Record) -> str:
    """The fitted slopes of theorem 2's curves beside the theory's, as Markdown."""
    rows: list[tuple[Any, ...]] = []
    for axis, (kernels, steps, experiment, theory) in _STEPS.items():
        curves = _curves(record, axis)
        for kernel in kernels:
            formula = [(step, flashattention.formula_bytes(experiment(kernel, step))) for step in steps]
            fitted = (JUMPS if _jumps(whole) else _power(whole) for name, _, _, whole in curves if name == kernel)
            rows.append((axis, KERNELS[kernel].title, theory, _power(formula), *fitted))
    measured = (Column(f"{level}, fitted", _slope) for level in ("formula", *dict(LEVELS)))
    return markdown(("over", "kernel", Column("theory"), *measured), rows)


JUMPS = "jumps"
"""Stands in the table where a curve has no slope."""


def slopes_words(record: Record) -> str:
    """What the table's DRAM column says that the theorem does not, as Markdown; "" where it says nothing."""
    found = [curve for axis in _STEPS for curve in _curves(record, axis) if curve[1] == "DRAM"]
    said = []
    if any(abs(power) < FLAT for *_, whole in found if (power := _power(whole)) is not None):
        said.append("**DRAM near 0**: L2 serves K and V again, so the tile does not change what DRAM reads.")
    if any(_jumps(whole) for *_, whole in found):
        said.append(f"**{JUMPS}**: from one point to the next O no longer fits L2, and no slope describes that.")
    return " ".join(said)


FLAT = 0.05
"""A slope below this is none."""


def spills_words(record: Record) -> str:
    """The tiles that spill registers, and the bytes that this moves, in a sentence; "" if none does."""
    said = []
    for kernel in flashattention.IN_ORDER[1:]:
        for block in flashattention.BLOCKS:
            point = record.point(flashattention.by_block(kernel, block))
            if point and point.counters and flashattention.spilled(point):
                moved = numbers.moved(point.counters.cold.spilled_bytes or 0)
                said.append(f"{KERNELS[kernel].short}, B = {block}: {moved}")
    if not said:
        return ""
    return f"Some tiles spill registers to local memory, through L1 and L2: {'; '.join(said)}. No slope includes them."


def _power(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of all points on logarithmic axes; None for fewer than two, and where the curve jumps."""
    return None if _jumps(points) else slope(dict(points), fitted=len(points))


def _jumps(points: Sequence[tuple[float, float]]) -> bool:
    """Whether one step follows no power and is tenfold or more: a curve that only bends still has a slope."""
    found = jump(dict(points), len(points))
    return found is not None and found[1] > 10


def tables_verdict(record: Record) -> str:
    """Memory and time at the longest N at which the paper has both; Markdown, "" if they were not measured."""
    standard, flash = flashattention.TABLE_20
    at = len(flashattention.TABLE_20[standard]) - 1
    n = flashattention.TABLE_LENGTHS[at]
    taken, held = (
        [of(flashattention.of_table(baseline, n)) for baseline in (standard, flash)]
        for of in (lambda one: seconds_of(record.point(one)), partial(_held_bytes, record))
    )
    if not (taken[0] and taken[1] and held[0] and held[1]):
        return ""
    time, memory = (table[standard][at] / table[flash][at] for table in (flashattention.TABLE_20,
        flashattention.TABLE_21))  # fmt: skip
    return (
        f"**Standard attention ÷ FlashAttention at N = {count(n)}**\n\n"
        f"{compared('Memory', held[0] / held[1], memory)}\n{compared('Time', taken[0] / taken[1], time)}"
    )


def _held_bytes(record: Record, experiment: Experiment) -> int | None:
    """Bytes of memory that a run of tables 20 and 21 holds at most, with its inputs."""
    point = record.point(experiment)
    peak = point.peak_bytes if point else None
    return peak + flashattention.inputs_bytes(experiment.values["seq_len"]) if peak else None


def tables(record: Record) -> Pair:
    """Tables 20 and 21: time and memory of forward and backward pass over N: the paper's A100, dashed, and this GPU."""

    def memory(experiment: Experiment) -> float | None:
        held = _held_bytes(record, experiment)
        return held / 1e6 if held else None

    def time(experiment: Experiment) -> float | None:
        seconds = seconds_of(record.point(experiment))
        return 1e3 * seconds if seconds else None

    def drawn(title: str, table: flashattention.Table, unit: str, ours: Callable[[Experiment], float | None]) -> Any:
        lines = []
        for baseline, papers in table.items():
            theirs = next(row.name for row in flashattention.FIGURE_2 if row.baseline == baseline)
            found = [ours(flashattention.of_table(baseline, n)) for n in flashattention.TABLE_LENGTHS]
            for values, name in ((papers, f"paper: {theirs}"), (found, f"{KERNELS[baseline].short}, {short(record)}")):
                points = [(n, y) for n, y in zip(flashattention.TABLE_LENGTHS, values, strict=False) if y]
                lines.append(Line(points, name, colour_of(baseline), dashed=values is papers))
        what = f"{title.partition(': ')[2]}, {unit}"
        return chart(title, lines, x="N", y=what, unit=f" {unit}", log=True, height=HEIGHT)

    return (
        drawn("Table 20: time", flashattention.TABLE_20, "ms", time),
        drawn("Table 21: memory", flashattention.TABLE_21, "MB", memory),
    )


def hierarchy(record: Record) -> go.Figure:
    """Figure 1's pyramid as dots on one axis: bandwidth and size of each level, the paper's A100 and this GPU."""
    figure = plot()
    names = {"shared": "SRAM (shared memory)", "l1": "L1", "l2": "L2", "hbm": "HBM", "host": "host memory"}
    known = card(record.gpu)
    sizes = {"shared": known.shared_bytes_all, "l2": known.l2_bytes, "hbm": known.hbm_bytes} if known else {}
    ours = {
        level: (record.roofs[level].per_second, numbers.capacity(sizes[level]) if level in sizes else "")
        for level in names
        if level in record.roofs
    }
    papers = {level.roof: (level.bytes_per_second, level.size) for level in flashattention.FIGURE_1}
    colour = palette.mid("series-1")
    for name, hue, values in ((short(record), colour, ours), (flashattention.THEIR_GPU, PAPER, papers)):
        figure.add_scatter(
            y=[names[level] for level in values], x=[rate for rate, _ in values.values()], orientation="h", name=name,
            mode="markers+text", marker={"color": hue, "size": 14}, textposition="middle right", cliponaxis=False,
            offsetgroup=name,
            text=[
                f"\u2003<b>{name}</b> {', '.join(filter(None, (si(rate, 'B/s'), size)))}"
                for rate, size in values.values()
            ],
            hovertemplate="%{y}: %{x:.3s}B/s<extra>" + name + "</extra>",
        )  # fmt: skip
    marks = {10.0**power: si(10.0**power, "B/s") for power in range(10, 14)}
    figure.update_xaxes(**logarithmic("bandwidth", marks), range=[9.5, 15.9])
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    figure.update_layout(
        title={"text": "bandwidth and size of each level", "font": {"size": FONT + 1}}, height=126 + 75 * len(names),
        margin={"l": 8, "r": 8, "t": 44, "b": 8}, showlegend=False, scattermode="group",
    )  # fmt: skip
    return figure


def hierarchy_verdict(record: Record) -> str:
    """Whether this GPU's levels are in the pyramid's order, and SRAM ÷ HBM beside the paper's; Markdown, "" without
    all of the pyramid's levels."""
    papers = [level.bytes_per_second for level in flashattention.FIGURE_1]
    roofs = [record.roofs.get(level.roof) for level in flashattention.FIGURE_1]
    ours = [roof.per_second for roof in roofs if roof]
    if len(ours) < len(papers):
        return ""
    order = "The same order" if ours == sorted(ours, reverse=True) else "Another order"
    between = record.roofs.get("l2")
    besides = f" L2, which the pyramid leaves out, is between them: {si(between.per_second, 'B/s')}." if between else ""
    return (
        f"**{order}: SRAM, HBM, host memory.**{besides}\n\n"
        f"{compared('SRAM ÷ HBM', ours[0] / ours[1], papers[0] / papers[1])}"
    )
