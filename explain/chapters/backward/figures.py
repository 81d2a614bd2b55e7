"""Pictures and tables of Backward: one row's chain rule, what is kept, the bill of each way, sums in other orders."""

from __future__ import annotations

import re
from collections.abc import Sequence

import plotly.graph_objects as go

from explain.chapters.backward import memory, sums
from explain.chapters.backward.chain import Chain
from explain.chapters.papers import flashattention
from explain.experiment import Experiment
from explain.figures import palette, svg
from explain.figures.lines import Line, chart, colour_of
from explain.figures.numbers import count, fixed, moved, number, percent, scientific, si
from explain.figures.tables import Column, markdown
from explain.kept import kept
from explain.source import functions
from kernels.catalog import KERNELS

BAR, HIGH = 110.0, 30.0


def chain(row: Chain) -> str:
    """One row worked out, logit by logit: x, p, dp, dp − δ, ds with a bar, and ds by finite differences."""
    heads = ("x", "p", "dp", "dp − δ", "ds = p (dp − δ)", "finite difference")
    at = (24.0, 80.0, 138.0, 204.0, 318.0, 540.0)
    hues = ("scores", "p", "p", "", "scores", "")
    parts = [
        svg.text(x, 16, name, size=14, bold=True, anchor="middle", fill=palette.css_ink(hue) if hue else "")
        for x, name, hue in zip(at, heads, hues, strict=True)
    ]
    most = max(float(abs(row.ds).max()), 1e-12)
    for i in range(len(row.x)):
        y = 44 + HIGH * i
        cells = (row.x[i], row.p[i], row.dp[i], row.dp[i] - row.delta)
        texts = [fixed(float(value), 2) if n != 1 else fixed(float(value), 3) for n, value in enumerate(cells)]
        parts += [svg.text(x, y, text, size=15, anchor="middle") for x, text in zip(at, texts, strict=False)]
        length, middle = BAR / 2 * float(row.ds[i]) / most, at[4] + 96
        hue = palette.css("scores") if length > 0 else palette.css("slate")
        parts += [
            svg.text(at[4], y, fixed(float(row.ds[i]), 4), size=15, anchor="middle", bold=True),
            svg.line(middle, y - 18, middle, y + 8),
            svg.rect(min(middle, middle + length), y - 14, abs(length), 18, hue),
            svg.text(at[5], y, fixed(float(row.measured[i]), 4), size=15, anchor="middle", faint=True),
        ]
    end = 44 + HIGH * len(row.x)
    parts += [
        svg.line(0, end - 18, 600, end - 18),
        svg.text(at[2], end + 6, f"δ = Σ p dp = {fixed(row.delta, 3)}", size=15, anchor="middle", bold=True),
        svg.text(at[4], end + 6, f"Σ ds = {fixed(abs(float(row.ds.sum())), 4)}", size=15, anchor="middle"),
    ]
    told = f"δ is {number(row.delta)}; the gradients are {', '.join(number(float(one)) for one in row.ds)}"
    return svg.picture(600, end + 16, told, parts, "760px")


def worked(row: Chain) -> str:
    """The gradient of the row's largest weight in numbers, and its largest distance from finite differences."""
    i = int(row.p.argmax())
    error = float(abs(row.ds - row.measured).max())
    return (
        f"For the largest weight: {fixed(float(row.p[i]), 3)} × ({fixed(float(row.dp[i]), 2)} − "
        f"{fixed(row.delta, 3)}) = **{fixed(float(row.ds[i]), 4)}**. Finite differences move one logit by ±0.0001 and "
        f"compute the loss twice; the largest difference from them is {scientific(error)}."
    )


@kept
def held(kernels: Sequence[str] = memory.KERNELS[:2]) -> go.Figure:
    """Memory of a backward pass against N: by formula, and what the paper measured of both ways."""
    lines = []
    for baseline, kernel in memory.PAPERS.items():
        sizes = [flashattention.of_table(baseline, n).values for n in memory.LENGTHS]
        ours = [(p["seq_len"], memory.held(kernel, p)) for p in sizes]
        lines.append(Line(ours, f"{KERNELS[kernel].short}, formula", colour_of(kernel)))
        papers = [(n, 1e6 * mb) for n, mb in zip(memory.LENGTHS, flashattention.TABLE_21[baseline], strict=False)]
        name = "PyTorch" if kernel == memory.KERNELS[0] else "FlashAttention"
        lines.append(Line(papers, f"{name}, the paper", colour_of(kernel), dashed=True))
    return chart("", lines, x="N, tokens", y="bytes in HBM", unit=" B", log=True, height=430)


