"""One kernel's rows as bars: what it loads and what HBM delivers, to it and to its counterpart with S in HBM, or
without; or how fast its matmuls run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explain.chapters.measurements import scores
from explain.chapters.measurements.exercises import run_of
from explain.chapters.measurements.findings import FEW, loaded_and_delivered
from explain.chapters.measurements.points import (
    MINIMUM,
    SAME,
    inputs_once,
    loads_of_once,
    matmul_rate,
    measured_sizes,
    spills,
)
from explain.experiment import Experiment
from explain.figures.labels import listed, widest, wrapped
from explain.figures.numbers import count, duration, moved, percent, ratio, si
from explain.figures.palette import CLEAR, mid
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from explain.records.model import Point
from explain.records.plans import Plan
from explain.records.registry import Entry

ROWS = 4
"""Rows of the table that are drawn at most."""
BAR, GAP, LONG, NARROW, BESIDE = 16.0, 20.0, 390.0, 300.0, 300.0
"""A bar's height, the gap between rows, the longest bar (wide and on a phone), the widest label beside its bar."""
LARGEST = 1.5
"""How many times its own size the picture is drawn at most, in a wide window."""
TIMES = 70.0
"""How long the longest bar of a time is."""
LOADS, HBM, MATMULS, TIME = "slate", "hbm", "series-1", "series-3"
OTHER = "other"
"""The key of an open bar: what HBM delivers to the kernel's counterpart, or how long that takes."""


@dataclass(frozen=True)
class _Row:
    """A row of the table: its sizes and time; its bars, each a length, a legend's key and words; where its mark is; the
    counterpart's time, and its name; the memory that both need, in lines of words.
    """

    sizes: str
    seconds: float | None
    bars: Sequence[tuple[float, str, str]]
    mark: float
    other: float | None = None
    beside: str = ""
    memory: Sequence[str] = ()


@kept
def bars(plan: Plan, one: Entry, kernel: str, *, narrow: bool = False) -> str:
    """For each of some rows bars of bytes, as an SVG: all loads by formula, and what HBM delivered with a cold L2, to
    this kernel and to its counterpart (`scores.other`). All are multiples of the inputs once, which a line marks: so
    rows of any size have one scale. "" for a kernel without counts, or without known loads.

    `narrow` is for a phone.
    """
    counted: dict[Experiment, int] = {}
    sizes = measured_sizes(plan, [one], kernel)
    for run in sizes:
        point = one.record.point(run)
        if run.entry.steppable and point and point.counters and (read := point.counters.cold.dram_read_bytes):
            counted[run] = read
    if not counted or len({run.kernel for run in counted}) > 1:
        return ""
    runs, rows = _some(list(counted)), []
    others: dict[str, None] = {}  # in the order of the rows
    for run in runs:
        found = [(LOADS, run.traffic.read_bytes), (HBM, counted[run])]
        beside = scores.other(one, run)
        if beside and beside.counters and beside.counters.cold.dram_read_bytes:
            found.append((OTHER, beside.counters.cold.dram_read_bytes))
            others[beside.experiment.entry.short] = None
        shares = [(number / inputs_once(run), key, number) for key, number in found]
        more = counted[run] / inputs_once(run) - 1
        spilt = "; the extra: probably spills" if more < SAME else "; with spilled registers"
        spilt *= spills(one.record.point(run)) and more > FEW
        own = [(share, key, f"{ratio(share)} ({moved(number)}{spilt * (key == HBM)})") for share, key, number in shares]
        other = beside if len(own) > 2 else None
        its = (other.seconds, other.experiment.entry.short) if other else (None, "")
        rows.append(_Row(sizes[run], _seconds(one, run), own, 1.0, *its, _memory(one.record.point(run), other)))
    legend = {LOADS: "the kernel loads (formula)", HBM: "HBM delivers (measured, L2 cold)"}
    legend |= {OTHER: listed([*others])} if others else {}
    label = f"{runs[0].entry.title}: bytes that it loads and bytes that HBM delivers"
    title, left_out = loaded_and_delivered(plan, one, kernel), _left_out(runs, len(counted))
    return _picture(title, left_out, rows, "bytes read, ÷ reading each input once", legend, MINIMUM, label, narrow)


