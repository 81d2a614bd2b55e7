"""What a GPU can do at most, as it was measured: bars beside the datasheet's rates, and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from explain.chapters.measurements.points import names
from explain.figures import palette
from explain.figures.labels import text_width, widest
from explain.figures.numbers import duration, grouped, moved, number, percent, ratio, si
from explain.figures.plot import FONT, plot, titled
from explain.figures.tables import Column, markdown, plain
from explain.gpus import card, specified
from explain.kept import kept
from explain.records.model import roof_name
from explain.records.registry import Entry

NARROWEST = 320
"""The width of a plot's axis at least, in pixels; on a phone it scrolls."""
OPEN = "rgba(0, 0, 0, 0)"
"""The inside of a bar that is not the first GPU's."""
GROUP = 0.35
"""The space before each limit's bars where several GPUs have one, in bars."""
EQUAL = 1.05
"""The factor up to which two rates are told as equal."""
UNITS = {"B/s": "bytes", "FLOP/s": "FLOPs"}
"""What a roof's unit counts."""
_PAIRS = {
    "B/s": ("shared", "hbm", "Shared memory delivers {} as many bytes per second as HBM"),
    "FLOP/s": ("matmul bf16", "exp", "A bf16 matmul runs {} as many FLOPs per second as exponentials"),
}
"""By unit: the limit with the longest bar, a limit to compare it with, and the sentence about their ratio."""


@kept
def most_used(shown: Sequence[Entry]) -> list[list[tuple[str, str, str]]]:
    """The limits that the pages use most. Of each one for every GPU: name, rate, and what the rate means. The name says
    the GPU where several are shown.
    """
    words = {"hbm": "HBM, read", "matmul bf16": "matmul in bf16", "exp": "exponentials, 1 FLOP each"}
    found: dict[str, list[tuple[str, str, str]]] = {level: [] for level in words}
    for gpu, one in zip(names(shown), shown, strict=True):
        roofs, known, means = one.record.roofs, card(one.record.gpu), {}
        read, matmul, exp = (roofs.get(level) for level in words)
        if read and known:
            means["hbm"] = f"all {moved(known.hbm_bytes)} of it in {duration(known.hbm_bytes / read.per_second)}"
        if read and matmul:
            means["matmul bf16"] = f"{number(matmul.per_second / read.per_second)} FLOPs per byte read"
        if matmul and exp:
            means["exp"] = f"one exp costs {number(matmul.per_second / exp.per_second)} matmul FLOPs"
        for level, limit in words.items():
            if roof := roofs.get(level):
                name = f"{limit} · {gpu}" if len(shown) > 1 else limit
                found[level].append((name, si(roof.per_second, roof.unit), means.get(level, "")))
    return [told for told in found.values() if told]


@kept
def bars(shown: Sequence[Entry]) -> list[go.Figure]:
    """The measured limits of each GPU as bars, a plot for each unit: a line marks the datasheet's rate.

    A colour is a kind of limit. The first GPU's bars are filled, the others' are open.
    """
    units = dict.fromkeys(roof.unit for one in shown for roof in one.record.roofs.values())
    return [_bars(shown, unit) for unit in units]


