"""Ratios of a table, a dot or a bar for each row: two GPUs' numbers beside each other, or HBM's bytes beside the
inputs'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from explain.chapters.measurements import findings, points, slowest, two_gpus
from explain.chapters.measurements.findings import FEW
from explain.chapters.measurements.points import (
    OF_ONCE,
    OUTDATED,
    SPILLS,
    TIME,
    measured_sizes,
    name_of,
    names,
    unit_of,
)
from explain.chapters.measurements.tables import (
    BESIDE,
    HOST,
    KERNEL,
    ONE_LAUNCH,
    OWN,
    SIZES,
    gpu_columns,
    ordered,
    rows,
)
from explain.chapters.measurements.two_gpus import ALIKE, Bandwidth, bandwidths
from explain.figures.labels import begun, listed, widest, wrapped
from explain.figures.numbers import duration, fixed, number, ratio, ratios
from explain.figures.palette import mid
from explain.figures.svg import circle, line, marker, picture, text
from explain.kept import kept
from explain.records.plans import Plan
from explain.records.registry import Entry
from kernels.catalog import KERNELS

ROW, TOP, TICKS, GROUP, WIDEST, NARROW = 24.0, 42.0, 22.0, 34.0, 730.0, 330.0
"""The height of a line of dots, of what stands above them, of the scale's numbers and of a group's name; a picture's
width, here and on a phone."""
WIDE = 8
"""The factor between the least and the largest ratio from which on they are drawn on a logarithmic scale."""
NARROWEST = 0.04
"""A scale spans at least this share of its largest number, so marks that differ in the third digit stand apart."""
HOSTED, SPILT = "probably with time on the host", "with spilled registers"
SHAPES = ("circle", "diamond", "square")
"""The marks of a group's sizes, where they are no more."""
CLEAR_DOT = 0.3
"""How opaque dots are: where several coincide, the outline of each is seen."""
EQUAL, NEAR, APART = 2.0, 6.0, 11.0
"""Marks nearer than the first to each other stand in one place, nearer than the second below each other, over a height
of so much."""
FEW_TIMES = 3
"""How many times the minimum is told as few."""
NAMED = 3
"""How many of the kernels that read most a title names at most."""
WRONG, ON_TOP = "grey name: wrong or overflows, on purpose", "marks on top of each other: equal"
"""What a picture says of its lines."""
LINES = 8
"""Sizes of one kernel that have a line each, at most."""
LARGEST = 1.5
"""How many times its own size a picture is drawn at most, in a wide window."""


@dataclass(frozen=True)
class _Dot:
    """A row's ratio, its sizes in words, and why it is drawn as a ring."""

    factor: float
    sizes: str = ""
    ring: str = ""


@kept
def dots(
    plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str, *, largest: str = "", narrow: bool = False
) -> str:  # fmt: skip
    """The second GPU's number ÷ the first one's of each row of the table: a line of dots for each kernel; of one kernel
    a line for each size, where they are few and short. Of times, further marks stand at the ratios of the bandwidths,
    and those that probably contain time on the host are open. An SVG; "" without numbers, and where other numbers than
    times are alike on both.

    `narrow` is for a phone.
    """
    lines: dict[str, list[_Dot]] = {}
    numbers: dict[str, list[str]] = {}
    columns = gpu_columns(shown, quantity)
    for row in ordered(rows(plan, shown, quantity, kernel), largest):
        if row.get(BESIDE):
            ring = HOSTED if row.get(HOST) else ONE_LAUNCH if row.get(ONE_LAUNCH) and quantity == TIME else ""
            dot = _Dot(float(row[BESIDE] or 0), "" if kernel else str(row[SIZES]), ring)
            name = str(row[SIZES if kernel else KERNEL])
            lines.setdefault(name, []).append(dot)
            if kernel:
                own = (_told(float(row[column] or 0), quantity) for column in columns)
                numbers[name] = [*own, f"{fixed(dot.factor, 3)} ×"]
    if not lines:
        return ""
    if kernel and (len(lines) > LINES or widest([*lines]) > NARROW):
        lines = {KERNELS[kernel].title: [one for found in lines.values() for one in found]}
    first, second = names(shown)
    marks = {1.0: "the same"}
    if quantity == TIME:
        does: dict[Bandwidth, str] = {"hbm copy": "copied in", "hbm": "read"}
        rates = {faster: said for what, said in does.items() if (faster := bandwidths(shown, what))}
        marks |= {rate: f"{ratio(rate)}: if it only {rates[rate]} HBM" for rate in sorted(rates, reverse=True)}
    elif all(abs(dot.factor - 1) < ALIKE for found in lines.values() for dot in found):
        return ""
    title = what = f"{begun(name_of(quantity))}: {second} ÷ {first}"
    if quantity == TIME:
        title = two_gpus.concluded(plan, shown, kernel) or what
    if not kernel:
        numbers = {name: [_span([dot.factor for dot in found])] for name, found in lines.items()}
    elif len(lines) < sum(map(len, lines.values())):
        numbers = {}
    sides = (f"← {second} faster", f"{first} faster →") if quantity == TIME else None
    groups = {} if kernel or largest else points.groups(plan, shown)
    more = two_gpus.reads_more(plan, shown) if quantity == TIME and not kernel else {}
    ends = [*([first, second] if kernel else []), f"{second} ÷ {first}"]
    return _picture(
        lines, marks, title, narrow, sides=sides, groups=groups, numbers=numbers, ends=ends, beside=more,
        axis="" if title == what or (kernel and numbers and not narrow) else f"time: {second} ÷ {first}",
    )  # fmt: skip


