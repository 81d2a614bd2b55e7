"""Pictures and tables of Backward: one row's chain rule, what is kept, the bill of each way, sums in other orders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from explain.chapters.backward import measured, memory, sums
from explain.chapters.backward.chain import STEP, Chain
from explain.chapters.papers import flashattention
from explain.experiment import Experiment
from explain.figures import palette, svg
from explain.figures.labels import text_width, unbroken
from explain.figures.lines import Line, chart, colour_of
from explain.figures.numbers import count, duration, fixed, moved, number, percent, scientific, si
from explain.figures.tables import Column, Columns, markdown
from explain.kept import kept
from explain.records.model import Point
from explain.source import functions
from kernels.catalog import KERNELS

BAR, HIGH = 90.0, 30.0
METHOD = ("dV = Pᵀ dO", "dP = dO Vᵀ", "dS = P ∘ (dP − δ)", "dQ = dS K · sm_scale", "dK = dSᵀ Q · sm_scale")
"""What a backward kernel computes for a tile, as its source says it."""
LONGEST, APART = 56.0, 34.0
"""Of that picture: the longest side of a matrix, and the space between two formulas."""

MEASURED: Sequence[tuple[str, Callable[[Point], float], Callable[[float], str]]] = (
    ("time", lambda point: point.seconds or 0.0, duration),
    ("peak memory beside the inputs", lambda point: float(point.peak_bytes or 0), moved),
)
"""What the bars of recorded runs show: its name, its value, its words."""


def chain(row: Chain, *, narrow: bool = False) -> str:
    """One row worked out, logit by logit: x, p, dp, dp − δ, ds with a bar, and ds by finite differences; a `narrow` one
    has neither dp − δ nor bars.
    """
    width = 400.0 if narrow else 510.0
    columns = [
        ("x", "scores", 24.0, row.x, 2),
        ("p", "p", 76.0, row.p, 3),
        ("dp", "p", 128.0, row.dp, 2),
        ("dp − δ", "", 184.0, row.dp - row.delta, 2),
        ("ds" if narrow else "ds = p (dp − δ)", "scores", 210.0 if narrow else 270.0, row.ds, 4),
        ("finite difference", "", 330.0 if narrow else 448.0, row.measured, 4),
    ]
    shown = [column for column in columns if not (narrow and column[0] == "dp − δ")]
    at_ds, middle = (next(x for name, _, x, *_ in shown if name.startswith("ds")), 354.0)
    most = max(float(abs(row.ds).max()), 1e-12)
    parts: list[str] = []
    for name, hue, x, values, decimals in shown:
        ink = palette.css_ink(hue) if hue else ""
        parts.append(svg.text(x, 16, name, bold=True, anchor="middle", fill=ink))
        parts += [
            svg.text(x, 44 + HIGH * i, fixed(float(value), decimals), size=15, anchor="middle", bold=name[:2] == "ds")
            for i, value in enumerate(values)
        ]
    for i, value in enumerate([] if narrow else row.ds):
        y, length = 44 + HIGH * i, BAR / 2 * float(value) / most
        hue = palette.css("scores") if length > 0 else palette.css("slate")
        parts.append(svg.line(middle, y - 18, middle, y + 8))
        parts.append(svg.rect(min(middle, middle + length), y - 14, abs(length), 18, hue))
    end = 44 + HIGH * len(row.x)
    parts += [
        svg.line(0, end - 18, width, end - 18),
        svg.text(100, end + 6, f"δ = Σ p dp = {fixed(row.delta, 3)}", size=15, anchor="middle", bold=True),
        svg.text(at_ds + 18, end + 6, f"Σ ds = {fixed(abs(float(row.ds.sum())), 4)}", size=15, anchor="middle"),
    ]
    told = f"δ is {number(row.delta)}; the gradients are {', '.join(number(float(one)) for one in row.ds)}"
    return svg.picture(width, end + 16, told, parts, f"{1.15 * width:.0f}px")


def worked(row: Chain) -> str:
    """The gradient of the row's largest weight in numbers."""
    i = int(row.p.argmax())
    return (
        f"For the largest weight: {fixed(float(row.p[i]), 3)} × ({fixed(float(row.dp[i]), 2)} − "
        f"{fixed(row.delta, 3)}) = **{fixed(float(row.ds[i]), 4)}**.\n\n"
        "The gradients of a row sum to 0: adding the same number to all logits changes no weight."
    )


def checked(row: Chain) -> str:
    """How far the row's gradients are from finite differences, for a caption."""
    most = unbroken(f"at most {scientific(float(abs(row.ds - row.measured).max()))} off")
    return f"computed on this page, in float64 · finite difference: one logit moved by ±{STEP:.4f} · {most}"


