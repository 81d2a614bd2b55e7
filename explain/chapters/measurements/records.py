"""Tables of each record, of failed measurements, and of what this machine counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

from explain.chapters.measurements.points import names, sizes
from explain.counters.model import TOLERANCE, CopyCheck, Counters
from explain.experiment import Experiment
from explain.figures.numbers import NONE, count, percent
from explain.figures.tables import Column, markdown, plain
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Point, Record
from explain.records.plans import PLANS
from explain.records.registry import Entry

OLDER = ": their kernels have changed since. They stay as numbers of the older kernels until they are measured again"
LOCAL = (
    "*With local changes*: files of the checkout had been edited since that commit. So each measurement also keeps a "
    "digest of its kernel's code, and a kernel counts as changed where this digest differs."
)

_CODE = re.compile(r"^\w+Error: | \([^()]*\.py:\d+ in \w+\)")
"""What an error's text has for a programmer: its class, and the line that raised it."""


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
        "measured on": _listed({origin.provenance.date for origin in origins} or {where.date}).replace("-", "‑"),
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
def made(one: Entry) -> str:
    """How many experiments a record has, on which GPU and when, in a line of Markdown."""
    points = list(one.record.points.values())
    timed, counted = (sum(map(bool, (getattr(p, of) for p in points))) for of in ("timing", "counters"))
    stale = sum(map(is_stale, points))
    failed = len(missed(one.record))
    when = one.record.dates.replace("-", "‑")  # a date does not break
    return (
        f"**{count(timed)}** experiments timed on {plain(one.record.gpu)}, {plain(when)}"
        + f", {count(failed)} failed" * (failed > 0)
        + f". In **{count(counted)}** of them the bytes were counted too, in a separate, slower run. "
        + (f"**{count(stale)}** are out of date{OLDER}." if stale else "No kernel has changed since ✓")
    )


def lacking(shown: Sequence[Entry]) -> list[str]:
    """Of two records: how many experiments only one of them has a time of, and why, in lines of Markdown."""
    if len(shown) != 2:
        return []
    lines = []
    gpus = names(shown)
    for (one, gpu), (other, beside) in permutations(zip(shown, gpus, strict=True)):
        timed = [point.experiment for point in one.record.points.values() if point.timing]
        failed = [run for run in timed if (point := other.record.point(run)) and not point.timing]
        skipped = [run for run in timed if other.record.point(run) is None]
        why = [f"{count(len(failed))} failed"] * bool(failed) + [_skipped(skipped)] * bool(skipped)
        if why:
            alone = f"**{count(len(failed) + len(skipped))}** experiments of the {gpu} have no time of the {beside}"
            lines.append(f"{alone}: {', '.join(why)}")
    return lines


def _skipped(runs: Sequence[Experiment]) -> str:
    """How many experiments were not run, and the set that has them all, where there is one."""
    whole = next((plan.about for plan in PLANS.values() if {*runs} <= {*plan.experiments}), "")
    return f"{count(len(runs))} were not run" + f", all of the set *{plain(whole)}*" * bool(whole)


def missed(record: Record) -> list[Point]:
    """The points with missing data."""
    return [point for point in record.points.values() if point.why]


@kept
def missed_table(shown: Sequence[Entry]) -> str:
    """The measurements that failed, and why, as Markdown; empty if none did."""
    runs: dict[tuple[str, str], list[str]] = {}
    for one in shown:
        for point in missed(one.record):
            alike = runs.setdefault((plain(one.label), plain(_CODE.sub("", point.why))), [])
            alike.append(f"{point.experiment.entry.title} at {sizes(point.experiment)}")
    return markdown(("record", "why", "runs"), [(*key, "; ".join(own)) for key, own in runs.items()])


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
            ("loads, by formula; read from HBM", formula_read, "dram_read_bytes"),
            ("stores, by formula; written to HBM during the run", formula_written, "dram_written_bytes"),
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