@kept
def rates(plan: Plan, one: Entry, kernel: str, *, narrow: bool = False) -> str:
    """For each of some rows how fast the matmuls run, as an SVG; a line marks what a matmul in the row's arithmetic was
    measured at. "" for a kernel without matmuls, or without a time or such a limit.

    `narrow` is for a phone.
    """
    sizes = measured_sizes(plan, [one], kernel)
    timed = {
        run: (rate, known)
        for run in sizes
        if (known := run_of(one.record, run)) and (rate := matmul_rate(run, known.seconds))
    }
    if not timed or len({run.kernel for run in timed}) > 1:
        return ""
    runs, rows, peaks = _some([*timed]), [], {}
    for run, (rate, known) in ((run, timed[run]) for run in runs):
        words = f"{si(rate, 'FLOP/s', zeros=True)} ({percent(rate / known.peak)})"
        rows.append(_Row(sizes[run], known.seconds, [(rate, MATMULS, words)], known.peak))
        peaks[known.arithmetic] = f"{known.arithmetic} {si(known.peak, 'FLOP/s', zeros=True)}"
    legend = {MATMULS: "FLOPs of its matmuls ÷ time"}
    label = f"{runs[0].entry.title}: how fast its matmuls run"
    left_out, shares = _left_out(runs, len(timed)), [rate / known.peak for rate, known in timed.values()]
    reached = " to ".join(dict.fromkeys((percent(min(shares)), percent(max(shares)))))
    title = f"Its matmuls run at {reached} of the speed of a matmul on its own"
    marked = f"a matmul alone, measured: {listed([*peaks.values()])}"
    return _picture(title, left_out, rows, "speed of the matmuls", legend, marked, label, narrow)


def _seconds(one: Entry, run: Experiment) -> float | None:
    point = one.record.point(run)
    return point.seconds if point else None


def _memory(point: Point | None, beside: Point | None) -> list[str]:
    """The memory that a kernel needs, then its counterpart's in brackets."""
    if not point or point.peak_bytes is None:
        return []
    its = [f"({beside.experiment.entry.short}: {moved(beside.peak_bytes)})"] if beside and beside.peak_bytes else []
    return [f"memory it allocates: {moved(point.peak_bytes)}", *its]


def _some(runs: Sequence[Experiment]) -> list[Experiment]:
    """All runs if they are at most ROWS, else so many of them: from the one whose loads ask least often for each tensor
    to the one whose loads ask most often; where all ask equally often, from the smallest to the largest.
    """
    if len(runs) <= ROWS:
        return list(runs)
    ranked = sorted(runs, key=lambda run: (_asks(run), inputs_once(run)))
    return [ranked[round(at * (len(runs) - 1) / (ROWS - 1))] for at in range(ROWS)]


def _asks(run: Experiment) -> float:
    """How often the loads ask for each byte, on average; 1 where they are not known."""
    return round(loads_of_once(run), 2) if run.entry.steppable else 1.0


def _left_out(runs: Sequence[Experiment], counted: int) -> list[str]:
    """Which rows are drawn, where not all are: words of two lines on a phone."""
    if counted == len(runs):
        return []
    alike = len({_asks(run) for run in runs}) == 1
    order = "from the smallest to the largest" if alike else "by how often each byte is loaded"
    return [f"{len(runs)} of {count(counted)} runs,", order]


def _picture(
    title: str, left_out: Sequence[str], rows: Sequence[_Row], what: str, legend: Mapping[str, str], marked: str,
    label: str, narrow: bool,
) -> str:  # fmt: skip
    """The rows below each other: sizes, a bar for the time, and the bars of `what`, above all of which it stands. Long
    sizes, and all on a phone, stand above the bars of their row, with the time as a number.
    """
    wide = max(widest([row.sizes for row in rows]), widest([said for row in rows for said in row.memory], 13))
    above = narrow or wide > BESIDE
    of_times = [
        seconds for row in rows for seconds in (row.seconds, row.other) if seconds and row.seconds and not above
    ]
    words_of_times = widest([duration(seconds) for seconds in of_times])
    at_times = wide + 20
    left = 0.0 if above else at_times + (TIMES + words_of_times + 40) * bool(of_times)
    long = NARROW if narrow else LONG
    scale = min(
        (long - widest([words], bold=True) - 12) / max(value, row.mark)
        for row in rows for value, _, words in row.bars
    )  # fmt: skip
    room = 0.94 * (left + long)  # a browser's letters may be wider
    titles, clauses = wrapped(title, room, bold=True), title.replace(", but", ",\nbut").split("\n")
    if len(titles) == len(clauses) and widest(clauses, bold=True) <= room:
        titles = clauses
    parts = [text(0, 12 + 18 * number, words, bold=True) for number, words in enumerate(titles)]
    y = 8 + 18.0 * len(titles)
    for words in left_out if narrow else [" ".join(left_out)] * bool(left_out):
        parts.append(text(0, y + 10, words, faint=True))
        y += 18
    y += 6 * bool(left_out)
    if of_times:
        parts += [text(at_times, y + 10, "time", faint=True), text(left, y + 10, what, faint=True)]
        y += 22
    # words stand before the marks if all do, else behind them
    ends = [
        (scale * value + widest([words], bold=True), scale * row.mark) for row in rows for value, _, words in row.bars
    ]
    fit = all(end + 16 < mark for end, mark in ends)
    for row in rows:
        tall = (BAR + 2) * len(row.bars)
        if above:
            y = _words_above(parts, y, row, long)
        else:
            told = [row.sizes, *row.memory]
            base = y + tall / 2 + 13 - 9 * len(told)
            parts.append(text(0, base, row.sizes))
            parts += [text(0, base + 18 * at, said, size=13, faint=True) for at, said in enumerate(told[1:], start=1)]
        if of_times and row.seconds:
            length, top = TIMES * row.seconds / max(of_times), y + (tall - 2 - BAR) / 2
            parts.append(rect(at_times, top, length, BAR, mid(TIME)))
            parts.append(text(at_times + length + 8, top + 13, duration(row.seconds), bold=True))
            if row.other:
                length, top = TIMES * row.other / max(of_times), top + BAR + 2
                parts.append(_thin(at_times, top, length, BAR, TIME))
                parts.append(text(at_times + length + 8, top + 13, duration(row.other), faint=True))
        mark, top, end = left + scale * row.mark, y - (2 if above else 7), y + tall + 5
        parts.append(line(mark, top, mark, end, opacity=0.9, thick=1.5, dash="3 2"))
        for value, hue, words in row.bars:
            parts.append(_bar(left, y, scale * value, BAR, hue))
            end = left + scale * value + 8
            at = end if fit else max(end, mark + 8)
            parts.append(text(at, y + 13, words, bold=hue == HBM, faint=hue == OTHER))
            y += BAR + 2
        y += GAP
    if len({row.mark for row in rows}) == 1:  # one line: its words stand at its end
        wide = widest([marked])
        at = mark if mark + wide <= left + long else max(0.0, mark - wide)
        parts.append(text(at, y + 2, marked, faint=True))
        y, marked = y + 26, ""
    return _with_legend(parts, y, left + long, legend, marked, label, narrow, bool(of_times))


