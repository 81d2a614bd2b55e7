"""The papers' figures and tables beside ours: a GPU's record of the same work, on the paper's axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from explain.chapters.papers import flashattention, milakov
from explain.chapters.papers.milakov import Figure, Said
from explain.chapters.sweeps.analysis import jump, slope
from explain.experiment import Experiment
from explain.figures import numbers, palette
from explain.figures.lines import WIDE, Line, chart, colour_of
from explain.figures.numbers import count, duration, number, percent, ratio, si
from explain.figures.plot import FONT, logarithmic, plot
from explain.figures.tables import Column, markdown
from explain.gpus import card
from explain.records.model import Point, Record
from kernels.catalog import KERNELS

PAPER = palette.mid("slate")  # a paper's values are slate, and dashed
Pair = tuple[go.Figure, go.Figure]
"""Two charts beside each other."""
HEIGHT = 340
_slope = partial(numbers.fixed, decimals=2)

_gb = partial(numbers.aligned, unit="B", prefix="G")
_ms = partial(numbers.aligned, unit="s", prefix="m")


def short(record: Record) -> str:
    """The GPU's name without its maker's."""
    return record.gpu.removeprefix("NVIDIA ")


def _label(records: Mapping[str, Record], kernel: str, name: str) -> str:
    """The kernel's short name, followed by the record's if there are several records."""
    return KERNELS[kernel].short + (f", {name}" if len(records) > 1 else "")


# Milakov & Gimelshein


V = "V, elements in a row"


NEAR = 1.1
"""A ratio is reproduced if it differs from the paper's by at most this factor."""
WITHIN = f"within {percent(NEAR - 1)}"


def _near(ours: float, low: float, high: float) -> bool:
    return low / NEAR <= ours <= high * NEAR


def _told(what: str, ours: float, papers: float) -> str:
    """A ratio beside the paper's, and how they compare."""
    close = f"reproduced {WITHIN}" if _near(ours, papers, papers) else "more" if ours > papers else "less"
    return f"{what}: {ratio(ours)} here, {ratio(papers)} in the paper: {close}."


def softmax_verdict(figure: milakov.Figure, record: Record) -> str:
    """The last speedup that the paper states for a figure, beside ours; Markdown, "" if it was not measured."""
    said = figure.said[-1]
    gained = [(v, gain) for v, gain in milakov.gains(record, figure) if v <= (said.until or math.inf)]
    if not gained:
        return ""
    low, high = said.ratio if isinstance(said.ratio, tuple) else (said.ratio, said.ratio)
    (v, ours), begins = gained[-1], milakov.knee(gained)
    paper = " to ".join(number(one) for one in dict.fromkeys((low, high)))
    result = f"Reproduced {WITHIN}" if _near(ours, low, high) else f"Not reproduced {WITHIN}"
    at, first = next(((cols, gain) for cols, gain in gained if cols >= said.at), gained[-1])
    except_short = ""
    if _near(ours, low, high) and not _near(first, low, high):
        result += " for long rows"
        except_short = f", but {ratio(first)} on rows of {count(at)}"
    told = (
        f"**{result}: {KERNELS[figure.fast[0]].short} is {ratio(ours)} as fast on rows of {count(v)} "
        f"elements{except_short}.** "
        f"In the paper it is about {paper} × from {count(said.at)} elements on."
    )
    known = card(record.gpu)
    if figure.number == 1 and begins and begins > said.at and known and known.l2_bytes > milakov.THEIR_L2_BYTES:
        told += (
            f" Here the speedup begins at {count(begins)} elements: L2 holds {numbers.capacity(known.l2_bytes)}, "
            f"theirs {numbers.capacity(milakov.THEIR_L2_BYTES)}."
        )
    return told


