"""What records hold, GPUs side by side, as tables: records in, markdown or rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from explain.counters.model import TOLERANCE, CopyCheck, Counters, total
from explain.figures.numbers import si
from explain.records.code import is_stale
from explain.records.model import Point, Record, settings
from explain.records.plans import Plan
from explain.records.registry import Shelved

Quantity = Callable[[Point], float | None]


def _counted(name: str, warm: bool = False) -> Quantity:
    """A count in MB, of the run with L2 cold unless `warm`."""

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


NONE = "–"
QUANTITIES: Mapping[str, Quantity] = {
    "time, µs": lambda point: 1e3 * point.timing.median_ms if point.timing else None,
    "first call, ms": lambda point: point.timing.first_call_ms if point.timing else None,
    "DRAM read, L2 cold, MB": _counted("dram_read_bytes"),
    "DRAM read, L2 warm, MB": _counted("dram_read_bytes", warm=True),
    "DRAM written, with what stayed dirty in L2, MB": _written,
    "L2 → SM read, MB": _counted("l2_read_bytes"),
    "SM → L2 written, MB": _counted("l2_written_bytes"),
    "asked of L1, MB": _counted("l1_bytes"),
    "tensor cores busy, %": lambda point: point.counters.cold.tensor_active_percent if point.counters else None,
    "memory held, MB": lambda point: None if point.peak_bytes is None else point.peak_bytes / 1e6,
}
"""What a point says, by name with its unit."""
_PLAIN = {ord(mark): f"&#{ord(mark)};" for mark in "&\\`*_[]<>|~$#:"}
FORMULA = "formula: read, MB"


def has_some(plan: Plan, shown: Sequence[Shelved]) -> bool:
    """Whether one of the records has one of the plan's experiments."""
    return any(one.record.point(experiment) for experiment in plan.experiments for one in shown)


def rows(plan: Plan, shown: Sequence[Shelved], quantity: str | None) -> list[dict[str, str | float | None]]:
    """The plan's experiments that one of the records has: every quantity of a single record, or one `quantity` of each."""
    table: list[dict[str, str | float | None]] = []
    for experiment in plan.experiments:
        points = [one.record.point(experiment) for one in shown]
        if not any(points):
            continue
        formula = experiment.entry.formula(experiment.values)
        row: dict[str, str | float | None] = {"kernel": experiment.kernel, "sizes": settings(experiment)}
        row[FORMULA] = formula.read_bytes / 1e6
        if quantity is None:
            row |= {name: value(points[0]) if points[0] else None for name, value in QUANTITIES.items()}
        else:
            value = QUANTITIES[quantity]
            row |= {
                f"{number}. {one.label}" if len(shown) > 1 else one.label: value(point) if point else None
                for number, (one, point) in enumerate(zip(shown, points, strict=True), start=1)
            }
        table.append(row)
    known = {name for row in table for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in known} for row in table]


