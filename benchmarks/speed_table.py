"""What `benchmarks/speed.py` measured, held against what the kernels are to reach: a milestone first, then a goal, both
as ratios of the same run.

A ratio is a baseline's time over ours. A kernel that exceeded its tolerance has no time, and its row says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from explain import data
from explain.figures.tables import Column, markdown

Case = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """To be at least `ratio` times as fast as a baseline."""

    baseline: str
    ratio: float
    words: str


@dataclass(frozen=True)
class Promise:
    """One row: a kernel of ours, its cases, its bars. `last` is the shape's last number, from and to."""

    what: str
    table: str
    ours: str
    last: tuple[int, int]
    milestone: tuple[Bar, ...]
    goal: tuple[Bar, ...]

    def cases(self, result: dict[str, Any]) -> list[Case]:
        low, high = self.last
        own = (case for case in result["cases"] if case["case"]["table"] == self.table)
        return [case for case in own if low <= case["case"]["shape"][-1] <= high]


def _bars(given: list[tuple[float, str, str]]) -> tuple[Bar, ...]:
    return tuple(Bar(baseline, ratio, f"≥ {ratio:.2f} × {name}") for ratio, baseline, name in given)


def _promise(last: list[int], milestone: Any, goal: Any, **fields: Any) -> Promise:
    return Promise(last=(last[0], last[1]), milestone=_bars(milestone), goal=_bars(goal), **fields)


PROMISES = tuple(_promise(**promise) for promise in data(__file__)["promise"])


def lines(result: dict[str, Any]) -> Iterator[str]:
    """The table and what it was measured on, as markdown. A promise without measured cases is left out."""
    reaches = Column("reached")
    rows = []
    for promise in PROMISES:
        if cases := promise.cases(result):
            bars = (promise.milestone, promise.goal)
            cells = [x for bar in bars for x in (", ".join(b.words for b in bar), reached(promise.ours, bar, cases))]
            rows.append((promise.what, speed(promise.ours, cases), *cells))
    columns = ("kernel", Column("ours, slowest to fastest shape"), "milestone", reaches, "goal", reaches)
    yield from markdown(columns, rows).splitlines()
    where, before, after = result["provenance"], result["before"], result["after"]
    yield ""
    yield (
        f"{where['gpu']}, driver {where['driver']}, torch {where['torch']}, triton {where['triton']}, {where['date']}; "
        f"{after.get('clocks.sm', 'clock unknown')} and "
        f"{before.get('temperature.gpu', '?')}–{after.get('temperature.gpu', '?')} °C; random data, "
        f"{result['method']}; a variant that exceeds its tolerance has no time. [What is in the way](docs/speed.md). "
        "Again: `python benchmarks/speed.py --out FILE`."
    )


def speed(ours: str, cases: list[Case]) -> str:
    """The least and the most that ours reaches over the cases, with its unit."""
    found = [row["per_second"] / 1e12 for case in cases if (row := _timed(case, ours))]
    unit = "TB/s" if cases[0]["case"]["unit"] == "B/s" else "TFLOP/s"
    return f"{_span(found, 2 if unit == 'TB/s' else 0)} {unit}" if found else "no time"


def reached(ours: str, bars: tuple[Bar, ...], cases: list[Case]) -> str:
    """The least and the most of each bar's ratio, and in how many shapes it is missed."""
    cells = []
    for bar in bars:
        both = [(_timed(case, ours), _timed(case, bar.baseline)) for case in cases]
        ratios = [theirs["seconds"] / mine["seconds"] for mine, theirs in both if mine and theirs]
        wrong = sum(_timed(case, ours) is None for case in cases)
        missed = sum(round(ratio, 2) < round(bar.ratio, 2) for ratio in ratios) + wrong
        cell = f"**{_span(ratios, 2)}**" if ratios else "not measured"
        some = 0 < len(ratios) < len(cases) - wrong
        part = f" in the {len(ratios)} of {len(cases)} shapes that were measured" if some else ""
        cells.append(cell + part + (f", missed in {missed} of {len(cases)}" if missed else ""))
    return "; ".join(cells)


def _timed(case: Case, name: str) -> Case | None:
    return next((row for row in case["variants"] if row["name"] == name and "seconds" in row), None)


def _span(values: list[float], digits: int) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low}–{high}"