def rates(figure: Figure, records: Mapping[str, Record]) -> Pair:
    """One of figures 1 to 4: elements per second over V, and the speedup over the slow kernel beside the paper's."""
    under = figure.kernels[0] if len(records) == 1 and figure.kernels[0] == "softmax_naive" else ""
    lines = [
        Line(
            _billions(milakov.rates(record, figure, kernel)),
            _label(records, kernel, name), colour_of(kernel),
            width=5 if kernel == under else 2,
        )
        for name, record in records.items()
        for kernel in figure.kernels
    ]  # fmt: skip
    first = next(iter(records.values()), None)
    copy = first.roofs.get("hbm copy") if first and figure.number < 3 else None
    if copy:  # each element is read and written: 8 bytes at least
        rate = copy.per_second / 8e9
        ends = [(v, rate) for v in (figure.lengths[0], figure.lengths[-1])]
        lines.append(Line(ends, f"a copy: {si(copy.per_second, 'B/s')}", PAPER, dashed=True))
    limits = _held(first) if first and figure.number == 1 else {}
    gains = [
        Line(milakov.gains(record, figure, fast), _label(records, fast, name), colour_of(fast), dashed=n > 0)
        for n, (name, record) in enumerate(records.items())
        for fast in figure.fast
    ]
    return (
        chart(f"Figure {figure.number}: {figure.title}", lines, x=V, y="10⁹ elements/s", unit=" × 10⁹/s",
              height=HEIGHT, limits=dict(list(limits.items())[-1:]), marks=_marks(figure.lengths)),
        chart(
            f"Speedup over {KERNELS[figure.slow].short}", [*_said(figure.said, figure.lengths[-1]), *gains],
            x=V, y="speedup, ×", unit=" ×", height=HEIGHT, start=0.8 if figure.number < 3 else 0.0, limits=limits,
            marks=_marks(figure.lengths),
        ),
    )  # fmt: skip


def _marks(lengths: Sequence[int]) -> list[int]:
    """Every fourth of the paper's lengths 63 · 2ᵏ, to name on the axis."""
    return [v for k in range(12) if (v := 63 * 4**k) <= lengths[-1]]


