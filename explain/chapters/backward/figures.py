"""Pictures and tables of Backward: one row's chain rule, what is kept, the bill of each way, sums in other orders."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice

import plotly.graph_objects as go

from explain.chapters.backward import measured, memory, sums
from explain.chapters.backward.chain import STEP, Chain
from explain.chapters.papers import flashattention
from explain.chapters.speed.results import Variant
from explain.experiment import Experiment
from explain.figures import palette, svg
from explain.figures.labels import text_width, unbroken, widest
from explain.figures.lines import Line, chart, colour_of
from explain.figures.numbers import count, duration, fixed, moved, number, percent, ratio, ratios, scientific, si
from explain.figures.tables import Column, Columns, markdown
from explain.kept import kept
from explain.records.model import Point
from explain.source import functions
from kernels.catalog import KERNELS

BAR, HIGH = 90.0, 38.0
METHOD = ("dV = Pᵀ dO", "dP = dO Vᵀ", "dS = P ∘ (dP − δ)", "dQ = dS K · sm_scale", "dK = dSᵀ Q · sm_scale")
"""What a backward kernel computes for a tile, as its source says it."""
FORWARD = {"O = P V": 2, "P = softmax(S)": 1, "S = QKᵀ · sm_scale": 2}
"""The forward pass from its last formula to its first, and how many of these come from each."""
SIDE, SHADE = 42.0, {True: 0.85, False: 0.22}
"""Of the tiles of S: the side of one, and how strong one is that the picture is about, and another."""
LONGEST, APART = 48.0, 30.0
"""Of that picture: the longest side of a matrix, and the space between two columns."""

MEASURED: Sequence[tuple[str, Callable[[Point], float], Callable[[float], str]]] = (
    ("time", lambda point: point.seconds or 0.0, duration),
    ("memory beyond gradients", lambda point: float(memory.beyond_gradients(point)), moved),
)
"""What the bars of recorded runs show: its name, its value, its words."""


@kept
def chain(row: Chain, *, narrow: bool = False) -> str:
    """One row worked out, score by score: s, p, dp, dp − δ, ds with a bar, and ds by finite differences; a `narrow` one
    ends with ds.
    """
    width = 310.0 if narrow else 510.0
    columns = [
        ("s", "scores", 24.0, row.s, 2),
        ("p", "p", 76.0, row.p, 3),
        ("dp", "p", 128.0, row.dp, 2),
        ("dp − δ", "", 184.0, row.dp - row.delta, 2),
        ("ds" if narrow else "ds = p (dp − δ)", "scores", 270.0, row.ds, 4),
        ("finite difference", "", 448.0, row.measured, 4),
    ][: 5 if narrow else 6]
    at_ds, middle = (next(x for name, _, x, *_ in columns if name.startswith("ds")), 354.0)
    most = max(float(abs(row.ds).max()), 1e-12)
    parts: list[str] = []
    for name, hue, x, values, decimals in columns:
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
    end = 44 + HIGH * len(row.s)
    parts += [
        svg.line(0, end - 18, width, end - 18),
        svg.text(100, end + 6, f"δ = Σ p dp = {fixed(row.delta, 3)}", size=15, anchor="middle", bold=True),
        svg.text(at_ds - 8, end + 6, f"Σ ds = {fixed(abs(float(row.ds.sum())), 4)}", size=15, anchor="middle"),
    ]
    told = f"δ is {number(row.delta)}; the gradients are {', '.join(number(float(one)) for one in row.ds)}"
    return svg.picture(width, end + 16, told, parts, f"{1.1 * width:.0f}px")


@kept
def tried(row: Chain) -> str:
    """What to move, and what it does to a gradient's sign; in words."""
    return f"**Try:** move dp₂ {'below' if row.dp[2] > row.delta else 'above'} δ. The gradient ds₂ changes its sign."


@kept
def worked(row: Chain) -> str:
    """The gradient of the score of the row's largest weight, in numbers."""
    i = int(row.p.argmax())
    p, dp, delta, ds = _by_hand(float(row.p[i]), float(row.dp[i]), row.delta, float(row.ds[i]))
    return (
        f"**For the largest weight:** {p} × ({dp} − {f'({delta})' if row.delta < 0 else delta}) = **{ds}**.\n\n"
        "The gradients of a row sum to 0: adding the same number to all scores changes no weight."
    )


