"""Pictures of Exactness: where kernels round, the sizes of the errors, the elements that change, the error over
many tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from explain.chapters.exactness.roundings import roundings
from explain.figures import labels, palette, svg
from explain.figures.lines import Line, chart
from explain.figures.numbers import count, number, percent, power, scientific
from explain.figures.tables import Column, markdown
from explain.kept import kept
from explain.output import Output
from explain.source.functions import file_of
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES

CELL, SHOWN, NARROWEST = 5.0, 64, 320.0
"""Of the maps of changed elements: a cell's side, the most queries and features shown, the room for their words."""


TOLERANCE = (
    "The tolerance of an element is twice the error of the same formula in eager PyTorch, plus a rounding band. "
    "Error ÷ tolerance ≤ 1 passes."
)


@dataclass(frozen=True)
class Way:
    """One row of the figure of errors: what was computed, by which kernel, and its output."""

    name: str
    kernel: str
    output: Output


@kept
def where_rounded(kernels: Sequence[str], bits: int, *, narrow: bool = False) -> str:
    """The way of each attention kernel: Q, K → S → P, with V → O, each 32 bits wide or `bits` of the inputs. The line
    that rounds is a box's hover text; 32-bit inputs are never rounded. `narrow` is for a phone: two boxes a line."""
    wide, high, gap, line = 150.0, 46.0, 40.0, 104.0
    columns, left = (2, gap) if narrow else (4, 0.0)
    width, row = left + columns * (wide + gap) - gap, 32 + line * 4 / columns
    parts: list[str] = []
    for at, kernel in enumerate(kernels):
        found, top = {one.symbol: one for one in roundings(kernel)}, at * row
        rounded = f"{len(found)} roundings" if bits < 32 else "no rounding to 16 bits"
        parts += [
            svg.circle(7, top + 11, 7, palette.css(palette.kernel(KERNELS[kernel].hue))),
            svg.text(22, top + 16, f"{KERNELS[kernel].title}: {rounded}", size=16, bold=True),
        ]
        weights = "P̃" if "P̃" in found else "P"
        for place, (name, symbol) in enumerate((("Q, K", "Q"), ("S", "S"), (weights, weights), ("O", "O"))):
            x, y = left + place % columns * (wide + gap), top + place // columns * line
            one, given = found.get(name), symbol == "Q"
            narrower = bits < 32 and (given or one is not None)
            where = "input, in HBM" if given else "stored in HBM" if one and one.stored else "stays on chip"
            code = f"{file_of(one.module)}:{one.line}" if one and narrower else ""
            parts += _box(x, y + 28, wide, high, name, symbol, code)
            parts += [
                svg.rect(x + wide - 66, y + 39, 56, 24, "currentColor", opacity=0.85 * narrower, stroke="currentColor"),
                svg.text(x + wide - 38, y + 56, "16 bits" if narrower else "32 bits", anchor="middle",
                         fill="var(--ground)" if narrower else ""),
                svg.text(x, y + high + 47, where, size=14),
            ]  # fmt: skip
            if place:
                mark = svg.text(x - gap / 2, y + 57, "→", size=20, anchor="middle")
                diamond = svg.text(x - gap / 2, y + 40, "◆", size=16, anchor="middle", fill=palette.css_ink("alpha"))
                parts += [mark, diamond] if narrower else [mark]
            if symbol == "O":
                parts.append(svg.text(x - gap / 2, y + 77, "↑", size=16, anchor="middle"))
                parts += _box(x - gap / 2 - 14, y + 83, 28, 24, "V", "V")
    legend = len(kernels) * row
    if bits < 32:
        words = labels.wrapped("rounded to 16 bits. Sums and maxima stay in 32 bits in both kernels.", width - 22)
        parts.append(svg.text(0, legend + 8, "◆", size=16, fill=palette.css_ink("alpha")))
        parts += [svg.text(22, legend + 8 + 20 * at, one) for at, one in enumerate(words)]
        legend += 20 * (len(words) - 1)
    told = "; ".join(f"{KERNELS[k].short} rounds {', '.join(one.symbol for one in roundings(k))}" for k in kernels)
    told = told if bits < 32 else "every quantity of both kernels has 32 bits"
    return svg.picture(width, legend + 18, told, parts, f"{1.2 * width:.0f}px")


