"""A sweep's pictures: the growth of bytes and time, as curves or bars; and its tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from explain.chapters.sweeps.analysis import FLAT, curve, jump, numbers, slope
from explain.chapters.sweeps.model import AXES, LEVELS, PAIR, SPILLED, Reading, Sweep, formula, once_per_launch
from explain.figures import palette
from explain.figures.labels import spread, widest
from explain.figures.lines import colour_of
from explain.figures.numbers import aligned, count, fixed, moved, ratio, si
from explain.figures.plot import END, FONT, logarithmic, plot, titled
from explain.figures.tables import Column, csv_of, markdown
from kernels.catalog import KERNELS, TAUGHT
from kernels.parameters import Value

SYMBOLS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "x": "✖",
    "star": "★",
    "cross": "✚",
    "triangle-down": "▼",
    "triangle-left": "◄",
    "triangle-right": "►",
    "pentagon": "⬟",
    "hexagon": "⬢",
}
"""Plotly's names of markers, and the characters for them in text."""
SLATE = palette.mid("slate")
TILES = ("block_m", "block_n")
HEIGHT, TOP, BOTTOM = 440, 40, 64
APART = 0.25
"""Two powers of growth that differ by less are the same."""
HIDDEN = 0.075
"""Where two curves differ by less, a line of 4 pixels covers the other: a decade is about 95 pixels high."""
STRONG, FAINT = (4, 10), (1.5, 6)
"""The width of a line and the size of its markers: of the kernels that the title compares, and of the others."""
DASH = 10
"""The unit of the dashes where curves lie on each other, in pixels."""
MOSTLY, PARTLY = 0.6, 0.4
"""The least shares that are told as a cause, and as a part of it."""
WHOLE, NEAR = 5e-4, 0.05
"""A power this close to a whole one is whole, or about that."""
LABEL_PIXELS = FONT + 5  # a label's height with its gap
UNMEASURED = ("formula", "predicted")
"""The sources that have no theory beside them: they are one."""
THEORY: Mapping[str, str] = {
    "seconds": "if time grew exactly with FLOPs", "hbm": "theory, every element once per launch"
}  # fmt: skip
"""What a dotted curve is; elsewhere it is the formula's."""
WHAT: Mapping[str, tuple[str, str]] = {"seconds": ("time of one call", "s"),
    **{k: (f"bytes {v}", "B") for k, v in LEVELS.items()}}  # fmt: skip


def name_of(kernel: str) -> str:
    """A kernel's label in charts and sentences."""
    return KERNELS[kernel].short


def said(value: Value) -> str:
    """A value of an axis as text."""
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value).lower()


def over(axis: str) -> str:
    """What a chart's heading says of the axis: "over N"."""
    return "without and with the causal mask" if axis == "causal" else f"over {AXES[axis][0]}"


def at_value(axis: str, value: Value) -> str:
    """ "at N = 128"."""
    if axis == "causal":
        return "with the mask" if value else "without the mask"
    return f"at {AXES[axis][0]} = {said(value)}"


def axis_title(axis: str) -> str:
    """ "N, queries and keys"."""
    return ", ".join(AXES[axis])


# How it grows


def growth(sweep: Sweep, readings: Sequence[Reading], what: str) -> go.Figure:
    """A curve per kernel: `what` ("seconds" or a level) over the axis, log-log, theory dotted; or bars."""
    curves = {kernel: curve(sweep, readings, kernel, what) for kernel in sweep.kernels}
    curves = {kernel: points for kernel, points in curves.items() if points}
    figure = _lines(sweep, readings, curves, what) if sweep.numeric else _bars(sweep, curves, what)
    titled(figure, takeaway(sweep, readings, what))
    return figure


