"""A sweep's pictures: how bytes and time grow, the roofline, and what they say in words and in tables. Numbers in; Plotly figures and markdown out."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from explain.gpus import Gpu
from explain.records.model import Roof
from explain.sweeps.analysis import (
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
from explain.sweeps.model import AXES, LEVELS, Reading, Sweep, formula, once
from kernels.museum import KERNELS
from kernels.parameters import Value

COLOURS: Mapping[str, str] = {
    "attention_standard": "#E69F00", "flash_attention": "#0072B2", "flash_attention_exp2": "#56B4E9", "flash_attention_v1": "#CC79A7",
    "softmax_naive": "#8073AC", "softmax_safe": "#E69F00", "softmax_row": "#009E73", "softmax_online": "#0072B2", "softmax_tiled": "#56B4E9",
    "softmax_split": "#CC79A7", "softmax_topk": "#D55E00",
}  # fmt: skip
OTHERS = ("#63788E", "#D55E00", "#009E73", "#8073AC")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
LEVEL_SYMBOLS: Mapping[str, str] = {"hbm": "circle", "l2": "square", "shared": "diamond"}
LEVEL_NAMES: Mapping[str, str] = {"hbm": "HBM", "l2": "L2", "shared": "shared memory"}
SLATE = "#63788E"
HEIGHT, TOP, BOTTOM, RIGHT = 430, 16, 56, 190
LABEL_PIXELS = 17  # between the words at two curves' ends
WHAT: Mapping[str, tuple[str, str]] = {"seconds": ("time of one launch", "s"), **{k: (f"bytes {v}", "B") for k, v in LEVELS.items()}}  # fmt: skip
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def si(value: float, unit: str) -> str:
    """ "4.26 TB/s", "310 µs"."""
    factor, prefix = next((pair for pair in PREFIXES if abs(value) >= 0.9995 * pair[0]), PREFIXES[-1])
    return f"{value / factor:.3g} {prefix}{unit}"


def name_of(kernel: str) -> str:
    """The kernel's title, short enough to stand at a curve."""
    return KERNELS[kernel].title.replace(" forward", "")


