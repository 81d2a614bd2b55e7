"""The measured points of a plan as a table: the quantities of each, the sizes in words, the columns and rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain

from explain.counters.model import total
from explain.experiment import Experiment
from explain.figures.labels import listed, unbroken, wrapped
from explain.figures.numbers import count, duration, fixed, moved, number, ratio
from explain.figures.plot import FONT
from explain.figures.tables import Column, markdown, plain
from explain.gpus import card
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Point, Record, changed
from explain.records.plans import PLANS, Plan
from explain.records.registry import Entry
from kernels.catalog import KERNELS
from kernels.parameters import Value

Quantity = Callable[[Point], float | None]
Row = Mapping[str, str | float | None]
"""A row of the table: its kernel and sizes in words, and numbers by the names of their columns."""
TIME = "time, µs"
LOADED, LOADS, ONCE, READ = ("kernel loads, × minimum", "every load, MB", "minimum, MB", "HBM read, MB")
OF_ONCE, REQUESTED, HELD = "HBM delivers, × minimum", "requested at L1, MB", "memory for results, MB"
WARM, TO_SMS, WRITTEN = "HBM read, L2 warm, MB", "L2 → SM read, MB", "written to HBM, now or later, MB"
RATE, FROM_SMS, SPILLS = "matmuls, TFLOP/s", "SM → L2 written, MB", "spills, stored + loaded, MB"
BUSY, SPREAD, LAUNCHES = "tensor cores busy, %", "slow ÷ fast launches, ×", "launches timed, count"


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


def spread(point: Point) -> float | None:
    """The 80th percentile of a row's times ÷ the 20th; None for one launch."""
    timing = point.timing
    return timing.p80_ms / timing.p20_ms if timing and timing.launches > 1 else None


def with_host(point: Point | None) -> bool:
    """Whether a recorded time probably contains time on the host: its launches differ much, and no CUDA graph replayed
    them.
    """
    if point is None or point.timing is None or GRAPH in point.timing.method:
        return False
    return (spread(point) or 1.0) > STEADY


def inputs(experiment: Experiment) -> dict[str, int]:
    """The bytes of each of the run's inputs, once. What the run writes and reads again is no input, nor what a forward
    pass stored for it: so kernels that compute the same have the same inputs.
    """
    other = {term.buffer for term in experiment.whole_terms if term.written} | {*STORED}
    read: dict[str, int] = {}
    for term in experiment.whole_terms:
        if term.buffer not in other:
            read[term.buffer] = max(term.once, read.get(term.buffer, 0))
    return read


def inputs_once(experiment: Experiment) -> int:
    """The bytes of the run's inputs, each once: the minimum."""
    return sum(inputs(experiment).values())


def stored(experiment: Experiment) -> list[str]:
    """What the run reads of what a forward pass stored, as a reader names it."""
    terms = experiment.whole_terms
    read = {term.buffer for term in terms} - {term.buffer for term in terms if term.written}
    return [name for buffer, name in STORED.items() if buffer in read]


def of_once(point: Point) -> float | None:
    """The bytes read from HBM with a cold L2 ÷ those of the inputs, each once."""
    read = point.counters.cold.dram_read_bytes if point.counters else None
    return None if read is None else read / inputs_once(point.experiment)


def loads_of_once(run: Experiment) -> float:
    """The bytes of all loads, by formula, ÷ those of the inputs, each once."""
    return run.traffic.read_bytes / inputs_once(run)


def hbm_seconds(record: Record, point: Point) -> float | None:
    """How long HBM takes for the bytes that a run reads and writes, at the rates measured on its GPU; None without
    counts or rates.
    """
    counts, read = point.counters.cold if point.counters else None, record.roofs.get("hbm")
    if not (counts and counts.dram_read_bytes and read):
        return None
    write = record.roofs.get("hbm write", read)
    return counts.dram_read_bytes / read.per_second + (counts.dram_written_bytes or 0) / write.per_second