def _by_hand(p: float, dp: float, delta: float, ds: float) -> tuple[str, str, str, str]:
    """The numbers of ds = p (dp − δ) in words; p and δ have as many decimals, 3 or more, as make the printed ones give
    the printed ds.
    """

    def read(words: str) -> Decimal:
        return Decimal(words.replace("−", "-"))

    up, found = fixed(dp, 2), fixed(ds, 4)
    for decimals in range(3, 16):
        one, mean = fixed(p, decimals), fixed(delta, decimals)
        product = read(one) * (read(up) - read(mean))
        if product.quantize(read(found), ROUND_HALF_UP) == read(found):
            break
    return one, up, mean, found


def checked(row: Chain) -> str:
    """How far the row's gradients are from finite differences, for a caption."""
    most = unbroken(f"at most {scientific(float(abs(row.ds - row.measured).max()))} off")
    return f"computed on this page, in float64 · finite difference: one score moved by ±{STEP:.4f} · {most}"


@kept
def method(block_m: int, block_n: int, head_dim: int, *, narrow: bool = False) -> str:
    """The formulas of a tile with their matrices as rectangles, all to one scale, below the forward formula from which
    each comes; a `narrow` one for a phone.
    """
    queries, keys, scores = (block_m, head_dim), (block_n, head_dim), (block_m, block_n)
    shapes = {
        **dict.fromkeys(("Q", "dQ", "dO"), queries), **dict.fromkeys(("K", "V", "dK", "dV"), keys),
        **dict.fromkeys(("P", "dP", "dS"), scores), "δ": (block_m, 1),
    }  # fmt: skip
    unit, high = LONGEST / max(block_m, block_n, head_dim), LONGEST + 58
    numbered = iter(enumerate(METHOD, 1))
    x, y, width, parts = 0.0, 0.0, 0.0, []
    for forward, many in FORWARD.items():
        top, end = y + 24, text_width(f"from {forward}", 16, bold=True)
        parts.append(svg.text(x, y + 16, f"from {forward}", size=16, bold=True))
        for n, formula in islice(numbered, many):
            drawn, right = _matrices(f"({n}) {formula}", shapes, unit, high)
            parts.append(f'<g transform="translate({x:.1f} {top:.1f})">{"".join(drawn)}</g>')
            top, end = top + high, max(end, right)
        width = max(width, x + end)
        x, y = (0.0, top + 12) if narrow else (x + end + APART, 0.0)
    down = y if narrow else 24 + high * max(FORWARD.values())
    return svg.picture(width, down, "; ".join(METHOD), parts, f"{1.1 * width:.0f}px")


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
def kept_or_not(like: Experiment, *, narrow: bool = False) -> str:
    """P, N × N and crossed out, beside O and L, to one scale, with all heads' bytes; a `narrow` one for a phone."""
    standard, flash, _ = (memory.bill(kernel, like) for kernel in memory.KERNELS)
    heads, n, d = (like.values[name] for name in ("heads", "seq_len", "head_dim"))
    side, top = 110.0, 4.0
    thin, second = side * d / n, (0.0, side + 22) if narrow else (330.0, 0.0)
    x, y = second
    alarm, p, o, lse = (palette.css(name) for name in ("alarm", palette.SYMBOLS["P"], palette.SYMBOLS["O"], "slate"))

    def said(left: float, down: float, what: str, size: str, held: int, end: str) -> list[str]:
        return [
            svg.text(left, down + 30, what, size=16, bold=True), svg.text(left, down + 51, size, faint=True),
            svg.text(left, down + 80, moved(held), size=20, bold=True), svg.text(left, down + 101, end, faint=True),
        ]  # fmt: skip

    parts = [
        svg.rect(0, top, side, side, p, opacity=0.45, stroke=p),
        svg.line(0, top, side, top + side, stroke=alarm, opacity=1, thick=3),
        svg.line(0, top + side, side, top, stroke=alarm, opacity=1, thick=3),
        *said(side + 18, top, "P", f"{heads} heads × {count(n)} × {count(n)}", standard.kept,
              "standard attention keeps it"),
        svg.rect(x, y + top, thin, side, o, opacity=0.85),
        svg.line(x + thin + 9, y + top, x + thin + 9, y + top + side, stroke=lse, opacity=1, thick=1),
        *said(x + thin + 27, y + top, "O and L", f"{count(n)} × {d} and {count(n)} × 1", flash.kept,
              f"FlashAttention keeps these: {number(standard.kept / flash.kept, 2)} × less"),
    ]  # fmt: skip
    told = f"P has {moved(standard.kept)}; O and L have {moved(flash.kept)}"
    return svg.picture(*((366, 2 * side + 34) if narrow else (620, side + 12)), told, parts, "52rem")


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
        lines.append(Line(papers, f"{name}, table 21", colour_of(kernel), dashed=True))
    figure = chart("", lines, x="N, tokens", y="memory in use, bytes", unit=" B", log=True, height=430)
    first, last = lines[0].points[0][0], max(line.points[-1][0] for line in lines)
    figure.update_xaxes(range=[math.log10(first) - 0.1, math.log10(last) + 0.1])  # a label would widen it
    for line, label in zip(lines, figure.layout.annotations, strict=True):
        if (end := line.points[-1])[0] < last:  # beside the line's end, which is left of the others
            label.update(
                x=math.log10(end[0]),
                y=math.log10(end[1]),
                xref="x",
                yref="y",
                xanchor="right",
                yanchor="bottom",
                xshift=-10,
            )
    return figure


