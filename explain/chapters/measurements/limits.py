"""What a GPU can do at most, as it was measured: bars beside the datasheet's rates, and a table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import plotly.graph_objects as go

from explain.figures import palette
from explain.figures.labels import text_width, widest
from explain.figures.numbers import duration, grouped, moved, number, percent, ratio, si
from explain.figures.plot import FONT, plot, titled
from explain.figures.tables import Column, markdown, plain
from explain.gpus import card, specified
from explain.kept import kept
from explain.records.model import Record, Roof, roof_name
from explain.records.registry import Entry

NARROWEST = 320
"""The width of a plot's axis at least, in pixels; on a phone it scrolls."""
UNITS = {"B/s": "bytes", "FLOP/s": "FLOPs"}
"""What a roof's unit counts."""
_PAIRS = {
    "B/s": ("shared", "hbm", "Shared memory delivers {} as many bytes per second as HBM"),
    "FLOP/s": ("matmul bf16", "exp", "A bf16 matmul runs {} as many FLOPs per second as exponentials"),
}
"""By unit: the limit with the longest bar, a limit to compare it with, and the sentence about their ratio."""


@kept
def most_used(one: Entry, *, named: bool = False) -> list[tuple[str, str, str]]:
    """The limits that the pages use most: name, rate, and what the rate means, after the GPU's name if `named`."""
    roofs, known = one.record.roofs, card(one.record.gpu)
    read, matmul, exp = (roofs.get(level) for level in ("hbm", "matmul bf16", "exp"))
    found = []
    if read:
        whole = known and f"all {moved(known.hbm_bytes)} of it in {duration(known.hbm_bytes / read.per_second)}"
        found.append(("HBM, read", si(read.per_second, read.unit), whole or ""))
    if matmul:
        per_byte = read and f"{number(matmul.per_second / read.per_second)} FLOPs per byte read"
        found.append(("matmul in bf16", si(matmul.per_second, matmul.unit), per_byte or ""))
    if exp:
        dear = matmul and f"one exp costs {number(matmul.per_second / exp.per_second)} matmul FLOPs"
        found.append(("exponentials, 1 FLOP each", si(exp.per_second, exp.unit), dear or ""))
    gpu = plain(one.label.partition(" · ")[0])
    return [(name, rate, f"{gpu}: {means}".removesuffix(": ")) for name, rate, means in found] if named else found


@kept
def bars(shown: Sequence[Entry]) -> list[go.Figure]:
    """The measured limits of each GPU as bars, a plot for each unit: a line marks the datasheet's rate."""
    units = dict.fromkeys(roof.unit for one in shown for roof in one.record.roofs.values())
    return [_bars(shown, unit) for unit in units]


def _bars(shown: Sequence[Entry], unit: str) -> go.Figure:
    figure, levels, alone = plot(), set(), len(shown) == 1
    ends: list[tuple[str, float]] = []
    for place, one in enumerate(shown, start=1):
        roofs = [roof for roof in one.record.roofs.values() if roof.unit == unit]
        names = [roof_name(roof.level) for roof in roofs]
        levels |= set(names)
        stated = [specified(roof.level, one.record.gpu) for roof in roofs]
        told = [_told(roof, rate, alone) for roof, rate in zip(roofs, stated, strict=True)]
        rates = [roof.per_second for roof in roofs]
        marks = [max(rate, known or 0) for rate, known in zip(rates, stated, strict=True)]
        ends += zip(told, marks if alone else rates, strict=True)
        hues = [_hue(roof.level) if alone else f"series-{place}" for roof in roofs]
        figure.add_bar(
            y=names, x=rates, orientation="h", name=plain(one.label), showlegend=not alone,
            marker={"color": [palette.mid(hue) for hue in hues]}, width=0.6 if alone else None,
            text=None if alone else told, textposition="outside", cliponaxis=False,
            customdata=[roof.method for roof in roofs], hovertemplate="%{customdata}<extra>%{y}</extra>",
        )  # fmt: skip
        if alone:
            figure.add_scatter(
                y=names, x=stated, mode="markers", showlegend=False, hoverinfo="skip",
                marker={"symbol": "line-ns", "size": 26, "line": {"width": 3, "color": palette.mid("slate")}},
            )  # fmt: skip
            figure.add_scatter(  # its text is clear of bar and line
                y=names, x=marks, mode="text", text=told, textposition="middle right", cliponaxis=False,
                showlegend=False, hoverinfo="skip",
            )  # fmt: skip
    most = max(end for _, end in ends)
    decade = 10.0 ** (math.floor(math.log10(most)) - 1)
    step = next(decade * size for size in (5, 10, 20, 50) if most < 3 * decade * size)
    ticks = {step * place: si(step * place, unit) for place in range(math.floor(most / step) + 1)}
    figure.update_xaxes(
        title=f"{UNITS.get(unit, unit)} per second", tickvals=list(ticks), ticktext=["0", *list(ticks.values())[1:]],
        range=[0, 1.02 * most], tickangle=0,
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", ticksuffix="  ", showgrid=not alone, automargin=False)
    drawn = [roof for one in shown for roof in one.record.roofs.values()]
    room = widest((roof_name(roof.level) for roof in drawn), FONT) + 24
    if alone:  # before its bar a number cannot be taken for the datasheet's, whose mark stands behind the bar
        said = {roof_name(roof.level): f"\u2002{si(roof.per_second, roof.unit)}" for roof in drawn}
        figure.update_yaxes(tickvals=list(said), ticktext=[f"{name}<b>{rate}</b>" for name, rate in said.items()])
        room += widest(said.values(), FONT, bold=True)
    spare = max(  # what words need beyond the end of the axis, in the narrowest plot
        text_width(re.sub("</?b>", "", words), FONT, bold=not alone) - (1 - end / most) * NARROWEST
        for words, end in ends
    )
    figure.update_layout(
        meta=unit, height=110 + 34 * len(levels) * max(1, len(shown)),
        margin={"l": room, "r": 16 + max(0, spare), "t": 4 if alone else 34, "b": 8},
        barmode="group", bargap=0.3, hovermode="closest", showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    if alone:
        titled(figure, _compared(shown[0].record, unit))
    return figure


def _compared(record: Record, unit: str) -> str:
    """What the bars of a unit show first, in one sentence: the fastest beside the one that costs most."""
    high, low, words = _PAIRS.get(unit, ("", "", ""))
    if not {high, low} <= set(record.roofs):
        return f"{UNITS.get(unit, unit)} per second"
    return words.format(ratio(record.roofs[high].per_second / record.roofs[low].per_second))


def _told(roof: Roof, stated: float | None, alone: bool) -> str:
    """What stands beside a bar: of one GPU the datasheet's rate, at its mark; of several, the bar's own number."""
    rate, share = (si(stated, roof.unit), percent(roof.per_second / stated)) if stated else ("", "")
    if alone:
        return rate and f"\u2002{share} of {rate}"
    return f"\u2002<b>{si(roof.per_second, roof.unit)}</b>" + (rate and f" · {share} of {rate}")


def _hue(level: str) -> str:
    """The colour of a limit in a chart of one GPU. HBM and on-chip memory have the same colours on every page."""
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
