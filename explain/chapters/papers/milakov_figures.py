"""Milakov & Gimelshein's figures beside ours: a GPU's record of the same work, on the paper's axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from explain.chapters.papers import milakov
from explain.chapters.papers.comparison import (
    HEIGHT,
    PAPER,
    PARTLY,
    Pair,
    billions,
    chip,
    reproduced,
    seconds_of,
    short,
)
from explain.chapters.papers.milakov import Figure, Said
from explain.figures import numbers
from explain.figures.lines import Line, chart, colour_of
from explain.figures.numbers import count, duration, number, percent, ratio, si
from explain.figures.tables import Column, markdown
from explain.gpus import card
from explain.kept import kept
from explain.records.model import Record
from kernels.catalog import KERNELS

V = "V, elements in a row"


def _label(records: Mapping[str, Record], kernel: str, name: str) -> str:
    """The kernel's short name, followed by the record's if there are several records."""
    return KERNELS[kernel].short + (f", {name}" if len(records) > 1 else "")


@kept
def softmax_verdict(figure: milakov.Figure, record: Record) -> str:
    """The last speedup that the paper states for a figure, beside ours; Markdown, "" if it was not measured."""
    said = figure.said[-1]
    gained = [(v, gain) for v, gain in milakov.gains(record, figure) if v <= (said.until or math.inf)]
    if not gained:
        return ""
    low, high = said.ratio if isinstance(said.ratio, tuple) else (said.ratio, said.ratio)
    (v, ours), begins = gained[-1], milakov.knee(gained)
    paper = " to ".join(number(one) for one in dict.fromkeys((low, high)))
    near = reproduced(ours, low, high)
    at, first = next(((cols, gain) for cols, gain in gained if cols >= said.at), gained[-1])
    result = f"{ratio(ours)} on rows of {count(v)}"
    verdict = chip(near)
    if near and not reproduced(first, low, high):
        result, verdict = f"{ratio(first)} on rows of {count(at)}, {result}", PARTLY
    told = (
        f"**Paper**: {KERNELS[figure.fast[0]].short} is about {paper} × as fast as {KERNELS[figure.slow].short}, from "
        f"{count(said.at)} elements in a row on.\n\n**Here**: {result}. {verdict}"
    )
    known = card(record.gpu)
    if figure.number == 1 and begins and begins > said.at and known and known.l2_bytes > milakov.THEIR_L2_BYTES:
        told += (
            f"\n\nOn the {short(record)} the speedup begins at {count(begins)} elements, not {count(said.at)}: where "
            "the rows in flight no longer fit in L2 (dotted lines). Its L2 "
            f"cache holds {numbers.capacity(known.l2_bytes)}; the paper's V100 has "
            f"{numbers.capacity(milakov.THEIR_L2_BYTES)}."
        )
    return told


def rates(figure: Figure, records: Mapping[str, Record]) -> Pair:
    """One of figures 1 to 4: elements per second over V, and the speedup over the slow kernel beside the paper's."""
    under = figure.kernels[0] if len(records) == 1 and figure.kernels[0] == "softmax_naive" else ""
    lines = [
        Line(
            billions(milakov.rates(record, figure, kernel)),
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
            x=V, y="speedup, ×", unit=" ×", height=HEIGHT, limits=limits, marks=_marks(figure.lengths), around=1.0,
        ),
    )  # fmt: skip


def _marks(lengths: Sequence[int]) -> list[int]:
    """Every fourth of the paper's lengths 63 · 2ᵏ, to name on the axis."""
    return [v for k in range(12) if (v := 63 * 4**k) <= lengths[-1]]


def _said(said: Sequence[Said], last: float) -> list[Line]:
    """The paper's speedups as dashed lines, a range as an area: as far as the sentence says, and no further."""
    lines = []
    for one in said:
        end = last if one.until is None else one.until
        low, high = one.ratio if isinstance(one.ratio, tuple) else (one.ratio, one.ratio)
        points = [(x, low) for x in dict.fromkeys((one.at, end))]
        label = f"paper: {number(low)} ×"
        if high > low:
            points = [(end, low), (one.at, low), (one.at, high), (end, high), (end, low)]
            label = f"paper: {number(low)}–{number(high)} ×"
        lines.append(Line(points, label, PAPER, dashed=high == low))
    return lines


