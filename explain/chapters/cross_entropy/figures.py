"""Pictures and tables of the cross entropy chapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite

from explain.chapters.cross_entropy.layers import Layer
from explain.chapters.cross_entropy.losses import Losses, Row
from explain.chapters.cross_entropy.measured import COMPILED, EAGER, LEAST, OURS, Case, Counted, Measured
from explain.chapters.cross_entropy.states import Loss, State
from explain.chapters.flash_attention.figures import Group
from explain.experiment import Experiment
from explain.figures.labels import shortened, text_width, widest, wrapped
from explain.figures.numbers import aligned, capacity, count, fixed, moved, percent, ratio, ratios
from explain.figures.palette import css, css_ink
from explain.figures.palette import kernel as kernel_hue
from explain.figures.svg import line, path, picture, rect, text
from explain.figures.tables import Column, Columns, markdown
from explain.gpus import Gpu
from explain.kept import kept
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Traffic, tiles

MOVED: tuple[Group, ...] = (
    ({"H": ("h",), "W": ("w",)}, "hbm"),
    ({"targets": ("targets",), "loss": ("loss",), "L": ("lse",)}, "acc"),
    ({"X": ("x",)}, "scores"),
)
"""What a forward pass moves: X are the logits."""
TENSORS: tuple[Group, ...] = (({"H": ("h",)}, "hbm"), ({"W": ("w",)}, "hbm"), ({"X": ("x",)}, "scores"))
"""The same without a few numbers per token, which no bar of a training step shows."""


def dh_bytes(tokens: int, dim: int) -> int:
    """The bytes of a tile's dH, which is summed in float32."""
    return 4 * tokens * dim


@kept
def dh_on_chip(tokens: int, dims: Sequence[tuple[str, int]], gpu: Gpu, *, narrow: bool = False) -> str:
    """The dH of a tile of tokens at each d as bars, beside all registers and shared memory of one SM."""
    room, most = gpu.register_bytes_sm + gpu.shared_bytes_sm, max(dh_bytes(tokens, dim) for _, dim in dims)
    names = [f"{name}, d = {count(dim)}" for name, dim in dims]
    left = 0.0 if narrow else widest(names) + 20
    width, pitch, drop = (300.0, 52.0, 20.0) if narrow else (430.0, 34.0, 0.0)
    fits = left + width * room / most
    told = f"one SM's registers and shared memory: {capacity(room)}"
    top = 46 if narrow else 26
    parts = [
        text(0, 14, f"dH of {tokens} tokens", bold=True),
        text(min(fits, left + width - text_width(told)), top - 12, told, faint=True),
    ]
    for i, (name, (_, dim)) in enumerate(zip(names, dims, strict=True)):
        y, size = top + pitch * i, dh_bytes(tokens, dim)
        hue = css("acc" if size <= room else "alarm")
        long = width * size / most
        parts += [
            text(0 if narrow else left - 12, y + 16, name, anchor="start" if narrow else "end"),
            rect(left, y + drop + 2, long, 22, hue, opacity=0.55, stroke=hue, title=f"{name}: {count(size)} B"),
            text(left + long + 8, y + drop + 18, f"{capacity(size)}{': too large' * (size > room)}", bold=True),
        ]
    parts.append(line(fits, top - 6, fits, top + pitch * len(dims), dash="4 3"))
    right = left + width + text_width("2 MiB: too large", bold=True) + 16
    return picture(right, top + 6 + pitch * len(dims), f"dH of {tokens} tokens beside an SM", parts, "44rem")


@kept
def tensors(layers: Sequence[Layer], tokens: int, *, narrow: bool = False) -> str:
    """H, W and the logits of each model's last layer as bars, all to one scale. `narrow` fits a phone."""
    most = max(max(one.logit_bytes(tokens), one.weight_bytes) for one in layers)
    left, width = (90.0, 170.0) if narrow else (90.0, 470.0)
    parts, y = [], 0.0
    for layer in layers:
        parts.append(text(0, y + 16, f"{layer.name}: V = {count(layer.vocab)}, d = {count(layer.dim)}", bold=True))
        y += 24
        bars = (
            ("H", layer.hidden_bytes(tokens), "hbm"),
            ("W", layer.weight_bytes, "hbm"),
            ("logits X", layer.logit_bytes(tokens), "scores"),
        )
        for name, size, hue in bars:
            long = width * size / most
            parts.append(text(left - 10, y + 15, name, anchor="end", bold=hue == "scores"))
            parts.append(rect(left, y + 2, long, 18, css(hue), opacity=0.6, stroke=css(hue), title=f"{count(size)} B"))
            parts.append(text(left + long + 8, y + 16, moved(size), bold=hue == "scores"))
            y += 24
        y += 14
    right = left + width + text_width("0.00 GB", 14) + 20
    return picture(right, y, f"H, W and the logits of {count(tokens)} tokens", parts, "44rem")


