"""The measured points of a plan as a table: what is known of each, and what spills."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from explain.counters.model import total
from explain.experiment import Experiment
from explain.figures.labels import listed, wrapped
from explain.figures.numbers import count, duration, fixed, moved, number, percent, ratio
from explain.figures.plot import FONT
from explain.figures.tables import Column, markdown, plain
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Point, Record, changed
from explain.records.plans import PLANS, Plan
from explain.records.registry import Entry

Quantity = Callable[[Point], float | None]
TIME = "time, µs"
LOADS, ONCE, READ = "formula: every load, MB", "formula: each tensor once, MB", "HBM read, L2 cold, MB"
OF_ONCE, REQUESTED, HELD = "HBM ÷ each tensor once, ×", "requested at L1, MB", "memory held, MB"
WARM, TO_SMS = "HBM read, L2 warm, MB", "L2 → SM read, MB"
SPREAD, LAUNCHES = "slow ÷ fast launches, ×", "launches timed, count"


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


def _spread(point: Point) -> float | None:
    """The 80th percentile of a row's times ÷ the 20th; None for one launch."""
    timing = point.timing
    return timing.p80_ms / timing.p20_ms if timing and timing.launches > 1 else None


def _with_host(point: Point | None) -> bool:
    """Whether a recorded time probably contains time on the host: its launches differ much, and no CUDA graph replayed
    them.
    """
    if point is None or point.timing is None or GRAPH in point.timing.method:
        return False
    return (_spread(point) or 1.0) > STEADY


def tensors_once(experiment: Experiment) -> int:
    """The bytes of every tensor that the run reads, each once."""
    read: dict[str, int] = {}
    for term in experiment.whole_terms:
        if not term.written:
            read[term.buffer] = max(term.once, read.get(term.buffer, 0))
    return sum(read.values())


def _of_once(point: Point) -> float | None:
    """The bytes read from HBM with a cold L2 ÷ those of every tensor once."""
    read = point.counters.cold.dram_read_bytes if point.counters else None
    return None if read is None else read / tensors_once(point.experiment)


