"""The measured points of a plan as tables: their rows, the columns and what each means, and Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain

from explain.chapters.measurements.points import (
    BUSY,
    FROM_SMS,
    HELD,
    LAUNCHES,
    LOADED,
    LOADS,
    OF_ONCE,
    ONCE,
    OUTDATED,
    QUANTITIES,
    RATE,
    READ,
    READS,
    REQUESTED,
    SPILLS,
    SPREAD,
    STEADY,
    TIME,
    TO_SMS,
    WARM,
    WRITTEN,
    Quantity,
    inputs_once,
    kernels,
    measured,
    name_of,
    names,
    runs_in_words,
    unit_of,
    with_host,
)
from explain.figures.labels import begun, listed, unbroken, wrapped
from explain.figures.numbers import count, duration, fixed, moved, number, ratio
from explain.figures.plot import FONT
from explain.figures.tables import Column, markdown, plain
from explain.gpus import card
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Point, Record
from explain.records.plans import Plan
from explain.records.registry import Entry

Row = Mapping[str, str | float | None]
"""A row of the table: its kernel and sizes in words, and numbers by the names of their columns."""
KERNEL, SIZES, HOST, DATE, BESIDE = "kernel", "sizes", "with host time", "date", "ratio"
ONE_LAUNCH, SHARED = "timed by one launch", "in every row of the kernel"
FIRST, UNCOUNTED = (TIME, LOADED, OF_ONCE, READ, HELD), (TIME, HELD)
"""The columns that a table of one record begins with: where bytes were counted, and where none were."""
MEANINGS = {
    TIME: "The median of a call's times, with a cold L2.",
    RATE: "The FLOPs of the matmuls (formula) ÷ the time. FLOPs of masked tiles count only if the kernel computes "
    "them.",
    BUSY: "The share of an SM's active cycles in which its tensor cores work. This is not the share of the measured "
    "matmul rate.",
    SPREAD: "The slowest ÷ the fastest launch of a run, without the slowest fifth and the fastest fifth.",
    LAUNCHES: "How many launches the time is the median of: as many as fit into the measuring time.",
    LOADED: "The bytes of all loads of the kernel ÷ those of its inputs.",
    LOADS: "All bytes that a teaching kernel loads, repeated ones included.",
    ONCE: "The bytes of the inputs, each once. What a forward pass stored for a backward pass, such as P, O and L, is "
    "no input here.",
    OF_ONCE: "At 1 ×, HBM delivers each input once. Above 1 ×, it delivers inputs again, or what the kernel wrote "
    "itself, such as S and P of standard attention, or spilled registers. In small runs, a few tens of kB "
    "of other traffic show up too.",
    READ: "L2 is cold: it holds none of the inputs when the run begins. It is cold for all counts except *L2 warm*.",
    WARM: "The same kernel has just run, so L2 still has some of its bytes.",
    WRITTEN: "Bytes written during the run, and those left in L2, which are written later.",
    TO_SMS: "Bytes that the SMs read from L2, spilled registers included.",
    FROM_SMS: "Bytes that the SMs write to L2, spilled registers included.",
    REQUESTED: "What the loads and stores of all warps ask for, before any cache. Copies by TMA are not in this count.",
    SPILLS: "Registers beyond those that a thread has, stored to memory and loaded again: the bytes of both, at L1.",
    HELD: "The most that PyTorch's allocator held during a call for outputs and intermediate results.",
    HOST: f"The launches of the run differ by more than {number(STEADY)} ×, so its time probably has time on the host "
    "in it.",
    OUTDATED: "The kernel's code has changed since the run was measured.",
    DATE: "The day of the measurement.",
}
"""What a quantity is, or another line of a run."""
SIZED = "computed from the sizes"
COMPUTED = {
    LOADED: SIZED, LOADS: SIZED, ONCE: SIZED, OF_ONCE: "measured bytes ÷ the minimum",
    RATE: "computed FLOPs ÷ measured time",
}  # fmt: skip
"""The columns that are not measured alone, and where their numbers come from."""
NAMED = 4
"""How many measured columns are named at most."""
NEAR = 0.05
"""Counts of HBM with a cold and a warm L2 are about the same if they differ by less than this share."""
GROUPS = {
    "time": (TIME, RATE, BUSY, SPREAD, LAUNCHES),
    "loads": (LOADED, LOADS, ONCE),
    "HBM": (OF_ONCE, READ, WARM, WRITTEN),
    "caches": (TO_SMS, FROM_SMS, REQUESTED, SPILLS),
    "memory": (HELD,),
}
"""Every column of a single record, under the headings of the wide table."""
LARGER = {"µs": "ms", "MB": "GB"}
"""The unit that columns change to where all their numbers are at least 1,000."""
OWN: Mapping[str, Callable[[float], str]] = {
    "µs": lambda value: duration(value / 1e6), "MB": lambda value: moved(value * 1e6)
}  # fmt: skip
APART = 1e3
"""From which factor between two of a column's numbers on each number has a unit of its own: one of `OWN`."""
TINY = 0.01
"""A cell of fewer MB has a smaller unit."""
HUGE = 1e5
"""A table of a few runs has the larger unit from this number on."""
HEADING, CLOSE = 140, 62
"""How wide a line of a heading is at most, in pixels, and where every column is shown: the numbers below are short."""