def _box(x: float, y: float, wide: float, high: float, name: str, symbol: str, title: str = "") -> list[str]:
    """A quantity's box in its colour, its name at the left."""
    hue, inside = palette.SYMBOLS[symbol], min(14, high / 3)
    return [
        svg.rect(x, y, wide, high, palette.css(hue), opacity=0.2, stroke=palette.css(hue), title=title),
        svg.text(x + inside, y + high / 2 + 6, name, size=18, bold=True, fill=palette.css_ink(hue)),
    ]


@kept
def verdict(found: Mapping[str, Sequence[Output]]) -> str:
    """FlashAttention's median error beside standard attention's, in words; `found` has both for each dtype."""
    medians = {dtype: [one.quantile(0.5) for one in pair] for dtype, pair in found.items()}
    shares = {dtype: flash / standard for dtype, (flash, standard) in medians.items() if standard}
    narrow = {dtype: share for dtype, share in shares.items() if ITEM_BYTES[dtype] == 2}
    if not narrow:
        return "On this input half of standard attention's elements have no error in 16 bits."
    largest = max(narrow.values())
    size = "less than half of" if largest < 0.5 else "smaller than" if largest < 1 else "not smaller than"
    wide = "".join(
        f" In {dtype} the two medians are within {percent(abs(share - 1))} of each other."
        for dtype, share in shares.items()
        if dtype not in narrow
    )
    return f"**On this input, in 16 bits, FlashAttention's median error is {size} standard attention's.**{wide}"


@kept
def alike(outputs: Sequence[Output]) -> str:
    """How far the errors of several ways to compute one result lie apart, in words; empty without outputs."""
    if not outputs:
        return ""
    medians, largest = ([one.quantile(share) for one in outputs] for share in (0.5, 1.0))
    if not (min(medians) > 0 and max(largest) < math.inf):
        return "float64 shows how far off each of them is."
    return (
        f"The median errors differ by {percent(max(medians) / min(medians) - 1)} at most, the largest errors by a "
        f"factor of {number(max(largest) / min(largest), 2)}."
    )


def not_associative() -> str:
    """Three numbers of fp16 with (a + b) + c ≠ a + (b + c), worked out; a Markdown list."""
    a, b, c = (np.float16(one) for one in (2048, 1, 1))
    a_b, b_c = a + b, b + c
    x, y, z, left, right, one, other = (count(int(value)) for value in (a, b, c, a_b, b_c, a_b + c, a + b_c))
    return (
        f"- (**{x} + {y}**) + {z} = {left} + {z} = **{one}**\n"
        f"- {x} + (**{y} + {z}**) = {x} + {right} = **{other}**\n\n"
        f"fp16 has {np.finfo(np.float16).nmant + 1} bits of precision. From {x} on it has even numbers only."
    )


