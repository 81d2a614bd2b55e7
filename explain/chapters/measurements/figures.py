"""Records as tables, GPUs side by side."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import plotly.graph_objects as go

from explain.chapters.three_numbers.levels import recorded_trace
from explain.counters.model import TOLERANCE, CopyCheck, Counters, total
from explain.experiment import Experiment
from explain.figures import palette
from explain.figures.labels import text_width, unbroken, widest, wrapped
from explain.figures.numbers import NONE, count, duration, fixed, grouped, moved, number, percent, ratio, si
from explain.figures.plot import FONT, logarithmic, plot, titled
from explain.figures.tables import Column, markdown, plain
from explain.gpus import GPUS, card, specified
from explain.kept import kept
from explain.prediction import Model
from explain.records.code import is_stale
from explain.records.model import Point, Record, Roof, changed, roof_name, settings
from explain.records.plans import PLANS, Plan
from explain.records.registry import Entry
from kernels.catalog import KERNELS

Quantity = Callable[[Point], float | None]


def _counted(name: str, warm: bool = False) -> Quantity:
    """A count in MB, with a cold L2 unless `warm`."""

    def value(point: Point) -> float | None:
        if point.counters is None:
            return None
        count = getattr(point.counters.warm if warm else point.counters.cold, name)
        return None if count is None else count / 1e6

    return value


def _written(point: Point) -> float | None:
    counts = point.counters.cold if point.counters else None
    written = total(counts.dram_written_bytes, counts.dirty_bytes) if counts else None
    return None if written is None else written / 1e6


def _tensor(point: Point) -> float | None:
    """How busy the tensor cores were, in percent; None for a kernel without a matmul."""
    has_matmul = point.experiment.traffic.flops_of("matmul") > 0
    return point.counters.cold.tensor_active_percent if point.counters and has_matmul else None


def _of_formula(point: Point) -> float | None:
    """The bytes read from HBM with a cold L2, in percent of the formula's."""
    read = point.counters.cold.dram_read_bytes if point.counters else None
    return None if read is None else 100 * read / point.experiment.traffic.read_bytes


QUANTITIES: Mapping[str, Quantity] = {
    "time, µs": lambda point: 1e3 * point.timing.median_ms if point.timing else None,
    "HBM read, L2 cold, MB": _counted("dram_read_bytes"),
    "HBM ÷ formula, %": _of_formula,
    "HBM read, L2 warm, MB": _counted("dram_read_bytes", warm=True),
    "HBM written, or left in L2, MB": _written,
    "L2 → SM read, MB": _counted("l2_read_bytes"),
    "SM → L2 written, MB": _counted("l2_written_bytes"),
    "requested at L1, MB": _counted("l1_bytes"),
    "spills, stored + loaded, MB": _counted("spilled_bytes"),
    "tensor cores busy, %": _tensor,
    "memory held, MB": lambda point: None if point.peak_bytes is None else point.peak_bytes / 1e6,
}
"""The quantities of a point, by name with unit."""
KERNEL, SIZES, FORMULA, DATE = "kernel", "sizes", "formula: read, MB", "measured on"
FIRST = ("time, µs", FORMULA, "HBM read, L2 cold, MB", "HBM ÷ formula, %")
"""The quantities that a table of one record begins with."""
HEADING = 95
"""How wide a line of a heading is at most, in pixels: the numbers below are short."""
_WORDS = {
    "batch": "batch {}", "heads": "{} heads", "kv_heads": "{} KV heads", "seq_len": "N = {}", "kv_len": "{} keys",
    "head_dim": "d = {}", "k": "K = {}", "dtype": "{}", "block_m": "BLOCK_M {}", "block_n": "BLOCK_N {}",
    "block_d": "BLOCK_D {}", "splits": "{} splits", "tokens": "{} tokens", "vocab": "V = {}", "dim": "d = {}",
}  # fmt: skip
"""How a reader says a parameter's value; a softmax's rows and cols are one shape."""