def takeaway(sweep: Sweep, readings: Sequence[Reading], what: str) -> str:
    """A chart's result in one line: the powers of growth where two kernels' differ, else the last ratio of both."""
    x, name = AXES[sweep.axis][0], "Time" if what == "seconds" else f"Bytes {LEVELS[what]}"
    pair = compared(sweep)
    curves = {kernel: points for kernel in pair if (points := curve(sweep, readings, kernel, what))}
    if not curves:
        return name
    best = fastest(sweep, readings) if what == "seconds" else {}
    if best:
        kernel = next(kernel for kernel in reversed([*pair, *best]) if kernel in best and kernel in pair)
        return f"{name}: {name_of(kernel)} is fastest {at_value(sweep.axis, best[kernel])}"
    powers = {}
    if sweep.numeric and what != "seconds":
        known = {kernel: numbers(points) for kernel, points in curves.items()}
        powers = {kernel: p for kernel, one in known.items() if jump(one) is None and (p := slope(one)) is not None}
    if len(powers) == len(curves) and (len(powers) == 1 or abs(math.dist(*([p] for p in powers.values()))) > APART):
        return f"{name}: " + ", ".join(f"{name_of(k)} {_grows(x, p)}" for k, p in powers.items())
    common = [value for value in sweep.values if all(value in points for points in curves.values())]
    if len(curves) < 2 or not common:
        return name
    (more, high), (less, low) = sorted(curves.items(), key=lambda one: -one[1][common[-1]])
    at, times = at_value(sweep.axis, common[-1]), ratio(high[common[-1]] / low[common[-1]])
    if what == "seconds":
        return f"{name}: {name_of(less)} is {times} as fast as {name_of(more)} {at}"
    return f"{name}: {name_of(more)} moves {times} as many as {name_of(less)} {at}"


def compared(sweep: Sweep) -> tuple[str, ...]:
    """The kernels that titles and sentences compare, drawn strong: standard attention and FlashAttention-2 where both
    are there, else the first two.
    """
    return PAIR if set(PAIR) <= set(sweep.kernels) else sweep.kernels[:2]


def _grows(x: str, power: float) -> str:
    """ "grows as N²", "is flat": a power of x as N, N² or, where it is not nearly whole, N^1.37."""
    if abs(power) < FLAT:
        return "is flat"
    whole = round(power)
    near = {1: x, 2: f"{x}²"}.get(whole) if abs(power - whole) < NEAR else None
    return f"{'grows' if power > 0 else 'falls'} as {near or _raised(x, power)}"


def theory(sweep: Sweep, readings: Sequence[Reading], kernel: str, what: str) -> dict[Value, float]:
    """The theoretical curve of a kernel, at the measured values.

    Of bytes: the formula; at HBM every element once, as if L2 held all that is used again. Of time: the FLOPs by
    formula, scaled to meet the last point that spills no registers, since theory has their power and not their price.
    """
    measured = curve(sweep, readings, kernel, what)
    if not measured or what == "shared" or source_of(readings) in UNMEASURED:
        return {}
    experiments = {value: sweep.at(kernel, value) for value in measured}
    if what == "seconds":
        flops = {value: float(formula(e).flops) for value, e in experiments.items()}
        spilled = curve(sweep, readings, kernel, SPILLED)
        at = next((value for value in reversed(measured) if not spilled.get(value)), None)
        return {} if at is None else {value: measured[at] * count / flops[at] for value, count in flops.items()}
    least = {
        value: once_per_launch(e) if what == "hbm" else formula(e).bytes["asked"] for value, e in experiments.items()
    }
    return {value: float(size) for value, size in least.items()}


def source_of(readings: Sequence[Reading]) -> str:
    """The one source of the readings; empty if there are several."""
    sources = {reading.witness for reading in readings}
    return sources.pop() if len(sources) == 1 else ""