@kept
def rows(
    plan: Plan, shown: Sequence[Entry], quantity: str | None, kernel: str = ""
) -> list[dict[str, str | float | None]]:
    """The plan's experiments in the records, of one `kernel` or of all, kernel after kernel: every quantity of a single
    record, or one `quantity` of each record, and of two records the ratio.
    """
    table: list[dict[str, str | float | None]] = []
    said = {name: runs_in_words(plan, shown, name) for name in ([kernel] if kernel else kernels(plan, shown))}
    gpus = gpu_columns(shown, quantity) if quantity else []
    for experiment, own in ((run, own) for _, sizes in said.values() for run, own in sizes.items()):
        points = [one.record.point(experiment) for one in shown]
        row: dict[str, str | float | None] = {KERNEL: experiment.entry.title}
        row[SIZES], row[SHARED] = own, ", ".join(said[experiment.kernel][0])
        if quantity in (None, *READS):
            row[LOADS] = experiment.traffic.read_bytes / 1e6 if experiment.entry.steppable else None
            row[ONCE] = inputs_once(experiment) / 1e6
        if quantity is None:
            row |= {name: value(points[0]) if points[0] else None for name, value in QUANTITIES.items()}
            row[DATE] = _date(shown[0].record, points[0])
        else:
            value = QUANTITIES[quantity]
            row |= {gpu: value(point) if point else None for gpu, point in zip(gpus, points, strict=True)}
            row[BESIDE] = _beside(points, value) if len(shown) == 2 else None
        if quantity in (None, TIME):
            on = [gpu for gpu, point in zip(names(shown), points, strict=True) if with_host(point)]
            row[HOST] = (f"probably, {' and '.join(on)}" if len(shown) > 1 else "probably") if on else None
        once = [
            gpu
            for gpu, point in zip(names(shown), points, strict=True)
            if point and point.timing and point.timing.launches == 1
        ]
        row[ONE_LAUNCH] = (" and ".join(once) or None) if quantity in (None, TIME) else None
        stale = [gpu for gpu, point in zip(names(shown), points, strict=True) if point and is_stale(point)]
        row[OUTDATED] = (f"on {' and '.join(stale)}" if len(shown) > 1 else "kernel changed") if stale else None
        table.append(row)
    known = {name for row in table for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in known} for row in table]


def gpu_columns(shown: Sequence[Entry], quantity: str) -> list[str]:
    """The columns of one quantity, a GPU each: "H200, µs"."""
    return [f"{gpu}, {quantity.removeprefix(f'{name_of(quantity)}, ')}" for gpu in names(shown)]


def _beside(points: Sequence[Point | None], quantity: Quantity) -> float | None:
    """The second GPU's number as a multiple of the first one's; None without both, or beside a zero."""
    first, second = (quantity(point) if point else None for point in points)
    return second / first if first and second else None


def _date(record: Record, point: Point | None) -> str | None:
    """The day of a measurement, in one piece."""
    if point is None:
        return None
    return record.provenance_of(point).date.replace("-", "‑")