@kept
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


def price(like: Experiment) -> str:
    """What recomputing S costs beside keeping P: matmuls per tile, in a sentence."""
    standard, flash, atomic = (memory.bill(kernel, like).matmuls for kernel in memory.KERNELS)
    return f"**The price of not keeping P: {atomic} or {flash} matmuls per tile, not {standard}.**"


BILLED: Sequence[tuple[str, Callable[[memory.Bill], float], Callable[[float], str]]] = (
    ("FLOPs in matmuls", lambda bill: float(bill.matmul_flops), lambda value: si(value, "FLOP")),
    ("least from HBM", lambda bill: float(bill.least), moved),
    ("kept from forward", lambda bill: float(bill.kept), moved),
)
"""What the bars of the three bills show: its name, its value, its words."""


@kept
def billed(like: Experiment, *, narrow: bool = False) -> str:
    """What each way computes, moves and keeps, as bars; a `narrow` one for a phone."""
    bars = []
    for kernel in memory.KERNELS:
        one = memory.bill(kernel, like)
        values = [(of(one), words(of(one))) for _, of, words in BILLED]
        bars.append(Bar(KERNELS[kernel].title, palette.kernel(KERNELS[kernel].hue), values))
    return _bars([name for name, *_ in BILLED], [("", bars)], narrow=narrow)


def saved(like: Experiment) -> str:
    """The price and the gain of recomputing S, in words."""
    standard, flash, atomic = (memory.bill(kernel, like) for kernel in memory.KERNELS)

    def matmuls(one: memory.Bill) -> str:
        return f"{one.matmuls} ({number(one.matmul_flops / standard.matmul_flops)} ×)"

    return (
        f"Standard attention needs {standard.matmuls} matmuls per tile. Recomputing S makes {matmuls(atomic)}. With "
        f"two passes it is {matmuls(flash)}."
    )


@dataclass(frozen=True)
class Bar:
    """A row of bars: its name, the palette's name of its colour, and a value with its words for each column.

    A column after the last of the values was not measured.
    """

    name: str
    hue: str
    values: Sequence[tuple[float, str]]


def _bars(titles: Sequence[str], groups: Sequence[tuple[str, Sequence[Bar]]], *, narrow: bool) -> str:
    """Groups of rows, each with bars to one scale per column; a group may have a heading of its own."""
    every = [bar for _, bars in groups for bar in bars]
    ends = [[bar.values[n] for bar in every if n < len(bar.values)] for n in range(len(titles))]
    rooms = [10 + widest(words for _, words in column) for column in ends]
    width = (366.0 if narrow else 740.0) / len(titles)
    y, parts = 14.0, [svg.text(n * width, 14, title, faint=True) for n, title in enumerate(titles)]
    for heading, bars in groups:
        if heading:
            y += 34
            parts.append(svg.text(0, y, heading, faint=True))
        for bar in bars:
            y += 30
            parts.append(svg.text(0, y, bar.name, bold=True, fill=palette.css_ink(bar.hue)))
            y += 20
            for n, (value, words) in enumerate(bar.values):
                longest = max(value for value, _ in ends[n]) or 1
                long = (width - rooms[n] - 12) * value / longest
                parts.append(svg.rect(n * width, y - 12, long, 16, palette.css(bar.hue), opacity=0.85))
                parts.append(svg.text(n * width + long + 6, y + 1, words))
    told = "; ".join(f"{bar.name}: {bar.values[0][1]}" for bar in every)
    return svg.picture(width * len(titles), y + 22, told, parts, "100%" if narrow else "50rem")