@kept
def tells_all(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str) -> bool:
    """Whether the picture of two GPUs has every number of the table: each row, unmarked, has a line of its own."""
    table = rows(plan, shown, quantity, kernel)
    marked = any(row.get(name) for row in table for name in (HOST, OUTDATED)) or not all(
        row.get(BESIDE) for row in table
    )
    lines = {str(row[SIZES]) for row in table}
    own_lines = len(table) == len(lines) <= LINES and widest([*lines]) <= NARROW
    return bool(kernel) and own_lines and not marked and bool(dots(plan, shown, quantity, kernel))


def _told(value: float, quantity: str) -> str:
    """A measured value of one GPU, with its unit."""
    unit = unit_of(quantity)
    return OWN[unit](value) if unit in OWN else f"{number(value)} {unit}"


def _span(factors: Sequence[float]) -> str:
    """The range of the ratios, "1.26 to 1.28 ×"; a single number if both ends print the same."""
    least, most = ratio(min(factors)), ratio(max(factors))
    return most if least == most else ratios(factors)


@kept
def once(plan: Plan, shown: Sequence[Entry], *, largest: str = "", narrow: bool = False) -> str:
    """A dot for each row of one record, at the bytes that HBM delivers ÷ those of each input once: a line of dots for
    each kernel, as an SVG; "" without counts.

    `narrow` is for a phone.
    """
    lines: dict[str, list[_Dot]] = {}
    for row in ordered(rows(plan, shown, None), largest):
        if row.get(OF_ONCE):
            factor = float(row[OF_ONCE] or 0)
            ring = SPILT if row.get(SPILLS) and factor > 1 + FEW else ""
            lines.setdefault(str(row[KERNEL]), []).append(_Dot(factor, str(row[SIZES]), ring))
    if not lines:
        return ""
    most = {name: max(dot.factor for dot in found) for name, found in lines.items()}
    ranked = sorted(most, key=lambda name: -most[name])
    far = [name for name in ranked if round(most[name], 1) > FEW_TIMES]
    few = len(most) - len(far)
    title = f"HBM delivers up to {ratio(most[ranked[0]])} the minimum ({ranked[0]})"
    if far and few > 1:
        short = {entry.title: entry.short for entry in KERNELS.values()}
        title = (
            f"{few} of {len(most)} kernels read at most {FEW_TIMES} × their inputs from HBM; the most: "
            f"{listed([f'{short[name]} {ratio(most[name])}' for name in far[:NAMED]])}"
        )
    groups = {} if largest else points.groups(plan, shown)
    numbers = {name: [ratio(factor)] for name, factor in most.items()}
    return _picture(
        lines,
        {1.0: points.MINIMUM},
        title,
        narrow,
        hue="hbm",
        groups=groups,
        numbers=numbers,
        note=_not_counted(plan, shown),
    )