def _held(record: Record) -> dict[float, str]:
    """Up to which V L2 holds the rows in flight: the paper's GPU, and this one."""
    known = card(record.gpu)
    ours = {float(milakov.fits_l2(known)): f" {short(record)}: L2 full"} if known else {}
    return {float(milakov.fitted_theirs()): "V100: L2 full ", **ours}


def knee(record: Record) -> go.Figure:
    """How often figure 1's kernels read an element of x from DRAM, over V."""
    once, again, _ = _kept(record)
    return _reads(record, "dram", "from DRAM", ((once, "V = {} "), (again, " V = {}")))


def knee_l2(record: Record) -> go.Figure:
    """How often an SM reads an element of x from L2, over V."""
    return _reads(record, "l2", "from L2 by an SM", ((_kept(record)[2], " V = {}"),))


def _reads(record: Record, level: str, where: str, named: Sequence[tuple[int | None, str]]) -> go.Figure:
    return chart(
        f"Reads of each element {where}", x=V, y="reads per element", unit=" reads", height=HEIGHT, lines=[
            Line(milakov.reads(record, kernel, level), KERNELS[kernel].short, colour_of(kernel))
            for kernel in ("softmax_naive", "softmax_safe", "softmax_online")
        ],
        limits={float(v): words.format(count(v)) for v, words in named if v},
        marks=_marks(milakov.FIGURES[0].lengths),
    )  # fmt: skip


ONCE, MORE = 1.1, 1.5
"""Measured reads per element: at most ONCE means read once, at least MORE means read again."""


def _kept(record: Record) -> tuple[int | None, int | None, int | None]:
    """For safe softmax: the last V at which DRAM reads each element once, the first at which it reads it again, and the
    first at which L1 no longer holds a row.
    """
    dram, l2 = (milakov.reads(record, "softmax_safe", level) for level in ("dram", "l2"))
    once = max((cols for cols, times in dram if times <= ONCE), default=None)
    again, near = (min((cols for cols, times in found if times >= MORE), default=None) for found in (dram, l2))
    return once, again, near


@kept
def knee_words(record: Record) -> str:
    """From which V on online softmax is faster, which cache stops holding the rows there, and the longest rows that
    fit L2; a Markdown list."""
    begins = milakov.knee(milakov.gains(record, milakov.FIGURES[0]))
    once, again, _ = _kept(record)
    since = f"from **V = {count(begins)}** on" if begins else "at none of the measured V"
    said = [
        f"Online softmax is at least {ratio(milakov.GAIN)} as fast {since}. On the paper's V100 all three kernels are "
        "similar up to V = 1,000."
    ]
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
            f"An SM has {count(32 * known.warps_sm)} threads. Our program uses {milakov.THREADS} of them for a row: "
            f"{programs} rows at a time. {known.sms} SMs × {programs} = "
            f"{count(known.sms * programs)} rows in flight. They fill {numbers.capacity(known.l2_bytes)} of L2 at V = "
            f"{count(milakov.fits_l2(known))}. The paper's program uses {milakov.THEIR_THREADS} threads for a row, so "
            f"on the V100 fewer rows are in flight, {milakov.THEIR_SMS} SMs × {milakov.THEIR_PROGRAMS}. But its "
            f"{numbers.capacity(milakov.THEIR_L2_BYTES)} of L2 are full at V = {count(milakov.fitted_theirs())}: its "
            "speedup starts earlier."
        )
    return "\n".join(f"- {one}" for one in said)


def near_words(record: Record) -> str:
    """From which V on an SM reads elements from L2 again, in a sentence; "" if it was not counted."""
    near = _kept(record)[2]
    if near is None:
        return ""
    return (
        f"From V = {count(near)} on, an SM reads the same elements from L2 again: L1 no longer serves all later "
        "passes. This is counted, and there is no formula for it."
    )


def larger_k(records: Mapping[str, Record]) -> str:
    """How much faster the fused kernels are, for each K: the paper's numbers and ours, as Markdown."""
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
    times = {block_n: seconds_of(record.point(milakov.by_tile(fast, block_n))) for block_n in milakov.TILES}
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