@kept
def measured_bars(case: measured.Case, *, narrow: bool = False) -> str:
    """Each kernel's recorded time and peak memory as bars in its hue, then the times of those written for speed; a
    `narrow` one for a phone.
    """
    read = []
    for point in case.points:
        values = [(of(point), words(of(point))) for _, of, words in MEASURED]
        read.append(Bar(point.experiment.entry.title, palette.kernel(point.experiment.entry.hue), values))
    fast = [Bar(_called(one), one.hue, [(one.seconds, duration(one.seconds))]) for one in case.fast if one.seconds]
    groups = [("", read)] if not fast else [("written to be read", read), ("written for speed: time only", fast)]
    return _bars([name for name, *_ in MEASURED], groups, narrow=narrow)


def _called(variant: Variant) -> str:
    """What a kernel written for speed is called beside those that are written to be read."""
    return "Ours, written for speed" if variant.ours else variant.label


def concluded(case: measured.Case) -> str:
    """What the record says of time; in words."""
    kept, passes, atomic = (point.seconds or 0.0 for point in case.points)
    ways = ("the two-pass kernel", "the kernel with atomics")
    slower = [time > kept for time in (passes, atomic)]
    said = f"keeping P takes {duration(kept)}."
    fast = [one.seconds for one in case.fast if one.seconds]
    if fast:
        said = f"keeping P takes {duration(kept)}; written for speed, recomputing takes {_span(fast)}."
    said = f"**On {case.gpu}, {said}**{_least_of_keeping(case, fast)}"
    if slower[0] == slower[1]:
        said += (
            f" Our two readable kernels are {'slower' if slower[0] else 'faster'}, {duration(passes)} and "
            f"{duration(atomic)}."
        )
    else:
        one, other = (f"{way} is {'slower' if late else 'faster'}, {duration(time)}"
                      for way, late, time in zip(ways, slower, (passes, atomic), strict=True))  # fmt: skip
        said += f" Of our two readable kernels, {one}, and {other}."
    spilling = [way for way, point in zip(ways, case.points[1:], strict=True) if _spilled(point)]
    if spilling:
        who = "Both spill" if len(spilling) == len(ways) else f"{spilling[0].capitalize()} spills"
        said += f" {who}: a tile's values do not all fit in registers."
    second = next((one.seconds for one in case.fast if one.label.startswith("FlashAttention-2")), None)
    if second and second < atomic:
        said += (
            f"\n\nFlashAttention-2 has five matmuls and atomics too, and takes {duration(second)}. The five-matmul "
            "method is not slow. Our readable code for it is."
        )
    return said


def memory_and_bytes(case: measured.Case) -> str:
    """What the record says of memory, and of the bytes that HBM moves; in words."""
    values = case.points[0].experiment.values
    said = (
        "**Memory,** beyond the three gradients: the two-pass kernel needs only δ. The kernel with atomics needs δ "
        "and the sum of dQ in float32. Standard attention needs dP and dS. P is its input: another "
        f"{moved(memory.kept(memory.KERNELS[0], values))}."
    )
    hbm = [point.counters.cold.hbm_bytes if point.counters else None for point in case.points]
    if all(hbm):
        least = [memory.bill(kernel, case.points[0].experiment).least for kernel in memory.KERNELS]
        said += "\n\n**HBM bytes,** compared with standard attention."
        for way, found, formula in zip(("Two passes", "With atomics"), hbm[1:], least[1:], strict=True):
            fewer = [number(one, 2) for one in ((hbm[0] or 0) / (found or 1), least[0] / formula)]
            said += f" {way}: counted {fewer[0]} × fewer, by formula {fewer[1]} ×."
        said += " The formula has no spills." * any(map(_spilled, case.points[1:]))
    return said