@kept
def errors(groups: Mapping[str, Sequence[Way]], *, narrow: bool = False) -> str:
    """Median and largest |result − float64| of each output on one logarithmic axis, under the names of their groups.

    An error of 0 stands at the left end of the axis, NaN and ∞ at its right end. `narrow` is for a phone: a name stands
    above its errors.
    """
    every = [way.output.quantile(share) for ways in groups.values() for way in ways for share in (0.5, 1.0)]
    logs = [math.log10(error) for error in every if error > 0 and math.isfinite(error)] or [-8.0]
    low, high = math.floor(min(logs)), math.floor(max(logs)) + 1
    names = [way.name for ways in groups.values() for way in ways]
    left, width, y = 0.0 if narrow else labels.widest(names, 15) + 28, 380.0 if narrow else 860.0, 44.0
    told = labels.widest([scientific(1.2e-5)], 15) + 18
    first, last, named = left + told, width - told, 22 if narrow else 0

    def place(error: float) -> float:
        log = math.log10(error) if 0 < error < math.inf else high if error else low
        return first + (last - first) * (log - low) / (high - low)

    parts: list[str] = []
    for heading, ways in groups.items():
        if heading:
            parts.append(svg.text(0, y + 12, heading, size=17, bold=True))
            y += 24
        for way in ways:
            hue = palette.css(palette.kernel(KERNELS[way.kernel].hue))
            error, x = way.output.quantile(0.5), place(way.output.quantile(0.5))
            most, end = way.output.largest(), place(way.output.largest())
            parts.append(svg.text(0 if narrow else 12, y + 19 - named / 6, way.name, size=15))
            y += named
            parts += [
                svg.rect(x, y + 12, max(end - x, 0), 4, hue, opacity=0.5),
                svg.circle(x, y + 14, 8, hue, title=f"{way.name}: median error {scientific(error)}"),
                svg.text(x - 14, y + 19, scientific(error), size=15, anchor="end"),
                svg.rect(end - 2.5, y + 4, 5, 20, hue, title=f"{way.name}: largest error {scientific(most)}"),
                svg.text(end + 10, y + 19, scientific(most), size=15),
            ]
            y += 31
        y += 8
    marks = [10.0**exponent for exponent in range(low, high + 1)]
    every_mark = math.ceil((high - low) * 36 / (last - first))  # the axis names as many as have room
    grid = [svg.line(place(mark), 36, place(mark), y, opacity=0.16) for mark in marks]
    ticks = [
        svg.text(place(mark), y + 20, power(round(math.log10(mark))), size=15, anchor="middle")
        for mark in marks[::every_mark]
    ]
    keys = 0.0 if narrow else first
    legend = [
        svg.circle(keys + 8, 14, 8, palette.css("slate")),
        svg.text(keys + 22, 19, "median error", size=15),
        svg.rect(keys + 140, 4, 5, 20, palette.css("slate")),
        svg.text(keys + 154, 19, "largest error of any element", size=15),
    ]
    axis = svg.text((first + last) / 2, y + 44, "|result − float64|, log scale", size=15, anchor="middle", faint=True)
    label = "Errors: " + ", ".join(
        f"{heading} {way.name} median {scientific(way.output.quantile(0.5))}".strip()
        for heading, ways in groups.items()
        for way in ways
    )
    return svg.picture(width, y + 52, label, [*grid, *legend, *parts, *ticks, axis])


@kept
def numbers(what: str, outputs: Mapping[str, Output], first: Output | None = None) -> str:
    """The numbers of `errors` as a folded Markdown table, and how many elements differ from `first`'s."""
    columns: list[str | Column] = [
        what,
        *(Column(name, scientific) for name in ("median error", "99% within", "largest error")),
    ]
    columns += [Column("largest error ÷ tolerance"), ""]
    columns += [Column("elements that differ")] * (first is not None)
    rows = [
        (
            name, *(one.quantile(share) for share in (0.5, 0.99, 1.0)), one.most_of_tolerance(),
            ":green[✓ within]" if one.within_tolerance else ":red[✗ exceeded]",
            *([None if one is first else one.changed_from(first)] if first else []),
        )
        for name, one in outputs.items()
    ]  # fmt: skip
    passed = sum(one.within_tolerance for one in outputs.values())
    return (
        f"<details><summary>The numbers: {passed} of {len(rows)} within their tolerance</summary>\n\n"
        f"{markdown(columns, rows)}\n\n{TOLERANCE}\n\n</details>"
    )