@kept
def method(block_m: int, block_n: int, head_dim: int, *, narrow: bool = False) -> str:
    """The formulas of a tile with their matrices as rectangles, all to one scale; a `narrow` one for a phone."""
    queries, keys, scores = (block_m, head_dim), (block_n, head_dim), (block_m, block_n)
    shapes = {
        **dict.fromkeys(("Q", "dQ", "dO"), queries), **dict.fromkeys(("K", "V", "dK", "dV"), keys),
        **dict.fromkeys(("P", "dP", "dS"), scores), "δ": (block_m, 1),
    }  # fmt: skip
    unit, width = LONGEST / max(block_m, block_n, head_dim), 370.0 if narrow else 800.0
    high = LONGEST + 58
    x, top, parts = 0.0, 0.0, []
    for n, formula in enumerate(METHOD, 1):
        drawn, end = _matrices(f"({n}) {formula}", shapes, unit, high)
        if x and x + end > width:
            x, top = 0.0, top + high
        parts.append(f'<g transform="translate({x:.1f} {top:.1f})">{"".join(drawn)}</g>')
        x += end + APART
    return svg.picture(width, top + high, "; ".join(METHOD), parts, f"{1.1 * width:.0f}px")


def _matrices(formula: str, shapes: Mapping[str, tuple[int, int]], unit: float, high: float) -> tuple[list[str], float]:
    """A formula's matrices with name and shape, its operators between them; and where it ends."""
    x, middle, parts = 0.0, high / 2 - 4, []
    for word in re.findall(r"\(\d\)|[()]|[^\s()]+", formula):
        name = word.removesuffix("ᵀ")
        if name not in shapes:
            room = text_width(word, 16) + 10
            parts.append(svg.text(x + room / 2, middle + 5, word, size=16, anchor="middle"))
            x += room
            continue
        rows, columns = shapes[name] if name == word else shapes[name][::-1]
        across, down, shape = unit * columns, unit * rows, f"{rows} × {columns}"
        room = max(across, text_width(shape, svg.SMALL), text_width(word, 16, bold=True)) + 8
        hue = palette.SYMBOLS.get(name, "slate")
        left, upper = x + (room - across) / 2, middle - down / 2
        parts += [
            svg.rect(left, upper, across, down, palette.css(hue), opacity=0.45, stroke=palette.css(hue)),
            svg.text(x + room / 2, upper - 6, word, size=16, anchor="middle", bold=True, fill=palette.css_ink(hue)),
            svg.text(x + room / 2, upper + down + 14, shape, size=svg.SMALL, anchor="middle", faint=True),
        ]
        x += room
    return parts, x


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
        lines.append(Line(papers, f"{name}, table 21 (forward + backward)", colour_of(kernel), dashed=True))
    return chart("", lines, x="N, tokens", y="memory in use, bytes", unit=" B", log=True, height=430)


def bills(like: Experiment) -> str:
    """The three ways beside each other: matmuls, FLOPs, exponentials, bytes, what was kept; Markdown."""
    rows = []
    for kernel in memory.KERNELS:
        one = memory.bill(kernel, like)
        rows.append((KERNELS[kernel].title, one.matmuls, si(one.matmul_flops, "FLOP"), si(one.exponentials, ""),
                     moved(one.bytes), moved(one.least), moved(one.kept)))  # fmt: skip
    texts = (Column(name, str) for name in (
        "in matmuls", "exponentials", "loads and stores", "least from HBM", "kept from forward"))  # fmt: skip
    columns: Columns = ("backward pass", Column("matmuls per tile"), *texts)
    return markdown(columns, rows)


def saved(like: Experiment) -> str:
    """The price and the gain of recomputing S, in words."""
    standard, flash, atomic = (memory.bill(kernel, like) for kernel in memory.KERNELS)
    more = [one.matmul_flops / standard.matmul_flops for one in (flash, atomic)]
    asked, least = ([getattr(standard, what) / getattr(one, what) for one in (flash, atomic)]
                    for what in ("bytes", "least"))  # fmt: skip
    return (
        f"At this size recomputing costs {number(more[0])} × the matmul FLOPs of standard attention's backward pass "
        f"({number(more[1])} × with atomics). It loads and stores {number(asked[0], 2)} × fewer bytes "
        f"({number(asked[1], 2)} × with atomics). If each launch moves each buffer once, and L2 serves all other "
        f"loads, HBM moves {number(least[0], 2)} × fewer ({number(least[1], 2)} ×). It keeps "
        f"{number(standard.kept / flash.kept, 2)} × fewer bytes from the forward pass."
    )


