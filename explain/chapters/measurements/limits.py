"""What a GPU can do at most, as it was measured: a picture for each unit, and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explain.chapters.measurements.points import OPENING, names
from explain.figures.labels import listed, widest, wrapped
from explain.figures.numbers import capacity, count, grouped, number, percent, ratio, si
from explain.figures.palette import css
from explain.figures.svg import circle, line, picture, text
from explain.figures.tables import Column, markdown, plain
from explain.gpus import card, specified
from explain.kept import kept
from explain.records.model import Roof, roof_name
from explain.records.plans import sizes
from explain.records.registry import Entry

WIDE, NARROW, ROW, GROUP = 730.0, 330.0, 22.0, 8.0
"""A picture's width, here and on a phone; the height of a GPU's line; the space between limits."""
EQUAL = 1.05
"""The factor up to which two rates are told as equal."""
PERCENT = "% of datasheet"
"""What a percentage is of; a picture says it once, at its first one."""
SHEET = "datasheet's rate"
"""What a tick is."""
HALO = "paint-order:stroke;stroke:var(--ground);stroke-width:4px;stroke-linejoin:round"
"""Words cover the grid lines behind them."""
UNITS = {"B/s": "bytes", "FLOP/s": "FLOPs"}
"""What a roof's unit counts."""
_PAIRS = {
    "B/s": ("shared", "hbm", "Shared memory, all SMs together, delivers {} × the bytes per second of HBM"),
    "FLOP/s": ("matmul bf16", "exp", "At d = {d} the exponentials need {} ÷ {of} = {share} of the matmuls' time"),
}
"""By unit: the limit with the longest bar, a limit to compare it with, and the sentence about their ratio."""


@kept
def meanings(shown: Sequence[Entry]) -> str:
    """What each GPU's limits mean for a kernel, in Markdown, as a list if there are several: how many FLOPs per byte
    HBM allows, and how many of a matmul one exponential costs.
    """
    least, exps, rates = ([] for _ in range(3))  # of each GPU
    for gpu, one in zip(names(shown), shown, strict=True):
        read, matmul, exp = (one.record.roofs.get(level) for level in ("hbm", "matmul bf16", "exp"))
        if read and matmul:
            least.append((gpu, number(matmul.per_second / read.per_second)))
            rates.append((gpu, f"{rate(matmul)} ÷ {rate(read)}"))
        if matmul and exp:
            exps.append((gpu, number(matmul.per_second / exp.per_second)))
    items = []
    if least:
        items.append(
            f"**At {_each(least)} FLOPs per byte from HBM, HBM and the bf16 matmuls take equally long**: "
            f"{_each(rates)}. With fewer FLOPs, HBM is the limit; with more, the matmuls are. Real kernels are often "
            "slower than both."
        )
    if exps:
        items.append(f"**One exponential takes as long as {_each(exps)} bf16 matmul FLOPs**; {_score()}.")
    return "\n".join(f"- {item}" for item in items) if len(items) > 1 else "".join(items)


def _each(told: Sequence[tuple[str, str]]) -> str:
    """What is told of each GPU, with its name where they differ; what holds of several is said once."""
    gpus: dict[str, list[str]] = {}
    for gpu, words in told:
        gpus.setdefault(words, []).append(gpu)
    return listed([words + f" ({listed(own)})" * (len(gpus) > 1) for words, own in gpus.items()])


@kept
def drawn(shown: Sequence[Entry], *, narrow: bool = False) -> list[str]:
    """The measured limits of each GPU on a logarithmic scale, an SVG for each unit. A colour is a kind of limit; the
    first GPU's dots are filled, the others' are rings. A tick is the datasheet's rate. Of two GPUs, a column has the
    first one's rate ÷ the second one's.

    `narrow` is for a phone.
    """
    units = dict.fromkeys(roof.unit for one in shown for roof in one.record.roofs.values())
    left = 0.0 if narrow else widest(_name(level, shown) for one in shown for level in one.record.roofs) + 16
    return [_drawn(shown, unit, left, narrow) for unit in units]


