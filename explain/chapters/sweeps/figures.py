"""A sweep's pictures: how bytes and time grow, the roofline, and what they say in words and in tables. Numbers in; Plotly figures and markdown out."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from explain.chapters.sweeps.analysis import (
    FITTED,
    MEMORY_ROOFS,
    RooflinePoint,
    compute_roof_name,
    crossing,
    curve,
    memory_roof,
    numbers,
    slope,
)
from explain.chapters.sweeps.model import AXES, LEVELS, SPILLED, Reading, Sweep, formula, once
from explain.chapters.sweeps.ready import PAIR
from explain.figures.lines import colour_of
from explain.figures.numbers import si
from explain.figures.plot import plot
from explain.gpus import Gpu
from explain.records.model import Roof
from kernels.catalog import KERNELS
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
}
"""Plotly's names of markers, and how they look in a line of text."""
LEVEL_SYMBOLS: Mapping[str, str] = {"hbm": "circle", "l2": "square", "shared": "diamond"}
LEVEL_NAMES: Mapping[str, str] = {"hbm": "HBM", "l2": "L2", "shared": "shared memory"}
SLATE = "#63788E"
TILES = ("block_m", "block_n")
ROOFLINE_HEIGHT = 560
HEIGHT, TOP, BOTTOM = 430, 40, 56
LETTER = 6.4
LABEL_PIXELS = 17  # between the words at two curves' ends
WHAT: Mapping[str, tuple[str, str]] = {"seconds": ("time of one launch", "s"), **{k: (f"bytes {v}", "B") for k, v in LEVELS.items()}}  # fmt: skip


def name_of(kernel: str) -> str:
    """A kernel's label in charts and sentences."""
    return KERNELS[kernel].short


def said(value: Value) -> str:
    """A value of an axis, in words."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).lower()


def axis_title(axis: str) -> str:
    """ "N, queries and keys"."""
    return ", ".join(AXES[axis])


# How it grows


def growth(sweep: Sweep, readings: Sequence[Reading], what: str) -> go.Figure:
    """One curve a kernel: `what` ("seconds", or a level of bytes) over the axis, both logarithmic, with the theory's as dashes. Bars where the axis has no numbers."""
    curves = {kernel: curve(sweep, readings, kernel, what) for kernel in sweep.kernels}
    curves = {kernel: points for kernel, points in curves.items() if points}
    return _lines(sweep, curves, what) if sweep.numeric else _bars(sweep, curves, what)


def theory(sweep: Sweep, readings: Sequence[Reading], kernel: str, what: str) -> dict[Value, float]:
    """What theory says of a kernel's curve, at the values it was measured at.

    Of bytes: the formula; at HBM every element once, as if L2 held all that is used again. Of time: the FLOPs by formula, scaled to meet the last point, since
    theory has their power and not their price.
    """
    measured = curve(sweep, readings, kernel, what)
    if not measured or what == "shared":
        return {}
    experiments = {value: sweep.at(kernel, value) for value in measured}
    if what == "seconds":
        flops = {value: float(formula(e).flops) for value, e in experiments.items()}
        last = list(measured)[-1]
        return {value: measured[last] * count / flops[last] for value, count in flops.items()}
    return {value: float(once(e) if what == "hbm" else formula(e).bytes["asked"]) for value, e in experiments.items()}