def _billions(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    return [(x, y / 1e9) for x, y in points]


def _said(said: Sequence[Said], last: float) -> list[Line]:
    """The paper's speedups as wide lines, a range as an area: as far as the sentence says, and no further."""
    lines = []
    for one in said:
        end = last if one.until is None else one.until
        low, high = one.ratio if isinstance(one.ratio, tuple) else (one.ratio, one.ratio)
        points = [(x, low) for x in dict.fromkeys((one.at, end))]
        label = f"paper: {number(low)} ×"
        if high > low:
            points = [(end, low), (one.at, low), (one.at, high), (end, high), (end, low)]
            label = f"paper: {number(low)}–{number(high)} ×"
        lines.append(Line(points, label, PAPER, width=2 if high > low else WIDE))
    return lines


def _held(record: Record) -> dict[float, str]:
    """Up to which V L2 holds the rows in flight: the paper's GPU, and this one."""
    known = card(record.gpu)
    ours = {float(milakov.fits_l2(known)): f" {short(record)}: L2 full"} if known else {}
    return {float(milakov.fitted_theirs()): "V100: L2 full ", **ours}


def knee(record: Record) -> Pair:
    """How often figure 1's kernels read an element of x from DRAM, and from L2, over V."""
    once, again, near = _kept(record)
    dram, l2 = (
        chart(
            f"Reads of each element {where}", x=V, y="reads per element", unit=" reads", height=HEIGHT, lines=[
                Line(milakov.reads(record, kernel, level), KERNELS[kernel].short, colour_of(kernel))
                for kernel in ("softmax_naive", "softmax_safe", "softmax_online")
            ],
            limits={float(v): words.format(count(v)) for v, words in named if v},
            marks=_marks(milakov.FIGURES[0].lengths),
        )
        for level, where, named in (
            ("dram", "from DRAM", ((once, "V = {} "), (again, " V = {}"))),
            ("l2", "from L2 by an SM", ((near, " V = {}"),)),
        )
    )  # fmt: skip
    return dram, l2


ONCE, MORE = 1.1, 1.5
"""Up to ONCE reads an element counts as read once; from MORE on, as read again."""


def _kept(record: Record) -> tuple[int | None, int | None, int | None]:
    """For safe softmax: the last V at which DRAM reads each element once, the first at which it reads it again, and the
    first at which L1 no longer holds a row.
    """
    dram, l2 = (milakov.reads(record, "softmax_safe", level) for level in ("dram", "l2"))
    once = max((cols for cols, times in dram if times <= ONCE), default=None)
    again, near = (min((cols for cols, times in found if times >= MORE), default=None) for found in (dram, l2))
    return once, again, near


def knee_words(record: Record) -> str:
    """From which V on online softmax is faster, which cache stops holding the rows there, and the longest rows that
    fit L2; a Markdown list."""
    begins = milakov.knee(milakov.gains(record, milakov.FIGURES[0]))
    once, again, near = _kept(record)
    since = f"from **V = {count(begins)}** on" if begins else "at none of the measured V"
    said = [
        f"Online softmax is at least {ratio(milakov.GAIN)} as fast {since}. On the paper's V100 all three kernels are "
        "similar up to V = 1,000."
    ]
    if near:
        said.append(f"From V = {count(near)} on, L1 no longer holds an SM's rows. The later passes read from L2.")
    if once and again:
        said.append(
            f"Up to V = {count(once)} L2 holds the rows: safe softmax reads each element **once** from DRAM, although "
            f"its three passes load it three times. From V = {count(again)} on, L2 does not, and fewer passes save "
            "DRAM bytes."
        )
    known = card(record.gpu)
    if known:
        programs = 32 * known.warps_sm // milakov.THREADS
        said.append(
            f"An SM has threads for {programs} programs, a row each: {known.sms} SMs × {programs} = "
            f"{count(known.sms * programs)} rows in flight. They fill {numbers.capacity(known.l2_bytes)} of L2 at V = "
            f"{count(milakov.fits_l2(known))}. On the V100 the paper's rows in flight are fewer, "
            f"{milakov.THEIR_SMS} SMs × {milakov.THEIR_PROGRAMS}, but its {numbers.capacity(milakov.THEIR_L2_BYTES)} "
            f"of L2 are full at V = {count(milakov.fitted_theirs())}: its speedup starts earlier."
        )
    return "\n".join(f"- {one}" for one in said)


def larger_k(records: Mapping[str, Record]) -> str:
    """The speedups of the fused kernels over K, the paper's and ours, as Markdown."""
    found = {
        _label(records, fast, name): dict(milakov.gains_by_k(record, fast))
        for name, record in records.items()
        for fast in milakov.FIGURES[2].fast
    }
    columns = (Column("K"), Column("paper", lambda x: f"{number(x)} ×"), *(Column(name, ratio) for name in found))
    rows = ((said.at, said.ratio, *(gains.get(said.at) for gains in found.values())) for said in milakov.LARGER_K)
    return markdown(columns, rows)


def topk_words(record: Record) -> str:
    """The bandwidth that each fused kernel reaches at V = LONG, as a share of HBM's; "" if not measured."""
    roof = record.roofs.get("hbm")
    said = []
    for fast in milakov.FIGURES[2].fast:
        rate = milakov.rate(record.point(milakov.experiment(fast, 4000, milakov.LONG)))
        if rate and roof:
            read = 4 * rate
            share = percent(read / roof.per_second)
            said.append(f"**{KERNELS[fast].short}** reads {si(read, 'B/s')}, {share} of HBM's measured bandwidth")
    return f"On the {short(record)}, at V = {count(milakov.LONG)}: {'; '.join(said)}." if said else ""


def tiles_words(record: Record) -> str:
    """The times with other tiles, in a sentence; "" if none was measured."""
    fast = milakov.FIGURES[2].fast[0]
    times = {block_n: _seconds(record.point(milakov.by_tile(fast, block_n))) for block_n in milakov.TILES}
    taken = [f"{count(block_n)}: {duration(time)}" for block_n, time in times.items() if time]
    return f"{short(record)}, {KERNELS[fast].short}, by tile size: {', '.join(taken)}." if taken else ""


def accesses(counted: Mapping[str, float | None]) -> str:
    """Accesses per element, as Markdown: the paper's, the formula's, the traces'."""
    rows = []
    for kernel, (papers, where) in milakov.PAPERS_ACCESSES.items():
        experiment = milakov.counting(kernel)
        formula = milakov.accesses(experiment, experiment.traffic.totals())
        rows.append((KERNELS[kernel].title, papers, formula, counted.get(kernel), where))
    return markdown(("kernel", Column("paper"), Column("formula"), Column("trace"), "in the paper"), rows)


# FlashAttention


def _seconds(point: Point | None) -> float | None:
    return point.seconds if point else None


def _counted(point: Point | None, bytes_of: flashattention.Bytes) -> int | None:
    return bytes_of(point) if point else None


def _figure_2(record: Record) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Figure 2's two ratios, standard attention ÷ FlashAttention: bytes and time, each ours and the paper's."""
    first, *_, last = flashattention.FIGURE_2
    points = [record.point(flashattention.gpt2(row.baseline)) for row in (first, last)]
    moved, taken = ([of(point) for point in points] for of in (partial(_counted, bytes_of=flashattention.hbm_bytes),
        _seconds))  # fmt: skip
    if not (moved[0] and moved[1] and taken[0] and taken[1]):
        return None
    return (moved[0] / moved[1], first.hbm_gb / last.hbm_gb), (taken[0] / taken[1], first.ms / last.ms)


def figure_2_verdict(record: Record) -> str:
    """Figure 2's two ratios, ours and the paper's; Markdown, "" if they were not measured."""
    if not (found := _figure_2(record)):
        return ""
    moved, taken = found
    return f"**Standard attention ÷ FlashAttention. {_told('Bytes', *moved)} {_told('Time', *taken)}**"


def figure_2_time(record: Record) -> str:
    """What limits each kernel of figure 2 on this GPU, in a Markdown list's line; "" if it was not measured."""
    first, *_, last = flashattention.FIGURE_2
    standard, flash = (record.point(flashattention.gpt2(row.baseline)) for row in (first, last))
    moved, slow, fast = _counted(standard, flashattention.hbm_bytes), _seconds(standard), _seconds(flash)
    copy, peak = (record.roofs.get(level) for level in ("hbm copy", "matmul fp16"))
    if not (moved and slow and fast and copy and peak):
        return ""
    return (
        f"- *Time*: the {short(record)} runs standard attention {ratio(first.ms / 1e3 / slow)} as fast as the paper's "
        f"GPU, and FlashAttention {ratio(last.ms / 1e3 / fast)}. HBM became faster, and standard attention reaches "
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
    figure.update_xaxes(ticksuffix=" ×", showgrid=False, range=[0, 1.5 * max(max(pair) for pair in found)])
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
    means = {"B": "Twice the tile, half the bytes: ", "N": "Twice N, four times the bytes: "} if near else {}
    each = " ".join(
        f"{means.get(axis, f'Over {axis}: ')}slope {_slope(power)} (theory {number(theory)}{less})."
        for axis, theory, power, less in found
    )
    return f"**{'Reproduced' if near else 'Other slopes'} between L2 and the SMs, by FlashAttention-2.** {each}"


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
                _seconds(point),
            )
        )  # fmt: skip
    columns = (
        "", Column("GFLOP, paper ¹"), Column("GFLOP, counted (÷ paper)"), Column("HBM, paper", _gb),
        Column("HBM, minimum", _gb), Column(f"DRAM, {short(record)}", _gb), Column("time, paper", _ms),
        Column(f"time, {short(record)}", _ms),
    )  # fmt: skip
    return markdown(columns, rows)


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
                _counted(point, flashattention.sm_bytes), _counted(point, flashattention.hbm_bytes), _seconds(point),
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
        timed = {block: time for block, one in points.items() if (time := _seconds(one))}
        moved = {block: most for block, one in points.items() if (most := _counted(one, flashattention.sm_bytes))}
        if not (timed and moved):
            continue
        fastest, least = min(timed, key=timed.__getitem__), min(moved, key=moved.__getitem__)
        where = "there" if fastest == least else f"at {fastest}"
        limits = ": bytes are not what limits it" if fastest < least else ""
        words = f"**{KERNELS[kernel].short}** moves the fewest bytes at B = {least}, and is fastest {where}{limits}."
        if spills := [block for block, one in points.items() if one and flashattention.spilled(one)]:
            words += f" From B = {min(spills)} on its tile does not fit the registers, and spills."
        said.append(words)
    return "\n\n".join(said)