def said(value: Value) -> str:
    """A value of an axis, in words."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).lower()


def axis_name(sweep: Sweep) -> str:
    """The axis as a sentence has it: "N", "d", "BLOCK_M"."""
    title = AXES[sweep.axis]
    return title.rpartition(", ")[2] if title.endswith(("BLOCK_M", "BLOCK_N", "K")) else title.partition(",")[0]


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
    figure, unit = go.Figure(), WHAT[what][1]
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
            hovertemplate=f"{axis_name(sweep)} = %{{x:,}}: %{{customdata}}<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
    low, high = _decades([y for points in curves.values() for y in points.values()])
    pixels = (HEIGHT - TOP - BOTTOM) / max(high - low, 1e-9)
    ends = {kernel: math.log10(list(points.values())[-1]) for kernel, points in curves.items()}
    for kernel, shift in spread({kernel: end * pixels for kernel, end in ends.items()}).items():
        power = slope(numbers(curves[kernel]))
        figure.add_annotation(
            x=math.log10(float(list(curves[kernel])[-1])), y=ends[kernel], xref="x", yref="y", xanchor="left", xshift=9, yshift=shift, showarrow=False,
            text=f"{name_of(kernel)}{f', {axis_name(sweep)}{_raised(power)}' if power is not None else ''}", font={"color": _look(sweep, kernel)[0], "size": 13},
        )  # fmt: skip
    xs = [math.log10(float(value)) for value in sweep.values if float(value) > 0]
    margin = 0.03 * max(max(xs) - min(xs), 0.1)
    every = 1 + len(xs) // 7  # as many words as there is room for
    words = [said(x) if i % every == (len(xs) - 1) % every else "" for i, x in enumerate(sweep.values)]
    figure.update_xaxes(
        type="log", title=AXES[sweep.axis], range=[min(xs) - margin, max(xs) + margin], tickvals=list(sweep.values), ticktext=words, tickangle=0,
    )  # fmt: skip
    figure.update_yaxes(
        type="log", title=WHAT[what][0], range=[low, high], tickvals=[10.0**d for d in range(math.ceil(low), math.floor(high) + 1)],
        ticktext=[si(10.0**d, unit) for d in range(math.ceil(low), math.floor(high) + 1)],
    )  # fmt: skip
    figure.update_layout(height=HEIGHT, margin={"l": 8, "r": RIGHT, "t": TOP, "b": BOTTOM}, hovermode="closest")
    return figure


def _bars(sweep: Sweep, curves: Mapping[str, Mapping[Value, float]], what: str) -> go.Figure:
    figure, unit = go.Figure(), WHAT[what][1]
    for kernel, points in curves.items():
        figure.add_bar(
            x=[said(value) for value in points], y=list(points.values()), name=name_of(kernel), marker={"color": _look(sweep, kernel)[0]},
            text=[si(y, unit) for y in points.values()], textposition="outside", cliponaxis=False,
            hovertemplate=f"{axis_name(sweep)} = %{{x}}: %{{text}}<extra>{name_of(kernel)}</extra>",
        )  # fmt: skip
    figure.update_xaxes(title=AXES[sweep.axis], type="category")
    figure.update_yaxes(title=f"{WHAT[what][0]}, {unit}", rangemode="tozero", exponentformat="SI")
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


def spread(ends: Mapping[str, float], gap: float = LABEL_PIXELS) -> dict[str, float]:
    """How far each label moves from its end, both in pixels, so that any two are `gap` apart and their middle stays."""
    order = sorted(ends, key=lambda name: ends[name])
    placed: dict[str, float] = {}
    group: list[str] = []

    def settle() -> None:
        middle = sum(ends[name] for name in group) / len(group)
        for i, name in enumerate(group):
            placed[name] = middle + (i - (len(group) - 1) / 2) * gap

    for name in order:
        if group and ends[name] - (sum(ends[n] for n in group) / len(group) + (len(group) - 1) / 2 * gap) < gap:
            group.append(name)
        else:
            group = [name]
        settle()
    return {name: placed[name] - ends[name] for name in order}


def _look(sweep: Sweep, kernel: str) -> tuple[str, str]:
    at = sweep.kernels.index(kernel)
    return COLOURS.get(kernel, OTHERS[at % len(OTHERS)]), SYMBOLS[at]


def _decades(ys: Iterable[float]) -> tuple[float, float]:
    """The axis's ends, as powers of ten: a whole decade at least, with a margin."""
    logs = [math.log10(y) for y in ys if y > 0] or [0.0]
    low, high = min(logs), max(logs)
    short = max(1 - (high - low), 0) / 2
    return low - short - 0.12, high + short + 0.12


def _raised(power: float) -> str:
    """The power as an exponent: "^1.98"."""
    return f"<sup>{power:.2f}</sup>".replace("-", "−")


# In words