def _lines(
    sweep: Sweep, readings: Sequence[Reading], curves: Mapping[str, Mapping[Value, float]], what: str
) -> go.Figure:
    figure, unit = plot(), WHAT[what][1]
    strong, notes = _strong(sweep, curves), list[dict[str, Any]]()
    theories = {kernel: theory(sweep, readings, kernel, what) for kernel in curves}
    ys = [y for points in curves.values() for y in points.values()]
    beside = [y for known in theories.values() for y in known.values()] if what != "seconds" else []
    low, high = _decades([*ys, *beside])
    for kernel in sorted(curves, key=lambda kernel: kernel in strong):  # the strong ones on top
        points, (colour, symbol) = curves[kernel], _look(kernel)
        width, sizes, dash = _drawn(kernel, curves, kernel in strong, source_of(readings) == "predicted")
        figure.add_scatter(
            x=list(points), y=list(points.values()), name=name_of(kernel), mode="lines+markers", showlegend=False,
            line={"color": colour, "width": width, "dash": dash}, legendrank=list(curves).index(kernel),
            marker={"symbol": symbol, "size": sizes, "color": colour, "opacity": 1},
            customdata=[si(y, unit) for y in points.values()],
            hovertemplate=f"{AXES[sweep.axis][0]} = %{{x:,}}: %{{customdata}}<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
        if what == "hbm" and (leaves := leaves_l2(sweep, kernel, numbers(points))):
            gone = "Q, O, m, ℓ no longer stay in L2 →"  # a phone has no room for it; a sentence says it too
            place = leaves[1], numbers(points)[leaves[1]]
            notes.append(note(*place, gone, shift=(-10, 11), xanchor="right", name=END))
    dotted = False
    for kernel, known in theories.items():  # over the curves: a wide one would hide it
        inside = {value: y for value, y in known.items() if y > 10**low}
        if inside:
            figure.add_scatter(
                x=list(inside), y=list(inside.values()), mode="lines", hoverinfo="skip", showlegend=False,
                line={"color": _look(kernel)[0], "width": 2 if kernel in strong else 1, "dash": "dot"},
            )  # fmt: skip
            dotted = True
    pixels = (HEIGHT - TOP - BOTTOM) / max(high - low, 1e-9)
    right = max(float(value) for points in curves.values() for value in points)
    ends = {kernel: list(points.values())[-1] for kernel, points in curves.items()}
    labels = {kernel: _labelled(kernel, sweep) for kernel in curves}
    for kernel, shift in shifts({kernel: math.log10(y) * pixels for kernel, y in ends.items()}).items():
        colour, symbol = _look(kernel)
        label = f"{coloured(SYMBOLS[symbol], colour)} {labels[kernel]}"
        notes.append(note(right, ends[kernel], label, shift=(9, shift), name=END))
    xs = [math.log10(float(value)) for value in sweep.values if float(value) > 0]
    margin = 0.03 * max(max(xs) - min(xs), 0.1)
    every = 1 + len(xs) // 7  # as many words as there is room for
    words = [said(x) if i % every == (len(xs) - 1) % every else "" for i, x in enumerate(sweep.values)]
    figure.update_xaxes(
        **logarithmic(axis_title(sweep.axis), dict(zip(map(float, sweep.values), words, strict=True))),
        range=[min(xs) - margin, max(xs) + margin],
    )  # fmt: skip
    marks = ticks(low, high)
    figure.update_yaxes(
        **logarithmic(WHAT[what][0], {mark: si(mark, unit, digits=1) for mark in marks}), range=[low, high]
    )
    if dotted:
        figure.add_scatter(
            x=[None], y=[None], mode="lines", line={"color": SLATE, "width": 2, "dash": "dot"},
            name=f"dotted: {THEORY.get(what, 'theory, the formula')}", legendrank=len(curves),
        )  # fmt: skip
    around = {"l": 8, "r": _room(labels.values()), "t": TOP, "b": BOTTOM}
    legend = {"orientation": "h", "y": 1.1}
    figure.update_layout(height=HEIGHT, margin=around, hovermode="closest", legend=legend, annotations=notes)
    return figure


def covered_by(curves: Mapping[str, Mapping[Value, float]]) -> dict[str, str]:
    """The kernels with a curve that a later one covers, and that one."""
    names = list(curves)
    return {
        one: other
        for at, one in enumerate(names)
        for other in names[at + 1 :]
        if all(abs(y / curves[other].get(x, math.inf) - 1) < HIDDEN for x, y in curves[one].items())
    }


def _drawn(
    kernel: str, curves: Mapping[str, Mapping[Value, float]], strong: bool, predicted: bool
) -> tuple[float, float | list[float], str]:
    """A curve's width, the sizes of its markers, and its dashes.

    Curves on each other have one width. Each has dashes over the one before it and markers at points of its own, so
    all their colours are seen: of two, each has every other piece.
    """
    width, size = STRONG if strong else FAINT
    group = _together(kernel, curves)
    many, at, points = len(group), group.index(kernel), len(curves[kernel])
    if many == 1:
        return width, size, "dash" if predicted else "solid"
    # A later one is drawn over the first pieces of the one before; a prediction leaves the last piece free.
    seen, free = (many - at) * DASH, (at + predicted) * DASH
    dash = f"{seen}px,{free}px" if free else "solid"
    if points < 2 * many:  # too few to share: smaller ones on larger ones
        return width, size + 5.0 * (many - 1 - at), dash
    return width, [size if i % many == at else 0 for i in range(points)], dash


def _together(kernel: str, curves: Mapping[str, Mapping[Value, float]]) -> list[str]:
    """The kernels with curves that lie on this one's, itself among them, in order."""
    covered = covered_by(curves)
    last = covered.get(kernel, kernel)
    return [one for one in curves if covered.get(one, one) == last]


def _strong(sweep: Sweep, curves: Mapping[str, Mapping[Value, float]]) -> set[str]:
    """The kernels that are drawn strong: those compared, and those with curves on theirs; all where none of them is."""
    shown = [kernel for kernel in compared(sweep) if kernel in curves] or curves
    return {other for kernel in shown for other in _together(kernel, curves)}


def _labelled(kernel: str, sweep: Sweep) -> str:
    """A kernel's name at the end of its curve, bold where the title compares it with others that it does not."""
    name = name_of(kernel)
    return f"<b>{name}</b>" if kernel in compared(sweep) and len(sweep.kernels) > 2 else name


def _bars(sweep: Sweep, curves: Mapping[str, Mapping[Value, float]], what: str) -> go.Figure:
    figure, unit = plot(), WHAT[what][1]
    for kernel, points in curves.items():
        figure.add_bar(
            x=[category(sweep.axis, value) for value in points], y=list(points.values()), name=name_of(kernel),
            marker={"color": _look(kernel)[0]},
            text=[si(y, unit) for y in points.values()], textposition="outside", cliponaxis=False,
            hovertemplate=f"{AXES[sweep.axis][0]} = %{{x}}: %{{text}}<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text=axis_title(sweep.axis), type="category")
    figure.update_yaxes(
        title_text=WHAT[what][0], rangemode="tozero", showticklabels=False, showgrid=False
    )  # each bar has its number
    figure.update_layout(
        height=HEIGHT, barmode="group", margin={"l": 8, "r": 8, "t": 40, "b": BOTTOM},
        legend={"orientation": "h", "y": 1.12}
    )  # fmt: skip
    return figure


def category(axis: str, value: Value) -> str:
    """A value of an axis without an order between its values, as text."""
    return at_value(axis, value) if axis == "causal" else said(value)


def shifts(ends: Mapping[str, float], high: float = math.inf) -> dict[str, float]:
    """How far each label moves up from its line's end, in pixels, so that no two overlap and none is above `high`."""
    places = spread(list(ends.values()), LABEL_PIXELS, high=high)
    return {name: place - end for (name, end), place in zip(ends.items(), places, strict=True)}


def _room(labels: Iterable[str]) -> float:
    """The width of the longest label in pixels, without its tags."""
    return 46 + max((widest([re.sub(r"<.*?>", "", one)], FONT, "<b>" in one) for one in labels), default=0.0)


def _look(kernel: str) -> tuple[str, str]:
    """A kernel's colour and its marker, the same in every sweep."""
    return colour_of(kernel), symbol_of(kernel)


def symbol_of(kernel: str) -> str:
    """A kernel's marker; no other taught kernel of its family has it. One that is not taught has a circle."""
    family = [name for name, entry in TAUGHT.items() if entry.family == KERNELS[kernel].family]
    return list(SYMBOLS)[family.index(kernel) if kernel in family else 0]


def _decades(ys: Iterable[float]) -> tuple[float, float]:
    """The axis range as powers of ten: at least one decade, with a margin."""
    logs = [math.log10(y) for y in ys if y > 0] or [0.0]
    low, high = min(logs), max(logs)
    short = max(1 - (high - low), 0) / 2
    return low - short - 0.12, high + short + 0.12


def ticks(low: float, high: float) -> list[float]:
    """The powers of ten in a range; with 2 and 5 times each if there are few."""
    steps = (1, 2, 5) if high - low < 2.5 else (1,)
    ticks = [step * 10.0**decade for decade in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def coloured(text: str, colour: str) -> str:
    """Text in a colour, in Plotly's markup."""
    return f'<span style="color:{colour}">{text}</span>'


def _raised(x: str, power: float) -> str:
    """ "N^1.98"; a whole power has no decimals, and 1 is not written."""
    whole = abs(power - round(power)) < WHOLE
    return x if whole and round(power) == 1 else f"{x}<sup>{fixed(power, 0 if whole else 2)}</sup>"


# How it grows, as a table


def slopes(sweep: Sweep, readings: Sequence[Reading], what: str) -> str:
    """Each kernel's growth as a power of the axis, by theory and as fitted; a Markdown table.

    At HBM there are two theories: each element once, and each load and store, as if no cache served any.
    """
    x, rows = AXES[sweep.axis][0], []
    for kernel in sweep.kernels:
        measured = curve(sweep, readings, kernel, what)
        if found := _power(x, numbers(measured)):
            asked = {value: float(formula(sweep.at(kernel, value)).bytes["asked"]) for value in measured}
            theories = [theory(sweep, readings, kernel, what), *([asked] if what == "hbm" else [])]
            known = (_law(x, numbers(one), sizes=what != "seconds") or None for one in theories)
            rows.append((name_of(kernel), *known, f"**{found}**"))
    if source_of(readings) in UNMEASURED:
        return markdown((WHAT[what][0], Column("fitted growth")), [(row[0], row[-1]) for row in rows])
    each = {"seconds": ("theory, FLOPs",), "hbm": ("theory: each element once", "theory: each load and store")}
    columns = map(Column, (*each.get(what, ("theory",)), "fitted growth"))
    return markdown((WHAT[what][0], *columns), rows)


def _law(x: str, points: Mapping[float, float], sizes: bool) -> str:
    """A theory: of `sizes` the number of bytes, exact where it is a polynomial; else a power, "about" a whole one."""
    power = slope(points)
    if power is None:
        return ""
    if sizes and (told := polynomial(x, points)):
        return told
    whole = round(power)
    if jump(points) is not None or not whole or abs(power - whole) >= NEAR:
        return _power(x, points)
    last, y = max(points.items())
    if sizes and whole in (1, 2):
        return f"≈ {_term(float(f'{y / last**whole:.3g}'), x, whole)}"
    return f"{'about ' if abs(power - whole) >= WHOLE else ''}{_raised(x, whole)}"


def _term(factor: float, x: str, power: int) -> str:
    """ "128 N²"; from 100,000 on in units, "143 MB × batch"."""
    if not power:
        return moved(factor)
    of = f"{x}{'²' * (power == 2)}"
    return f"{moved(factor)} × {of}" if factor >= 1e5 else f"{fixed(factor, 0)} {of}"


def polynomial(x: str, points: Mapping[float, float]) -> str:
    """A number of bytes as "a x² + b x" or "b x + c", if it is exactly that with whole factors; else nothing."""
    if len(points) < 3:
        return ""
    (x1, y1), *_, (x2, y2) = points.items()
    a, b = (y2 / x2 - y1 / x1) / (x2 - x1), (y2 - y1) / (x2 - x1)
    for factors in ({2: a, 1: y1 / x1 - a * x1}, {1: b, 0: y1 - b * x1}):
        off = (abs(sum(one * at**power for power, one in factors.items()) - y) / y for at, y in points.items())
        if max(off) < 1e-9 and all(one >= 0 and one == round(one) for one in factors.values()):
            return " + ".join(_term(one, x, power) for power, one in factors.items() if one)
    return ""


def _power(x: str, points: Mapping[float, float]) -> str:
    """A curve's growth as a power of x; where it follows none, its most unlike step. Empty for under two points."""
    power = slope(points)
    if (found := jump(points)) and power is not None:
        at, times = found
        before = max(one for one in points if one < at)
        step = math.log(times) / math.log(at / before)
        flatter = abs(step) < abs(power) and step * power >= 0
        words = "bends" if flatter else f"{'jumps' if times > 1 else 'drops to'} {ratio(times)}"
        return f"{words} at {x} = {fixed(at, 0)}"
    return "" if power is None else "flat" if abs(power) < FLAT else _raised(x, power)


def leaves_l2(sweep: Sweep, kernel: str, points: Mapping[float, float]) -> tuple[float, float] | None:
    """The values before and at which bytes at HBM jump, of a kernel that uses more again there; None elsewhere."""
    found = jump(points) if sweep.numeric and KERNELS[kernel].outer == "block_n" else None
    if found is None or found[1] < 1:
        return None
    before, at = max(one for one in points if one < found[0]), found[0]
    least, more = (once_per_launch(sweep.at(kernel, int(one))) for one in (before, at))
    return (before, at) if more > least else None


def fastest(sweep: Sweep, readings: Sequence[Reading]) -> dict[str, Value]:
    """Each kernel's fastest tile in a sweep over one side of the tile; none in another sweep."""
    curves = {kernel: curve(sweep, readings, kernel, "seconds") for kernel in sweep.kernels if sweep.axis in TILES}
    return {kernel: min(points, key=points.__getitem__) for kernel, points in curves.items() if len(points) > 1}


def points_table(sweep: Sweep, readings: Sequence[Reading]) -> str:
    """Every point, as Markdown: a column has one unit, in its head."""
    levels = [level for level in LEVELS if any(level in reading.bytes for reading in readings)]
    timed = any(reading.seconds for reading in readings)
    columns: list[str | Column] = [Column(AXES[sweep.axis][0]), "kernel"]
    speeds = [reading.flops / reading.seconds if reading.seconds else None for reading in readings]
    for level in levels:
        columns.append(_even(f"bytes {LEVELS[level]}", "B", [reading.bytes.get(level) for reading in readings]))
    columns.append(_even("", "FLOP", [reading.flops for reading in readings]))
    if timed:
        columns += [_even("time", "s", [reading.seconds for reading in readings]), _even("", "FLOP/s", speeds)]
    rows = []
    for reading, speed in zip(readings, speeds, strict=True):
        point = said(reading.experiment.values[sweep.axis]), name_of(reading.experiment.kernel)
        times = (reading.seconds, speed) if timed else ()
        rows.append((*point, *map(reading.bytes.get, levels), reading.flops, *times))
    return markdown(columns, rows)


def _even(what: str, unit: str, values: Iterable[float | None]) -> Column:
    """A column of one unit, that of its middle value, in its head; with decimals for two digits of the least value."""
    known = sorted(value for value in values if value) or [1.0]
    thousands = math.floor(math.log10(known[0] * known[-1]) / 2 / 3)
    scale = 1000.0 ** min(max(thousands, -3), 5)
    prefix = si(scale, "").partition(" ")[2]
    whole = scale == 1 and all(value == int(value) for value in known)
    decimals = 0 if whole else max(0, 1 - math.floor(math.log10(known[0] / scale)))
    heading = ", ".join(filter(None, (what, f"{prefix}{unit}")))
    return Column(heading, lambda value: aligned(value, "", prefix, decimals).partition(" ")[0])


def as_csv(sweep: Sweep, readings: Sequence[Reading]) -> str:
    """Every point with its parameters, one line each; an unknown number is empty."""
    names = list(dict.fromkeys(name for reading in readings for name in reading.experiment.values))
    names = [sweep.axis, *(name for name in names if name != sweep.axis)]
    levels = (*LEVELS, SPILLED)
    heading = "kernel", *names, "witness", *(f"bytes_{level}" for level in levels), "flops", "seconds", "source", "why"
    rows = (
        (
            one.experiment.kernel, *map(one.experiment.values.get, names), one.witness, *map(one.bytes.get, levels),
            one.flops, one.seconds, one.source, one.why,
        )
        for one in readings
    )  # fmt: skip
    return csv_of([heading, *rows])


def note(
    x: float, y: float, words: str, *, shift: tuple[float, float] = (0, 0), leader: tuple[float, float] | None = None,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """An annotation: words at a point of log-log axes, by default on its right; or at the end of a `leader`, a line to
    there. A figure gets all of its notes at once: Plotly copies those before for each one that is added.
    """
    if leader:
        to = dict(zip(("ax", "ay"), map(math.log10, leader), strict=True))
        more |= {
            "showarrow": True,
            "axref": "x",
            "ayref": "y",
            "arrowhead": 0,
            "arrowwidth": 1,
            "startstandoff": 5,
            **to,
        }
        shift = (0, 0)
    place = {"x": math.log10(x), "y": math.log10(y), "xanchor": "left", "yanchor": "middle", "showarrow": False}
    look = {"xref": "x", "yref": "y", "xshift": shift[0], "yshift": shift[1], "font": {"size": FONT}}
    return place | more | look | {"text": words}