def matmul_rate(run: Experiment, seconds: float | None) -> float | None:
    """The FLOPs of a run's matmuls ÷ its time, in FLOP/s; None without one of them."""
    flops = run.traffic.flops_of("matmul")
    return flops / seconds if flops and seconds else None


def _tflops(point: Point) -> float | None:
    rate = matmul_rate(point.experiment, point.seconds)
    return rate and rate / 1e12


QUANTITIES: Mapping[str, Quantity] = {
    TIME: lambda point: 1e3 * point.timing.median_ms if point.timing else None,
    LOADED: lambda point: loads_of_once(point.experiment) if point.experiment.entry.steppable else None,
    READ: _counted("dram_read_bytes"),
    OF_ONCE: of_once,
    SPILLS: _counted("spilled_bytes"),
    BUSY: _tensor,
    RATE: _tflops,
    WARM: _counted("dram_read_bytes", warm=True),
    WRITTEN: _written,
    TO_SMS: _counted("l2_read_bytes"),
    FROM_SMS: _counted("l2_written_bytes"),
    REQUESTED: _counted("l1_bytes"),
    HELD: lambda point: None if point.peak_bytes is None else point.peak_bytes / 1e6,
    SPREAD: spread,
    LAUNCHES: lambda point: point.timing.launches if point.timing else None,
}
"""The quantities of a point: each name has the unit."""


def name_of(quantity: str) -> str:
    """A quantity without its unit: "HBM read, L2 warm"."""
    return quantity.rpartition(", ")[0]


def _unit(quantity: str) -> str:
    return quantity.rpartition(", ")[2]


READS = (READ, WARM, TO_SMS, REQUESTED)
"""What the loads, by formula, are beside."""
WITH_SPILLS = (READ, WRITTEN, TO_SMS, FROM_SMS, SPILLS)
"""The quantities beside which the page says what was spilled."""
COMPARED = tuple(name for name in QUANTITIES if name not in (LOADED, SPREAD, LAUNCHES))
"""The quantities that say something of a GPU beside another one."""
STORED = {"p": "P", "o": "O", "lse": "L"}
"""What a forward pass stores for the backward pass, by the names of its tensors."""
KERNEL, SIZES, HOST, OUTDATED, DATE, BESIDE = "kernel", "sizes", "with host time", "out of date", "date", "ratio"
ONE_LAUNCH = "timed by one launch"
GRAPH, STEADY = "CUDA graph", 1.25
"""How a short kernel is launched without the host; by which factor the times of one run differ where it is not."""
MINIMUM = "1 × = every input read once"
"""What a picture says at the minimum."""
EVERY = "every run"
SHARED = "in every row of the kernel"
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
FAMILIES = {"softmax": "softmax", "attention": "attention", "loss": "cross entropy"}
"""What readers call the families of kernels that are measured."""
_WORDS = {
    "rows": "{} rows", "cols": "{} columns",
    "batch": "batch {}", "heads": "{} heads", "kv_heads": "{} KV heads", "seq_len": "N = {}", "kv_len": "{} keys",
    "head_dim": "d = {}", "k": "K = {}", "dtype": "{}", "block_m": "BLOCK_M {}", "block_n": "BLOCK_N {}",
    "block_d": "BLOCK_D {}", "splits": "{} splits", "tokens": "{} tokens", "vocab": "V = {}", "dim": "d = {}",
}  # fmt: skip
"""How a reader says a parameter's value."""


@kept
def plans(shown: Sequence[Entry]) -> dict[str, Plan]:
    """The plans that any record has an experiment of, by name; one more has what is out of date in any of them."""
    stale = [point.experiment for one in shown for point in one.record.points.values() if is_stale(point)]
    every = [*PLANS.values(), Plan(OUTDATED, "Out of date: the kernel changed since", tuple(dict.fromkeys(stale)))]
    return {
        plan.name: plan
        for plan in every
        if any(one.record.point(experiment) for experiment in plan.experiments for one in shown)
    }