def about(shown: Sequence[Shelved]) -> str:
    """What each record is, a column a record, as markdown."""
    facts = [_facts(one) for one in shown]
    lines = [f"| | {' | '.join(_cell(one.label) for one in shown)} |", f"|---|{'---|' * len(shown)}"]
    for name in facts[0]:
        cells = [fact[name] for fact in facts]
        if any(cell != NONE for cell in cells):
            lines.append(f"| **{name}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def _facts(one: Shelved) -> dict[str, str]:
    record, where = one.record, one.record.provenance
    points = list(record.points.values())
    counted = [point.counters for point in points if point.counters]
    origins = {point.origin for point in points if point.origin}
    commits = {origin.commit for origin in origins} | ({record.commit} if not origins else set())
    codes = [point.origin.code if point.origin else "" for point in points]
    older = sum(map(is_stale, points))
    unknown = f", and {codes.count(''):,} of which it is not known" if "" in codes else ""
    lacking = {name for counters in counted for name in counters.lacking}
    return {
        "GPU": _cell(where.gpu),
        "driver, CUDA": _cell(f"{where.driver}, {where.cuda}"),
        "torch, triton, Python": _cell(f"{where.torch}, {where.triton}, {where.python}"),
        "measured on": _listed({origin.provenance.date for origin in origins} or {where.date}),
        "commit of Tilescope": _listed({_short(commit) for commit in commits}),
        "experiments": f"{len(points):,}: {len(counted):,} counted, {sum(point.timing is not None for point in points):,} timed",
        "could not be measured": f"{len(missed(record)):,}",
        "kernel changed since": f"{older:,}{unknown}",
        "counters read by": _listed({counters.method for counters in counted}),
        "why not by CUPTI": _listed({counters.fallback for counters in counted if counters.fallback}),
        "runs that each count took": _listed({str(counters.passes) for counters in counted if counters.passes}),
        "copy check": _copies(counted),
        "what the chip cannot count": _listed(lacking),
        "time taken by": _listed({point.timing.method for point in points if point.timing}),
    }


def missed(record: Record) -> list[Point]:
    """The points that miss something."""
    return [point for point in record.points.values() if point.why]


def missed_table(shown: Sequence[Shelved]) -> str:
    """What could not be measured, and why, as markdown; empty where nothing was missed."""
    lines = [
        f"| {_cell(one.label)} | `{point.experiment.kernel}` | {_cell(settings(point.experiment))} | {_cell(point.why)} |"
        for one in shown
        for point in missed(one.record)
    ]
    return "\n".join(["| record | kernel | sizes | why |", "|---|---|---|---|", *lines]) if lines else ""


_ROOFS = {
    "shared": "shared memory", "l1": "L1", "l2": "L2", "hbm": "HBM, read", "hbm write": "HBM, written", "hbm copy": "HBM, copied",
    "host": "host to GPU", "host write": "GPU to host",
}  # fmt: skip


def roofs_table(shown: Sequence[Shelved]) -> str:
    """What each GPU gives at best, as markdown; empty where none was measured."""
    levels = list(dict.fromkeys(level for one in shown for level in one.record.roofs))
    if not levels:
        return ""
    lines = [f"| | {' | '.join(_cell(one.label) for one in shown)} | how |", f"|---|{'---:|' * len(shown)}---|"]
    for level in levels:
        roofs = [one.record.roofs.get(level) for one in shown]
        methods = {roof.method: None for roof in roofs if roof}
        cells = [si(roof.per_second, _cell(roof.unit)) if roof else NONE for roof in roofs]
        lines.append(f"| **{_cell(_ROOFS.get(level, level))}** | {' | '.join(cells)} | {_cell('; '.join(methods))} |")
    return "\n".join(lines)


def copy_words(copy: CopyCheck) -> str:
    """What the copy check found, in words."""
    if copy.read_bytes is None:
        return "no DRAM bytes counted"
    parts = [f"read {_off(copy.read_bytes, copy.copied_bytes)}"]
    if copy.written_bytes is not None:
        parts.append(f"written {_off(copy.written_bytes, copy.copied_bytes)}")
    return f"{'passed' if copy.passed else 'failed'}: {copy.copied_bytes / 2**30:g} GiB {', '.join(parts)} off"


def counts_table(counters: Counters, formula_read: int, formula_written: int) -> str:
    """One experiment's counts, L2 cold and warm, beside the formula, as markdown."""
    lines = ["| bytes | formula | L2 cold | L2 warm |", "|---|---:|---:|---:|"]
    for name, formula, field in (
        ("read, asked by the kernel and counted at DRAM", formula_read, "dram_read_bytes"),
        ("written, and counted at DRAM before the run ended", formula_written, "dram_written_bytes"),
        ("written, still dirty in L2", None, "dirty_bytes"),
        ("read by the SMs from L2", None, "l2_read_bytes"),
        ("written by the SMs to L2", None, "l2_written_bytes"),
    ):
        counted = [getattr(counts, field) for counts in (counters.cold, counters.warm)]
        cells = [f"{value:,}" if value is not None else NONE for value in (formula, *counted)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _copies(counted: Sequence[Counters]) -> str:
    copies = {counters.copy for counters in counted}
    if not copies:
        return NONE
    worst = max(copies, key=lambda copy: abs((copy.read_bytes or 0) - copy.copied_bytes))
    return f"{copy_words(worst)}, of {TOLERANCE:.1%} allowed"


def _off(counted: int, copied: int) -> str:
    return f"{abs(counted - copied) / copied:.3%}"


def _short(commit: str) -> str:
    """A commit's first ten digits, with the mark of one changed since."""
    return commit if len(commit) < 40 else f"{commit[:10]}{commit[40:]}"


def _listed(values: set[str]) -> str:
    return "; ".join(_cell(value) for value in sorted(values)) or NONE


def _cell(text: str) -> str:
    """Text of a file as a table's cell shows it: no markup, on one line."""
    return " ".join(text.split()).translate(_PLAIN)