def bills(like: Experiment) -> str:
    """The three ways beside each other: matmuls, FLOPs, exponentials, bytes, what was kept; Markdown."""
    rows = []
    for kernel in memory.KERNELS:
        one = memory.bill(kernel, like)
        rows.append((KERNELS[kernel].title, one.matmuls, si(one.matmul_flops, "FLOP"), si(one.exponentials, ""),
                     moved(one.bytes), moved(one.kept)))  # fmt: skip
    columns = ("backward pass", Column("matmuls per tile"), Column("in matmuls", str), Column("exponentials", str),
               Column("bytes, HBM", str), Column("kept from forward", str))  # fmt: skip
    return markdown(columns, rows)


def saved(like: Experiment) -> str:
    """The price and the gain of recomputing S, in words."""
    standard, flash, atomic = (memory.bill(kernel, like) for kernel in memory.KERNELS)
    more = [one.matmul_flops / standard.matmul_flops for one in (flash, atomic)]
    return (
        f"At this size recomputing costs {number(more[0])} × the matmul FLOPs of standard attention's backward pass, "
        f"or {number(more[1])} × with atomics. It moves {number(standard.bytes / flash.bytes)} × fewer bytes, "
        f"or {number(standard.bytes / atomic.bytes)} × fewer, and keeps {number(standard.kept / flash.kept)} × less."
    )


@kept
def with_dlse() -> str:
    """The lines of the kernel that make δ and take dlse off it."""
    source = functions.function_source("kernels.backward", "attention_delta_kernel")
    lines = [line[4:] for line in source.splitlines() if re.search(r"δ|delta = |dlse(?!_ptr,)|lse = ", line)]
    return "\n".join(line for line in lines if not line.startswith("#") or "δ" in line or "lse" in line)


@kept
def owners() -> str:
    """Which program owns which gradient: the tiles of S, held by columns for dK and dV, and by rows for dQ."""
    side, rows, cols = 34.0, 4, 4
    parts: list[str] = []
    for n, (title, held_by, sums_up) in enumerate((
        ("keys stay, queries pass", "column", "dK and dV: one program each"),
        ("queries stay, keys pass", "row", "dQ: one program each"),
        ("keys stay, dQ by atomics", "column", "dQ: four programs add to each row"),
    )):  # fmt: skip
        left = n * 262.0
        parts.append(svg.text(left, 16, title, size=16, bold=True))
        for i in range(rows):
            for j in range(cols):
                held = (j if held_by == "column" else i) == 1
                hue = "hbm" if held else "slate"
                parts.append(svg.rect(left + 44 + j * side, 34 + i * side, side - 3, side - 3, palette.css(hue),
                                      opacity=0.85 if held else 0.22))  # fmt: skip
        end = 34 + rows * side
        if held_by == "column":
            parts.append(svg.text(left + 44 + 1.5 * side, end + 14, "dK, dV", size=14, anchor="middle", bold=True))
        if held_by == "row" or n == 2:
            for i in range(rows):
                owned = n == 2 or i == 1
                name = "+ dQ" if n == 2 else "dQ"
                if owned:
                    parts.append(svg.text(left, 56 + i * side, name, size=14, bold=True))
        parts.append(svg.text(left, end + 40, sums_up, size=14))
    told = "tiles of S: one column of tiles belongs to the program of a key tile, one row to that of a query tile"
    return svg.picture(760, 34 + rows * side + 50, told, parts, "900px")


def in_orders(found: Sequence[sums.Order], lost: float, elements: int) -> str:
    """How dQ's bits and its error depend on the order of the additions; Markdown."""
    most, other = max(found, key=lambda one: one.changed), max(found, key=lambda one: one.error)
    named = {"first order": found[0], "most bits differ": most, "largest error": other}
    rows = [
        (what, " → ".join(str(tile) for tile in one.tiles),
         f"{count(one.changed)} of {count(elements)}", scientific(one.error) if one.error else "0")
        for what, one in named.items()
    ]  # fmt: skip
    rows.append(("one addition lost: a race", "–", "–", percent(lost)))
    columns = ("", "key tiles, in this order", "elements that differ", "error ÷ largest dQ")
    return markdown(columns, rows)


def differ(found: Sequence[sums.Order], elements: int) -> str:
    """How many orders give other bits, in words."""
    others = [one for one in found[1:] if one.changed]
    most = max((one.changed for one in found), default=0)
    return (
        f"**{count(len(others))} of {count(len(found) - 1)}** other orders give other bits, in up to "
        f"{count(most)} of {count(elements)} elements ({percent(most / elements)})."
    )