def slopes(sweep: Sweep, readings: Sequence[Reading], what: str) -> str:
    """A markdown table: the power that each kernel's curve grows with, by theory and as found."""
    lines = [f"| {WHAT[what][0]} | by theory | found |", "|---|---:|---:|"]
    x = axis_name(sweep)
    for kernel in sweep.kernels:
        found = slope(numbers(curve(sweep, readings, kernel, what)))
        known = slope(numbers(theory(sweep, readings, kernel, what)))
        if found is not None:
            lines.append(f"| {name_of(kernel)} | {_power(x, known)} | **{_power(x, found)}** |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _power(x: str, power: float | None) -> str:
    return "–" if power is None else f"{x}<sup>{power:.2f}</sup>".replace("-", "−")


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
    """A sentence for each of `whats` on where the second kernel gets below the first for good."""
    if not sweep.numeric or len(sweep.kernels) < 2:
        return []
    above, below = ("attention_standard", "flash_attention") if {"attention_standard", "flash_attention"} <= set(sweep.kernels) else sweep.kernels[:2]  # fmt: skip
    sentences = []
    for what in whats:
        curves = [numbers(curve(sweep, readings, kernel, what)) for kernel in (above, below)]
        found = crossing(*curves)
        if found is None:
            continue
        x, subject, other = axis_name(sweep), f"**{name_of(below)}**", name_of(above)
        last = max(set(curves[0]) & set(curves[1]))
        times = f"{curves[0][last] / curves[1][last]:.3g} times"
        if what == "seconds":
            does, ends = f"takes less time than {other}", f"at {x} = {last:,.0f} {other} takes {times} as long"
        else:
            does, ends = (
                f"moves fewer bytes {LEVELS[what]} than {other}",
                f"at {x} = {last:,.0f} {other} moves {times} as many",
            )
        match found.where:
            case "below":
                sentence = f"{subject} {does} at every {x} here; {ends}. If they cross, then below {x} = {found.x:,.0f}, the smallest."
            case "at":
                sentence = f"{subject} {does} from **{x} ≈ {found.x:,.0f}** on; {ends}."
            case _:
                sentence = f"Up to {x} = {found.x:,.0f} there is no {x} from which {subject} {does}."
        sentences.append(sentence)
    return sentences


def points_table(sweep: Sweep, readings: Sequence[Reading]) -> str:
    """Every point, as markdown."""
    levels = [level for level in LEVELS if any(level in reading.bytes for reading in readings)]
    timed = any(reading.seconds for reading in readings)
    heads = [axis_name(sweep), "kernel", *(f"bytes {LEVELS[level]}" for level in levels), "FLOPs"]
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
    writer.writerow(["kernel", *names, "witness", *(f"bytes_{level}" for level in LEVELS), "flops", "seconds", "source", "why"])  # fmt: skip
    for reading in readings:
        values = reading.experiment.values
        writer.writerow(
            [
                reading.experiment.kernel,
                *(values.get(name, "") for name in names),
                reading.witness,
                *(reading.bytes.get(level, "") for level in LEVELS),
                reading.flops,
                "" if reading.seconds is None else reading.seconds,
                reading.source,
                reading.why,
            ]
        )
    return out.getvalue()


# The roofline


def roofline(points: Sequence[RooflinePoint], roofs: Mapping[str, Roof], gpu: Gpu | None) -> go.Figure:
    """FLOP/s over FLOPs a byte, both logarithmic: each kernel once for each level its bytes pass, under the roofs that were measured; `gpu`'s datasheet as dashes."""
    figure = go.Figure()
    peaks = {name: roofs[name].per_second for name in _compute_roofs(points) if name in roofs}
    top = max(peaks.values(), default=max((point.flops_per_second for point in points), default=1.0))
    left = min([point.intensity for point in points] or [1.0]) / 3
    right = max([point.intensity for point in points] or [1.0]) * 4
    bandwidths = {level: memory_roof(level, roofs) for level in MEMORY_ROOFS}
    knees = [top / bandwidth for bandwidth in bandwidths.values() if bandwidth]
    right = max([right, *(2 * knee for knee in knees)])
    for level, bandwidth in bandwidths.items():
        if bandwidth:
            end = min(top / bandwidth, right)
            _roof(figure, left, end, bandwidth, f"{LEVEL_NAMES[level]} {si(bandwidth, 'B/s')}", "solid")
    if gpu is not None and bandwidths.get("hbm"):
        end = min(top / gpu.hbm_bytes_per_second, right)
        _roof(figure, left, end, gpu.hbm_bytes_per_second, "", "dash")
    for name, peak in peaks.items():
        start = min([peak / b for b in bandwidths.values() if b] or [left])
        figure.add_scatter(
            x=[start, right], y=[peak, peak], mode="lines", line={"color": SLATE, "width": 2}, showlegend=False, hoverinfo="skip"
        )  # fmt: skip
        _note(figure, right, peak, f"{_unit_name(name)} {si(peak, 'FLOP/s')}", "right", 9)
    for kernel, own in _by_kernel(points).items():
        colour = COLOURS.get(kernel, OTHERS[0])
        line = sorted(own, key=lambda point: point.intensity)
        figure.add_scatter(
            x=[point.intensity for point in line], y=[point.flops_per_second for point in line], mode="lines+markers", showlegend=False,
            line={"color": colour, "width": 1.5}, marker={"color": colour, "size": 11, "symbol": [LEVEL_SYMBOLS[point.level] for point in line]},
            customdata=[[LEVEL_NAMES[p.level], si(p.intensity, "FLOP/B"), si(p.flops_per_second, "FLOP/s"), _share(p)] for p in line],
            hovertemplate="%{customdata[0]}: %{customdata[1]}, %{customdata[2]}%{customdata[3]}<extra>" + name_of(kernel) + "</extra>",
        )  # fmt: skip
        _note(figure, line[-1].intensity, line[-1].flops_per_second, name_of(kernel), "left", 0, colour, 10)
    for level in [level for level in MEMORY_ROOFS if any(point.level == level for point in points)]:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=f"bytes {LEVELS[level]}", marker={"symbol": LEVEL_SYMBOLS[level], "size": 11, "color": SLATE}
        )  # fmt: skip
    lows = [point.flops_per_second for point in points] or [top]
    low, high = math.log10(min(lows)) - 0.5, math.log10(top) + 0.35
    ticks = range(math.ceil(low), math.floor(high) + 1)
    figure.update_xaxes(
        type="log",
        title="arithmetic intensity, FLOPs a byte",
        range=[math.log10(left), math.log10(right)],
        tickformat=",~g",
        dtick=1,
    )
    figure.update_yaxes(
        type="log", title="FLOP/s", range=[low, high], tickvals=[10.0**d for d in ticks], ticktext=[si(10.0**d, "") for d in ticks]
    )  # fmt: skip
    figure.update_layout(
        height=520,
        margin={"l": 8, "r": 24, "t": 40, "b": BOTTOM},
        legend={"orientation": "h", "y": 1.1},
        hovermode="closest",
    )
    return figure