def blocks(record: Record) -> Pair:
    """Figure 2, middle: bytes and time of the forward pass over the block size, for both loop orders."""
    moved, times = [], []
    for kernel in flashattention.IN_ORDER[1:]:
        experiments = [flashattention.by_block(kernel, block) for block in flashattention.BLOCKS]
        axis, name, colour = KERNELS[kernel].outer, KERNELS[kernel].short, colour_of(kernel)
        found = flashattention.series(record, experiments, axis, flashattention.sm_bytes)
        moved.append(Line(_billions(found), name, colour))
        taken = ((one.values[axis], _seconds(record.point(one))) for one in experiments)
        times.append(Line([(block, 1e3 * time) for block, time in taken if time], name, colour))
    return (
        chart("bytes between L2 and the SMs", moved, x=BLOCK, y="bytes, GB", unit=" GB", height=HEIGHT),
        chart("time", times, x=BLOCK, y="time, ms", unit=" ms", height=HEIGHT),
    )


def theorem(record: Record) -> Pair:
    """Theorem 2 on logarithmic axes: bytes over the tile that fits M, and over N at a fixed M. L2 ↔ SM solid, DRAM
    dashed."""
    by_block, by_length = (
        [
            Line(_billions(found), f"{KERNELS[kernel].short}, {level}", colour_of(kernel), dashed=level == "DRAM")
            for kernel, level, found, _ in _curves(record, axis)
        ]
        for axis in ("B", "N")
    )
    by_block.extend(_theory(by_block[-2], -1))
    by_length.extend(_theory(by_length[-2], 2))
    drawn = partial(chart, y="bytes, GB", unit=" GB", log=True, height=HEIGHT)
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
    return (tiles, drawn("longer sequences, tiles of 128 × 64", by_length, x="N"))