def _drawn(shown: Sequence[Entry], unit: str, left: float, narrow: bool) -> str:
    """The limits of one unit, each with its name, and a line for each GPU that has it; scales begin at `left`."""
    limits: dict[str, list[tuple[str, Roof]]] = {}
    for gpu, one in zip(names(shown), shown, strict=True):
        for level, roof in one.record.roofs.items():
            if roof.unit == unit:
                limits.setdefault(level, []).append((gpu, roof))
    stated = {(gpu, level): _stated(gpu, level, shown) for level, roofs in limits.items() for gpu, _ in roofs}
    named = len(shown) > 1
    told = {
        (gpu, level): f"{f'{gpu} ' * named}{_told(roof, stated[gpu, level])}"
        for level, roofs in limits.items()
        for gpu, roof in roofs
    }
    first = next((key for key, words in told.items() if "%" in words), ("", ""))
    if not narrow and first in told:
        told[first] = told[first].replace("%", PERCENT)
    rates = [roof.per_second for roofs in limits.values() for _, roof in roofs]
    low, high = math.floor(math.log10(min(rates))), math.log10(max(*rates, *stated.values()))
    across = NARROW if narrow else WIDE
    beside = " ÷ ".join(names(shown)) if len(shown) == 2 else ""
    width = across - (0 if narrow or not beside else widest([beside]) + 20)  # of all but the ratios
    room = width - left - 28  # of a dot and its words, with some to spare: a browser's letters may be wider
    ends = {
        (gpu, level): max(roof.per_second, stated[gpu, level]) for level, own in limits.items() for gpu, roof in own
    }
    long = min((room - widest([told[at]])) * (high - low) / (math.log10(rate) - low) for at, rate in ends.items())

    def x(rate: float) -> float:
        return left + long * (math.log10(rate) - low) / (high - low)

    titles = wrapped((_differing if named else _compared)(shown, unit), 0.92 * width, bold=True)
    parts = [text(0, 14 + 18 * place, words, bold=True) for place, words in enumerate(titles)]
    if any(stated.values()):  # the key stands at the end of the title's line, or below it
        at = width - widest([SHEET], 13) - 12
        titles += [""] * (widest(titles[-1:], bold=True) + 20 > at - 10)
        base = 14 + 18 * (len(titles) - 1)
        parts += [_tick(at - 9, base - 4), text(at, base, SHEET, size=13, faint=True)]
    if beside:
        titles += [""] * narrow
        parts.append(text(across, 14 + 18 * (len(titles) - 1), beside, faint=True, anchor="end"))
    y = top = 14 + 18.0 * len(titles)
    rows: list[str] = []
    for level, roofs in limits.items():
        y += ROW * narrow  # a phone's names stand above their lines
        name = _name(level, shown) + f" ({PERCENT})" * (narrow and level == first[1])
        rows.append(text(0, y - 2 if narrow else y + ROW * len(roofs) / 2 + 5, name))
        if beside and len(roofs) == 2:
            factor = roofs[0][1].per_second / roofs[1][1].per_second
            middle = y - 2 if narrow else y + ROW + 5
            rows.append(text(across, middle, ratio(factor), bold=max(factor, 1 / factor) > EQUAL, anchor="end"))
        for place, (gpu, roof) in enumerate(roofs):
            middle, hue = y + ROW * (place + 0.5), css(_hue(level))
            parts.append(circle(x(roof.per_second), middle, 6, hue, title=roof.method, hollow=gpu != names(shown)[0]))
            if sheet := stated[gpu, level]:
                parts.append(_tick(x(sheet), middle))
            rows.append(text(x(ends[gpu, level]) + 14, middle + 5, told[gpu, level]))
        y += ROW * len(roofs) + GROUP
    parts.append(line(left, y, width, y))
    free = 0.0  # where the next number may begin: on a phone some have no room
    for power in range(low, math.floor(high) + 1):
        at, number_of = x(10.0**power), si(10.0**power, unit)
        begins = max(left, at - widest([number_of], 13) / 2)
        if begins >= free:
            parts += [line(at, y, at, y + 5), line(at, top, at, y, opacity=0.12 * (at > 0))]  # names begin at 0
            parts.append(text(begins, y + 20, number_of, size=13, faint=True))
            free = begins + widest([number_of], 13) + 10
    parts.append(text(width, y + 20, "log scale", size=13, faint=True, anchor="end"))
    parts.append(f'<g style="{HALO}">{"".join(rows)}</g>')
    return picture(across, y + 34, f"measured limits in {unit}", parts, f"{1.2 * across:.0f}px")


def _name(level: str, shown: Sequence[Entry]) -> str:
    """A limit's name, with the size of that memory on the GPUs, or its unit where it is not that of its picture."""
    cards = [known for one in shown if (known := card(one.record.gpu))]
    sizes = {
        "shared": [f"{capacity(gpu.shared_bytes_sm)} per SM" for gpu in cards],
        "l2": [capacity(gpu.l2_bytes) for gpu in cards],
        "hbm": [capacity(gpu.hbm_bytes) for gpu in cards],
        "exp": ["exp/s"],
    }
    own = " and ".join(dict.fromkeys(sizes.get(level, ())))
    return roof_name(level) + f" ({own})" * bool(own)


def _tick(x: float, y: float) -> str:
    """A datasheet's tick, higher than a dot."""
    return line(x, y - 10, x, y + 10, opacity=1, thick=2)


def _stated(gpu: str, level: str, shown: Sequence[Entry]) -> float:
    """The datasheet's rate for a limit of one of the GPUs; 0 where it states none."""
    record = next(one.record for name, one in zip(names(shown), shown, strict=True) if name == gpu)
    return specified(level, record.gpu) or 0.0


def _told(roof: Roof, stated: float) -> str:
    """A rate, and the share that it is of the datasheet's."""
    return f"{rate(roof)} ({percent(roof.per_second / stated)})" if stated else rate(roof)


def rate(roof: Roof, *, zeros: bool = True) -> str:
    """ "797 TFLOP/s", "3.86 T exp/s": an exponential is no FLOP."""
    return si(roof.per_second, " exp/s" if roof.level == "exp" else roof.unit, zeros=zeros)


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
    times = roofs[high].per_second / roofs[low].per_second
    d = sizes(OPENING)[0].values["head_dim"]
    return words.format(count(round(times)), d=count(d), share=percent(times / (4 * d)), of=count(4 * d))


def _score() -> str:
    """How many FLOPs of both matmuls belong to one exponential, in the opening kernel."""
    d = sizes(OPENING)[0].values["head_dim"]
    return f"a score at d = {count(d)} needs 4 · {count(d)} = {count(4 * d)} of them, and one exponential".replace(
        " · ", "\u00a0·\u00a0"
    )


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
            rates = map(rate, (read, written))
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
        cells = (plain(rate(roof)) if roof else None for roof in roofs)
        rows.append((f"**{plain(roof_name(level))}**", *cells, "; ".join(methods)))
    return markdown(("limit", *(Column(plain(one.label)) for one in shown), "method"), rows)
