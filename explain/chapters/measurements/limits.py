"""What a GPU can do at most, as it was measured: bars beside the datasheet's rates, and a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import plotly.graph_objects as go

from explain.chapters.measurements.points import names
from explain.figures import palette
from explain.figures.labels import listed, text_width, widest
from explain.figures.numbers import grouped, number, percent, ratio, si
from explain.figures.plot import FONT, plot, titled
from explain.figures.tables import Column, markdown, plain
from explain.gpus import card, specified
from explain.kept import kept
from explain.records.model import Roof, roof_name
from explain.records.registry import Entry

NARROWEST = 320
"""The width of a plot's axis at least, in pixels; on a phone it scrolls."""
GROUP = 0.35
"""The space before each limit's bars where several GPUs have one, in bars."""
EQUAL = 1.05
"""The factor up to which two rates are told as equal."""
UNITS = {"B/s": "bytes", "FLOP/s": "FLOPs"}
"""What a roof's unit counts."""
_PAIRS = {
    "B/s": ("shared", "hbm", "Shared memory delivers {} as many bytes per second as HBM"),
    "FLOP/s": ("matmul bf16", "exp", "{} as many bf16 matmul FLOPs per second as exponentials"),
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
            stated = known.hbm_bytes_per_second
            means["hbm"] = f"{percent(read.per_second / stated)} of the datasheet's {si(stated, 'B/s')}"
        if read and matmul:
            means["matmul bf16"] = (
                f"HBM is the limit below {number(matmul.per_second / read.per_second)} FLOPs per byte"
            )
        if matmul and exp:
            means["exp"] = f"{number(matmul.per_second / exp.per_second)} matmul FLOPs in the time of one exp"
        for level, limit in words.items():
            if roof := roofs.get(level):
                name = f"{limit} · {gpu}" if len(shown) > 1 else limit
                found[level].append((name, si(roof.per_second, roof.unit, zeros=True), means.get(level, "")))
    return [told for told in found.values() if told]


@kept
def bars(shown: Sequence[Entry]) -> list[go.Figure]:
    """The measured limits of each GPU as bars, a plot for each unit: a line marks the datasheet's rate.

    A colour is a kind of limit. The first GPU's bars are filled, the others' are open.
    """
    units = dict.fromkeys(roof.unit for one in shown for roof in one.record.roofs.values())
    figures = [_bars(shown, unit) for unit in units]
    tallest = max((figure.layout.height for figure in figures), default=0)
    for figure in figures:  # plots beside each other are of one height, and their bars of one thickness
        figure.data[0].width *= figure.layout.height / tallest
        figure.update_layout(height=tallest)
    return figures


@dataclass(frozen=True)
class _Bar:
    """A GPU's measured rate as a bar. `stated` is the datasheet's rate, None where it has none. `first` is true of the
    first GPU's bars, `begins` of the first bar of a limit, which has the limit's name.
    """

    roof: Roof
    gpu: str
    stated: float | None
    first: bool
    begins: bool

    @property
    def end(self) -> float:
        """The larger one of its two rates."""
        return max(self.roof.per_second, self.stated or 0)

    @property
    def told(self) -> str:
        """The share that is reached of the datasheet's rate."""
        if not self.stated:
            return ""
        return f"\u2002{percent(self.roof.per_second / self.stated)} of {si(self.stated, self.roof.unit)}"


def _found(shown: Sequence[Entry], unit: str) -> Iterator[_Bar]:
    """A unit's bars from top to bottom: limit after limit, each one's GPUs below each other."""
    for level in dict.fromkeys(level for one in shown for level, roof in one.record.roofs.items() if roof.unit == unit):
        begins = True
        for gpu, one in zip(names(shown), shown, strict=True):
            if roof := one.record.roofs.get(level):
                yield _Bar(roof, gpu, specified(level, one.record.gpu), one is shown[0], begins)
                begins = False


def _bars(shown: Sequence[Entry], unit: str) -> go.Figure:
    drawn, several = list(_found(shown, unit)), len(shown) > 1
    places = [row + several * GROUP * begun for row, begun in enumerate(accumulate(bar.begins for bar in drawn))]
    hues = [palette.mid(_hue(bar.roof.level)) for bar in drawn]
    figure = plot()
    figure.add_bar(
        y=places, x=[bar.roof.per_second for bar in drawn], orientation="h", width=0.6, cliponaxis=False,
        marker={
            "color": [hue if bar.first else palette.CLEAR for hue, bar in zip(hues, drawn, strict=True)],
            "line": {"color": hues, "width": 2},
        },
        customdata=[(bar.roof.method, f"{bar.gpu}: {roof_name(bar.roof.level)}") for bar in drawn],
        hovertemplate="%{customdata[0]}<extra>%{customdata[1]}</extra>",
    )  # fmt: skip
    figure.add_scatter(
        y=places, x=[bar.stated for bar in drawn], mode="markers", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 26, "line": {"width": 3, "color": palette.mid("slate")}},
    )  # fmt: skip
    figure.add_scatter(  # its text is clear of bar and line
        y=places, x=[bar.end for bar in drawn], mode="text", text=[bar.told for bar in drawn],
        textposition="middle right", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    most = max(bar.end for bar in drawn)
    decade = 10.0 ** (math.floor(math.log10(most)) - 1)
    step = next(decade * size for size in (5, 10, 20, 50) if most < 4 * decade * size)
    tick_above = step * math.ceil(most / step)
    longest = tick_above if tick_above < 1.1 * most else most
    ticks = [step * place for place in range(math.floor(longest / step) + 1)]
    prefixed = si(step, unit).partition(" ")[2]  # in the title: beside each number it would hide the 0 on a phone
    numbers = [si(tick, unit, prefix=prefixed.removesuffix(unit)).removesuffix(f" {prefixed}") for tick in ticks]
    figure.update_xaxes(
        title=prefixed, tickvals=ticks, ticktext=numbers,
        range=[0, 1.02 * longest], tickangle=0,
    )  # fmt: skip
    # before its bar a number cannot be taken for the datasheet's, whose mark stands behind the bar
    named = [" · ".join([roof_name(bar.roof.level)] * bar.begins + [bar.gpu] * several) + "\u2002" for bar in drawn]
    rates = [si(bar.roof.per_second, unit, zeros=True) for bar in drawn]
    figure.update_yaxes(
        tickvals=places, range=[places[-1] + 0.6, places[0] - 0.6], ticksuffix="  ", showgrid=False, automargin=False,
        ticktext=[f"{name}<b>{rate}</b>" for name, rate in zip(named, rates, strict=True)],
    )  # fmt: skip
    room = 24 + widest(named, FONT) + widest(rates, FONT, bold=True)
    spare = max(  # what words need beyond the end of the axis, in the narrowest plot
        text_width(bar.told, FONT) - (1 - bar.end / longest) * NARROWEST for bar in drawn
    )
    figure.update_layout(
        meta=unit, height=106 + 34 * (1 + places[-1] - places[0]), showlegend=False, hovermode="closest",
        margin={"l": room, "r": 16 + max(0, spare), "t": 4, "b": 8},
    )  # fmt: skip
    titled(figure, (_differing if several else _compared)(shown, unit))
    return figure


def _differing(shown: Sequence[Entry], unit: str) -> str:
    """The limit of a unit that differs most between the GPUs, in one sentence."""
    counted, first = f"{UNITS.get(unit, unit)} per second", shown[0].record.roofs
    spans = []
    for level in first:
        if first[level].unit == unit and all(level in one.record.roofs for one in shown):
            rates = zip((one.record.roofs[level].per_second for one in shown), names(shown), strict=True)
            (least, slow), *_, (most, fast) = sorted(rates)
            words = f"Largest measured difference: {roof_name(level)}, {ratio(most / least)} ({fast} ÷ {slow})"
            spans.append((most / least, words))
    if not spans:
        return counted
    factor, words = max(spans)
    if factor > EQUAL:
        return words
    return f"{counted}: the GPUs are at most {percent(factor - 1, 1)} apart"


def _compared(shown: Sequence[Entry], unit: str) -> str:
    """The fastest limit of a unit beside the one that costs most, in one sentence."""
    high, low, words = _PAIRS.get(unit, ("", "", ""))
    roofs = shown[0].record.roofs
    if not {high, low} <= set(roofs):
        return f"{UNITS.get(unit, unit)} per second"
    return words.format(ratio(roofs[high].per_second / roofs[low].per_second))


def _hue(level: str) -> str:
    """The colour of a limit. HBM and on-chip memory have the same colours on every page."""
    if level.startswith("hbm"):
        return "hbm"
    if level.startswith("matmul"):
        return "series-1"
    return "p" if level == "exp" else "slate"


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
def slow_reads(shown: Sequence[Entry]) -> str:
    """Which GPUs read slower than they write, as a paragraph; Markdown, "" for none."""
    told = []
    for gpu, one in zip(names(shown), shown, strict=True):
        read, written = (one.record.roofs.get(level) for level in ("hbm", "hbm write"))
        if read and written and read.per_second < written.per_second:
            rates = (si(roof.per_second, roof.unit, zeros=True) for roof in (read, written))
            told.append("**HBM of the {}** is read at {} and written at {}.".format(gpu, *rates))
    return " ".join([*told, "Why reading is slower was not measured."]) if told else ""


@kept
def roofs_table(shown: Sequence[Entry]) -> str:
    """The measured limits of each GPU, as Markdown; empty if none were measured."""
    rows = []
    for level in dict.fromkeys(level for one in shown for level in one.record.roofs):
        roofs = [one.record.roofs.get(level) for one in shown]
        gpus: dict[str, list[str]] = {}
        for gpu, roof in zip(names(shown), roofs, strict=True):
            if roof:
                gpus.setdefault(plain(grouped(roof.method)), []).append(gpu)
        methods = [f"{listed(own)}: {method}" if len(gpus) > 1 else method for method, own in gpus.items()]
        cells = (si(roof.per_second, plain(roof.unit), zeros=True) if roof else None for roof in roofs)
        rows.append((f"**{plain(roof_name(level))}**", *cells, "; ".join(methods)))
    return markdown(("limit", *(Column(plain(one.label)) for one in shown), "method"), rows)