@kept
def measured_bars(case: measured.Case, *, narrow: bool = False) -> str:
    """Each kernel's recorded time and peak memory as bars in its hue, to one scale each; a `narrow` one for a phone."""
    width, room = (130.0, 60.0) if narrow else (230.0, 80.0)
    lefts, parts = (0.0, width + room), []
    most = [max(of(point) for point in case.points) for _, of, _ in MEASURED]
    for left, (title, _, _) in zip(lefts, MEASURED, strict=True):
        parts.append(svg.text(left, 14, title, faint=True))
    for i, point in enumerate(case.points):
        entry = point.experiment.entry
        hue, y = palette.kernel(entry.hue), 44.0 + 50 * i
        parts.append(svg.text(0, y, entry.title, bold=True, fill=palette.css_ink(hue)))
        for left, largest, (_, of, words) in zip(lefts, most, MEASURED, strict=True):
            length = width * of(point) / (largest or 1)
            parts.append(svg.rect(left, y + 8, length, 16, palette.css(hue), opacity=0.85))
            parts.append(svg.text(left + length + 6, y + 21, words(of(point))))
    told = "; ".join(f"{one.experiment.entry.title}: {duration(one.seconds or 0)}" for one in case.points)
    return svg.picture(2 * (width + room), 44 + 50 * len(case.points), told, parts, "100%" if narrow else "44rem")


def concluded(case: measured.Case) -> str:
    """What the recorded times say, with the bytes that HBM moved and those that registers spilled; in words."""
    standard, *others = case.points
    said = []
    for point in others:
        (_, time, _), (_, memory_of, _) = MEASURED
        times, sizes = time(point) / time(standard), memory_of(standard) / memory_of(point)
        said.append(
            f"**{point.experiment.entry.title}** takes {number(times)} × the time of standard attention, and keeps "
            f"{number(sizes)} × fewer bytes."
        )
        if point.counters and standard.counters:
            own, theirs = point.counters.cold, standard.counters.cold
            if own.hbm_bytes is not None and theirs.hbm_bytes is not None:
                said[-1] += f" HBM moved {moved(own.hbm_bytes)}, for standard attention {moved(theirs.hbm_bytes)}."
            if own.spilled_bytes:
                said[-1] += f" Its registers spill {moved(own.spilled_bytes)}."
    return "\n\n".join(said)


def verdict(output: str, error: float, tolerance: float, passes: bool) -> str:
    """The largest error of a run beside its tolerance, in words; Markdown."""
    if passes:
        return (
            ":green[**Right here.**] In the interpreter programs run one after the other. On a GPU an addition can be "
            "lost: the last line of the table above has that error."
        )
    symbol = {"dq": "dQ", "dk": "dK", "dv": "dV"}.get(output, output)
    return f":red[**Wrong:**] in {symbol} the largest error is {number(error)}, and {scientific(tolerance)} is allowed."


@kept
def with_dlse() -> str:
    """The lines of the kernel that make δ and take dlse off it."""
    source = functions.function_source("kernels.backward", "attention_delta_kernel")
    lines = [line[4:] for line in source.splitlines() if re.search(r"δ|delta = |dlse(?!_ptr,)|lse = ", line)]
    return "\n".join(line for line in lines if not line.startswith("#") or "δ" in line or "lse" in line)


@kept
def owners(*, narrow: bool = False) -> str:
    """Which program owns which gradient: the tiles of S, held by columns for dK and dV, and by rows for dQ."""
    side, tiles, high = 34.0, 4, 230.0
    ways = (
        ("keys stay, queries pass", "dK, dV", (), "dK and dV: one program for each element"),
        ("queries stay, keys pass", "", (1,), "dQ: one program for each element"),
        ("keys stay, dQ by atomics", "dK, dV", range(tiles), "dQ: four programs add to each element"),
    )
    parts: list[str] = []
    for n, (title, below, beside, told) in enumerate(ways):
        left, top = (0.0, n * high) if narrow else (n * 290.0, 0.0)
        parts.append(svg.text(left, top + 16, title, size=16, bold=True))
        for i in range(tiles):
            for j in range(tiles):
                held = (j if below else i) == 1
                x, y, hue = left + 54 + j * side, top + 34 + i * side, palette.css("scores" if held else "slate")
                parts.append(svg.rect(x, y, side - 3, side - 3, hue, opacity=0.85 if held else 0.22))
        parts += [svg.text(left, top + 56 + i * side, f"{'+ ' * (n == 2)}dQ", bold=True) for i in beside]
        end = top + 34 + tiles * side
        parts.append(svg.text(left + 54 + 1.5 * side, end + 14, below, anchor="middle", bold=True))
        parts.append(svg.text(left, end + 38, told))
    said = "tiles of S: a column of tiles belongs to the program of a key tile, a row to that of a query tile"
    width = 290.0 if narrow else 860.0
    return svg.picture(width, high * len(ways) if narrow else high - 10, said, parts, f"{1.1 * width:.0f}px")


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