@kept
def plans(shown: Sequence[Entry]) -> dict[str, Plan]:
    """The plans that any record has an experiment of, by name."""
    return {
        name: plan
        for name, plan in PLANS.items()
        if any(one.record.point(experiment) for experiment in plan.experiments for one in shown)
    }


@kept
def kernels(plan: Plan, shown: Sequence[Entry]) -> list[str]:
    """The names of the kernels that the plan measured in any of the records."""
    there = (one.kernel for one in plan.experiments if any(entry.record.point(one) for entry in shown))
    return list(dict.fromkeys(there))


@kept
def rows(
    plan: Plan, shown: Sequence[Entry], quantity: str | None, kernel: str = ""
) -> list[dict[str, str | float | None]]:
    """The plan's experiments in the records, of one `kernel` or of all, kernel after kernel: every quantity of a single
    record, or one `quantity` of each record.
    """
    table: list[dict[str, str | float | None]] = []
    _, own_sizes = _words(plan, shown, kernel)
    for experiment, own in own_sizes.items():
        points = [one.record.point(experiment) for one in shown]
        row: dict[str, str | float | None] = {KERNEL: experiment.entry.title}
        row[SIZES] = own
        row[FORMULA] = experiment.traffic.read_bytes / 1e6
        if quantity is None:
            row |= {name: value(points[0]) if points[0] else None for name, value in QUANTITIES.items()}
            row[DATE] = _date(shown[0].record, points[0])
        else:
            value = QUANTITIES[quantity]
            row |= {
                f"{number}. {one.label}" if len(shown) > 1 else one.label: value(point) if point else None
                for number, (one, point) in enumerate(zip(shown, points, strict=True), start=1)
            }
        table.append(row)
    known = {name for row in table for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in known} for row in table]