@kept
def in_every_row(plan: Plan, shown: Sequence[Entry], kernel: str = "") -> str:
    """The sizes that all rows of a `kernel` share, and the date of a record's rows if it is one, as words."""
    dates = {row.get(DATE) for row in rows(plan, shown, None, kernel)} if len(shown) == 1 else set()
    said = [f"measured {date}" for date in dates if date and len(dates) == 1]
    return ", ".join([*(runs_in_words(plan, shown, kernel)[0] if kernel else ()), *said])


@kept
def columns_of(
    plan: Plan, shown: Sequence[Entry], quantity: str | None, every: bool = True, kernel: str = ""
) -> list[str]:
    """The columns of numbers in the table, in order. A single record has those of `FIRST`, or of all `GROUPS`."""
    table = rows(plan, shown, quantity, kernel)
    words = (KERNEL, SIZES, SHARED, HOST, ONE_LAUNCH, OUTDATED, DATE)
    found = list(dict.fromkeys(name for row in table for name in row if name not in words))
    if quantity is not None:
        return found
    few = FIRST if READ in found else UNCOUNTED
    return [name for name in (chain(*GROUPS.values()) if every else few) if name in found]


@kept
def points_table(
    plan: Plan, shown: Sequence[Entry], quantity: str | None, every: bool = True, kernel: str = "", largest: str = ""
) -> str:  # fmt: skip
    """`rows` as Markdown; where all kernels are asked for, each one's name stands in its first row, above the sizes. Of
    a single record it has the columns of `FIRST`, or `every` one below its group. In the order of a column's `largest`
    number each row stands in a line.
    """
    table = ordered(rows(plan, shown, quantity, kernel), largest)
    found = columns_of(plan, shown, quantity, every, kernel)
    larger = _large(table, found)
    apart = _apart(table, [name for name in found if name not in larger])
    titles = {BESIDE: " ÷ ".join(names(shown)[::-1])} | larger
    titles |= {name: f"{name_of(name)}, ×" for name in apart}  # like the × of a ratio, their units are in the cells
    words, days = _words_in(table), _days(table)
    in_titles = DATE in words and not kernel and all(len(own) == 1 for own in days.values())
    if in_titles:
        words.remove(DATE)
    groups = _groups(found, quantity)

    def format_of(name: str) -> Callable[[float], str]:
        if name == BESIDE:
            return _ratio_format(table) if kernel else ratio
        if name in apart:
            return OWN[unit_of(name)]
        return _megabytes if unit_of(name) == "MB" and name not in larger else _format(quantity, name)

    width = CLOSE if any(groups) else HEADING
    columns: list[str | Column] = [
        SIZES if kernel else f"{KERNEL}, {SIZES}",
        *(Column(group + _heading(titles.get(name, name), width), format_of(name))
          for group, name in zip(groups, found, strict=True)),
        *words,
    ]  # fmt: skip
    cells, known = [], {name for row in table for name in row}
    for row, above in zip(table, [{}, *table], strict=False):
        scaled = {name: _scaled(row, name, larger) for name in larger}
        begins = row[KERNEL] != above.get(KERNEL)
        own = _marked(str(row[SIZES]), "" if begins or largest else str(above[SIZES]))
        if BESIDE in known and row.get(ONE_LAUNCH):  # of one GPU, the launches have their own column
            own += f" <small>(one launch on the {row[ONE_LAUNCH]})</small>"
        said = ", ".join(filter(None, [str(row[SHARED] or ""), *(f"measured {day}" for day in days[str(row[KERNEL])])]))
        shared, title = said if in_titles else str(row[SHARED] or ""), ""
        shared = f"<small>{_marked(shared, '')}</small>" if shared else ""
        if largest and not kernel:  # a line each: neighbours share little
            title, own = f"**{row[KERNEL]}** ", f"{own} {shared}"
        elif begins and not kernel:
            title = f"**{row[KERNEL]}**<br>{shared}{'<br>' * bool(shared)}"
        told = {name: _word(row, name) for name in words}
        cells.append({**row} | scaled | told | {SIZES: f"{title}{own}"})
    return markdown(columns, [[row.get(name) for name in (SIZES, *found, *words)] for row in cells])