def _lines(sweep: Sweep, curves: Mapping[str, Mapping[Value, float]], what: str) -> go.Figure:
    figure, unit = plot(), WHAT[what][1]
    for kernel, points in curves.items():
        colour, symbol = _look(sweep, kernel)
        known = theory(sweep, _as_readings(sweep, kernel, points, what), kernel, what)
        if known:
            figure.add_scatter(
                x=list(known), y=list(known.values()), mode="lines", hoverinfo="skip", showlegend=False,
                line={"color": colour, "width": 1.5, "dash": "dot"},
            )  # fmt: skip
        figure.add_scatter(
            x=list(points), y=list(points.values()), name=name_of(kernel), mode="lines+markers", showlegend=False,
            line={"color": colour, "width": 2}, marker={"symbol": symbol, "size": 8, "color": colour},
            customdata=[si(y, unit) for y in points.values()],
            hovertemplate=f"{AXES[sweep.axis][0]} = %{{x:,}}: %{{customdata}}<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
    low, high = _decades([y for points in curves.values() for y in points.values()])
    pixels = (HEIGHT - TOP - BOTTOM) / max(high - low, 1e-9)
    x, right = AXES[sweep.axis][0], max(float(value) for points in curves.values() for value in points)
    ends = {kernel: list(points.values())[-1] for kernel, points in curves.items()}
    powers = {kernel: slope(numbers(points)) for kernel, points in curves.items()}
    labels = {k: name_of(k) + (f", {_raised(x, power)}" if power is not None else "") for k, power in powers.items()}
    for kernel, shift in spread({kernel: math.log10(y) * pixels for kernel, y in ends.items()}).items():
        colour, symbol = _look(sweep, kernel)
        _note(figure, right, ends[kernel], f"{_coloured(SYMBOLS[symbol], colour)} {labels[kernel]}", shift=(9, shift))
    xs = [math.log10(float(value)) for value in sweep.values if float(value) > 0]
    margin = 0.03 * max(max(xs) - min(xs), 0.1)
    every = 1 + len(xs) // 7  # as many words as there is room for
    words = [said(x) if i % every == (len(xs) - 1) % every else "" for i, x in enumerate(sweep.values)]
    figure.update_xaxes(
        type="log", title=axis_title(sweep.axis), range=[min(xs) - margin, max(xs) + margin], tickvals=list(sweep.values), ticktext=words, tickangle=0,
    )  # fmt: skip
    ticks = _ticks(low, high)
    figure.update_yaxes(
        type="log", title=WHAT[what][0], range=[low, high], tickvals=ticks, ticktext=[si(tick, unit) for tick in ticks]
    )
    figure.update_layout(
        height=HEIGHT, margin={"l": 8, "r": _room(labels.values()), "t": TOP, "b": BOTTOM}, hovermode="closest"
    )
    return figure


def _bars(sweep: Sweep, curves: Mapping[str, Mapping[Value, float]], what: str) -> go.Figure:
    figure, unit = plot(), WHAT[what][1]
    for kernel, points in curves.items():
        figure.add_bar(
            x=[said(value) for value in points], y=list(points.values()), name=name_of(kernel), marker={"color": _look(sweep, kernel)[0]},
            text=[si(y, unit) for y in points.values()], textposition="outside", cliponaxis=False,
            hovertemplate=f"{AXES[sweep.axis][0]} = %{{x}}: %{{text}}<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
    figure.update_xaxes(title=axis_title(sweep.axis), type="category")
    figure.update_yaxes(title=WHAT[what][0], rangemode="tozero", showticklabels=False)  # each bar has its number
    figure.update_layout(
        height=HEIGHT, barmode="group", margin={"l": 8, "r": 8, "t": 40, "b": BOTTOM}, legend={"orientation": "h", "y": 1.12}
    )  # fmt: skip
    return figure


def _as_readings(sweep: Sweep, kernel: str, points: Mapping[Value, float], what: str) -> list[Reading]:
    """Readings that hold one curve and nothing else."""
    timed = what == "seconds"
    return [
        Reading(sweep.at(kernel, x), "", {} if timed else {what: int(y)}, 0, y if timed else None, "", "")
        for x, y in points.items()
    ]


def spread(ends: Mapping[str, float], gap: float = LABEL_PIXELS, most: float = math.inf) -> dict[str, float]:
    """How far each label moves up from its end, both in pixels, so that any two are `gap` apart and none is above `most`; those that crowd share their middle."""
    groups: list[list[str]] = []

    def places(group: list[str]) -> list[float]:
        half = (len(group) - 1) / 2 * gap
        middle = min(sum(ends[name] for name in group) / len(group), most - half)
        return [middle + (i - (len(group) - 1) / 2) * gap for i in range(len(group))]

    for name in sorted(ends, key=lambda name: ends[name]):
        groups.append([name])
        while len(groups) > 1 and places(groups[-1])[0] - places(groups[-2])[-1] < gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    return {name: place - ends[name] for group in groups for name, place in zip(group, places(group), strict=True)}


def _room(labels: Iterable[str]) -> float:
    """Pixels that the longest label takes; what stands in tags is not seen."""
    return 32 + LETTER * max((len(re.sub(r"<.*?>", "", label)) for label in labels), default=0)


def _look(sweep: Sweep, kernel: str) -> tuple[str, str]:
    return colour_of(kernel), list(SYMBOLS)[sweep.kernels.index(kernel)]


def _decades(ys: Iterable[float]) -> tuple[float, float]:
    """The axis's ends, as powers of ten: a whole decade at least, with a margin."""
    logs = [math.log10(y) for y in ys if y > 0] or [0.0]
    low, high = min(logs), max(logs)
    short = max(1 - (high - low), 0) / 2
    return low - short - 0.12, high + short + 0.12


def _ticks(low: float, high: float) -> list[float]:
    """The powers of ten between two; with their doubles and halves where there are few."""
    steps = (1, 2, 5) if high - low < 2.5 else (1,)
    ticks = [step * 10.0**decade for decade in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def _coloured(text: str, colour: str) -> str:
    """Text in a colour, as Plotly has it; words beside it keep the page's own."""
    return f'<span style="color:{colour}">{text}</span>'


def _raised(x: str, power: float) -> str:
    """ "N^1.98"."""
    return f"{x}<sup>{round(power, 2) + 0.0:.2f}</sup>".replace("-", "−")


# In words


def slopes(sweep: Sweep, readings: Sequence[Reading], what: str) -> str:
    """A markdown table: the power that each kernel's curve grows with, by theory and as found."""
    lines = [f"| {WHAT[what][0]} | by theory | found |", "|---|---:|---:|"]
    x = AXES[sweep.axis][0]
    for kernel in sweep.kernels:
        found = slope(numbers(curve(sweep, readings, kernel, what)))
        known = slope(numbers(theory(sweep, readings, kernel, what)))
        if found is not None:
            lines.append(
                f"| {name_of(kernel)} | {'–' if known is None else _raised(x, known)} | **{_raised(x, found)}** |"
            )
    return "\n".join(lines) if len(lines) > 2 else ""


def slope_note(sweep: Sweep, what: str) -> str:
    """What the dashes are and how a slope was fitted."""
    dashes = {
        "seconds": "the FLOPs by formula, scaled to the last point",
        "hbm": "every element once: the least there can be where L2 holds nothing from one launch to the next",
        "shared": "",
    }.get(what, "the formula")
    fitted = f"slopes by least squares over the last {min(FITTED, len(sweep.values))} points"
    return f"dots: {dashes}; {fitted}" if dashes else fitted


def crossings(sweep: Sweep, readings: Sequence[Reading], whats: Iterable[str]) -> list[str]:
    """A sentence for each of `whats`: from where on the second kernel stays below the first."""
    if not sweep.numeric or len(sweep.kernels) < 2:
        return []
    above, below = PAIR if set(PAIR) <= set(sweep.kernels) else sweep.kernels[:2]
    sentences = []
    for what in whats:
        found = crossing(*(numbers(curve(sweep, readings, kernel, what)) for kernel in (above, below)))
        if found:
            does = {"seconds": "is faster", "asked": "asks for fewer bytes"}.get(
                what, f"moves fewer bytes {LEVELS.get(what, '')}"
            )
            subject, x = f"**{name_of(below)}**", AXES[sweep.axis][0]
            sentences.append(found.told(subject, f"{does} than **{name_of(above)}**", x, exact=sweep.axis in TILES))
    return sentences


def spills(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """A sentence for each kernel whose registers spill somewhere: where, and most bytes."""
    sentences = []
    for kernel in sweep.kernels:
        found = {value: count for value, count in curve(sweep, readings, kernel, SPILLED).items() if count}
        if found:
            worst = max(found, key=lambda value: found[value])
            where = " and ".join(filter(None, [", ".join(map(said, list(found)[:-1])), said(list(found)[-1])]))
            most = f"{'up to ' if len(found) > 1 else ''}{si(found[worst], 'B')}"
            sentences.append(
                f"At {AXES[sweep.axis][0]} = {where} the registers of **{name_of(kernel)}** do not suffice: they spill to local memory, which lies in HBM behind the "
                f"caches, {most}."
            )
    return sentences


def points_table(sweep: Sweep, readings: Sequence[Reading]) -> str:
    """Every point, as markdown."""
    levels = [level for level in LEVELS if any(level in reading.bytes for reading in readings)]
    timed = any(reading.seconds for reading in readings)
    heads = [AXES[sweep.axis][0], "kernel", *(f"bytes {LEVELS[level]}" for level in levels), "FLOPs"]
    heads += ["time", "FLOP/s"] if timed else []
    lines = ["| " + " | ".join(heads) + " |", "|---:|---|" + "---:|" * (len(heads) - 2)]
    for reading in readings:
        cells = [said(reading.experiment.values[sweep.axis]), name_of(reading.experiment.kernel)]
        cells += [f"{reading.bytes[level]:,}" if level in reading.bytes else "–" for level in levels]
        cells.append(f"{reading.flops:,}")
        if timed:
            known = reading.seconds
            cells += [si(known, "s"), si(reading.flops / known, "FLOP/s")] if known else ["–", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_csv(sweep: Sweep, readings: Sequence[Reading]) -> str:
    """Every point with its parameters, a line each; a number that is not known is empty."""
    names = list(dict.fromkeys(name for reading in readings for name in reading.experiment.values))
    names = [sweep.axis, *(name for name in names if name != sweep.axis)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kernel", *names, "witness", *(f"bytes_{level}" for level in (*LEVELS, SPILLED)), "flops", "seconds", "source", "why"])  # fmt: skip
    for reading in readings:
        values = reading.experiment.values
        writer.writerow(
            [
                reading.experiment.kernel,
                *(values.get(name, "") for name in names),
                reading.witness,
                *(reading.bytes.get(level, "") for level in (*LEVELS, SPILLED)),
                reading.flops,
                "" if reading.seconds is None else reading.seconds,
                reading.source,
                reading.why,
            ]
        )
    return out.getvalue()


# The roofline


def roofline(
    points: Sequence[RooflinePoint], roofs: Mapping[str, Roof], gpu: Gpu | None, room: float = 4.0
) -> go.Figure:
    """FLOP/s over FLOPs a byte, both logarithmic: each kernel once for each level its bytes pass, under the roofs that were measured; `gpu`'s datasheet as dashes.

    The axis ends at `room` times the greatest intensity.
    """
    figure = plot()
    speeds = [point.flops_per_second for point in points]
    intensities = [point.intensity for point in points]
    peaks = {name: roofs[name].per_second for name in _compute_roofs(points) if name in roofs}
    top = max([*peaks.values(), *([] if peaks else speeds)])
    bandwidths = {level: speed for level in MEMORY_ROOFS if (speed := memory_roof(level, roofs))}
    left = min(
        [min(intensities) / 3, *(top / speed / 4 for speed in bandwidths.values())]
    )  # where each roof bends is in sight
    right = max([room * max(intensities), *(2 * top / speed for speed in bandwidths.values())])
    low, high = math.log10(min(speeds)) - 0.5, math.log10(top) + 0.75
    for level, speed in bandwidths.items():
        _line(figure, left, top / speed, speed, "solid", LEVEL_NAMES[level])
        words = f"{LEVEL_NAMES[level]} {si(speed, 'B/s')}"
        _note(figure, top / speed, top, words, shift=(4, 4), yanchor="bottom", textangle=-32)
    if gpu is not None and "hbm" in bandwidths:
        _line(
            figure,
            left,
            top / gpu.hbm_bytes_per_second,
            gpu.hbm_bytes_per_second,
            "dash",
            "HBM by the datasheet",
            legend=True,
        )
    for name, peak in peaks.items():
        start = min([peak / speed for speed in bandwidths.values()] or [left])
        figure.add_scatter(
            x=[start, right], y=[peak, peak], mode="lines", line={"color": SLATE, "width": 2}, showlegend=False, hoverinfo="skip"
        )  # fmt: skip
        _note(figure, right, peak, f"{_unit_name(name)} {si(peak, 'FLOP/s')}", xanchor="right", yanchor="top")
    ends: dict[str, RooflinePoint] = {}
    for kernel, own in _by_kernel(points).items():
        colour = colour_of(kernel)
        line = sorted(own, key=lambda point: point.intensity)
        figure.add_scatter(
            x=[point.intensity for point in line], y=[point.flops_per_second for point in line], mode="lines+markers", showlegend=False,
            line={"color": colour, "width": 1.5}, marker={"color": colour, "size": 11, "symbol": [LEVEL_SYMBOLS[point.level] for point in line]},
            customdata=[[LEVEL_NAMES[p.level], si(p.intensity, "FLOP/B"), si(p.flops_per_second, "FLOP/s"), _share(p)] for p in line],
            hovertemplate="%{customdata[0]}: %{customdata[1]}, %{customdata[2]}%{customdata[3]}<extra>" + name_of(kernel) + "</extra>",
        )  # fmt: skip
        ends[kernel] = line[-1]
    pixels = (ROOFLINE_HEIGHT - TOP - BOTTOM) / (high - low)
    roof = math.log10(max(peaks.values(), default=math.inf)) * pixels
    heights = {kernel: math.log10(end.flops_per_second) * pixels for kernel, end in ends.items()}
    moved = spread(heights, most=roof - LABEL_PIXELS)
    for kernel, end in ends.items():
        label = f"{_coloured('━', colour_of(kernel))} {name_of(kernel)}"
        _note(figure, end.intensity, end.flops_per_second, label, shift=(10, moved[kernel]), leader=True)
    for level in [level for level in MEMORY_ROOFS if any(point.level == level for point in points)]:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=f"bytes {LEVELS[level]}", marker={"symbol": LEVEL_SYMBOLS[level], "size": 11, "color": SLATE}
        )  # fmt: skip
    ticks = _ticks(low, high)
    figure.update_xaxes(
        type="log", title="arithmetic intensity, FLOPs a byte", range=[math.log10(left), math.log10(right)], tickformat=",~g", dtick=1
    )  # fmt: skip
    figure.update_yaxes(
        type="log", title="FLOP/s", range=[low, high], tickvals=ticks, ticktext=[si(tick, "") for tick in ticks]
    )  # fmt: skip
    figure.update_layout(
        height=ROOFLINE_HEIGHT, margin={"l": 8, "r": 24, "t": TOP, "b": BOTTOM}, legend={"orientation": "h", "y": 1.09}, hovermode="closest"
    )  # fmt: skip
    return figure


def roofline_table(points: Sequence[RooflinePoint]) -> str:
    """How near each kernel comes to the roofs above it, as markdown."""
    lines = ["| kernel | FLOP/s | of its unit's roof | level | FLOPs a byte | bytes a second | of that level's roof |", "|---|---:|---:|---|---:|---:|---:|"]  # fmt: skip
    for kernel, own in _by_kernel(points).items():
        for i, point in enumerate(own):
            compute = f"{point.flops_per_second / point.compute:.0%}" if point.compute else "–"
            memory = f"{point.flops_per_second / point.memory:.0%}" if point.memory else "–"
            first = [name_of(kernel), si(point.flops_per_second, "FLOP/s"), compute] if i == 0 else ["", "", ""]
            rest = [LEVEL_NAMES[point.level], _plain(point.intensity), si(point.flops_per_second / point.intensity, "B/s"), memory]  # fmt: skip
            lines.append("| " + " | ".join([*first, *rest]) + " |")
    return "\n".join(lines)


def nearest(points: Sequence[RooflinePoint]) -> list[str]:
    """For each kernel a sentence: which roof it comes nearest to, and how near."""
    sentences = []
    for kernel, own in _by_kernel(points).items():
        shares = {LEVEL_NAMES[p.level]: p.flops_per_second / p.memory for p in own if p.memory}
        if own[0].compute:
            shares[_unit_name(compute_roof_name(own[0].reading))] = own[0].flops_per_second / own[0].compute
        if shares:
            roof, share = max(shares.items(), key=lambda pair: pair[1])
            what = "the roof of " + roof if roof in LEVEL_NAMES.values() else roof
            sentences.append(f"**{name_of(kernel)}** comes nearest to {what}: {share:.0%} of it.")
    return sentences


def roofs_table(roofs: Mapping[str, Roof]) -> str:
    """The measured roofs and how each was measured, as markdown."""
    lines = ["| roof | at best | how |", "|---|---:|---|"]
    lines += [f"| {roof.level} | **{si(roof.per_second, roof.unit)}** | {roof.method} |" for roof in roofs.values()]
    return "\n".join(lines)


def _plain(number: float) -> str:
    """ "27.3", "3,480"."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _compute_roofs(points: Sequence[RooflinePoint]) -> list[str]:
    names = dict.fromkeys(compute_roof_name(point.reading) for point in points)
    softmax = any(point.reading.experiment.entry.family == "softmax" for point in points)
    return [*names, *(["exp"] if softmax else [])]


def _unit_name(roof: str) -> str:
    """ "matmul fp16" is "matrix products in fp16"."""
    if roof == "matmul fp32":
        return "fp32 outside the tensor cores"
    return f"matrix products in {roof.removeprefix('matmul ')}" if roof.startswith("matmul") else "exponentials"


def _share(point: RooflinePoint) -> str:
    return f", {point.flops_per_second / point.roof:.0%} of its roof" if point.roof else ""


def _by_kernel(points: Sequence[RooflinePoint]) -> dict[str, list[RooflinePoint]]:
    found: dict[str, list[RooflinePoint]] = {}
    for point in points:
        found.setdefault(point.reading.experiment.kernel, []).append(point)
    return found


def _line(
    figure: go.Figure, left: float, knee: float, bandwidth: float, dash: str, name: str, legend: bool = False
) -> None:
    """A slanted roof, from the left edge to the knee."""
    figure.add_scatter(
        x=[left, knee], y=[left * bandwidth, knee * bandwidth], mode="lines", line={"color": SLATE, "width": 1 if legend else 2, "dash": dash},
        showlegend=legend, name=name, hoverinfo="skip",
    )  # fmt: skip


def _note(
    figure: go.Figure, x: float, y: float, words: str, *, shift: tuple[float, float] = (0, 0), leader: bool = False,
    **more: Any,
) -> None:  # fmt: skip
    """Words at a point of two logarithmic axes: to its right, unless told otherwise. `leader`: a thin line joins them if they are apart."""
    if leader and abs(shift[1]) > LABEL_PIXELS / 2:
        more |= {
            "showarrow": True,
            "ax": 4 * shift[0],
            "ay": -shift[1],
            "arrowhead": 0,
            "arrowwidth": 1,
            "arrowcolor": SLATE,
        }
        shift = (0, 0)
    place = {"x": math.log10(x), "y": math.log10(y), "xanchor": "left", "yanchor": "middle", "showarrow": False}
    figure.add_annotation(
        **{**place, **more}, xref="x", yref="y", text=words, xshift=shift[0], yshift=shift[1], font={"size": 13}
    )