@kept
def times(plan: Plan, shown: Sequence[Entry], *, largest: str = "", narrow: bool = False) -> str:
    """A dot for each row of one record at its time, a line of dots for each kernel, as an SVG; "" without times.

    `narrow` is for a phone.
    """
    lines: dict[str, list[_Dot]] = {}
    for row in ordered(rows(plan, shown, None), largest):
        if row.get(TIME):
            ring = HOSTED if row.get(HOST) else ONE_LAUNCH if row.get(ONE_LAUNCH) else ""
            lines.setdefault(str(row[KERNEL]), []).append(_Dot(float(row[TIME] or 0) / 1e6, str(row[SIZES]), ring))
    if not lines:
        return ""
    numbers = {name: [duration(max(dot.factor for dot in found))] for name, found in lines.items()}
    return _picture(
        lines, {}, slowest.title(plan, shown[0]), narrow, hue="series-3", axis="time",
        groups={} if largest else points.groups(plan, shown), numbers=numbers, ends=("longest",),
        told=duration, tick=lambda seconds: duration(seconds, zeros=False),
    )  # fmt: skip


def _not_counted(plan: Plan, shown: Sequence[Entry]) -> str:
    """Which tensors the minimum leaves out, in a sentence; "" where it has all that is read."""
    runs = points.measured(plan, shown, "")
    left_out = dict.fromkeys(name for run in runs for name in points.stored(run))
    if not left_out:
        return ""
    return (
        f"Backward: the minimum is Q, K, V and dO. It leaves out {listed([*left_out])}, which the forward pass stored."
    )


