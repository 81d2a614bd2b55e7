"""Pictures of Online softmax: m and ℓ after each tile of a row, and the merges of its tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explain.chapters.online_softmax.history import Merge, Tile
from explain.figures.labels import text_width
from explain.figures.numbers import fixed, number
from explain.figures.palette import css, css_ink
from explain.figures.svg import SMALL, line, picture, rect, text
from explain.kept import kept

MOST = 16
"""As many tiles have readable numbers in one picture."""


@kept
def growth(tiles: Sequence[Tile], kept: int = 0, *, narrow: bool = False) -> str:
    """The elements of a row, each with its number where there is room, and the running max over them, the `kept`
    largest framed; below, ℓ after each tile, stacked by the tile that added it. At its left, grey, ℓ before it was
    multiplied by α. Empty where ℓ is not a number. `narrow` fits a phone.
    """
    shown = tiles[:MOST]
    row = np.concatenate([one.x for one in tiles]) if tiles else np.zeros(0)
    largest = set(np.argsort(-row, kind="stable")[:kept].tolist())  # of equals the one further left
    values = np.concatenate([one.x for one in shown]) if shown else np.zeros(0)
    values = values[np.isfinite(values)]
    if not values.size or not all(math.isfinite(one.total) for one in shown):
        return ""
    left, room = (62.0, 324.0) if narrow else (80.0, 760.0)
    wide, high, low = max(room / max(len(shown), 3), 44.0), 64.0, 84.0
    size, names = 13.0 if narrow or wide < 70 else 17.0, 13.0 if narrow else 17.0
    top, ground = 24.0, 222.0
    least, most = min(0.0, float(values.min())), max(0.0, float(values.max()))
    unit = high / ((most - least) or 1.0)
    zero = top + most * unit
    tallest = max(one.total for one in shown) or 1.0
    drawn = [
        text(left - 16, top + 14, "x", anchor="end", bold=True, size=names, fill=css_ink("scores")),
        text(left - 16, top + 35, "max m", anchor="end", bold=True, size=names, fill=css_ink("max")),
        text(left - 16, ground - 20, "sum ℓ", anchor="end", bold=True, size=names, fill=css_ink("sum")),
        text(left - 16, ground + 24, "α", anchor="end", bold=True, size=names, fill=css_ink("alpha")),
    ]
    parts: list[float] = []
    seen = 0
    for at, tile in enumerate(shown):
        x, before = left + wide * at, sum(parts)
        bar = (wide - 12) / max(tile.x.size, 1)
        for i, value in enumerate(tile.x):
            if math.isfinite(value):
                y = zero - max(value, 0.0) * unit
                framed = seen + i in largest
                drawn.append(rect(x + bar * i, y, bar - 2, abs(value) * unit, css("scores"),
                                  opacity=0.35 if kept and not framed else 0.55,
                                  stroke="currentColor" if framed else "none",
                                  title=f"x = {fixed(float(value), 3)}"))  # fmt: skip
                told = number(float(value))
                if text_width(told, SMALL) < bar:
                    # across the axis from its bar; below a negative bar where m stands above the axis
                    at_y = zero + 14 if value >= 0 else zero - value * unit + 14 if tile.m >= 0 else zero - 5
                    drawn.append(text(x + bar * i + bar / 2 - 1, at_y, told, anchor="middle", size=SMALL,
                                      fill=css_ink("scores")))  # fmt: skip
        if math.isfinite(tile.m):
            y = zero - tile.m * unit
            drawn.append(line(x - 6, y, x + wide - 6, y, stroke=css("max"), opacity=1, thick=3))
            beside = y - 6 if tile.m >= 0 else y + size + 2  # clear of the bars
            if not at or tile.m != shown[at - 1].m:
                drawn.append(
                    text(x + wide / 2 - 6, beside, fixed(tile.m, 2), anchor="middle", size=size, fill=css_ink("max"))
                )
        old = [part * tile.alpha for part in parts]
        added = max(tile.total - sum(old), 0.0)
        aside = (wide - 12) * 0.24 if before else 0.0  # room for the old sum
        if before and tile.alpha < 1:
            tall = before / tallest * low
            drawn.append(rect(x, ground - tall, aside - 3, tall, css("slate"), opacity=0.45,
                              title=f"ℓ before: {fixed(before, 3)}"))  # fmt: skip
        y = ground
        for i, part in enumerate([*old, added]):
            tall = part / tallest * low
            y -= tall
            newest = i == len(old)
            drawn.append(rect(x + aside, y, wide - 12 - aside, tall, css("sum"), opacity=0.75 if newest else 0.3,
                              stroke="currentColor",
                              title=f"tile {i + 1}: {fixed(part, 3)} of {fixed(tile.total, 3)}"))  # fmt: skip
        over = min(y, ground - before / tallest * low if tile.alpha < 1 else y)
        middle = x + (wide - 12) / 2
        drawn.append(text(middle, over - 6, fixed(tile.total, 3), anchor="middle", size=size, fill=css_ink("sum")))
        shrinks = 0 < tile.alpha < 1
        said = f"× {fixed(tile.alpha, 2 if shrinks else 0)}" if before else "start"
        drawn.append(text(middle, ground + 24, said, anchor="middle", size=size, bold=shrinks,
                          fill=css_ink("alpha") if shrinks else "", faint=not shrinks))  # fmt: skip
        parts, seen = [*old, added], seen + tile.x.size
    drawn.append(line(left - 8, ground, left + wide * len(shown), ground, opacity=0.6))
    drawn.append(line(left - 8, zero, left + wide * len(shown), zero))
    width = left + max(wide * len(shown), room)  # as wide for few tiles: its letters keep their size
    return picture(width, ground + 34, "m and ℓ after each tile of the row", drawn, "58rem")


@kept
def merge_tree(pairs: Sequence[tuple[float, float]], merges: Sequence[Merge]) -> str:
    """The pairs (m, ℓ) of a row's tiles, each merge below the two that it joins. Empty for a row of too many tiles."""
    if len(pairs) > MOST // 2:
        return ""
    wide, high, box = 136.0, 94.0, 120.0
    places = {tile: (wide * tile + wide / 2, 24.0) for tile in range(len(pairs))}
    depth = dict.fromkeys(places, 0)
    drawn = []

    def node(x: float, y: float, title: str, pair: tuple[float, float]) -> list[str]:
        return [
            rect(x - box / 2, y - 22, box, 64, css("sum"), opacity=0.14, stroke="currentColor"),
            text(x, y - 5, title, anchor="middle", size=14, faint=True),
            text(x, y + 14, f"m = {fixed(pair[0], 3)}", anchor="middle", size=16, fill=css_ink("max")),
            text(x, y + 34, f"ℓ = {fixed(pair[1], 3)}", anchor="middle", size=16, fill=css_ink("sum")),
        ]

    nodes = [one for tile, pair in enumerate(pairs) for one in node(*places[tile], f"tile {tile}", pair)]
    for at, merge in enumerate(merges):
        level = max(depth[merge.own], depth[merge.other]) + 1
        (x, y), (other, other_y) = places[merge.own], places[merge.other]
        place = (x + other) / 2, 24.0 + high * level
        drawn += [line(x, y + 42, place[0], place[1] - 22, opacity=0.7)]
        drawn += [line(other, other_y + 42, place[0], place[1] - 22, opacity=0.7)]
        nodes += node(*place, f"merge {at + 1}", (merge.m, merge.total))
        places[merge.own], depth[merge.own] = place, level
    bottom = max(y for _, y in places.values()) + 50
    whole = wide * len(pairs)
    return picture(whole, bottom, "The merges of the row's tiles", [*drawn, *nodes], f"{whole * 1.2:g}px")