def outdated(shown: Sequence[Entry]) -> list[str]:
    """The GPUs with a run that is out of date, by their short names."""
    return [
        name for one, name in zip(shown, names(shown), strict=True) if any(map(is_stale, one.record.points.values()))
    ]


@kept
def every_kernel(shown: Sequence[Entry]) -> list[str]:
    """The names of the kernels that were measured in any of the records."""
    return list(dict.fromkeys(kernel for plan in plans(shown).values() for kernel in kernels(plan, shown)))


@kept
def of_kernel(shown: Sequence[Entry], kernel: str) -> dict[str, Plan]:
    """The plans with runs of a `kernel`, by name. If there are several, another one holds all its runs."""
    own = {name: plan for name, plan in plans(shown).items() if kernel in kernels(plan, shown)}
    runs = dict.fromkeys(run for plan in own.values() for run in plan.experiments if run.kernel == kernel)
    every = Plan(EVERY, f"All runs of {KERNELS[kernel].title}", tuple(runs))
    return own | ({EVERY: every} if len(own) > 1 else {})


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
    record, or one `quantity` of each record, and of two records the ratio.
    """
    table: list[dict[str, str | float | None]] = []
    said = {name: _words(plan, shown, name) for name in ([kernel] if kernel else kernels(plan, shown))}
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
        row[ONE_LAUNCH] = any(p and p.timing and p.timing.launches == 1 for p in points) or None
        stale = [gpu for gpu, point in zip(names(shown), points, strict=True) if point and is_stale(point)]
        row[OUTDATED] = (f"on {' and '.join(stale)}" if len(shown) > 1 else "kernel changed") if stale else None
        table.append(row)
    known = {name for row in table for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in known} for row in table]


@kept
def groups(plan: Plan, shown: Sequence[Entry]) -> dict[str, str]:
    """What kind of kernel each measured one is, by its title, in words; {} where all are of one kind."""
    entries = [KERNELS[kernel] for kernel in kernels(plan, shown)]
    found = {
        entry.title: FAMILIES.get(entry.family, entry.family)
        + (", backward" if entry.gradient else ", decoding" if entry.shares_keys else "")
        for entry in entries
    }
    return found if len({*found.values()}) > 1 else {}


def gpu_columns(shown: Sequence[Entry], quantity: str) -> list[str]:
    """The columns of one quantity, a GPU each: "H200, µs"."""
    return [f"{gpu}, {quantity.removeprefix(f'{name_of(quantity)}, ')}" for gpu in names(shown)]


def _beside(points: Sequence[Point | None], quantity: Quantity) -> float | None:
    """The second GPU's number as a multiple of the first one's; None without both, or beside a zero."""
    first, second = (quantity(point) if point else None for point in points)
    return second / first if first and second else None


def names(shown: Sequence[Entry]) -> list[str]:
    """Each record's GPU, in short; the whole label where two records have the same GPU, with a number where it takes
    one to tell them apart.
    """
    labels = [plain(one.label) for one in shown]
    numbered = [f"{number}. {label}" for number, label in enumerate(labels, start=1)]
    short = [label.partition(" · ")[0] for label in labels]
    return next(told for told in (short, labels, numbered) if len({*told}) == len(shown))


def measured(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[Experiment]:
    """The plan's experiments in any of the records, of one `kernel` or of all, kernel after kernel."""
    there = [one for one in plan.experiments if any(entry.record.point(one) for entry in shown)]
    order = kernels(plan, shown)
    return sorted((one for one in there if kernel in ("", one.kernel)), key=lambda one: order.index(one.kernel))


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
    return ", ".join([*(_words(plan, shown, kernel)[0] if kernel else ()), *said])


def measured_sizes(plan: Plan, shown: Sequence[Entry], kernel: str) -> dict[Experiment, str]:
    """The plan's measured experiments of one `kernel` or of all, each with the sizes that not all of them share."""
    return _words(plan, shown, kernel)[1]