@kept
def pair(plan: Plan, shown: Sequence[Entry], *, narrow: bool = False) -> str:
    """Of a plan with two kernels that compute the same: a line for each size, a dot at the ratio of their bytes from
    HBM and a ring at that of their times, as an SVG; "" for other plans.

    `narrow` is for a phone.
    """
    lines: dict[str, list[_Dot]] = {}
    own = measured_sizes(plan, shown, "")
    for slow, fast in findings.pair(plan, shown):
        times = _Dot((slow.seconds or 0.0) / (fast.seconds or 1.0), ring="time")
        reads = [point.counters.cold.dram_read_bytes if point.counters else None for point in (slow, fast)]
        bytes_read = [_Dot(reads[0] / reads[1])] if reads[0] and reads[1] else []
        lines[own[slow.experiment]] = [*bytes_read, times]
        titles = f"{slow.experiment.entry.title} ÷ {fast.experiment.entry.title}"
    if not lines:
        return ""
    return _picture(lines, {1.0: "the same"}, titles, narrow, dots="bytes read from HBM")


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, about two to six of them."""
    if high > WIDE * low:
        tens = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        steps = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
        return [step * ten for ten in tens for step in steps if low <= step * ten <= high]
    decade = 10.0 ** math.floor(math.log10(high - low))
    step = next(size * decade for size in (2.0, 1.0, 0.5, 0.25) if (high - low) / (size * decade) >= 2)
    return [step * place for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _scale(low: float, high: float) -> tuple[float, float]:
    """The ends of the scale for numbers from `low` to `high`."""
    spare = max(0.0, NARROWEST * high - (high - low)) / 2
    return low - spare, high + spare


def _picture(
    lines: Mapping[str, Sequence[_Dot]], marks: Mapping[float, str], what: str, narrow: bool, *,
    dots: str = "", sides: tuple[str, str] | None = None, hue: str = "series-1",
    groups: Mapping[str, str] | None = None, note: str = "", numbers: Mapping[str, Sequence[str]] | None = None,
    ends: Sequence[str] = ("largest",), axis: str = "", beside: Mapping[str, str] | None = None,
    told: Callable[[float], str] = ratio, tick: Callable[[float], str] = lambda factor: f"{number(factor)} ×",
) -> str:  # fmt: skip
    """A line of dots for each name, and its numbers at the end, below `ends`, where there are `numbers`; `axis` says
    what the dots are where the title does not. A line stands below the name of its group, where there are `groups`: in
    each the one with the largest ratio is first. The first of the `marks` stands at 1; `sides` are words for both sides
    of it; a `note` stands below, and words `beside` the dots of a line. `told` and `tick` are a number in words, at a
    dot and on the scale.
    """
    if groups:
        kinds = [*groups.values()]
        order = {name: (kinds.index(groups[name]), -max(dot.factor for dot in found)) for name, found in lines.items()}
        lines = dict(sorted(lines.items(), key=lambda line: order[line[0]]))
    of = {name: (groups or {}).get(name, "") for name in lines}
    sizes: dict[str, list[str]] = {}  # of each group
    for name, found in lines.items():
        own = sizes.setdefault(of[name], [])
        own += [one for one in dict.fromkeys(dot.sizes for dot in found) if one not in own]
    sizes = {group: own for group, own in sizes.items() if 1 < len(own) <= len(SHAPES)}
    drawn = [dot for found in lines.values() for dot in found]
    every = [*marks, *(dot.factor for dot in drawn)]
    low, high = _scale(min(every), max(every))
    left = 0.0 if narrow else widest([*lines]) + 20
    long = NARROW if narrow else WIDEST - left
    end = left + long  # of the picture
    columns: list[float] = []  # where each one ends
    if numbers and not narrow:
        for place, head in reversed([*enumerate(ends)]):
            columns.append(left + long)
            wide = widest([own[place] for own in numbers.values()], bold=place == len(ends) - 1)
            long -= max(wide, widest([head], 13)) + 14
    numbers, beside = numbers or {}, beside or {}
    fit = not narrow or all(
        widest([name]) + widest(own[-1:], bold=True) + 8 <= end for name, own in numbers.items()
    )  # the last number stands in the line of the name
    under = _under(numbers, [*ends[:-1], *[""] * (not fit)], beside) if narrow else {}
    high_row = ROW * 1.8 + 18 * bool(under) if narrow else ROW

    scaled = math.log if high > WIDE * low else float  # ratios far apart: equal ratios, equal ways

    def x(factor: float) -> float:
        return left + 12 + (long - 24) * (scaled(factor) - scaled(low)) / (scaled(high) - scaled(low))

    notes = [axis] * bool(axis) + ["one mark per run"] * (len(drawn) > len(lines))
    notes += ["log scale"] * (scaled is not float)
    noted = f" ({', '.join(notes)})" if notes else ""
    titles = wrapped(f"{what}{noted}", end, bold=True)
    below = 18.0 * (len(titles) - 1)
    apart = sides is not None and x(1.0) - 8 >= widest(
        [sides[0]], 13, bold=True
    )  # there is room for both sides, in a line
    top = TOP + below + 18 * (len(marks) - 1)
    parts: list[Any] = [text(0, 14 + 18 * place, words, bold=True) for place, words in enumerate(titles)]
    top += TICKS
    if numbers and not narrow:
        for at, head in zip(columns, reversed(ends), strict=True):
            parts.append(text(at, top - 8, head, size=13, faint=True, anchor="end"))
    tall, middles, group = top, [], None
    for name in lines:
        if of[name] != group:
            group = of[name]
            if group:
                tall += GROUP
                parts.append(text(0, tall - 8, begun(group), bold=True))
            tall = _keys(parts, sizes.get(group, ()), tall, end, hue)
        tall += high_row
        middles.append(tall - 8)
    # names stand above a phone's lines, and a group's sizes above its first line
    through = [(y - (8 if narrow else ROW / 2), y + (8 if narrow else ROW / 2)) for y in middles]
    for line_of, (mark, said) in enumerate(marks.items()):
        y = 34.0 + below + 18 * line_of
        if line_of == 0 and sides and apart:
            parts.append(text(x(mark) - 8, y, sides[0], size=13, bold=True, anchor="end"))
            parts.append(text(x(mark) + 8, y, sides[1], size=13, bold=True))
        elif line_of == 0 and sides:
            parts.append(text(0, y, " | ".join(sides), size=13, bold=True))
        else:
            before = line_of > 0 and x(mark) >= widest([said], 13)  # there is room for it, left of its line
            parts.append(text(x(mark), y, said, size=13, faint=True, anchor="end" if before else "start"))
        if line_of:  # from its words, but not through a phone's first name
            parts.append(line(x(mark), y + 4, x(mark), top if narrow else through[0][0], dash="4 3"))
        parts += [line(x(mark), begin, x(mark), stop, dash="4 3") for begin, stop in through]
    wrong, on_top = {entry.title for entry in KERNELS.values() if entry.wrong} & {*lines}, False
    wrong = wrong if len(lines) > 1 else set()
    for y, (name, found) in zip(middles, lines.items(), strict=True):
        parts.append(text(0, y - (16 + 18 * bool(under) if narrow else -4), name, faint=name in wrong))
        parts.append(line(left, y, left + long, y, opacity=0.12))
        own = sizes.get(of[name], [])
        downs = _offsets([x(dot.factor) for dot in found])
        on_top |= any(
            abs(x(one.factor) - x(other.factor)) < EQUAL and down == its
            for (one, down), (other, its) in combinations(zip(found, downs, strict=True), 2)
        )
        for dot, down in zip(found, downs, strict=True):
            shape = SHAPES[own.index(dot.sizes)] if own else SHAPES[0]
            title = f"{', '.join(filter(None, (name, dot.sizes)))}: {told(dot.factor)}"
            parts.append(
                marker(
                    shape, x(dot.factor), y + down, 4, mid(hue), title=title, hollow=bool(dot.ring), opacity=CLEAR_DOT
                )
            )
        if under:
            parts.append(text(0, y - 16, under[name], size=13, faint=True))
        elif name in beside:
            first, last = (edge(x(dot.factor) for dot in found) for edge in (min, max))
            fits = first - widest([beside[name]], 13) - 12 > left
            at, anchor = (first - 12, "end") if fits else (last + 12, "start")
            parts.append(text(at, y + 4, beside[name], size=13, faint=True, anchor=anchor))
        if numbers and fit:
            for place, (at, said) in enumerate(zip([end] if narrow else columns, numbers[name][::-1], strict=False)):
                above = 16 + 18 * bool(under) if narrow else -4
                parts.append(text(at, y - above, said, bold=place == 0, anchor="end"))
    for value in _ticks(low, high):
        parts += [line(x(value), begin, x(value), stop, opacity=0.15) for begin, stop in through]
        said = tick(value)
        half = widest([said], 13) / 2
        center = min(max(x(value), half), end - half)  # the numbers stay in the picture
        near = any(0 < abs(x(mark) - x(value)) < widest([said], 13) for mark in marks)  # it would hide that line's end
        for at in (top - 8, tall + 20)[near or len(lines) <= LINES :]:
            parts.append(text(center, at, said, size=13, faint=True, anchor="middle"))
    if rings := _why_open(drawn):
        at = 7.0
        for said, hollow in ((dots, False), (rings, True)):
            if said:
                parts.append(circle(at, tall + 40, 5, mid(hue), hollow=hollow, opacity=CLEAR_DOT))
                parts.append(text(at + 11, tall + 45, said, size=13, faint=True))
                at += 35 + widest([said], 13)
        tall += 26
    said = "; ".join([WRONG] * bool(wrong) + [ON_TOP] * on_top)
    tall = _noted(parts, begun(f"{said}.") if said else "", tall + 26, end)
    tall = _noted(parts, note, tall, end)
    return picture(end, tall, what, parts, f"{LARGEST * end:.0f}px")


def _under(
    numbers: Mapping[str, Sequence[str]], heads: Sequence[str], beside: Mapping[str, str]
) -> dict[str, str]:  # fmt: skip
    """What stands below each line's name on a phone: the numbers that have a head, and the words beside the line; {}
    for nothing.
    """
    told = {
        name: ", ".join([*(f"{head} {one}".strip() for head, one in zip(heads, own, strict=False)),
                         *filter(None, [beside.get(name)])])
        for name, own in numbers.items()
    }  # fmt: skip
    return told if any(told.values()) else {}


def _offsets(places: Sequence[float]) -> list[float]:
    """How far below its line each mark stands, so that those at about the same place are all seen; equal ones share
    their place.
    """
    kept: list[float] = []
    for place in places:
        if all(abs(place - other) >= EQUAL for other in kept):
            kept.append(place)
    own = [min(kept, key=lambda other: abs(other - place)) for place in places]
    near = [[other for other in kept if abs(other - place) < NEAR] for place in own]
    return [
        APART * (others.index(place) / (len(others) - 1) - 0.5) if len(others) > 1 else 0.0
        for place, others in zip(own, near, strict=True)
    ]


def _why_open(dots: Iterable[_Dot]) -> str:
    """Why some of the dots are rings, in words; "" for none."""
    return " or ".join(dict.fromkeys(dot.ring for dot in dots if dot.ring))


def _keys(parts: list[Any], sizes: Sequence[str], y: float, end: float, hue: str) -> float:
    """Adds which mark has which of a group's sizes, in as many lines as that needs; where they end."""
    x, y = 7.0, y + 14 * bool(sizes)
    for shape, said in zip(SHAPES, sizes, strict=False):
        wide = 11 + widest([said], 13)
        if x > 7 and x + wide > end:
            x, y = 7.0, y + 18
        parts.append(marker(shape, x, y - 9, 5, mid(hue), opacity=CLEAR_DOT))
        parts.append(text(x + 11, y - 4, said, size=13, faint=True))
        x += wide + 24
    return y + 2 * bool(sizes)


def _noted(parts: list[Any], note: str, y: float, width: float) -> float:
    """Adds a note in as many lines as it needs; where they end."""
    lines = wrapped(note, width) if note else []
    parts += [text(0, y + 14 + 18 * place, words, size=13, faint=True) for place, words in enumerate(lines)]
    return y + 18 * len(lines) + 6 * bool(lines)
