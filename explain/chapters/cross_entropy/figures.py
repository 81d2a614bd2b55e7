"""Pictures and tables of the cross entropy chapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite

from explain.chapters.cross_entropy.layers import Layer
from explain.chapters.cross_entropy.measured import OURS, Case, Measured
from explain.chapters.cross_entropy.states import Loss, State
from explain.chapters.flash_attention.figures import Group
from explain.experiment import Experiment
from explain.figures.labels import text_width, wrapped
from explain.figures.numbers import aligned, count, fixed, moved, percent, ratio
from explain.figures.palette import css, css_ink
from explain.figures.palette import kernel as kernel_hue
from explain.figures.svg import picture, rect, text
from explain.figures.tables import Column, Columns, markdown
from explain.kept import kept
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Traffic

MOVED: tuple[Group, ...] = (
    ({"H": ("h",), "W": ("w",)}, "hbm"),
    ({"targets": ("targets",), "loss": ("loss",), "L": ("lse",)}, "acc"),
    ({"X": ("x",)}, "scores"),
)
"""What a forward pass moves: X are the logits."""
TENSORS: tuple[Group, ...] = (({"H": ("h",)}, "hbm"), ({"W": ("w",)}, "hbm"), ({"X": ("x",)}, "scores"))
"""The same without a few numbers per token, which no bar of a training step shows."""


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
    names = ("m", "α", "ℓ", "x_t")
    return markdown(("columns", *(Column(name, lambda value: fixed(value, 3)) for name in names)), rows)


def update(found: Sequence[State]) -> str:
    """The last update that rescales, in numbers; empty where none does: “3.1 × 0.4 + 2.2 = 3.4”."""
    for before, one in reversed(list(pairwise(found))):
        if 0 < one.alpha < 1:
            added = one.total - before.total * one.alpha
            return f"{fixed(before.total, 3)} × {fixed(one.alpha, 3)} + {fixed(added, 3)} = {fixed(one.total, 3)}"
    return ""


def loss_in_numbers(found: Loss) -> str:
    """“loss = L − x_t = 3.2000 − 1.1000 = 2.1000”: L and x_t in so many decimals that their difference is the loss."""
    for decimals in range(3, 8):
        lse, target, loss = (fixed(value, decimals) for value in (found.lse, found.target, found.loss))
        if not isfinite(found.loss + found.target):
            break
        if abs(_read(lse) - _read(target) - _read(loss)) < 0.5 * 10**-decimals:
            break
    written = f"({target})" if found.target < 0 else target
    return f"loss = L − x_t = {lse} − {written} = {loss}"


def _read(written: str) -> float:
    return float(written.replace("−", "-").replace(",", ""))


def least(experiment: Experiment) -> Traffic:
    """The least that HBM must move: each input once, results and logits each time that they move."""
    terms = {(term.buffer, term.written): replace(term, times=1) for term in experiment.traffic.terms}
    return replace(experiment.traffic, terms=tuple(terms.values()))


def _all_bytes(traffic: Traffic) -> int:
    return traffic.read_bytes + traffic.written_bytes


def once_and_all(pairs: Sequence[tuple[str, Experiment]]) -> str:
    """Each kernel's bytes: every load and store, and what HBM must move at least, as a Markdown table."""
    rows = [(title, _all_bytes(one.traffic), _all_bytes(least(one))) for title, one in pairs]

    def gigabytes(size: int) -> str:
        return aligned(size, "B", "G")

    return markdown(("kernel", Column("every load and store", gigabytes), Column("least from HBM", gigabytes)), rows)


def backward_table(forward: Experiment, both: Experiment) -> str:
    """What passes from the forward pass to the backward pass, and the matmuls, as a Markdown table."""
    p = both.values
    one = forward.traffic.flops_of("matmul")
    matmuls = both.traffic.flops_of("matmul") // one
    logits = p["tokens"] * p["vocab"] * ITEM_BYTES[p["dtype"]]
    return markdown(
        ("", "kept for the backward pass", Column("matmuls, forward and backward")),
        [
            ("through the logits", f"X: {count(p['tokens'])} × {count(p['vocab'])}, {moved(logits)}", "3"),
            ("without the logits", f"L: {count(p['tokens'])}, {moved(4 * p['tokens'])}", str(matmuls)),
        ],
    )