@kept
def changed(outputs: Mapping[str, Output], same: Mapping[str, NDArray[np.bool_]] = MappingProxyType({})) -> str:
    """A map of head 0 for each way but the first: an element is coloured where it differs from the first way's.

    Queries run across, features down. A bar below marks the queries in `same`: their m is the first way's at every
    key. Empty without outputs.
    """
    if not outputs:
        return ""
    (_, first), *others = outputs.items()
    queries, features = (min(SHOWN, size) for size in first.result.shape[-2:])
    across, down, y = queries * CELL, features * CELL, 42.0
    width = max(across, NARROWEST)
    maps = []
    for name, output in others:
        differs = (output.result != first.result)[0, 0]
        total = f"{count(output.changed_from(first))} of {count(first.error.size)} elements differ"
        dots = "".join(
            f"M{query * CELL:.1f} {y + feature * CELL:.1f}h{CELL:g}v{CELL:g}h-{CELL:g}z"
            for feature, query in np.argwhere(differs[:queries, :features].T)
        )
        parts = [
            svg.text(0, 16, name, size=15, bold=True),
            svg.text(0, 34, total),
            svg.text(width, 34, f"features 0–{features - 1} ↓", anchor="end", faint=True),
            svg.rect(0, y, across, down, palette.css("slate"), opacity=0.12),
            f'<path d="{dots}" fill="{palette.css("acc")}"/>',
            svg.text(0, y + down + 26, f"queries 0–{queries - 1} →", faint=True),
        ]
        if (unmoved := same.get(name)) is not None:
            parts += [
                svg.rect(query * CELL, y + down + 3, CELL + 0.3, 9, palette.css("max"))
                for query in np.flatnonzero(unmoved[:queries])
            ]
            few = f"the blue queries: {count(int(differs[unmoved].sum()))} elements differ"
            words = few if unmoved.any() else "no query is blue"
            fill = palette.css_ink("max")
            parts.append(svg.text(width, y + down + 26, words, anchor="end", fill=fill))
        maps.append(svg.picture(width, y + down + 32, f"{name}: {total}", parts))
    meant = {"acc": "this element differs"}
    if same:
        meant["max"] = "this query used the same m at every key in both runs"
    legend = "".join(
        '<span style="display:inline-block"><s style="display:inline-block;width:.8rem;height:.8rem;'
        f'margin-right:.4rem;background:{palette.css(hue)}"></s>{words}</span>'
        for hue, words in meant.items()
    )
    legend = f'<div style="display:flex;flex-wrap:wrap;gap:0 1.5rem">{legend}</div>'
    # As many in a row as there is room for, one on a phone.
    columns = "repeat(auto-fit,minmax(min(100%,340px),1fr))"
    boxes = "".join(f"<div>{one}</div>" for one in maps)
    style = f"display:grid;grid-template-columns:{columns};gap:16px 28px;padding:8px 0 12px"
    return f'{legend}<div style="{style}">{boxes}</div>'


@kept
def growth(found: Mapping[str, Sequence[tuple[int, float, float]]]) -> go.Figure:
    """The relative errors of O in each dtype, and of ℓ in the first, over the number of key tiles; log axes."""
    (_, first), *_ = found.items()
    hues = dict(zip(found, ("acc", "alpha"), strict=True))
    lines = [
        Line([(tiles, o) for tiles, _, o in each], f"O, {dtype}", palette.mid(hues[dtype]), width=3)
        for dtype, each in found.items()
    ]
    lines.append(Line([(tiles, total) for tiles, total, _ in first], "ℓ, always fp32", palette.mid("sum"), width=3))
    start, *errors_there = first[0]
    # Above both curves, a slope to compare them with: it does not begin at one of them.
    guide = [(tiles, 2 * max(errors_there) * math.sqrt(tiles / start)) for tiles, *_ in first]
    lines.append(Line(guide, "a slope of √tiles", palette.mid("slate"), dashed=True))
    figure = chart("", lines, x="tiles of 16 keys", y="median relative error", log=True, height=380)
    figure.update_layout(title=None, margin_t=12)
    return figure