QUANTITIES: Mapping[str, Quantity] = {
    TIME: lambda point: 1e3 * point.timing.median_ms if point.timing else None,
    READ: _counted("dram_read_bytes"),
    OF_ONCE: _of_once,
    WARM: _counted("dram_read_bytes", warm=True),
    "HBM written, or left in L2, MB": _written,
    TO_SMS: _counted("l2_read_bytes"),
    "SM → L2 written, MB": _counted("l2_written_bytes"),
    REQUESTED: _counted("l1_bytes"),
    "spills, stored + loaded, MB": _counted("spilled_bytes"),
    "tensor cores busy, %": _tensor,
    HELD: lambda point: None if point.peak_bytes is None else point.peak_bytes / 1e6,
    SPREAD: _spread,
    LAUNCHES: lambda point: point.timing.launches if point.timing else None,
}
"""The quantities of a point: each name has the unit."""
READS = (READ, WARM, TO_SMS, REQUESTED)
"""What the loads, by formula, are beside."""
KERNEL, SIZES, HOST, OUTDATED, DATE, BESIDE = "kernel", "sizes", "with host time", "out of date", "date", "ratio"
SHARED = "in every row of the kernel"
FIRST = (TIME, LOADS, ONCE, READ, OF_ONCE)
"""The quantities that a table of one record begins with."""
MEANINGS = {
    TIME: "**Time**: of one call, with a cold L2. **Bold sizes** differ from the row above.",
    LOADS: "**Every load**: all bytes that a teaching kernel's loads ask for, repeated ones included.",
    ONCE: "**Each tensor once**: the bytes if each input, and each tensor that one launch writes for a later one, were "
    "read exactly once.",
    OF_ONCE: "**HBM ÷ each tensor once**: at 1 ×, HBM delivers each tensor once.<br>Above 1 ×: bytes were read more "
    "than once, or spilled registers were read back. In small runs, some tens of kB that belong to no tensor show."
    "<br>Below 1 ×: the kernel reads what it wrote itself, in an earlier launch or iteration, and finds some of it in "
    "L2.",
    WARM: "**L2 warm**: the same kernel has just run, so L2 still has some of its bytes.",
    "HBM written, or left in L2, MB": "**HBM written, or left in L2**: bytes written to HBM during the run, and those "
    "in L2 that are written to it later.",
    TO_SMS: "**L2 → SM, SM → L2**: bytes between L2 and the SMs, spilled registers included.",
    REQUESTED: "**Requested at L1**: what the loads and stores of all warps ask for, before any cache. Copies by "
    "TMA are not in this count.",
    "tensor cores busy, %": "**Tensor cores busy**: the share of the run's cycles in which they work, while it is "
    "counted. The clock can be another one then, so it is not exactly FLOPs ÷ time ÷ peak.",
    HELD: "**Memory held**: the most that PyTorch's allocator held during a call, beyond the inputs: outputs and "
    "intermediate results.",
    SPREAD: "**Slow ÷ fast launches**: the 80th percentile of a row's times ÷ the 20th.",
}
"""What a column has, where its name does not say it."""
FEW = 0.05
"""Which share of the loads caches serve at most where they serve next to nothing."""
MUCH_SLOWER = 4.0
"""How many times as long per FLOP the run that spills most takes at least where that is told."""
ALIGNED = 16
"""Triton compiles a kernel anew for a size that is no multiple of it."""
GRAPH, STEADY = "CUDA graph", 1.25
"""How a short kernel is launched without the host; by which factor the times of one run differ where it is not."""
SLOW = "{} as long as the fast ones (80th ÷ 20th percentile)"
ALIKE = 0.03
"""By which share two GPUs' numbers differ at most where no row is named as the least or the most."""
SAME = 0.1
"""By which share two GPUs' bandwidths differ at most where a time that is the same says nothing."""
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
    """The plans that any record has an experiment of, by name; one more has what is out of date in any of them."""
    stale = [point.experiment for one in shown for point in one.record.points.values() if is_stale(point)]
    every = [*PLANS.values(), Plan(OUTDATED, "Out of date: the kernel changed since", tuple(dict.fromkeys(stale)))]
    return {
        plan.name: plan
        for plan in every
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
    record, or one `quantity` of each record, and of two records the ratio.
    """
    table: list[dict[str, str | float | None]] = []
    said = {name: _words(plan, shown, name) for name in ([kernel] if kernel else kernels(plan, shown))}
    gpus = _columns(shown, quantity) if quantity else []
    for experiment, own in ((run, own) for _, sizes in said.values() for run, own in sizes.items()):
        points = [one.record.point(experiment) for one in shown]
        row: dict[str, str | float | None] = {KERNEL: experiment.entry.title}
        row[SIZES], row[SHARED] = own, ", ".join(said[experiment.kernel][0])
        if quantity in (None, *READS):
            row[LOADS] = experiment.traffic.read_bytes / 1e6 if experiment.entry.steppable else None
            row[ONCE] = tensors_once(experiment) / 1e6
        if quantity is None:
            row |= {name: value(points[0]) if points[0] else None for name, value in QUANTITIES.items()}
            row[DATE] = _date(shown[0].record, points[0])
        else:
            value = QUANTITIES[quantity]
            row |= {gpu: value(point) if point else None for gpu, point in zip(gpus, points, strict=True)}
            row[BESIDE] = _beside(points, value) if len(shown) == 2 else None
        if quantity in (None, TIME):
            on = [gpu for gpu, point in zip(names(shown), points, strict=True) if _with_host(point)]
            row[HOST] = (f"probably, {' and '.join(on)}" if len(shown) > 1 else "probably") if on else None
        stale = [gpu for gpu, point in zip(names(shown), points, strict=True) if point and is_stale(point)]
        row[OUTDATED] = (f"on {' and '.join(stale)}" if len(shown) > 1 else "kernel changed") if stale else None
        table.append(row)
    known = {*gpus, *(name for row in table for name, value in row.items() if value is not None)}
    return [{name: value for name, value in row.items() if name in known} for row in table]


def _columns(shown: Sequence[Entry], quantity: str) -> list[str]:
    """The columns of one quantity, a GPU each: "H200, µs"."""
    return [f"{gpu}, {quantity.rpartition(', ')[2]}" for gpu in names(shown)]


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


@kept
def seen(plan: Plan, shown: Sequence[Entry], quantity: str | None, kernel: str = "") -> str:
    """What the table shows, in a sentence; Markdown, "" where it has nothing to compare.

    Of one record and one kernel: how often the loads ask for each tensor, and how often HBM delivers it. Of two
    records: how many times the first one's number the second one has.
    """
    if quantity is not None:
        return _seen_beside(plan, shown, quantity, kernel)
    points = list(filter(None, map(shown[0].record.point, _measured(plan, shown, kernel))))
    if len({point.experiment.kernel for point in points}) != 1:
        return _seen_most(points, measured_sizes(plan, shown, kernel))
    own = measured_sizes(plan, shown, kernel)
    return "\n\n".join(filter(None, [_seen_once(points), _seen_fastest(points, own)]))


def _seen_most(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Of several kernels: in how many rows HBM delivers each tensor about once, and where most; Markdown."""
    found = [(times, point.experiment) for point in points if (times := _of_once(point))]
    if not found:
        return ""
    about = sum(times < 1 + SAME for times, _ in found)
    (least, lowest), (most, row) = (end(found, key=lambda one: one[0]) for end in (min, max))
    low = f" The lowest: {lowest.entry.title} at {own[lowest]}, {ratio(least)}." * (least < 1 - SAME)
    rows = f"all {count(about)}" if about == len(found) else f"{count(about)} of {count(len(found))}"
    return (
        f"**In {rows} rows HBM delivers at most {ratio(1 + SAME)} the size of the "
        f"tensors that a kernel reads.** The highest: {row.entry.title} at {own[row]}, {ratio(most)}.{low}"
    )


def _seen_fastest(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Of rows with the same work, which is the fastest and which the slowest, in a sentence of Markdown; else ""."""
    timed = sorted((point.seconds, own[point.experiment]) for point in points if point.seconds)
    if len(timed) < 2 or len({point.experiment.traffic.flops for point in points}) > 1:
        return ""
    (least, best), (most, worst) = timed[0], timed[-1]
    return (
        f"**The fastest of these {count(len(timed))} rows, {best}, takes {duration(least)}.** The slowest, {worst}, "
        f"takes {duration(most)}, {ratio(most / least)} as long. All compute the same."
    )


def _seen_once(points: Sequence[Point]) -> str:
    """How often one kernel's loads ask for each tensor, and how often HBM delivers it; "" where nothing was counted."""
    found = {point.experiment: times for point in points if (times := _of_once(point))}
    of, read = list(found), list(found.values())
    if not of:
        return ""
    if not of[0].entry.steppable:
        return f"**HBM delivers {_span(read)} the size of the tensors that the kernel reads.**"
    asked = [one.traffic.read_bytes / tensors_once(one) for one in of]
    served = [1 - hbm / loads for hbm, loads in zip(read, asked, strict=True)]
    rest = "the caches serve the rest" if min(served) >= FEW else "the caches serve next to nothing"
    told = f"; {rest}" if min(served) >= FEW or max(map(abs, served)) < FEW else ""
    if any(point.counters.cold.spilled_bytes for point in points if point.counters):
        told += ". In rows that spill, HBM's bytes may include spilled registers"
    return (
        f"**The kernel's loads add up to {_span(asked)} the size of the tensors that it reads. HBM delivers "
        f"{_span(read)} that size**{told}."
    )


def _seen_beside(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str) -> str:
    """How many times the first GPU's numbers those of the second are, in sentences of Markdown."""
    table, named_by = rows(plan, shown, quantity, kernel), (SIZES,) if kernel else (KERNEL, SIZES)
    steady = [row for row in table if not row.get(HOST)]
    named = [(row.get(BESIDE), ", ".join(str(row[name]) for name in named_by)) for row in steady]
    found = sorted((factor, name) for factor, name in named if isinstance(factor, float))
    if len(shown) != 2:
        return ""
    first, second = names(shown)
    both = [[row.get(name) is None for name in _columns(shown, quantity)] for row in table]
    alone = sum(one != other for one, other in both)
    left_out = sum(bool(row.get(HOST) and row.get(BESIDE)) for row in table)
    what = quantity[0].upper() + quantity[1:].rpartition(",")[0]
    if not found:
        zeros = sum(all(row.get(name) == 0 for name in _columns(shown, quantity)) for row in table)
        if zeros:
            return f"**{what}: 0 on both GPUs** in {count(zeros)} row{'s' * (zeros > 1)}."
        return f"No row was measured on both the {first} and the {second}." * (alone > 0)
    factors = [factor for factor, _ in found]
    apart = max(abs(factor - 1) for factor in factors)
    times = f"{what}: the {second}'s is {{}} the {first}'s"
    if quantity == TIME:
        times = f"The {second} takes {{}} as long as the {first}"
    span = f"**{times.format(_span(factors))}**"
    if apart < ALIKE:
        far = f"at most {percent(apart, 1)} apart" if percent(apart, 1) != percent(0, 1) else "equal"
        span = f"**{what}: the two GPUs are {far}** in {count(len(found))} row{'s' * (len(found) > 1)}."
    elif ratio(factors[0]) == ratio(factors[-1]):
        span += f" in each of {count(len(found))} rows." if len(found) > 1 else "."
    else:
        (_, least), *_, (_, most) = found
        span += (
            f", {ratio(median(factors))} in the median of {count(len(found))} rows.\n\n- Least: {least}\n- Most: {most}"
        )
    missing = f"{count(alone)} more {'were' if alone > 1 else 'was'} measured on one of them only." * (alone > 0)
    if quantity != TIME:
        return "\n\n".join(filter(None, [span, missing]))
    host = (
        f"{count(left_out)} {'rows are' if left_out > 1 else 'row is'} left out of these figures and drawn as rings: "
        "the times there probably contain time on the host."
    ) * (left_out > 0)
    also = " ".join(filter(None, [missing, host, _noise(plan, shown, kernel)]))
    return "\n\n".join(filter(None, [span, also, _by_bandwidth(shown, factors)]))


def _noise(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """How much the launches of one row differ in time on one GPU, in a sentence; "" if that is not known."""
    own = measured_sizes(plan, shown, kernel)
    points = [point for one in shown for run in own if (point := one.record.point(run)) and not _with_host(point)]
    if not (spreads := [(spread, point.experiment) for point in points if (spread := _spread(point))]):
        return ""
    most, run = max(spreads, key=lambda one: one[0])
    name = own[run] if kernel else f"{run.entry.title} at {own[run]}"
    return (
        f"On one GPU the launches of a row differ too, most in {name}: the slow ones take {SLOW.format(ratio(most))}."
    )


def bandwidths(shown: Sequence[Entry]) -> float | None:
    """How many times as fast the first of two GPUs copies as the second; None if that is unknown, or about the same."""
    rates = [roof.per_second for one in shown if (roof := one.record.roofs.get("hbm copy"))]
    return rates[0] / rates[1] if len(rates) == len(shown) == 2 and abs(rates[0] / rates[1] - 1) >= SAME else None


def _by_bandwidth(shown: Sequence[Entry], factors: Sequence[float]) -> str:
    """How the ratios of two GPUs' times compare with that of their bandwidths, in sentences; "" if that is unknown."""
    if (faster := bandwidths(shown)) is None:
        return ""
    first, second = names(shown)
    near = sum(abs(factor - 1) < abs(factor - faster) for factor in factors)
    told = f"{count(near)} of {count(len(factors))} rows" if near < len(factors) else "all rows"
    return (
        f"Measured, HBM of the {first} copies {ratio(faster)} as fast as that of the {second}. **In {told}, the "
        f"times' ratio is closer to 1 than to {ratio(faster)}**: there the faster HBM helps the {first} little."
    ) * (near > 0)


def _span(factors: Sequence[float]) -> str:
    """The least and the largest of some ratios: "1.00 to 3.00 ×"."""
    least, most = ratio(min(factors)), ratio(max(factors))
    return most if least == most else f"{least.removesuffix(' ×')} to {most}"


def _measured(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[Experiment]:
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
    there = _measured(plan, shown, kernel)
    values: dict[str, set[object]] = {}
    chosen: dict[str, set[str]] = {}  # of each kernel what some row sets, also where it would follow from others
    for one in there:
        chosen.setdefault(one.kernel, set()).update(changed(one))
        for name, value in one.values.items():
            values.setdefault(name, set()).add(value)
    varied = {name for name, found in values.items() if len(found) > 1}
    said = [_sizes(one, varied, chosen[one.kernel]) for one in there]
    shared = [words for words in said[0] if all(words in other for other in said)] if len(said) > 1 else []
    own = (", ".join([words for words in one if words not in shared] or one) for one in said)
    return shared, dict(zip(there, own, strict=True))


def sizes(experiment: Experiment) -> str:
    """An experiment's sizes as a reader says them: "4,096 × 8,192, BLOCK_N 4,096"."""
    return ", ".join(_sizes(experiment))


def _sizes(experiment: Experiment, varied: Collection[str] = (), chosen: Collection[str] = ()) -> list[str]:
    """The dtype, the sizes that differ from the kernel's defaults, and those `varied`, each as words. Those that follow
    from others are left out, but for the ones `chosen`.
    """
    values, own = experiment.values, {*changed(experiment), *chosen, "dtype"}
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
def columns_of(
    plan: Plan, shown: Sequence[Entry], quantity: str | None, every: bool = True, kernel: str = ""
) -> list[str]:
    """The columns of numbers in the table, in order. Of a single record those of `FIRST`, and `every` other at the end
    if asked for.
    """
    table = rows(plan, shown, quantity, kernel)
    words = (KERNEL, SIZES, SHARED, HOST, OUTDATED, DATE)
    found = list(dict.fromkeys(name for row in table for name in row if name not in words))
    if quantity is not None:
        return found
    return [*(name for name in FIRST if name in found), *(name for name in found if every and name not in FIRST)]


@kept
def points_table(plan: Plan, shown: Sequence[Entry], quantity: str | None, every: bool = True, kernel: str = "") -> str:
    """`rows` as Markdown; where all kernels are asked for, each one's name stands in its first row, above the sizes. Of
    a single record it has the columns of `FIRST` unless `every` is asked for.
    """
    table = rows(plan, shown, quantity, kernel)
    found = columns_of(plan, shown, quantity, every, kernel)
    titles = {BESIDE: " ÷ ".join(names(shown)[::-1])}
    words = [name for name in (HOST, OUTDATED) if any(row.get(name) for row in table)]
    words += [DATE] * (len({row.get(DATE) for row in table}) > 1)  # one date of all rows is said above them
    columns: list[str | Column] = [
        SIZES if kernel else f"{KERNEL}, {SIZES}",
        *(Column("<br>".join(map(plain, wrapped(titles.get(name, name), HEADING, FONT, bold=True))),
                 _format(quantity, name)) for name in found),
        *words,
    ]  # fmt: skip
    cells = []
    for row, above in zip(table, [{}, *table], strict=False):
        begins = row[KERNEL] != above.get(KERNEL)
        own = _marked(str(row[SIZES]), "" if begins else str(above[SIZES]))
        title = f"**{row[KERNEL]}**<br>" if begins and not kernel else ""
        if title and row[SHARED]:
            title += f"<small>{_marked(str(row[SHARED]), '')}</small><br>"
        stale = {OUTDATED: f":orange[{row[OUTDATED]}]"} if row.get(OUTDATED) else {}
        cells.append(row | stale | {SIZES: f"{title}{own}"})
    return markdown(columns, [[row.get(name) for name in (SIZES, *found, *words)] for row in cells])


def _marked(sizes: str, above: str) -> str:
    """A row's sizes, bold where the row `above` differs; lines break between two of them only."""
    own, known = sizes.split(", "), above.split(", ")
    several = bool(above) and len(own) > 1  # one size alone always differs
    words = ((one, one.replace(" ", "&nbsp;")) for one in own)
    return ", ".join(f"<b>{shown}</b>" if several and one not in known else shown for one, shown in words)


def _format(quantity: str | None, column: str) -> Callable[[float], str]:
    """A percentage has one decimal, a ratio three digits, every other quantity four."""
    if column == BESIDE or {SPREAD, OF_ONCE} & {quantity, column}:
        return ratio
    if LAUNCHES in (quantity, column):
        return lambda launches: count(int(launches))
    percentage = (quantity or column).endswith("%")
    return partial(fixed, decimals=1) if percentage else partial(number, digits=4, zeros=True)


def _slower(worst: Experiment, runs: Collection[Experiment], record: Record) -> str:
    """By how much the run that spills most is slower than others of its kernel and dtype, in words; "" below SLOW."""
    alike = [run for run in runs if (run.kernel, run.values.get("dtype")) == (worst.kernel, worst.values.get("dtype"))]
    points = [point for run in alike if (point := record.point(run)) and point.seconds]
    each = {point.experiment: (point.seconds or 0.0) / point.experiment.traffic.flops for point in points}
    own, others = each.pop(worst, 0.0), list(each.values())
    if not others or own < MUCH_SLOWER * median(others):
        return ""
    told = f" It takes **{ratio(own / median(others))} as long per FLOP** as the kernel's other rows (median)."
    vocab = worst.values.get("vocab")
    if vocab and vocab % ALIGNED and not any(run.values["vocab"] % ALIGNED for run in each):
        told += (
            f" It is also the only one with a V that is no multiple of {ALIGNED}. Triton compiles other code for that. "
            "How much each costs was not measured."
        )
    return told


@kept
def on_host(plan: Plan, one: Entry, kernel: str = "") -> str:
    """Which recorded times probably contain time on the host, in sentences of Markdown; "" for none."""
    own = measured_sizes(plan, [one], kernel)
    unsteady = [point for run in own if (point := one.record.point(run)) and _with_host(point)]
    if not unsteady:
        return ""
    sizes: dict[str, list[str]] = {}
    for point in unsteady:
        sizes.setdefault(point.experiment.entry.title, []).append(own[point.experiment])
    rows = "; ".join(f"{title} at {listed(each)}" for title, each in sizes.items())
    slow = SLOW.format(ratio(max(_spread(point) or 1.0 for point in unsteady)))
    return (
        f"**These times probably contain time on the host**: {rows}. Their launches were not replayed as a {GRAPH}. "
        f"A row's slow ones take up to {slow}."
    )


@dataclass(frozen=True)
class Spilled:
    """The row that wrote most spilled registers, in short sentences, and one to the byte; Markdown."""

    told: str
    exact: str


@kept
def spilled(plan: Plan, one: Entry, kernel: str = "") -> Spilled | None:
    """What the plan's kernels, or this `kernel`, wrote to L2 besides their output; None if nothing was spilled.

    `exact` is "" where something else was written too.
    """
    own = measured_sizes(plan, [one], kernel)
    found = [
        (point.counters.cold.spill_written_bytes, point.counters.cold.l2_written_bytes, experiment)
        for experiment in own
        if (point := one.record.point(experiment)) and point.counters
    ]
    most = sorted(((s, w, e) for s, w, e in found if s and w), key=lambda row: -row[0])
    if not most:
        return None
    spill, wrote, worst = most[0]
    point = one.record.point(worst)
    both = point.counters.cold.spilled_bytes if point and point.counters else None
    again = f"; {moved(both - spill)} are read back" if both and both > spill else ""
    again += ", some more than once" * bool(both and both > 2 * spill)
    row = f"{'Most in' if len(most) > 1 else 'It is'} {worst.entry.title} at {own[worst]}"
    told = (
        f"**Registers spill in {count(len(most))} of {count(len(found))} counted rows.** {row}: of the {moved(wrote)} "
        f"that it writes to L2, {moved(spill)} are spilled registers{again}.{_slower(worst, own, one.record)}"
    )
    if wrote == (output := worst.traffic.written_bytes) + spill:
        stored = " and ".join(term.buffer for term in worst.traffic.terms if term.written)
        return Spilled(
            told,
            f"**To the byte**: it wrote {count(wrote)} bytes to L2. {count(output)} bytes are {stored}, {count(spill)} "
            "bytes are spilled registers. Loading those again is not in this sum.",
        )
    return Spilled(told, "")
