"""The roofline: kernels under the measured roofs, as a picture, a table and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from explain.chapters.measurements.limits import rate
from explain.chapters.sweeps.analysis import ALIKE, MEMORY_ROOFS, RooflinePoint, compute_roof_name, memory_roof
from explain.chapters.sweeps.figures import (
    BOTTOM,
    LABEL_PIXELS,
    MOSTLY,
    PARTLY,
    SLATE,
    TOP,
    name_of,
    note,
    shifts,
    symbol_of,
    ticks,
)  # fmt: skip
from explain.chapters.sweeps.masking import BASES
from explain.figures.labels import begun, listed, widest
from explain.figures.lines import colour_of
from explain.figures.numbers import grouped, percent, ratio, si
from explain.figures.phone import SIZE as SMALL
from explain.figures.plot import END, FONT, PHONE, logarithmic, plot
from explain.figures.tables import Column, markdown, plain
from explain.records.model import Roof, roof_name

LEVEL_NAMES: Mapping[str, str] = {"hbm": "HBM", "l2": "L2", "shared": "shared memory"}
EXPONENTIALS = "exp"
"""The roof of the units of exponentials. A kernel's FLOPs are more than exponentials, so it limits none by itself."""
HEIGHT = 500
PLOT = 660
"""About how wide the plot is, in pixels: the slope of a roof's label follows from it, and what a label reaches."""
PHONE_PLOT = 260
"""The same on a phone."""
DOT = 15
ON_A_PHONE: Mapping[str, Any] = {"name": PHONE, "visible": False}
"""The look of an annotation that a phone alone has: there, roofs and points have words in the picture as well."""