def _words_above(parts: list[str], y: float, row: _Row, long: float) -> float:
    """Adds a row's sizes, its time and its memory above its bars; where the bars begin."""
    *lines, last = wrapped(row.sizes, long)
    for words in lines:
        parts.append(text(0, y + 14, words))
        y += 18
    parts.append(text(0, y + 14, last))
    if row.seconds:
        against = f"({row.beside} {duration(row.other)})" if row.other else ""
        at, both = widest([last]) + 12, widest([duration(row.seconds)], bold=True) + 6 + widest([against])
        if at + both > long:
            at, y = 0.0, y + 18
        for words, bold in ((duration(row.seconds), True), (against, False)):
            if at and at + widest([words], bold=bold) > long:
                at, y = 0.0, y + 18
            if words:
                parts.append(text(at, y + 14, words, bold=bold, faint=not bold))
            at += widest([words], bold=bold) + 6
    for said in [" ".join(row.memory)] if widest([" ".join(row.memory)]) < long else row.memory:
        y += 18 * bool(said)
        parts.append(text(0, y + 14, said, size=13, faint=True))
    return y + 22


def _with_legend(
    parts: list[str], y: float, end: float, legend: Mapping[str, str], marked: str, label: str, narrow: bool,
    times: bool,
) -> str:  # fmt: skip
    """The finished picture: a legend of its colours, with `times` also of theirs, and of its marks where their words
    do not stand at them, is added below.
    """
    x = across = 0.0
    entries = {TIME: "time"} if times else {}
    entries |= legend
    if OTHER in legend:
        entries[OTHER] = f"{legend[OTHER]}: {'time, ' * times}bytes from HBM"
    for key, said in [*entries.items(), *[("", marked)] * bool(marked)]:
        both = 16 * (key == OTHER and times)  # a bar of each colour
        wide = 18 + both + widest([said])
        if x and (narrow or x + wide > end):
            x, y = 0.0, y + 20
        mark = line(x + 6, y - 6, x + 6, y + 10, opacity=0.9, thick=1.5, dash="3 2")
        parts += [_thin(x, y - 4, 12, 12, TIME)] * bool(both)
        parts += [_bar(x + both, y - 4, 12, 12, key) if key else mark, text(x + both + 18, y + 7, said)]
        x, across = x + wide + 20, max(across, x + wide)
    across = max(end, across)
    return picture(across, y + 18, label, parts, f"{LARGEST * across:.0f}px")


def _bar(x: float, y: float, wide: float, high: float, key: str) -> str:
    """A bar in the colour of its key; the counterpart's is thin and open, as the kernel's own bars come first."""
    return _thin(x, y, wide, high, HBM) if key == OTHER else rect(x, y, wide, high, mid(key))


def _thin(x: float, y: float, wide: float, high: float, hue: str) -> str:
    return rect(x, y + high / 4, wide, high / 2, CLEAR, stroke=mid(hue))