def _measured(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[Experiment]:
    """The plan's experiments in any of the records, of one `kernel` or of all, kernel after kernel."""
    there = [one for one in plan.experiments if any(entry.record.point(one) for entry in shown)]
    order = kernels(plan, shown)
    return sorted((one for one in there if kernel in ("", one.kernel)), key=lambda one: order.index(one.kernel))


def _date(record: Record, point: Point | None) -> str | None:
    """The day of a measurement, in one piece."""
    if point is None:
        return None
    return (point.origin.provenance if point.origin else record.provenance).date.replace("-", "‑")


@kept
def in_every_row(plan: Plan, shown: Sequence[Entry], kernel: str = "") -> str:
    """The sizes that all rows share, as words; "" if there are none."""
    return ", ".join(_words(plan, shown, kernel)[0])


def _words(plan: Plan, shown: Sequence[Entry], kernel: str) -> tuple[list[str], dict[Experiment, str]]:
    """The sizes that all rows share, and each row's own: no two rows of a kernel say the same."""
    there = _measured(plan, shown, kernel)
    values: dict[str, set[object]] = {}
    for one in there:
        for name, value in one.values.items():
            values.setdefault(name, set()).add(value)
    said = [_sizes(one, {name for name, found in values.items() if len(found) > 1}) for one in there]
    shared = [words for words in said[0] if all(words in other for other in said)] if len(said) > 1 else []
    own = (", ".join([words for words in one if words not in shared] or one) for one in said)
    return shared, dict(zip(there, own, strict=True))


def sizes(experiment: Experiment) -> str:
    """An experiment's sizes as a reader says them: "4,096 × 8,192, BLOCK_N 4,096"."""
    return ", ".join(_sizes(experiment))


def _sizes(experiment: Experiment, varied: Collection[str] = ()) -> list[str]:
    """The sizes that differ from the kernel's defaults, and those `varied`, each as words; without those that follow
    from others.
    """
    values, own = experiment.values, changed(experiment)
    said = [f"{count(values['rows'])} × {count(values['cols'])}"] if "rows" in values else []
    for parameter in experiment.entry.parameters:
        name, value = parameter.name, values[parameter.name]
        if name in ("rows", "cols") or (name not in own and (name not in varied or callable(parameter.default))):
            continue
        if isinstance(value, bool):
            said.append(name if value else f"not {name}")
        else:
            words = _WORDS.get(name, f"{name} {{}}")
            said.append(words.format(count(value) if isinstance(value, int) else value))
    return said


@kept
def points_table(plan: Plan, shown: Sequence[Entry], quantity: str | None, every: bool = True, kernel: str = "") -> str:
    """`rows` as Markdown; where all kernels are asked for, each one's name stands in its first row. Of a single record
    it has the columns of `FIRST` unless `every` is asked for.
    """
    table = rows(plan, shown, quantity, kernel)
    names = list(dict.fromkeys(name for row in table for name in row))
    if quantity is None:
        more = [name for name in names if every and name not in (KERNEL, SIZES, *FIRST, DATE)]
        names = [name for name in (KERNEL, SIZES, *FIRST, *more, DATE) if name in names]
    names = [name for name in names if not (kernel and name == KERNEL)]
    columns = [
        name if name in (KERNEL, SIZES, DATE)
        else Column("<br>".join(map(plain, wrapped(name, HEADING, FONT, bold=True))), _format(quantity or name))
        for name in names
    ]  # fmt: skip
    cells = []
    for row, above in zip(table, [{}, *table], strict=False):
        begins = row[KERNEL] != above.get(KERNEL)
        own = _marked(str(row[SIZES]), "" if begins else str(above[SIZES]))
        cells.append(row | {KERNEL: f"**{row[KERNEL]}**" if begins else "", SIZES: own})
    return markdown(columns, [[row.get(name) for name in names] for row in cells])


def _marked(sizes: str, above: str) -> str:
    """A row's sizes, bold where the row `above` differs; lines break between two of them only."""
    known = above.split(", ")
    words = ((one, one.replace(" ", "&nbsp;")) for one in sizes.split(", "))
    return ", ".join(f"<b>{shown}</b>" if above and one not in known else shown for one, shown in words)


def _format(quantity: str) -> Callable[[float], str]:
    """A percentage has one decimal, every other quantity four digits."""
    return partial(fixed, decimals=1) if quantity.endswith("%") else partial(number, digits=4)


@dataclass(frozen=True)
class Spilled:
    """The row that wrote most spilled registers, in short sentences, and one to the byte; Markdown."""

    told: str
    exact: str


@kept
def spilled(plan: Plan, one: Entry, kernel: str = "") -> Spilled | None:
    """What the plan's kernels, or this `kernel`, wrote to L2 besides their output; None if nothing was spilled.

    `exact` is of the largest spill that is the whole difference, "" if there is none.
    """
    _, own = _words(plan, [one], kernel)
    found = [
        (point.counters.cold.spill_written_bytes, point.counters.cold.l2_written_bytes, experiment)
        for experiment in own
        if (point := one.record.point(experiment)) and point.counters
    ]
    most = sorted(((s, w, e) for s, w, e in found if s and w), key=lambda row: -row[0])
    if not most:
        return None
    spill, wrote, worst = most[0]
    told = (
        f"**Registers spill in {count(len(most))} of {count(len(found))} counted rows.** Most in {worst.entry.title} "
        f"at {own[worst]}: of the {moved(wrote)} that it writes to L2, {moved(spill)} are spilled "
        "registers."
    )
    for spill, wrote, experiment in most:
        if wrote == (output := experiment.traffic.written_bytes) + spill:
            stored = " and ".join(term.buffer for term in experiment.traffic.terms if term.written)
            return Spilled(
                told,
                f"**Spilled, to the byte**: {experiment.entry.title} at {own[experiment]} wrote {count(wrote)} bytes "
                f"to L2. {count(output)} bytes are {stored}, {count(spill)} bytes are spilled registers. Loading "
                "those again is not in this sum.",
            )
    return Spilled(told, "")


@kept
def about(shown: Sequence[Entry]) -> str:
    """The facts of each record, one column per record, as Markdown."""
    facts = [_facts(one) for one in shown]
    rows = [(f"**{name}**", *(fact[name] for fact in facts)) for name in facts[0]]
    known = [row for row in rows if any(cell != NONE for cell in row[1:])]
    return markdown(("record", *(plain(one.label) for one in shown)), known)


def _facts(one: Entry) -> dict[str, str]:
    record, where = one.record, one.record.provenance
    points = list(record.points.values())
    counted = [point.counters for point in points if point.counters]
    origins = {point.origin for point in points if point.origin}
    commits = {origin.commit for origin in origins} | ({record.commit} if not origins else set())
    codes = [point.origin.code if point.origin else "" for point in points]
    older = sum(map(is_stale, points))
    unknown = f", unknown for {count(codes.count(''))}" if "" in codes else ""
    lacking = {name for counters in counted for name in counters.lacking}
    return {
        "GPU": plain(where.gpu),
        "driver": plain(where.driver),
        "CUDA": plain(where.cuda),
        "torch": plain(where.torch),
        "triton": plain(where.triton),
        "Python": plain(where.python),
        "measured on": _listed({origin.provenance.date for origin in origins} or {where.date}),
        "commit of Tilescope": _listed({_short(commit) for commit in commits}),
        "measurements": (
            f"{count(len(points))} experiments: {count(sum(point.timing is not None for point in points))} timed, "
            f"{count(len(counted))} counted"
        ),
        "could not be measured": f"{count(len(missed(record)))}",
        "kernel changed since": f"{count(older)}{unknown}",
        "counters read by": _listed({counters.method for counters in counted}),
        "why not CUPTI": _listed({counters.fallback for counters in counted if counters.fallback}),
        "passes per count": _listed({str(counters.passes) for counters in counted if counters.passes}),
        "copy check": _copies(counted),
        "counters that this chip lacks": _listed(lacking),
        "timing method": _methods({point.timing.method for point in points if point.timing}),
    }


@kept
def sources_table(example: Experiment, shown: Sequence[Entry], model: Model | None) -> str:
    """The sources of numbers, what each counts or measures, and what it says of one run, as Markdown."""
    traced = recorded_trace(example)
    found = ((one, point) for one in shown if (point := one.record.point(example)))
    one, point = next(found, (None, None))
    read = point.counters.cold.dram_read_bytes if point and point.counters else None
    facts = (
        duration(point.seconds) if point and point.seconds else None,
        f"{moved(read)} from HBM" if read else None,
        f"on {plain(one.record.gpu)}" if one else None,
    )
    guesses = ((gpu, model.seconds(example, gpu)) for gpu in GPUS.values() if gpu.name != model.gpu) if model else ()
    guess = next((f"{duration(seconds)} on an {gpu.name}" for gpu, seconds in guesses if seconds is not None), None)
    rows = (
        ("○&nbsp;**formula**", "bytes and FLOPs, computed from the sizes", f"{moved(example.traffic.read_bytes)} read"),
        ("◉&nbsp;**trace**", "each load and store, counted in Triton's interpreter; never a time",
         traced and f"{moved(traced.of(False))} read"),
        ("●&nbsp;**hardware**", "times, errors and bytes, measured on a GPU: now, or **recorded** before",
         ", ".join(filter(None, facts)) or None),
        ("**compiler**", "registers and shared memory of a kernel, before it runs",
         "[What does a tile cost?](./tile_cost)"),
        ("○&nbsp;**predicted**", "a time on a GPU without a record, from a model", guess),
    )  # fmt: skip
    return markdown(("source", "what it counts or measures", "example"), rows)


@kept
def made(one: Entry) -> list[tuple[str, str, str]]:
    """What was measured: name, how many, and on what, how or when."""
    points = list(one.record.points.values())
    timed, counted = (sum(map(bool, (getattr(p, of) for p in points))) for of in ("timing", "counters"))
    stale = sum(map(is_stale, points))
    dates = sorted({p.origin.provenance.date for p in points if p.origin} or {one.record.provenance.date})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}".replace("-", "‑")  # a date does not break
    return [
        ("experiments timed", count(timed), f"on {plain(one.record.gpu)}, {plain(when)}"),
        ("counted by the GPU", count(counted), "in runs of their own: counting slows a run"),
        ("out of date", count(stale), "their kernels changed since" if stale else "no kernel changed since ✓"),
    ]