@kept
def ways_on(tokens: int, part: int, *, narrow: bool = False) -> str:
    """How three kernels do without all of X: the part of it that is there at a time, and what they do with it. Ours has
    `part` of the tokens at a time, to scale. `narrow` puts them below each other, for a phone.
    """
    wide, high, room, top = (330.0, 84.0, 24.0, 50.0) if narrow else (216.0, 84.0, 26.0, 50.0)
    slab = high * part / tokens
    ways = (
        (
            "Cut Cross-Entropy",
            "a tile, on chip",
            "It computes X twice, tile by tile, and adds to dH and dW in HBM. In the backward pass it skips tiles in "
            "which every P is tiny.",
            "4 matmuls, fewer where it skips",
        ),
        (
            "Liger's kernel",
            "some tokens, in HBM",
            "It writes their X to one small buffer. Still in the forward pass, it puts dX in the place of X.",
            "3 matmuls",
        ),
        (
            "Ours",
            f"{count(part)} of {count(tokens)} tokens, in HBM",
            "It works like Liger's kernel. Writing X and reading it takes less time than a second matmul.",
            "3 matmuls",
        ),
    )
    parts, bottom = [], 0.0
    for i, (name, there, does, matmuls) in enumerate(ways):
        x, y = (0.0, bottom + 26 * bool(i)) if narrow else (i * (wide + room), 0.0)
        own = (x + wide * 0.4, y + top + high * 0.4, wide / 8, high / 6) if not i else (x, y + top, wide, slab)
        parts += [
            text(x, y + 16, name, bold=True),
            text(x, y + 38, f"X: {there}", fill=css_ink("scores")),
            rect(x, y + top, wide, high, "none", stroke="currentColor", dashed=True, opacity=0.5, title="X, N × V"),
            rect(*own, css("scores"), opacity=0.85, stroke=css("scores"), title=f"X: {there}"),
        ]
        lines = [*((words, False) for words in wrapped(does, 0.92 * wide)), (matmuls, True)]  # in any font
        parts += [text(x, y + top + high + 24 + 20 * n, words, bold=bold) for n, (words, bold) in enumerate(lines)]
        bottom = max(bottom * (not narrow), y + top + high + 24 + 20 * len(lines))
    label = "Three ways to do without all of X"
    return picture(wide if narrow else 3 * wide + 2 * room, bottom - 8, label, parts, "30rem" if narrow else "52rem")


@kept
def measured_bars(cases: Sequence[Case], *, narrow: bool = False) -> str:
    """Each variant's time and peak memory as bars; those of a layer have one scale, ours has its kernel's hue. `narrow`
    fits a phone.
    """
    hue, y, parts = kernel_hue(KERNELS["fast:cross_entropy_parts"].hue), 34.0, []
    left, width, room = (100.0, 52.0, 68.0) if narrow else (112.0, 180.0, 78.0)
    times, sizes = left, left + width + room
    parts += [text(times, 14, "time", faint=True), text(sizes, 14, "peak memory", faint=True)]
    for case in cases:
        parts.append(text(0, y, case.name, bold=True))
        slowest, largest = (max(getattr(one, what) or 0 for one in case.variants) for what in ("seconds", "peak_bytes"))
        for one in case.variants:
            own = one.name == OURS
            y += 22
            parts.append(text(left - 10, y, one.name, anchor="end", bold=own, fill=css_ink(hue) if own else ""))
            if one.seconds is None:
                parts.append(text(left, y, one.why, faint=True))
            for x, value, most, words in (
                (times, one.seconds, slowest, _milliseconds),
                (sizes, one.peak_bytes, largest, moved),
            ):
                if value:
                    fill = css(hue if own else "slate")
                    parts.append(rect(x, y - 13, width * value / most, 16, fill, opacity=0.85 if own else 0.45))
                    parts.append(text(x + width * value / most + 6, y, words(value), bold=own))
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


def concluded(found: Measured) -> str:
    """What the measured table says: our time and memory against each of the two best others, over all layers."""

    def against(name: str, what: str) -> list[float]:
        pairs = [{one.name: getattr(one, what) for one in case.variants} for case in found.cases]
        return [pair[OURS] / pair[name] for pair in pairs if pair.get(OURS) and pair.get(name)]

    told = []
    for name in ("torch.compile", "Liger"):
        times, sizes = against(name, "seconds"), against(name, "peak_bytes")
        if times and sizes:
            taken = _more(times) or f"{_from_to(times)} of the time"
            held = f"{more} memory" if (more := _more(sizes)) else f"{_from_to(sizes)} of its memory"
            told.append(f"Beside {name}, ours takes {taken}{' time' * bool(_more(times))} and {held}.")
    return f"**{' '.join(told)}**" if told else ""


def _more(ratios: Sequence[float]) -> str:
    """ "3–11% more"; empty if any ratio is below 1."""
    return f"{_from_to([one - 1 for one in ratios])} more" if min(ratios) >= 1 else ""


def _from_to(shares: Sequence[float]) -> str:
    """ "29–58%"."""
    low, high = (percent(one) for one in (min(shares), max(shares)))
    return high if low == high else f"{low.removesuffix('%')}–{high}"


def _cell(seconds: float | None, peak: int | None, why: str) -> str:
    if seconds is None:
        return why
    return _milliseconds(seconds) + (f", {moved(peak)}" if peak else "")


def _milliseconds(seconds: float) -> str:
    return f"{fixed(1e3 * seconds, 1)} ms"