def _least_of_keeping(case: measured.Case, fast: Sequence[float]) -> str:
    """What the launches that keep P take at least, because of their N × N matrices, and which of the `fast` kernels
    take less, in sentences; empty where none does.
    """
    squares = [term.once for term in case.points[0].experiment.traffic.terms if term.buffer in ("p", "dp", "ds")]
    if not case.bandwidth or not squares:
        return ""
    least = sum(squares) / case.bandwidth
    faster = [seconds for seconds in fast if seconds < least]
    if not faster:
        return ""
    return (
        f"\n\n**Bytes set a limit for keeping P.** Its launches move P, dP and dS {len(squares)} times: "
        f"{len(squares)} × {moved(squares[0])} = {moved(sum(squares))}. At the measured {si(case.bandwidth, 'B/s')} "
        f"this takes at least {duration(least)}. {len(faster)} of the {len(fast)} kernels written for speed take "
        f"less: {_span(faster)}.\n\n"
    )


def counted(case: measured.Case) -> tuple[str, str]:
    """What explains some of the readable kernels' times, as a question and its answer: what registers spill, and the
    atomic additions; empty if there is nothing to say.
    """
    _, passes, atomic = case.points
    spills = ""
    if _spilled(passes) or _spilled(atomic):
        spills = (
            "What does not fit in registers spills: it is stored and loaded again. "
            f"{_spills('The two-pass kernel', passes)} {_spills('The kernel with atomics', atomic)}"
        )
    if (atomic.seconds or 0.0) <= (passes.seconds or 0.0):
        return "What spills?", spills
    added = sum(term.bytes for term in atomic.experiment.traffic.terms if term.atomic and term.written)
    adds = f"it adds to dQ in memory once per key tile: {moved(added)} of atomic additions, by formula."
    if _spilled(atomic) > _spilled(passes):
        why = f"Two things differ; their shares were not measured. The kernel with atomics spills more, and {adds}"
    else:
        why = f"The kernel with atomics does one thing more: {adds} How much time that takes was not measured."
    return "Why are five matmuls slower than seven here?", f"{why}\n\n{spills}".strip()


def _span(seconds: Sequence[float]) -> str:
    """Times from the least to the largest: “4.16 to 9.26 ms”."""
    first, last = duration(min(seconds)), duration(max(seconds))
    least, _, unit = first.partition(" ")
    return last if first == last else f"{least if last.endswith(f' {unit}') else first} to {last}"


def _spilled(point: Point) -> int:
    """The bytes that a kernel spills, from a cold L2; 0 where they were not counted."""
    return (point.counters.cold.spilled_bytes or 0) if point.counters else 0


def _spills(kernel: str, point: Point) -> str:
    """What a kernel spills, and how much of it the caches hold back from HBM at least; in words."""
    counts = point.counters.cold if point.counters else None
    if not counts or not counts.spilled_bytes:
        return f"{kernel} spills nothing."
    spills = f"{kernel} spills {moved(counts.spilled_bytes)}"
    if not counts.hbm_bytes or counts.hbm_bytes >= counts.spilled_bytes:
        return f"{spills}."
    caught = math.floor(100 * (1 - counts.hbm_bytes / counts.spilled_bytes)) / 100
    return f"{spills}. The caches catch at least {percent(caught)} of it: HBM moves {moved(counts.hbm_bytes)} in all."


def beside_the_paper() -> str:
    """How much more the paper measured than the formula has; in words."""
    found = [
        1e6 * mb / memory.held(kernel, flashattention.of_table(baseline, n).values)
        for baseline, kernel in memory.PAPERS.items()
        for n, mb in zip(memory.LENGTHS, flashattention.TABLE_21[baseline], strict=False)
    ]
    return f"The paper measured {ratios(found)} the formula's bytes. We did not measure why."


RIGHT_HERE = (
    ":green[**Right here.**] In the interpreter programs run one after the other. On a GPU an addition can be lost: "
    "the last line of the table above has that error."
)


def wrong(output: str, error: float, largest: float) -> str:
    """The largest error of an output beside its largest element without the bug, in words; Markdown."""
    symbol = {"dq": "dQ", "dk": "dK", "dv": "dV"}[output]
    return (
        f":red[**Wrong:**] in {symbol} the largest error is {number(error)}; its largest element should be "
        f"{number(largest)}. The gradient is off by **{ratio(error / largest)}** its largest element."
    )


@kept
def with_dlse() -> str:
    """The lines of the kernel that make δ and take dlse off it."""
    source = functions.function_source("kernels.backward", "attention_delta_kernel")
    lines = [line[4:] for line in source.splitlines() if re.search(r"δ|delta = |dlse(?!_ptr,)|lse = ", line)]
    return "\n".join(line for line in lines if not line.startswith("#") or "δ" in line or "lse" in line)