def roofline_table(points: Sequence[RooflinePoint]) -> str:
    """How near each kernel comes to the roofs above it, as markdown."""
    lines = ["| kernel | FLOP/s | of its unit's roof | level | FLOPs a byte | bytes a second | of that level's roof |", "|---|---:|---:|---|---:|---:|---:|"]  # fmt: skip
    for kernel, own in _by_kernel(points).items():
        for i, point in enumerate(own):
            compute = f"{point.flops_per_second / point.compute:.0%}" if point.compute else "–"
            memory = f"{point.flops_per_second / point.memory:.0%}" if point.memory else "–"
            first = [name_of(kernel), si(point.flops_per_second, "FLOP/s"), compute] if i == 0 else ["", "", ""]
            rest = [LEVEL_NAMES[point.level], f"{point.intensity:,.3g}", si(point.flops_per_second / point.intensity, "B/s"), memory]  # fmt: skip
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


def _compute_roofs(points: Sequence[RooflinePoint]) -> list[str]:
    names = dict.fromkeys(compute_roof_name(point.reading) for point in points)
    softmax = any(point.reading.experiment.entry.family == "softmax" for point in points)
    return [*names, *(["exp"] if softmax else [])]


def _unit_name(roof: str) -> str:
    """ "matmul fp16" is "products in fp16"."""
    if roof == "matmul fp32":
        return "fp32 outside the tensor cores"
    return f"products in {roof.removeprefix('matmul ')}" if roof.startswith("matmul") else "exponentials"


def _share(point: RooflinePoint) -> str:
    return f", {point.flops_per_second / point.roof:.0%} of its roof" if point.roof else ""


def _by_kernel(points: Sequence[RooflinePoint]) -> dict[str, list[RooflinePoint]]:
    found: dict[str, list[RooflinePoint]] = {}
    for point in points:
        found.setdefault(point.reading.experiment.kernel, []).append(point)
    return found


def _roof(figure: go.Figure, left: float, right: float, bandwidth: float, words: str, dash: str) -> None:
    figure.add_scatter(
        x=[left, right], y=[left * bandwidth, right * bandwidth], mode="lines", line={"color": SLATE, "width": 2 if words else 1, "dash": dash},
        showlegend=not words, name="HBM by the datasheet", hoverinfo="skip",
    )  # fmt: skip
    if words:
        _note(figure, right, right * bandwidth, words, "right", 0, SLATE, -8)


def _note(
    figure: go.Figure, x: float, y: float, words: str, side: str, up: float, colour: str = SLATE, along: float = 0
) -> None:
    figure.add_annotation(
        x=math.log10(x), y=math.log10(y), xref="x", yref="y", text=words, xanchor=side, yanchor="bottom" if up else "middle", xshift=along,
        yshift=up / 3, showarrow=False, font={"color": colour, "size": 12},
    )  # fmt: skip