def _theory(beside: Line, power: int) -> list[Line]:
    """A line of the theory's slope, a little below the measured line `beside`."""
    if len(beside.points) < 2:
        return []
    (x, y), (end, _) = beside.points[0], beside.points[-1]
    points = [(x, 0.6 * y), (end, 0.6 * y * (end / x) ** power)]
    return [Line(points, f"theory: slope {number(power)}", PAPER, dashed=True)]


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
            fitted = (_power(whole) for name, _, _, whole in curves if name == kernel)
            rows.append((axis, KERNELS[kernel].title, theory, _power(formula), *fitted))
    measured = (Column(f"{level}, fitted", _slope) for level in ("formula", *dict(LEVELS)))
    return markdown(("over", "kernel", Column("theory"), *measured), rows)


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
    known = dict(points)
    return None if jump(known, len(points)) else slope(known, fitted=len(points))


def tables_verdict(record: Record) -> str:
    """Memory and time at the longest N at which the paper has both; Markdown, "" if they were not measured."""
    standard, flash = flashattention.TABLE_20
    at = len(flashattention.TABLE_20[standard]) - 1
    n = flashattention.TABLE_LENGTHS[at]
    taken, held = (
        [of(flashattention.of_table(baseline, n)) for baseline in (standard, flash)]
        for of in (lambda one: _seconds(record.point(one)), partial(_held_bytes, record))
    )
    if not (taken[0] and taken[1] and held[0] and held[1]):
        return ""
    time, memory = (table[standard][at] / table[flash][at] for table in (flashattention.TABLE_20,
        flashattention.TABLE_21))  # fmt: skip
    return (
        f"**Standard attention ÷ FlashAttention at N = {count(n)}. {_told('Memory', held[0] / held[1], memory)} "
        f"{_told('Time', taken[0] / taken[1], time)}**"
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
        seconds = _seconds(record.point(experiment))
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
    margin = {"l": 8, "r": 8, "t": 8, "b": 8}
    figure.update_layout(height=90 + 75 * len(names), margin=margin, showlegend=False, scattermode="group")
    return figure
