"""The case that the reader chose, and what is drawn of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from explain.chapters.speed import counters_figures, kernels_figures, results, rungs
from explain.chapters.speed.results import TABLES, Case, Limit, Result
from explain.chapters.speed.rungs import RUNGS, Rung, Spill
from explain.chapters.sweeps.roofline import roofline
from explain.counters.stalls import Stalls
from explain.figures.plot import kept
from explain.gpus import GPUS, known_as
from explain.records import registry
from explain.records.code import stale_words
from explain.records.model import Point, Record
from explain.records.results import ResultFileError
from explain.ui.controls import option

OTHERS = "work."
"""Prefix of the other kernels' choices in the page's address."""
SHAPE_LABELS = {"N": "N", "V": "V, elements in a row", "d": "d", "dtype": "dtype", "causal": "Causal"}


@dataclass(frozen=True, eq=False)
class Chosen:
    """The benchmark's result, the chosen case, the GPU's record, and what is drawn of them, each once."""

    result: Result
    case: Case
    record: Record | None

    @cached_property
    def limit(self) -> Limit | None:
        """The case's roof."""
        return results.roof(self.case, self.record)

    @property
    def cases(self) -> tuple[Case, ...]:
        """All cases of the same table."""
        return self.result.of(self.case.table)

    @cached_property
    def counted(self) -> dict[str, Point]:
        """What the record has counted of each rung, by its name."""
        return rungs.counted(self.record, self.case)

    def spilled(self, rung: Rung) -> Spill | None:
        """The registers that the rung below spills and this one does not."""
        return rungs.spilled(self.counted, rung, self.record.roofs) if self.record else None

    @cached_property
    def stalls(self) -> list[tuple[str, Stalls, float | None]]:
        """Why the warps of each rung wait, where it was counted, and how busy its tensor cores are, in percent."""
        counters = ((rung.label, self.counted[rung.name].counters) for rung in RUNGS if rung.name in self.counted)
        return [(label, one.stalls, one.cold.tensor_active_percent) for label, one in counters if one and one.stalls]

    @cached_property
    def stall_bars(self) -> str:
        """Why warps wait, as a picture."""
        return counters_figures.stall_bars(self.stalls)

    @cached_property
    def counters_table(self) -> str:
        """What was counted of each rung."""
        return counters_figures.counters_table(self.counted, RUNGS)

    @cached_property
    def roofline(self) -> tuple[go.Figure, float] | None:
        """The timed rungs under the roofs, and their FLOPs per byte; None without a time or a record."""
        points = rungs.under_roofs(rungs.climb(self.case), self.case, self.record.roofs) if self.record else []
        if not self.record or not points:
            return None
        known = known_as(self.record.gpu)
        picture = roofline(points, self.record.roofs, GPUS[known] if known else None, room=80)
        return kept(picture), points[-1].intensity

    @cached_property
    def curve(self) -> go.Figure | None:
        """The kernels over the length; None if only one length was measured."""
        cases = results.beside(self.case.without_rungs, (one.without_rungs for one in self.cases))
        if len({one.along for one in cases}) < 2:
            return None
        return kept(kernels_figures.curve(cases, [results.roof(one, self.record) for one in cases]))

    @cached_property
    def shapes(self) -> str:
        """Every shape of the table, as speedups."""
        return kernels_figures.shapes_table(self.cases, [results.roof(case, self.record) for case in self.cases])

    @cached_property
    def bars(self) -> str:
        """The case's variants."""
        return kernels_figures.bars(self.case, self.limit, results.colours(self.cases))


class Same:
    """A cache's key for an object without a hash: equal if both hold the very same object."""

    def __init__(self, one: Any) -> None:
        self.one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)


@functools.lru_cache(maxsize=128)
def _chosen(result: Same, case: Case, record: Same) -> Chosen:
    return Chosen(result.one, case, record.one)


def chosen(table: str, prefix: str = "") -> Chosen | None:
    """The benchmark's result and one case of the table; without one None, and the page says why."""
    try:
        result = results.load(results.FILE)
    except ResultFileError as error:
        st.error(str(error), icon=":material/error:")
        return None
    if result is None:
        st.info(f"The benchmark has not run here. On a machine with a GPU: `{results.COMMAND}`")
        return None
    if words := stale_words(result.stale):
        st.caption(f":orange-badge[may be out of date] {words}")
    cases = result.of(table)
    if not cases:
        st.info(f"This run of the benchmark has no {TABLES[table].title}: `{results.COMMAND} {table}`")
        return None
    case = _case(table, cases, prefix)
    shelved, _ = registry.shelved()
    records = (one.record for one in shelved if one.record.gpu == result.provenance.gpu and one.record.roofs)
    record = next(records, None)
    return _chosen(Same(result), case, Same(record))


def _case(table: str, cases: tuple[Case, ...], prefix: str) -> Case:
    """One case, by controls that are kept in the page's address under `prefix`."""
    if not TABLES[table].along:
        shapes = {str(at): case.words for at, case in enumerate(cases)}
        label = f"Shape: {' × '.join(TABLES[table].dimensions)}"
        return cases[int(option(label, shapes, f"{prefix}shape", str(len(cases) // 2)))]
    names = [name for name in results.choices(cases) if name in SHAPE_LABELS]
    for name, column in zip(names, st.columns(max(len(names), 1)), strict=False):
        values = sorted({case.values[name] for case in cases}, key=results.size_of)
        plain = {value.replace(",", ""): value for value in values}
        with column:
            default = "no" if "no" in plain else list(plain)[len(plain) // 2]
            asked = option(SHAPE_LABELS[name], plain, f"{prefix}{name}", default)
        cases = tuple(case for case in cases if case.values[name] == plain[asked])
    return cases[0]