def missed(record: Record) -> list[Point]:
    """The points with missing data."""
    return [point for point in record.points.values() if point.why]


@kept
def missed_table(shown: Sequence[Entry]) -> str:
    """The measurements that failed, and why, as Markdown; empty if none did."""
    rows = [
        (plain(one.label), f"`{point.experiment.kernel}`", plain(settings(point.experiment)), plain(point.why))
        for one in shown
        for point in missed(one.record)
    ]
    return markdown(("record", "kernel", "sizes", "why"), rows)


NARROWEST = 450
"""The width of a plot's axis at least, in pixels; on a phone it scrolls."""
UNITS = {"B/s": "bytes", "FLOP/s": "FLOPs"}
"""What a roof's unit counts."""
_PAIRS = {
    "B/s": ("shared", "hbm", "Shared memory delivers {} as many bytes per second as HBM"),
    "FLOP/s": ("matmul bf16", "exp", "A bf16 matmul runs {} as many FLOPs per second as exponentials"),
}
"""By unit: the limit with the longest bar, a limit to compare it with, and the sentence about their ratio."""


@kept
def most_used(record: Record) -> list[tuple[str, str, str]]:
    """The limits that the pages use most: name, rate, and what the rate means."""
    roofs, known = record.roofs, card(record.gpu)
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
    return found