def roofline(points: Sequence[RooflinePoint], roofs: Mapping[str, Roof], room: float = 9.0) -> go.Figure:
    """FLOP/s over FLOPs per byte at the points' level of memory, log-log: each kernel in its colour, under that level's
    measured roof and its unit's, both slate.

    The axis ends at `room` times the greatest intensity.
    """
    figure, notes = plot(), list[dict[str, Any]]()
    speeds = [point.flops_per_second for point in points]
    intensities = [point.intensity for point in points]
    peaks = {name: roofs[name].per_second for name in _compute_roofs(points) if name in roofs}
    top = max([*peaks.values(), *([] if peaks else speeds)])
    levels = {point.level for point in points}
    bandwidths = {level: speed for level in MEMORY_ROOFS if level in levels and (speed := memory_roof(level, roofs))}
    # Where the roof bends is in sight.
    below = 10.0 ** math.floor(math.log10(min(intensities)))  # a mark left of every point
    left = min([min(intensities) / 3, 0.95 * below, *(top / speed / 4 for speed in bandwidths.values())])
    right = max([room * max(intensities), *(2 * top / speed for speed in bandwidths.values())])
    low, high = math.log10(min(speeds)) - 0.5, math.log10(top) + 0.2
    for level, speed in bandwidths.items():
        figure.add_scatter(
            x=[left, top / speed], y=[left * speed, top], mode="lines", showlegend=False, hoverinfo="skip",
            line={"color": SLATE, "width": 2}, name=(words := _memory_words(level, speed, roofs)),
        )  # fmt: skip
        decades = math.log10(right / left)
        short = f"{LEVEL_NAMES[level]} {si(speed, 'B/s')}"
        for text, wide, size, look in ((words, PLOT, FONT, {"name": END}), (short, PHONE_PLOT, SMALL, ON_A_PHONE)):
            # Along the roof and above it, at its left end.
            slant = math.atan2((HEIGHT - TOP - BOTTOM) / (high - low), wide / decades)
            x = left * 10 ** (decades * ((8 + size + widest([text], size) / 2 * math.cos(slant)) / wide))
            shift = -(size + 2) * math.sin(slant), (size + 2) * math.cos(slant)
            angle = -math.degrees(slant)
            notes.append(note(x, x * speed, text, shift=shift, xanchor="center", textangle=angle, **look))
    for name, peak in peaks.items():
        start = min([peak / speed for speed in bandwidths.values()] or [left])
        figure.add_scatter(
            x=[start, right], y=[peak, peak], mode="lines", showlegend=False, hoverinfo="skip",
            line={"color": SLATE, "width": 2, "dash": "dash" if name == EXPONENTIALS else "solid"},
            name=(words := f"{_unit_name(name)} {rate(roofs[name], zeros=False)}"),
        )  # fmt: skip
        notes.append(note(right, peak, words, xanchor="right", yanchor="bottom", name=END))
        length = math.log10(right / start) * PHONE_PLOT / math.log10(right / left)
        fits = peak == top or widest([words], SMALL) + DOT < length  # over a lower one stands the roof of memory
        short = words if fits else _unit_name(name)
        notes.append(note(right, peak, short, xanchor="right", yanchor="bottom", **ON_A_PHONE))
    ends: dict[str, RooflinePoint] = {}
    for kernel, own in _by_kernel(points).items():
        for point in own:
            if point.roof:  # how far it is to its roof
                figure.add_scatter(
                    x=[point.intensity] * 2, y=[point.flops_per_second, point.roof], mode="lines", showlegend=False,
                    hoverinfo="skip", line={"color": colour_of(kernel), "width": 1, "dash": "dot"},
                )  # fmt: skip
        figure.add_scatter(
            x=[point.intensity for point in own], y=[point.flops_per_second for point in own], mode="markers",
            showlegend=False, marker={"color": colour_of(kernel), "size": DOT, "symbol": symbol_of(kernel)},
            name=name_of(kernel) + _share(own[-1]),
            customdata=[[LEVEL_NAMES[p.level], si(p.intensity, "FLOP/B"), si(p.flops_per_second, "FLOP/s"), _share(p)]
            for p in own],
            hovertemplate="%{customdata[0]}: %{customdata[1]}, %{customdata[2]}%{customdata[3]}"
            f"<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
        ends[kernel] = own[-1]
    pixels = (HEIGHT - TOP - BOTTOM) / (high - low)
    roof = math.log10(max(peaks.values(), default=math.inf)) * pixels
    heights = {kernel: math.log10(end.flops_per_second) * pixels for kernel, end in ends.items()}
    moved = shifts(heights, high=roof - LABEL_PIXELS)  # below the roof's own label
    across = PLOT / math.log10(right / left)
    places = {kernel: math.log10(end.intensity) * across for kernel, end in ends.items()}
    labels = {
        kernel: name_of(kernel) + (f": {percent(end.flops_per_second / end.roof)}" if end.roof else "")
        for kernel, end in ends.items()
    }
    column = None
    if _crowded(labels, places, heights, moved):  # then one column on the right of all points
        edge = max(places.values()) + 36
        column = 10 ** (edge / across)
        flat = [math.log10(peak) * pixels for peak in peaks.values()]
        rises = [step * LABEL_PIXELS / 8 for step in sorted(range(-16, 17), key=abs)]
        free = [rise for rise in rises if not any(
            -LABEL_PIXELS / 2 < heights[one] + moved[one] + rise - line < 1.5 * LABEL_PIXELS
            for one in ends for line in flat)]  # fmt: skip
        rise = min(free or [0.0], key=lambda rise: _struck(places, heights, moved, edge, rise))
        moved = {kernel: shift + rise for kernel, shift in moved.items()}
    for kernel, end in ends.items():
        at = (column, end.flops_per_second * 10 ** (moved[kernel] / pixels)) if column else None
        place, shift = (end.intensity, end.flops_per_second), (14, moved[kernel])
        notes.append(note(*place, labels[kernel], shift=shift, leader=at, arrowcolor=colour_of(kernel), name=END))
    shares = {kernel: percent(end.flops_per_second / end.roof) for kernel, end in ends.items() if end.roof}
    on_a_phone = {kernel: math.log10(ends[kernel].intensity) * PHONE_PLOT / math.log10(right / left) for kernel in ends}
    for kernel, share in shares.items():
        near = [one for one in ends if one != kernel and abs(heights[one] - heights[kernel]) < LABEL_PIXELS
                and -DOT < on_a_phone[one] - on_a_phone[kernel] < DOT + widest([share], SMALL) + 10]  # fmt: skip
        if not near:  # else the legend alone says it
            end = ends[kernel]
            notes.append(note(end.intensity, end.flops_per_second, share, shift=(9, 0), **ON_A_PHONE))
    marks = ticks(low, high)
    decades_seen = range(math.ceil(math.log10(left)), math.floor(math.log10(right)) + 1)
    figure.update_xaxes(
        **logarithmic("arithmetic intensity, FLOPs per byte", {10.0**one: f"{10.0**one:,g}" for one in decades_seen}),
        range=[math.log10(left), math.log10(right)],
    )  # fmt: skip
    figure.update_yaxes(
        **logarithmic("throughput", {mark: si(mark, "FLOP/s", digits=1) for mark in marks}), range=[low, high]
    )  # fmt: skip
    axis = {"showgrid": False, "showline": True, "ticks": "outside", "linecolor": SLATE, "tickcolor": SLATE}
    figure.update_layout(  # without a grid: the roofs and their labels are the lines to read
        height=HEIGHT, margin={"l": 8, "r": 96, "t": TOP, "b": BOTTOM}, hovermode="closest", xaxis=axis, yaxis=axis,
        annotations=notes,
    )  # fmt: skip
    return figure


def _struck(
    xs: Mapping[str, float], ys: Mapping[str, float], moved: Mapping[str, float], edge: float, rise: float
) -> float:
    """By how many pixels in all the lines from points to their labels, in a column at `edge`, come too close to other
    points or cross their lines."""

    def above(one: str, other: str) -> float:
        """By how much one's line passes the other point on the side of its label; below 0 the two lines cross."""
        line = ys[one] + (xs[other] - xs[one]) / (edge - xs[one]) * (moved[one] + rise)
        return math.copysign(1, ys[one] + moved[one] - ys[other] - moved[other]) * (line - ys[other])

    pairs = [(one, other) for one in xs for other in xs if xs[one] < xs[other]]
    return sum(max(0.0, DOT / 2 + 1 - above(*pair)) for pair in pairs)


def _crowded(
    labels: Mapping[str, str], xs: Mapping[str, float], ys: Mapping[str, float], moved: Mapping[str, float]
) -> bool:
    """Whether a label that begins at its point, in pixels, is moved away from it or runs over another point."""
    return any(
        abs(moved[one]) > LABEL_PIXELS / 2
        or any(
            0 <= xs[other] - xs[one] < 14 + DOT + widest([words], FONT)
            and abs(ys[one] + moved[one] - ys[other]) < (LABEL_PIXELS + DOT) / 2
            for other in labels
            if other != one
        )
        for one, words in labels.items()
    )


def _memory_words(level: str, speed: float, roofs: Mapping[str, Roof]) -> str:
    fastest = max((name for name in MEMORY_ROOFS[level] if name in roofs), key=lambda name: roofs[name].per_second)
    return f"{roof_name(fastest)} {si(speed, 'B/s')}"


def of_hbm(roofs: Mapping[str, Roof]) -> str:
    """By what HBM's roof was reached, and what a copy reaches, as a paragraph of Markdown; "" where that is unknown."""
    fastest, copy = memory_roof("hbm", roofs), roofs.get("hbm copy")
    if not fastest or not copy or copy.per_second >= fastest:
        return ""
    what = next(roof_name(name) for name in MEMORY_ROOFS["hbm"] if name in roofs and roofs[name].per_second == fastest)
    return (
        f"**HBM's roof** is its highest measured rate, {si(fastest, 'B/s')} ({what}). A kernel that both reads and "
        f"writes is compared with it too; a copy reaches {si(copy.per_second, 'B/s')}, "
        f"{percent(copy.per_second / fastest)} of it.\n\n"
    )


def takeaway(points: Sequence[RooflinePoint]) -> str:
    """The picture's result in one line: the kernel closest to a roof that is drawn, and its share of that roof."""
    known = [point for point in points if point.roof]
    if not known:
        return "Throughput over arithmetic intensity"
    best = max(known, key=lambda point: point.flops_per_second / (point.roof or 1.0))
    memory = best.roof == best.memory
    roof = LEVEL_NAMES[best.level] if memory else _unit_name(compute_roof_name(best.reading))
    share = percent(best.flops_per_second / (best.roof or 1.0))
    return f"Closest to its roof: {name_of(best.reading.experiment.kernel)}, at {share} of the roof of {roof}"


def roofline_table(points: Sequence[RooflinePoint]) -> str:
    """Each kernel's share of the roofs above it, as Markdown."""
    speed = partial(si, unit="FLOP/s")
    columns = (
        "kernel", Column("FLOP/s", speed), Column("share of its unit's roof", percent), "level",
        Column("FLOPs per byte"),
        Column("bytes per second", partial(si, unit="B/s")), Column("share of that level's roof", percent),
    )  # fmt: skip
    rows = []
    for kernel, own in _by_kernel(points).items():
        head: tuple[object, ...] = (name_of(kernel), own[0].flops_per_second, _share_of(own[0], own[0].compute))
        for point in own:
            bandwidth = point.flops_per_second / point.intensity
            share = _share_of(point, point.memory)
            rows.append((*head, LEVEL_NAMES[point.level], point.intensity, bandwidth, share))
            head = ("", "", "")
    return markdown(columns, rows)


def _share_of(point: RooflinePoint, roof: float | None) -> float | None:
    return point.flops_per_second / roof if roof else None


def nearest(points: Sequence[RooflinePoint], drawn: str = "") -> list[str]:
    """A sentence for each kernel that a roof limits, by our rule: its nearest roof, and its share of it. One sentence
    for all the others.

    A memory's roof is drawn for the level `drawn` only; the sentence says so of another.
    """
    levels = set(LEVEL_NAMES.values()) - {LEVEL_NAMES.get(drawn, "")} if drawn else set()
    sentences, under = [], []
    units, memories = False, False
    for kernel, own in _by_kernel(points).items():
        shares = {LEVEL_NAMES[p.level]: p.flops_per_second / p.memory for p in own if p.memory}
        memories |= bool(shares)
        if own[0].compute:
            units = True
            shares[_unit_name(compute_roof_name(own[0].reading))] = own[0].flops_per_second / own[0].compute
        if not shares:
            continue
        roof, share = max(shares.items(), key=lambda pair: pair[1])
        share = round(share, 2)  # as it is read
        if share < PARTLY:
            under.append(kernel)
            continue
        limit = f"{'partly ' * (share < MOSTLY)}{'limit' if roof.startswith('matmuls') else 'limits'}"
        hidden = f" Choose {roof} above the chart to see that roof." if roof in levels else ""
        drawn_at = next((p.flops_per_second / p.roof for p in own if p.level == drawn and p.roof), share)
        chart = f" ({shown} of the one in the chart)" if (shown := percent(drawn_at)) != percent(share) else ""
        reached = f"The kernel reaches {percent(share)} of that roof{chart}.{hidden}"
        sentences.append(f"**{begun(roof)} {limit} {name_of(kernel)}.** {reached}")
    if under:
        names, few = listed([name_of(kernel) for kernel in under]), len(under) == 1
        matmuls = all(compute_roof_name(point.reading) != "matmul fp32" for point in points)
        told = f"Neither memory nor {'the matmuls' if matmuls else 'the fp32 units'} limit {names}"
        if not (units and memories):
            told = f"No roof here limits {names}"
        sentences.append(
            f"**{told}.** {'It stays' if few else 'They stay'} under {percent(PARTLY)} of every roof. (Our rule: from "
            f"{percent(MOSTLY)} on a roof limits a kernel.) {'Its' if few else 'Their'} warps wait, or run other "
            "instructions."
        )
    return sentences


def instructions(points: Sequence[RooflinePoint]) -> list[str]:
    """What base 2 saves of FlashAttention-2's time, in sentences: it removes instructions, and nothing else."""
    seconds = {kernel: own[0].reading.seconds or 0.0 for kernel, own in _by_kernel(points).items() if kernel in BASES}
    if len(seconds) < len(BASES):
        return []
    plain, base = (seconds[kernel] for kernel in BASES)
    if plain < (1 + ALIKE) * base:
        return []
    first, other = map(name_of, BASES)
    return [
        f"**{other} is {ratio(plain / base)} as fast as {first}.** It only removes instructions. So instructions "
        f"outside the matmuls cost at least {percent(1 - base / plain)} of the time of {first}."
    ]


def other_rate(points: Sequence[RooflinePoint], roofs: Mapping[str, Roof]) -> str:
    """The measured matmul rate in the other 16-bit dtype, which other pages show; "" if it was not measured."""
    other = {"matmul fp16": "matmul bf16", "matmul bf16": "matmul fp16"}
    shown = [name for name in _compute_roofs(points) if other.get(name) in roofs]
    return "; ".join(f"{_unit_name(other[one])} reach {si(roofs[other[one]].per_second, 'FLOP/s')}" for one in shown)


def roofs_table(roofs: Mapping[str, Roof]) -> str:
    """The measured roofs, each with its method below its name, as Markdown; what all methods share is said once above
    them.
    """
    methods = {level: roof.method.rpartition("; ") for level, roof in roofs.items()}
    timed = {level: how.split(", ") for level, (_, _, how) in methods.items()}
    shared = [part for part in next(iter(timed.values())) if all(part in own for own in timed.values())]
    rows = []
    for level, (what, _, _) in methods.items():
        own = ", ".join(part for part in timed[level] if part not in shared)
        method = "; ".join(filter(None, [what, own]))
        rows.append((f"**{plain(roof_name(level))}**<br>{plain(grouped(method))}", f"**{rate(roofs[level])}**"))
    above = f"Each rate: {plain(', '.join(shared))}.\n\n" if shared else ""
    return above + markdown(("roof", Column("best measured")), rows)


def _compute_roofs(points: Sequence[RooflinePoint]) -> list[str]:
    names = dict.fromkeys(compute_roof_name(point.reading) for point in points)
    softmax = any(point.reading.experiment.entry.family == "softmax" for point in points)
    return [*names, *([EXPONENTIALS] if softmax else [])]


def _unit_name(roof: str) -> str:
    """ "matmul fp16" is "matmuls in fp16"."""
    if roof == "matmul fp32":
        return "fp32 outside the tensor cores"
    return f"matmuls in {roof.removeprefix('matmul ')}" if roof.startswith("matmul") else "exponentials"


def _share(point: RooflinePoint) -> str:
    return f", {percent(point.flops_per_second / point.roof)} of its roof" if point.roof else ""


def _by_kernel(points: Sequence[RooflinePoint]) -> dict[str, list[RooflinePoint]]:
    found: dict[str, list[RooflinePoint]] = {}
    for point in points:
        found.setdefault(point.reading.experiment.kernel, []).append(point)
    return found