def sources(layers: Sequence[Layer]) -> str:
    """Where each layer's sizes were published, as Markdown."""
    return "Sizes: " + " · ".join(f"{one.name}: [{one.source}]({one.address})" for one in layers)


def states_table(found: Sequence[State]) -> str:
    """A token's state after each tile of the vocabulary, as a Markdown table."""
    rows = [(f"{one.first}–{one.last}", one.m, one.alpha, one.total, one.target) for one in found]
    names = ("m", "α", "ℓ", "xₜ")
    return markdown(("columns", *(Column(name, lambda value: fixed(value, 3)) for name in names)), rows)


def update(found: Sequence[State]) -> str:
    """The last update that rescales, in numbers; empty where none does: “3.1 × 0.4 + 2.2 = 3.4”."""
    for before, one in reversed(list(pairwise(found))):
        if 0 < one.alpha < 1:
            added = one.total - before.total * one.alpha
            return f"{fixed(before.total, 3)} × {fixed(one.alpha, 3)} + {fixed(added, 3)} = {fixed(one.total, 3)}"
    return ""


def loss_in_numbers(found: Loss) -> str:
    """“loss = L − xₜ = 3.2000 − 1.1000 = 2.1000”: L and xₜ in so many decimals that their difference is the loss."""
    for decimals in range(3, 8):
        lse, target, loss = (fixed(value, decimals) for value in (found.lse, found.target, found.loss))
        if not isfinite(found.loss + found.target):
            break
        if abs(_read(lse) - _read(target) - _read(loss)) < 0.5 * 10**-decimals:
            break
    written = f"({target})" if found.target < 0 else target
    return f"loss = L − xₜ = {lse} − {written} = {loss}"


def _read(written: str) -> float:
    return float(written.replace("−", "-").replace(",", ""))


def least(experiment: Experiment) -> Traffic:
    """The least that HBM must move: each input once, results and logits each time that they move."""
    terms = {(term.buffer, term.written): replace(term, times=1) for term in experiment.traffic.terms}
    return replace(experiment.traffic, terms=tuple(terms.values()))


def _all_bytes(traffic: Traffic) -> int:
    return traffic.read_bytes + traffic.written_bytes


def every_byte(pairs: Sequence[tuple[str, Experiment]]) -> str:
    """Each kernel's bytes with every load and store, as a Markdown table."""
    rows = [(title, _all_bytes(one.traffic)) for title, one in pairs]
    return markdown(("kernel", Column("every load and store", lambda size: aligned(size, "B", "G"))), rows)


def counted_table(found: Sequence[Counted]) -> str:
    """The least that HBM must move beside what a GPU moved, as a Markdown table."""
    rows = [(one.title, _all_bytes(least(one.experiment)), one.hbm_bytes) for one in found]
    return markdown(("kernel", Column("least, by formula", moved), Column("measured", moved)), rows)