@kept
def limits(shown: Sequence[Entry]) -> list[go.Figure]:
    """The measured limits of each GPU as bars, a plot for each unit: a line marks the datasheet's rate."""
    units = dict.fromkeys(roof.unit for one in shown for roof in one.record.roofs.values())
    return [_limits(shown, unit) for unit in units]


def _limits(shown: Sequence[Entry], unit: str) -> go.Figure:
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
    step = next(decade * size for size in (1, 2, 2.5, 5, 10, 20, 25, 50) if most < 4 * decade * size)
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


def copy_words(copy: CopyCheck) -> str:
    """The result of the copy check in words."""
    if copy.read_bytes is None:
        return "no HBM bytes counted"
    parts = [f"read {_off(copy.read_bytes, copy.copied_bytes)}"]
    if copy.written_bytes is not None:
        parts.append(f"written {_off(copy.written_bytes, copy.copied_bytes)}")
    return f"{'passed' if copy.passed else 'failed'}: {copy.copied_bytes // 2**30} GiB {', '.join(parts)} off"


def counts_table(counters: Counters, formula_read: int, formula_written: int) -> str:
    """One experiment's counts, L2 cold and warm, beside the formula, as Markdown."""
    rows = [
        (name, formula, *(getattr(counts, field) for counts in (counters.cold, counters.warm)))
        for name, formula, field in (
            ("read: by formula, and from HBM", formula_read, "dram_read_bytes"),
            ("written: by formula, and to HBM during the run", formula_written, "dram_written_bytes"),
            ("written, still dirty in L2", None, "dirty_bytes"),
            ("read by the SMs from L2", None, "l2_read_bytes"),
            ("written by the SMs to L2", None, "l2_written_bytes"),
        )
    ]
    return markdown(("bytes", Column("formula"), Column("L2 cold"), Column("L2 warm")), rows)


def _copies(counted: Sequence[Counters]) -> str:
    copies = {counters.copy for counters in counted}
    if not copies:
        return NONE
    worst = max(copies, key=lambda copy: abs((copy.read_bytes or 0) - copy.copied_bytes))
    return f"{copy_words(worst)}; at most {percent(TOLERANCE, 1)} allowed"


def _off(counted: int, copied: int) -> str:
    return percent(abs(counted - copied) / copied, 3)


def _short(commit: str) -> str:
    """A commit's first ten digits; says whether the checkout had local changes."""
    return commit if len(commit) < 40 else f"{commit[:10]}{', with local changes' if commit.endswith('+') else ''}"


def _methods(methods: set[str]) -> str:
    """The phrases that all methods share, once, and then what some add."""
    parts = [method.partition("; ") for method in sorted(methods)]
    phrases = [[*first.split(", "), *filter(None, [rest])] for first, _, rest in parts]
    shared = [one for one in phrases[0] if all(one in other for other in phrases)] if phrases else []
    extra = dict.fromkeys(one for own in phrases for one in own if one not in shared)
    return plain(", ".join(shared) + (f"; some: {'; '.join(extra)}" if extra else "")) or NONE