@kept
def owners(*, narrow: bool = False) -> str:
    """Which program owns which gradient: the tiles of S, held by columns for dK and dV, and by rows for dQ; then four
    programs, each with its column, that add to one tile of dQ.
    """
    tiles, high, apart = 4, 282.0, 290.0
    ways = (
        ("keys stay, queries pass", "dK, dV", "one program finishes a tile of dK and dV"),
        ("queries stay, keys pass", "", "one program finishes a tile of dQ"),
        ("keys stay, dQ by atomics", "dK, dV", "four programs add to one tile of dQ"),
    )
    parts: list[str] = []
    for n, (title, below, told) in enumerate(ways):
        left, top = (0.0, n * high) if narrow else (n * apart, 0.0)
        x, y = left + 64, top + 46
        end = y + tiles * SIDE
        parts.append(svg.text(left, top + 16, title, size=16, bold=True))
        for i in range(tiles):
            for j in range(tiles):
                strong = (j == 1, i == 1, i == 1)[n]
                hue = palette.css(f"series-{j + 1}" if n == 2 else "scores" if strong else "slate")
                parts.append(svg.rect(x + j * SIDE, y + i * SIDE, SIDE - 3, SIDE - 3, hue, opacity=SHADE[strong]))
        columns = range(tiles) if n == 2 else (1,)
        parts += [svg.text(x + (j + 0.5) * SIDE - 1, end + 14, below, size=svg.SMALL, anchor="middle", bold=True)
                  for j in columns if below and n == 0]  # fmt: skip
        if n:
            own = y + SIDE
            parts.append(svg.rect(left + 6, own, SIDE - 3, SIDE - 3, palette.css(palette.SYMBOLS["dQ"]), opacity=0.85))
            parts.append(svg.text(left + 6 + SIDE / 2, own + SIDE + 14, "dQ", anchor="middle", bold=True))
        if n == 2:
            for j in columns:
                middle = x + (j + 0.5) * SIDE - 1
                parts += _arc(middle, left + 33 - 7 * j, y + SIDE, f"series-{j + 1}", 16 + 9 * j)
                parts.append(svg.text(middle, end + 14, str(j), anchor="middle", bold=True))
            parts.append(svg.text(x - 6, end + 14, "program", anchor="end"))
        parts.append(svg.text(left, end + 42, told))
    said = "tiles of S: a column of tiles belongs to the program of a key tile, a row to that of a query tile"
    width = apart if narrow else 3 * apart - 30
    return svg.picture(width, high * len(ways) if narrow else high - 10, said, parts, f"{1.1 * width:.0f}px")


def _arc(start: float, end: float, y: float, hue: str, high: float) -> list[str]:
    """An arrow from the top of a tile over the tiles beside it to the top of another."""
    ink = palette.css(hue)
    head = f"M{end - 2.5:.1f} {y - 5:.1f} L{end:.1f} {y:.1f} L{end + 2.5:.1f} {y - 5:.1f}"
    bow = f"M{start:.1f} {y + 6:.1f} C{start:.1f} {y - high:.1f} {end:.1f} {y - high:.1f} {end:.1f} {y:.1f}"
    return [svg.path(bow, ink, thick=2), svg.path(head, ink, thick=2)]


def in_orders(found: Sequence[sums.Order], lost: float, elements: int) -> str:
    """How dQ's bits and its error depend on the order of the additions; Markdown."""
    most, other = max(found, key=lambda one: one.changed), max(found, key=lambda one: one.error)
    named = {"first order": found[0], "most bits differ": most}
    if scientific(other.error) != scientific(most.error):
        named["largest error"] = other
    rows = [
        (what, f"{count(one.changed)} of {count(elements)}", scientific(one.error) if one.error else "0",
         " → ".join(str(tile) for tile in one.tiles))
        for what, one in named.items()
    ]  # fmt: skip
    rows.append(("one addition lost: a race", "–", percent(lost), "–"))
    columns = ("", "elements that differ", "error ÷ largest dQ", "key tiles, in this order")
    return markdown(columns, rows)


def differ(found: Sequence[sums.Order], elements: int) -> str:
    """How many orders give other bits, in words."""
    others = [one for one in found[1:] if one.changed]
    most = max((one.changed for one in found), default=0)
    return (
        f"**{count(len(others))} of {count(len(found) - 1)}** other orders give other bits, in up to "
        f"{count(most)} of {count(elements)} elements ({percent(most / elements)})."
    )