def _words(plan: Plan, shown: Sequence[Entry], kernel: str) -> tuple[list[str], dict[Experiment, str]]:
    """The sizes that all rows share, and each row's own: no two rows of a kernel say the same."""
    there = measured(plan, shown, kernel)
    values: dict[str, set[object]] = {}
    chosen: dict[str, set[str]] = {}  # of each kernel what some row sets, also where it would follow from others
    for one in there:
        chosen.setdefault(one.kernel, set()).update(changed(one))
        for name, value in one.values.items():
            values.setdefault(name, set()).add(value)
    varied = {name for name, found in values.items() if len(found) > 1}
    said = [sizes_of(one, varied, chosen[one.kernel]) for one in there]
    shared = [words for words in said[0] if all(words in other for other in said)] if len(said) > 1 else []
    own = (", ".join([words for words in one if words not in shared] or one) for one in said)
    return shared, dict(zip(there, own, strict=True))


def work(run: Experiment) -> tuple[object, ...]:
    """What a run computes, whatever its kernel and tiles."""
    return tuple((name, value) for name, value in sorted(run.values.items()) if not name.startswith("block"))


def sizes(experiment: Experiment) -> str:
    """An experiment's sizes as a reader says them: "4,096 × 8,192, BLOCK_N 4,096"."""
    return ", ".join(sizes_of(experiment))


def sizes_of(experiment: Experiment, varied: Collection[str] = (), chosen: Collection[str] = ()) -> list[str]:
    """The dtype, the sizes that differ from the kernel's defaults, and those `varied`, each as words; a softmax's rows
    and cols are one shape. Those that follow from others are left out, but for the ones `chosen`.
    """
    values, own = experiment.values, {*changed(experiment), *chosen, "dtype"}
    said = [f"{count(values['rows'])} × {count(values['cols'])}"] if "rows" in values else []
    for parameter in experiment.entry.parameters:
        name, value = parameter.name, values[parameter.name]
        if name in ("rows", "cols") or (name not in own and (name not in varied or callable(parameter.default))):
            continue
        said.append(in_words(name, value))
    return said


def in_words(name: str, value: Value) -> str:
    """A parameter's value as a reader says it: "16 heads", "BLOCK_M 128"."""
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return _WORDS.get(name, f"{name} {{}}").format(count(value) if isinstance(value, int) else value)


@kept
def columns_of(
    plan: Plan, shown: Sequence[Entry], quantity: str | None, every: bool = True, kernel: str = ""
) -> list[str]:
    """The columns of numbers in the table, in order. Of a single record `FIRST`, or `every` one of `GROUPS`."""
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
            return OWN[_unit(name)]
        return _megabytes if _unit(name) == "MB" and name not in larger else _format(quantity, name)

    width = CLOSE if any(groups) else HEADING
    columns: list[str | Column] = [
        SIZES if kernel else f"{KERNEL}, {SIZES}",
        *(Column(group + _heading(titles.get(name, name), width), format_of(name))
          for group, name in zip(groups, found, strict=True)),
        *words,
    ]  # fmt: skip
    cells = []
    for row, above in zip(table, [{}, *table], strict=False):
        scaled = {name: _scaled(row, name, larger) for name in larger}
        begins = row[KERNEL] != above.get(KERNEL)
        own = _marked(str(row[SIZES]), "" if begins or largest else str(above[SIZES]))
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
    for group, names in GROUPS.items():
        if own := [name for name in names if name in found]:
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
    unit = _unit(name)
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
        names = [name for name in columns if _unit(name) == unit]
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
        names = [name for name in columns if _unit(name) == unit]
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
        named["measured"] = ["the others"]
    named = dict(sorted(named.items(), key=lambda one: one[1] == ["the others"]))
    told = [f"{listed(found)} {'are' if _many(found) else 'is'} {source}" for source, found in named.items()]
    words = "; ".join(told)
    return f"{words[0].upper()}{words[1:]}."


def _many(found: Sequence[str]) -> bool:
    """Whether these columns are several things, or one with a name in the plural."""
    return len(found) > 1 or found[0] in ("the others", *map(name_of, (LOADED, RATE, SPILLS, LAUNCHES)))


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