@kept
def gradient_row(row: Row, *, narrow: bool = False) -> str:
    """One token's P, and P minus 1 at the target, as bars to one scale. `narrow` fits a phone."""
    wide, unit = (330.0, 70.0) if narrow else (520.0, 80.0)
    each, most = wide / len(row.weights), max(row.weights)
    gap, own = min(3.0, 0.2 * each), row.weights[row.target]

    def bars(values: Sequence[float], zero: float, hue: str) -> list[str]:
        return [
            rect(
                i * each + gap / 2, zero - unit * max(value, 0), each - gap, unit * abs(value),
                css("slate" if value < 0 else hue), opacity=1 if i == row.target else 0.6, title=fixed(value, 3),
            )
            for i, value in enumerate(values)
        ]  # fmt: skip

    def number_at(value: float, y: float) -> str:
        left = (row.target + 0.5) * each
        half = text_width(fixed(value, 3), 14, bold=True) / 2
        return text(min(max(left, half), wide - half), y, fixed(value, 3), anchor="middle", bold=True)

    first = 44 + unit * most
    second = first + 64 + unit * most
    gradient = [value - (i == row.target) for i, value in enumerate(row.weights)]
    parts = [
        text(0, 16, "P = exp(X − L): the row sums to 1", bold=True, fill=css_ink("p")),
        *bars(row.weights, first, "p"),
        number_at(own, first - unit * own - 6),
        line(0, first, wide, first),
        text(0, first + 40, "P − 1 at the target: the row sums to 0", bold=True, fill=css_ink("scores")),
        *bars(gradient, second, "scores"),
        line(0, second, wide, second),
        number_at(own - 1, second + unit * (1 - own) + 18),
    ]
    label = f"The weights of token {row.token}, and their gradient"
    return picture(wide, second + unit * (1 - own) + 26, label, parts, "30rem" if narrow else "40rem")


def backward_table(forward: Experiment, both: Experiment) -> str:
    """What passes from the forward pass to the backward pass, and the matmuls, as a Markdown table."""
    p = both.values
    one = forward.traffic.flops_of("matmul")
    matmuls = both.traffic.flops_of("matmul") // one
    logits = p["tokens"] * p["vocab"] * ITEM_BYTES[p["dtype"]]
    return markdown(
        ("", "kept", Column("X computed"), Column("matmuls")),
        [
            ("through the logits", "X, " + moved(logits).replace(" ", "&nbsp;"), "1 ×", "3"),
            (
                "without the logits",
                "L, " + moved(4 * p["tokens"]).replace(" ", "&nbsp;"),
                f"{matmuls - 2} ×",
                str(matmuls),
            ),
        ],
    )