@kept
def runs_table(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """Every quantity of a few runs of a `kernel` as Markdown: a line for each, below its group, with its unit and what
    it is, and a column for each run. All bytes have one unit.
    """
    table = rows(plan, shown, None, kernel)
    found = columns_of(plan, shown, None, True, kernel)
    larger = _large(table, found, HUGE)
    scaled = [{name: _scaled(row, name, larger) for name in found} for row in table]
    what = meanings(plan, shown, kernel)
    lines = [[name, *map(partial(_word, name=name), table), what[name]] for name in _words_in(table)]
    for group, of_group in GROUPS.items():
        if own := [name for name in of_group if name in found]:
            lines.append([f"**{group}**", *[""] * (len(table) + 1)])
        for name in own:
            format_ = _format(None, name)
            cells = [None if (value := row[name]) is None else format_(value) for row in scaled]
            lines.append([_line(larger.get(name, name)), *cells, unbroken(what[name])])
    sizes = [str(row[SIZES]) for row in table]
    heads = [Column(_marked(own, before)) for own, before in zip(sizes, ["", *sizes], strict=False)]
    return markdown(["quantity", *heads, "what it is"], lines)


def meanings(plan: Plan, shown: Sequence[Entry], kernel: str) -> dict[str, str]:
    """What each quantity is, for the shown runs: what a warm L2 saves depends on them."""
    runs = measured(plan, shown, kernel)
    found = [(one.record, point) for one in shown for run in runs if (point := one.record.point(run))]
    reads = [(point.counters.cold.dram_read_bytes, point.counters.warm.dram_read_bytes) for _, point in found
             if point.counters and point.counters.warm]  # fmt: skip
    if not any(cold and warm for cold, warm in reads):
        return dict(MEANINGS)
    if any(cold and warm is not None and abs(warm / cold - 1) >= NEAR for cold, warm in reads):
        return dict(MEANINGS)
    l2 = {gpu.l2_bytes for record, _ in found if (gpu := card(record.gpu))}
    larger = len(l2) == 1 and all(inputs_once(point.experiment) > max(l2) for _, point in found)
    why = f": the inputs are larger than L2 ({moved(max(l2))})" if larger else ""
    return {**MEANINGS, WARM: f"The same kernel has just run. Here that saves next to nothing{why}."}


def _line(name: str) -> str:
    """A line's name and its unit; a ratio has it in its cells, and a count has none."""
    unit = unit_of(name)
    return name_of(name) if unit in ("×", "count") else f"{name_of(name)} <small>{unit.replace(' ', '&nbsp;')}</small>"


def _word(row: Row, name: str) -> str | float | None:
    """What a column of words has in a row; what is out of date is marked."""
    return f":orange[{row[name]}]" if name == OUTDATED and row.get(name) else row.get(name)


def _words_in(table: Sequence[Row]) -> list[str]:
    """The columns of words that the rows need; one date of all rows is said above them."""
    words = [name for name in (HOST, OUTDATED) if any(row.get(name) for row in table)]
    return words + [DATE] * (len({row.get(DATE) for row in table}) > 1)


def _days(table: Sequence[Row]) -> dict[str, set[str]]:
    """The days on which each kernel's rows were measured, by its title."""
    days: dict[str, set[str]] = {}
    for row in table:
        own = days.setdefault(str(row[KERNEL]), set())
        own |= {str(row[DATE])} if row.get(DATE) else set()
    return days


def _ratio_format(table: Sequence[Row]) -> Callable[[float], str]:
    """A ratio as elsewhere; with three decimals where two rows would look alike."""
    values = {float(value) for row in table if (value := row.get(BESIDE))}
    if not values or max(values) >= 10 or len({*map(ratio, values)}) == len(values):
        return ratio
    return lambda value: f"{fixed(value, 3)} ×"


def _scaled(row: Row, name: str, larger: Collection[str]) -> float | None:
    """A row's number, in the `larger` unit where its column has that."""
    value = row.get(name)
    return None if value is None else float(value) / (1e3 if name in larger else 1)


def _large(table: Sequence[Row], columns: Sequence[str], most: float = math.inf) -> dict[str, str]:
    """The columns in a larger unit, each with its name in it. All columns of one unit change together: where all their
    numbers are at least 1,000, or one is `most` or more.
    """
    found: dict[str, str] = {}
    for unit, larger in LARGER.items():
        names = [name for name in columns if unit_of(name) == unit]
        numbers = [float(value) for row in table for name in names if (value := row.get(name))]
        if numbers and (min(numbers) >= 1e3 or max(numbers) >= most):
            found |= {name: f"{name_of(name)}, {larger}" for name in names}
    return found


def _apart(table: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """The columns with a unit for each number. All columns of one unit change together: where the numbers of one of
    them are far apart.
    """
    found = []
    for unit in OWN:
        names = [name for name in columns if unit_of(name) == unit]
        numbers = [[float(value) for row in table if (value := row.get(name))] for name in names]
        if any(own and max(own) >= APART * min(own) for own in numbers):
            found += names
    return found


def sources(columns: Sequence[str], quantity: str | None = None) -> str:
    """Where the columns' numbers come from, in sentences. `quantity`: what the numbers of a GPU's column are."""
    of: dict[str, list[str]] = {}
    for name in columns:
        own = quantity if quantity and name not in COMPUTED else name  # a GPU's column, or their ratio
        of.setdefault(COMPUTED.get(own, "measured"), []).append(name_of(own))
    named = {source: [*dict.fromkeys(found)] for source, found in of.items()}
    if [*named] == ["measured"]:
        return "All numbers are measured."
    if len(named.get("measured", ())) > NAMED:
        named["measured"] = ["all others"]
    named = dict(sorted(named.items(), key=lambda one: one[1] == ["all others"]))
    return " ".join(f"{begun(source)}: {listed(found)}." for source, found in named.items())


def ordered(table: Sequence[Row], largest: str) -> list[Row]:
    """The rows, those with the `largest` number of a column first where one is given and known."""
    if not any(row.get(largest) for row in table):
        return list(table)
    return sorted(table, key=lambda row: -float(row.get(largest) or 0))


def _groups(columns: Sequence[str], quantity: str | None) -> list[str]:
    """What stands above each column's heading: its group above the first one, a line above the others. Nothing where
    only the first columns or one quantity are shown.
    """
    group = {name: title for title, names in GROUPS.items() for name in names}
    if quantity or {*columns} <= {*FIRST}:
        return [""] * len(columns)
    own = [group[name] for name in columns]
    return [f"<em>{'' if title == before else title}</em>" for before, title in zip(["", *own], own, strict=False)]


def _heading(name: str, width: float) -> str:
    """A column's heading, at most `width` wide where words allow: its name, and its unit below. The × of a ratio is in
    the cells.
    """
    words, comma, unit = name.rpartition(", ")
    lines = "<br>".join(map(plain, wrapped(words if comma else name, width, FONT, bold=True)))
    return f"{lines}<br><small>{unit}</small>" if comma and unit != "×" else lines


def _marked(sizes: str, above: str) -> str:
    """A row's sizes, bold where the row `above` differs; lines break between two of them only."""
    own, known = sizes.split(", "), above.split(", ")
    several = bool(above) and len(own) > 1  # one size alone always differs
    words = ((one, one.replace(" ", "&nbsp;")) for one in own)
    return ", ".join(f"<b>{shown}</b>" if several and one not in known else shown for one, shown in words)


def _format(quantity: str | None, column: str) -> Callable[[float], str]:
    """A percentage has one decimal, a ratio three digits, every other quantity four."""
    if {SPREAD, OF_ONCE, LOADED} & {quantity, column}:
        return ratio
    if LAUNCHES in (quantity, column):
        return lambda launches: count(int(launches))
    percentage = (quantity or column).endswith("%")
    return partial(fixed, decimals=1) if percentage else partial(number, digits=4, zeros=True)


def _megabytes(value: float) -> str:
    """A number of a column in MB: a very small one has its own unit."""
    return moved(1e6 * value) if 0 < value < TINY else number(value, digits=4, zeros=True)