def _bars(shown: Sequence[Entry], unit: str) -> go.Figure:
    every = list(zip(names(shown), shown, strict=True))
    levels = dict.fromkeys(roof.level for one in shown for roof in one.record.roofs.values() if roof.unit == unit)
    found = [
        (level, gpu, one.record.roofs[level], specified(level, one.record.gpu), one is shown[0])
        for level in levels for gpu, one in every if level in one.record.roofs
    ]  # fmt: skip
    new = [level not in (above for above, *_ in found[:row]) for row, (level, *_) in enumerate(found)]
    spaced = GROUP if len(shown) > 1 else 0
    places = [row + spaced * sum(new[: row + 1]) for row in range(len(found))]
    rates = [roof.per_second for _, _, roof, *_ in found]
    stated = [rate for *_, rate, _ in found]
    marks = [max(rate, known or 0) for rate, known in zip(rates, stated, strict=True)]
    told = [
        f"\u2002{percent(rate / known)} of {si(known, unit)}" if known else ""
        for rate, known in zip(rates, stated, strict=True)
    ]
    hues = [palette.mid(_hue(level)) for level, *_ in found]
    figure = plot()
    figure.add_bar(
        y=places, x=rates, orientation="h", width=0.6, cliponaxis=False,
        marker={
            "color": [hue if first else OPEN for hue, (*_, first) in zip(hues, found, strict=True)],
            "line": {"color": hues, "width": 2},
        },
        customdata=[(roof.method, f"{gpu}: {roof_name(level)}") for level, gpu, roof, *_ in found],
        hovertemplate="%{customdata[0]}<extra>%{customdata[1]}</extra>",
    )  # fmt: skip
    figure.add_scatter(
        y=places, x=stated, mode="markers", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 26, "line": {"width": 3, "color": palette.mid("slate")}},
    )  # fmt: skip
    figure.add_scatter(  # its text is clear of bar and line
        y=places, x=marks, mode="text", text=told, textposition="middle right", cliponaxis=False, hoverinfo="skip"
    )
    most = max(marks)
    decade = 10.0 ** (math.floor(math.log10(most)) - 1)
    step = next(decade * size for size in (5, 10, 20, 50) if most < 3 * decade * size)
    ticks = {step * place: si(step * place, unit) for place in range(math.floor(most / step) + 1)}
    figure.update_xaxes(
        title=f"{UNITS.get(unit, unit)} per second", tickvals=list(ticks), ticktext=["0", *list(ticks.values())[1:]],
        range=[0, 1.02 * most], tickangle=0,
    )  # fmt: skip
    # before its bar a number cannot be taken for the datasheet's, whose mark stands behind the bar
    named = [
        " · ".join([roof_name(level)] * begins + [gpu] * (len(shown) > 1))
        for begins, (level, gpu, *_) in zip(new, found, strict=True)
    ]
    figure.update_yaxes(
        tickvals=places, range=[places[-1] + 0.6, places[0] - 0.6], ticksuffix="  ", showgrid=False, automargin=False,
        ticktext=[f"{name}\u2002<b>{si(rate, unit)}</b>" for name, rate in zip(named, rates, strict=True)],
    )  # fmt: skip
    drawn = [
        (gpu, roof) for gpu, one in every for roof in one.record.roofs.values()
    ]  # both plots' bars begin at a line
    room = widest((f"{roof_name(roof.level)}{f' · {gpu}' * (len(shown) > 1)}\u2002" for gpu, roof in drawn), FONT) + 24
    room += widest((si(roof.per_second, roof.unit) for _, roof in drawn), FONT, bold=True)
    spare = max(  # what words need beyond the end of the axis, in the narrowest plot
        text_width(words, FONT) - (1 - end / most) * NARROWEST for words, end in zip(told, marks, strict=True)
    )
    figure.update_layout(
        meta=unit, height=106 + 34 * (1 + places[-1] - places[0]), showlegend=False, hovermode="closest",
        margin={"l": room, "r": 16 + max(0, spare), "t": 4, "b": 8},
    )  # fmt: skip
    titled(figure, _compared(shown, unit))
    return figure


def _compared(shown: Sequence[Entry], unit: str) -> str:
    """What the bars of a unit show first, in one sentence: of one GPU the fastest limit beside the one that costs most;
    of several the limit that differs most between them.
    """
    first = shown[0].record.roofs
    counted = UNITS.get(unit, unit)
    if len(shown) > 1:
        shared = [level for level in first if all(level in one.record.roofs for one in shown)]
        spans = []
        for level in (level for level in shared if first[level].unit == unit):
            rates = sorted(zip((one.record.roofs[level].per_second for one in shown), names(shown), strict=True))
            spans.append((rates[-1][0] / rates[0][0], level, rates[-1][1], rates[0][1]))
        if not spans:
            return f"{counted} per second"
        factor, level, fast, slow = max(spans)
        if factor > EQUAL:
            return f"Largest difference ({roof_name(level)}): {fast} has {ratio(factor)} the rate of {slow}"
        return f"{counted} per second: {' and '.join(names(shown))} are at most {percent(factor - 1, 1)} apart"
    high, low, words = _PAIRS.get(unit, ("", "", ""))
    if not {high, low} <= set(first):
        return f"{counted} per second"
    return words.format(ratio(first[high].per_second / first[low].per_second))


def _hue(level: str) -> str:
    """The colour of a limit. HBM and on-chip memory have the same colours on every page."""
    if level.startswith("hbm"):
        return "hbm"
    return "slate" if level in ("shared", "l1", "l2") else "p" if level == "exp" else "series-1"


@kept
def fp16_beside_bf16(shown: Sequence[Entry]) -> str:
    """How the two 16-bit matmuls compare where both were measured, as a paragraph; Markdown, "" without them."""
    roofs = next((one.record.roofs for one in shown if {"matmul fp16", "matmul bf16"} <= set(one.record.roofs)), None)
    if roofs is None:
        return ""
    share = roofs["matmul fp16"].per_second / roofs["matmul bf16"].per_second
    return (
        f"**fp16 and bf16** have one rate in the datasheet. Measured, fp16 reaches {percent(share)} of bf16. The "
        "cause was not measured."
    )


@kept
def roofs_table(shown: Sequence[Entry]) -> str:
    """The measured limits of each GPU, as Markdown; empty if none were measured."""
    rows = []
    for level in dict.fromkeys(level for one in shown for level in one.record.roofs):
        roofs = [one.record.roofs.get(level) for one in shown]
        methods = {roof.method: None for roof in roofs if roof}
        cells = (si(roof.per_second, plain(roof.unit)) if roof else None for roof in roofs)
        rows.append((f"**{plain(roof_name(level))}**", *cells, plain(grouped("; ".join(methods)))))
    return markdown(("limit", *(Column(plain(one.label)) for one in shown), "method"), rows)