@kept
def ways_on(tokens: int, part: int, ligers: int, *, narrow: bool = False) -> str:
    """Two ways to do without all of X for a large d: which part of it is there at a time, and what it is added to. A
    chunk has `part` of the tokens, to scale, Liger's has `ligers`. `narrow` puts them below each other, for a phone.
    """
    panel, room, top = 330.0, 34.0, 78.0
    wide, high, deep, dw = 200.0, 108.0, 34.0, 24.0
    slab = high * part / tokens
    ways = (
        (
            "Cut Cross-Entropy",
            "X: a tile, on chip",
            (wide * 0.4, high * 0.4, wide / 8, high / 6),
            "It computes X for the loss, and once more for the gradients. It adds each tile's part to dH and dW in "
            "HBM, and skips a tile if all its P are tiny.",
            "X computed 2 × · 4 matmuls, fewer where it skips",
        ),
        (
            "Liger's kernel, and our chunked one",
            f"X: a chunk in HBM: Liger {count(ligers)} tokens, ours {count(part)}",
            (0.0, slab, wide, slab),
            "It writes a chunk of X to a small buffer and puts dX in its place, still in the forward pass. dH of these "
            "tokens is then complete. dW grows with each chunk.",
            "X computed 1 × · 3 matmuls",
        ),
    )
    parts, bottom = [], 0.0
    for i, (name, there, (left, down, across, tall), does, costs) in enumerate(ways):
        x, y = (1.0, bottom + 30 * bool(i)) if narrow else (1 + i * (panel + room), 0.0)  # half of a stroke
        y_x, x_dh = y + top, x + wide + 60
        y_dw = y_x + high + 40
        parts += [
            text(x, y + 16, name, bold=True),
            text(x, y + 38, there, fill=css_ink("scores")),
            *(_outline(x, y_x, wide, high, "X"), _outline(x_dh, y_x, deep, high, "dH")),
            _outline(x, y_dw, wide, dw, "dW"),
            *(
                line(x, at, x + wide, at, opacity=0.25)
                for at in (y_x + slab * n for n in range(1, -(-tokens // part)) if i)
            ),
            rect(x_dh, y_x, deep, down, css("acc"), opacity=0.3) if i else "",
            rect(x + left, y_x + down, across, tall, css("scores"), opacity=0.85, title=there),
            rect(x_dh, y_x + down, deep, tall, css("acc"), opacity=0.85, title="dH"),
            rect(x + left, y_dw, across, dw, css("acc"), opacity=0.85, title="dW"),
            _arrow(x + left + across + 2, y_x + down + tall / 2, x_dh - 4, y_x + down + tall / 2),
            _arrow(x + left + across / 2, y_x + down + tall + 2, x + left + across / 2, y_dw - 4),
            text(x + wide / 2, y_x - 8, "X", anchor="middle", bold=True, fill=css_ink("scores")),
            text(x_dh + deep / 2, y_x - 8, "dH", anchor="middle", bold=True, fill=css_ink("acc")),
            text(x + wide + 10, y_dw + 17, "dW", bold=True, fill=css_ink("acc")),
        ]
        lines = [*((words, False) for words in wrapped(does, 0.92 * panel)), (costs, True)]  # in any font
        first = y_dw + dw + 28
        parts += [text(x, first + 20 * n, words, bold=bold) for n, (words, bold) in enumerate(lines)]
        bottom = max(bottom * (not narrow), first + 20 * len(lines))
    label = "Two ways to do without all of X"
    return picture(panel if narrow else 2 * panel + room, bottom - 8, label, parts, "30rem" if narrow else "48rem")


def _outline(x: float, y: float, width: float, height: float, title: str) -> str:
    return rect(x, y, width, height, "none", stroke="currentColor", dashed=True, opacity=0.5, title=title)


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """To the right, or down."""
    tip = f"M{x2 - 5:.1f} {y2 - 4:.1f}L{x2:.1f} {y2:.1f}L{x2 - 5:.1f} {y2 + 4:.1f}" if y1 == y2 else (
        f"M{x2 - 4:.1f} {y2 - 5:.1f}L{x2:.1f} {y2:.1f}L{x2 + 4:.1f} {y2 - 5:.1f}")  # fmt: skip
    return path(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}{tip}", "currentColor")


@kept
def which_count(losses: Losses, *, narrow: bool = False) -> str:
    """The first tokens, their targets and losses: grey where they do not count. Below, the mean of all. `narrow` fits a
    phone.
    """
    across, wide, high = (4, 82.0, 84.0) if narrow else (8, 82.0, 84.0)
    parts = []
    for i, one in enumerate(losses.first):
        x, y = i % across * wide, i // across * (high + 8)
        hue, opacity = ("acc", 0.35) if one.counts else ("slate", 0.12)
        middle = x + (wide - 6) / 2
        rows = ((one.name, 22, True), (f"→ {one.target}", 46, False), (fixed(one.loss, 3), 70, one.counts))
        parts.append(rect(x, y, wide - 6, high, css(hue), opacity=opacity, title=f"loss {fixed(one.loss, 3)}"))
        for words, down, bold in rows:
            short = shortened(words, wide - 14, bold=bold)
            parts.append(text(middle, y + down, short, anchor="middle", bold=bold, faint=not one.counts))
    bottom = -(-len(losses.first) // across) * (high + 8) + 20
    for words in wrapped(_mean(losses), (across * wide - 6) * 0.95, bold=True):
        parts.append(text(0, bottom, words, bold=True))
        bottom += 22
    label = "Tokens that count and tokens that do not, their losses and the mean"
    return picture(across * wide - 6, bottom - 10, label, parts, "30rem" if narrow else "46rem")


def _mean(losses: Losses) -> str:
    """ "mean = sum of the losses ÷ tokens that count = 1.8 ÷ 2 = 0.9"; 0 ÷ 0 = NaN of no token."""
    if not losses.counting:
        return "mean = 0 ÷ 0 = NaN"
    total, mean = fixed(losses.total, 3), fixed(losses.total / losses.counting, 3)
    return f"mean = sum of the losses ÷ tokens that count = {total} ÷ {losses.counting} = {mean}"


@kept
def measured_bars(cases: Sequence[Case], peak: float | None, *, narrow: bool = False) -> str:
    """Each variant's time and peak memory as bars, all to one scale, ours in its kernel's hue. Dashed: the least time,
    three matmuls at the `peak` in FLOPs per second, and the least memory, H, W and their gradients. `narrow` fits a
    phone.
    """
    hue, y, parts = kernel_hue(KERNELS["fast:cross_entropy_parts"].hue), 34.0, []
    left, width, room = (100.0, 52.0, 68.0) if narrow else (112.0, 180.0, 78.0)
    times, sizes = left, left + width + room
    parts += [text(times, 14, "time", faint=True), text(sizes, 14, "peak memory", faint=True)]
    rows = [one for case in cases for one in case.variants]
    slowest, largest = (max(getattr(one, what) or 0 for one in rows) for what in ("seconds", "peak_bytes"))
    for case in cases:
        parts.append(text(0, y, case.name, bold=True))
        least = case.matmul_flops / peak if peak else None
        for name, seconds, size, why in (
            *((one.name, one.seconds, one.peak_bytes, one.why) for one in case.variants),
            (LEAST, least, case.least_bytes, ""),
        ):
            own, floor = name == OURS, name == LEAST
            y += 22
            parts.append(
                text(left - 10, y, name, anchor="end", bold=own, fill=css_ink(hue) if own else "", faint=floor)
            )
            if why:
                parts.append(text(left, y, why, faint=True))
            for x, value, most, words in ((times, seconds, slowest, _milliseconds), (sizes, size, largest, moved)):
                if value and most:
                    fill, long = css(hue if own else "slate"), width * value / most
                    look = {"opacity": 0.0, "stroke": "currentColor"} if floor else {"opacity": 0.85 if own else 0.45}
                    parts.append(rect(x, y - 13, long, 16, "none" if floor else fill, dashed=floor, **look))
                    parts.append(text(x + long + 6, y, words(value), bold=own, faint=floor))
        y += 34
    return picture(sizes + width + room, y - 20, "Time and peak memory of each variant", parts, "52rem")


@kept
def measured_table(found: Measured) -> str:
    """Milliseconds and peak memory of each variant at each size, as a Markdown table."""
    names = [one.name for one in found.cases[0].variants]
    rows = []
    for case in found.cases:
        by_name = {one.name: one for one in case.variants}
        cells = [_cell(by_name[name].seconds, by_name[name].peak_bytes, by_name[name].why) for name in names]
        time, memory = case.time, case.memory
        rows.append(
            (
                case.vocab,
                case.dim,
                *cells,
                None if time is None else ratio(time),
                None if memory is None else ratio(memory),
            )
        )
    columns: Columns = (
        Column("V"),
        Column("d"),
        *map(Column, names),
        Column("time ÷ the fastest other's"),
        Column("memory ÷ the least other's"),
    )
    return markdown(columns, rows)


def advised(case: Case) -> str:
    """When to use a chunked kernel, by what was measured; markdown, empty where one of them is fastest too."""
    timed = [one for one in case.variants if one.seconds and one.peak_bytes]
    if not timed:
        return ""
    fastest = min(timed, key=lambda one: one.seconds or 0.0).name
    smallest = min(timed, key=lambda one: one.peak_bytes or 0).name
    if fastest in case.chunks or smallest not in case.chunks:
        return ""
    return f"**If memory is short, use a chunked kernel. If not, use {fastest}.**"


def concluded(case: Case) -> str:
    """Which of the others is fastest, which needs least memory, and where ours lies, in sentences; markdown."""
    found = {one.name: (one.seconds, one.peak_bytes) for one in case.variants if one.seconds and one.peak_bytes}
    own = found.pop(OURS, None)
    if not own or not found:
        return "Ours was not measured beside another."
    fastest, least = (min(found, key=lambda name: found[name][place]) for place in (0, 1))
    quick, small = found[fastest], found[least]
    if fastest == least:
        others = f"{fastest} is fastest ({_milliseconds(quick[0])}) and needs least ({moved(quick[1])})."
    else:
        others = (
            f"{fastest} is fastest ({_milliseconds(quick[0])}) and needs {moved(quick[1])}. {least} needs least "
            f"({moved(small[1])}) and takes {_milliseconds(small[0])}."
        )
    between = quick[0] <= own[0] <= small[0] and small[1] <= own[1] <= quick[1]
    where = "Ours lies between" if between else f"Ours takes {_milliseconds(own[0])} and {moved(own[1])}"
    time, memory = _more(own[0] / quick[0], "time"), _more(own[1] / small[1], "memory")
    beside = f"{time} than {fastest}, {memory} than {least}" if fastest != least else f"{time} and {memory}"
    return f"{_beside_eager(own, found.get(EAGER))}Of the others, {others} {where}: {beside}."


def _beside_eager(own: tuple[float, int], eager: tuple[float, int] | None) -> str:
    """“**Ours takes 3% more time than PyTorch eager and 34% of its memory (2.55 against 7.49 GB).** ”"""
    if not eager:
        return ""
    time, share = _more(own[0] / eager[0], "time"), percent(own[1] / eager[1])
    sizes = f"{moved(own[1])} against {moved(eager[1])}"
    return f"**Ours takes {time} than {EAGER} and {share} of its memory ({sizes}).** "


def odd_and_even(odd: Sequence[Case], even: Sequence[Case], name: str) -> str:
    """“At an even V the gain is room … At V = 50,257 ours is also 4.50 × as fast as PyTorch eager. ”, if it is so."""
    told = ""
    times = _beside(EAGER, even, "seconds")
    if times and max(times) <= 1:
        slower = ratios([1 / time for time in times])
        told = f"At an even V the gain is room: ours takes {slower} the time of {EAGER}.\n\n"
    times = _beside(EAGER, odd, "seconds")
    if times and min(times) > 1:
        told += f"**At {name} ours is also {ratios(times)} as fast as {EAGER}.** "
    return told


def beside_compiled(cases: Sequence[Case]) -> str:
    """“**torch.compile takes 3 to 8% less time than ours. Ours needs 29 to 43% of …**”; empty where not measured."""
    times, memory = (_beside(COMPILED, cases, what) for what in ("seconds", "peak_bytes"))
    if not times or not memory:
        return ""
    beside = f"{ratios(times)} the time of ours"
    if max(times) < 1 or min(times) >= 1:
        beside = f"{_percents([abs(time - 1) for time in times])} {'less' if max(times) < 1 else 'more'} time than ours"
    share = _percents([1 / size for size in memory])
    return f"**{COMPILED} takes {beside}. Ours needs {share} of {COMPILED}'s memory.**"


def _percents(shares: Sequence[float]) -> str:
    """Shares from the least to the largest: “3 to 8%”."""
    least, largest = percent(min(shares)), percent(max(shares))
    return largest if least == largest else f"{least.removesuffix('%')} to {largest}"


def _beside(name: str, cases: Sequence[Case], what: str) -> list[float]:
    """A variant's time or memory ÷ ours in each case that has both."""
    found = [{one.name: getattr(one, what) for one in case.variants} for case in cases]
    return [one[name] / one[OURS] for one in found if one.get(name) and one.get(OURS)]


def chunks_table(cases: Sequence[Case]) -> str:
    """A Markdown table: the tokens of a chunk, in Liger and in our kernel, and what all chunks move of W and dW."""
    columns: list[str | Column] = [Column("V"), Column("d")]
    for name in cases[0].chunks:
        columns += [Column(f"{name}: tokens"), Column(f"{name}: W, dW", lambda size: aligned(size, "B", "G", 1))]
    rows = [
        (case.vocab, case.dim, *(cell for part in case.chunks.values() for cell in (part, case.passes_bytes(part))))
        for case in cases
    ]
    return markdown(columns, rows)


def chunks_in_words(case: Case) -> str:
    """“Liger: 256 tokens in a chunk, 32 chunks × 4 × 1.05 GB = 134 GB. Ours: …”, the passes over W and dW."""
    return " ".join(
        f"{name[0].upper()}{name[1:]}: {count(part)} tokens in a chunk, {count(tiles(case.tokens, part))} chunks × 4 × "
        f"{moved(case.weight_bytes)} = {moved(case.passes_bytes(part))}."
        for name, part in case.chunks.items()
    )


def _more(share: float, what: str) -> str:
    """“6% more time”."""
    return f"{percent(abs(share - 1))} {'more' if share >= 1 else 'less'} {what}"


def _cell(seconds: float | None, peak: int | None, why: str) -> str:
    if seconds is None:
        return why
    return _milliseconds(seconds) + (f", {moved(peak)}" if peak else "")


def _milliseconds(seconds: float) -> str:
    return f"{fixed(1e3 * seconds, 1)} ms"