def _listed(values: set[str]) -> str:
    return "; ".join(plain(value) for value in sorted(values)) or NONE


@kept
def least_predictable(model: Model) -> str:
    """The kernel with the largest median error, in a sentence; Markdown."""
    errors = _errors(model)
    kernel = next(iter(errors))
    return unbroken(
        f"The kernel with the largest median error, {ratio(errors[kernel][1])}, is **{KERNELS[kernel].title}**."
    )


def _errors(model: Model) -> dict[str, tuple[int, float, float]]:
    """Of each kernel how many times, their median error and the worst; the largest median error first."""
    errors = {}
    for kernel in model.fitted:
        factors = [point.factor for point in model.points if point.experiment.kernel == kernel]
        errors[kernel] = (len(factors), float(np.median(factors)), max(factors))
    return dict(sorted(errors.items(), key=lambda item: -item[1][1]))


@kept
def prediction_table(model: Model) -> str:
    """The model's error for each kernel, the worst first, with the efficiencies that were fitted, as Markdown."""
    rows = []
    for kernel, errors in _errors(model).items():
        overhead, e_bytes, e_flops = model.fitted[kernel]
        rows.append((KERNELS[kernel].title, *errors, duration(overhead), percent(e_bytes), percent(e_flops)))
    columns = (
        "kernel", Column("times"), Column("median error", ratio), Column("worst error", ratio), Column("overhead", str),
        Column("of the bandwidth", str), Column("of the peak", str),
    )  # fmt: skip
    return markdown(columns, rows)


_FAMILIES = {
    "softmax": ("softmax", "circle"),
    "attention": ("attention", "diamond"),
    "loss": ("cross entropy", "square"),
}
"""The families that are measured: name and symbol in a chart."""


@kept
def predicted_chart(model: Model) -> go.Figure:
    """Each recorded time over the time that the model predicts without it; on the diagonal both are equal."""
    figure = plot()
    for place, (family, (name, symbol)) in enumerate(_FAMILIES.items(), start=1):
        own = [point for point in model.points if point.experiment.entry.family == family]
        figure.add_scatter(
            x=[point.seconds for point in own], y=[point.measured for point in own], mode="markers",
            name=name,
            marker={"color": palette.mid(f"series-{place}"), "size": 9, "opacity": 0.7, "symbol": symbol},
            text=[f"{p.experiment.entry.title}, {sizes(p.experiment)}: {ratio(p.factor)}" for p in own],
            hovertemplate="%{text} off<extra></extra>",
        )  # fmt: skip
    low, high = (edge(s for p in model.points for s in (p.measured, p.seconds)) for edge in (min, max))
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", name="predicted = measured", hoverinfo="skip",
        line={"color": palette.mid("slate"), "dash": "dash", "width": 1},
    )  # fmt: skip
    marks = [10.0**power for power in range(-6, 1) if low / 3 < 10.0**power < 3 * high]
    worst, off = model.worst, f"{ratio(model.worst.factor)} off"
    figure.add_annotation(
        x=math.log10(worst.seconds), y=math.log10(worst.measured), ax=0, arrowhead=2,
        ay=-60 if worst.measured > worst.seconds else 60, arrowcolor=palette.mid("slate"), font={"size": FONT},
        text="<br>".join([*wrapped(worst.experiment.entry.title, 260, FONT), off]),
    )  # fmt: skip
    edges = [math.log10(low / 1.5), math.log10(1.5 * high)]
    texts = {mark: duration(mark) for mark in marks}
    figure.update_xaxes(**logarithmic("predicted time", texts), range=edges)
    figure.update_yaxes(**logarithmic("measured time", texts), range=edges)
    figure.update_layout(
        height=480, margin={"l": 8, "r": 8, "t": 36, "b": 8}, hovermode="closest",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    titled(figure, f"Half of the predicted times are within {ratio(model.median)} of the measured ones")
    return figure
