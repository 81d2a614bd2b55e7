"""The tables of sources and of records."""

from __future__ import annotations

from dataclasses import replace

from explain.chapters.measurements import records, view
from explain.compile.service import compiler
from explain.experiment import Experiment
from explain.figures.numbers import duration
from explain.prediction import fitted
from explain.records import registry
from explain.records.model import Point
from explain.records.plans import PLANS, sizes
from tests.explain.records import made
from tests.explain.records.made import SHIPPED


def test_each_source_says_something_of_the_same_run():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    _, _, formula, trace, hardware, compiled, predicted = records.sources_table(
        view.EXAMPLE, shown, fitted(SHIPPED)
    ).splitlines()
    assert f"{view.EXAMPLE.traffic.read_bytes:,} B" in formula
    assert f"{view.EXAMPLE.traffic.read_bytes:,} B" in trace
    point = SHIPPED.point(view.EXAMPLE)
    assert point
    assert point.seconds
    assert duration(point.seconds) in hardware
    known = compiler().look(view.EXAMPLE, 90)
    assert known
    assert known.cost
    assert f"{known.cost.launches[0].registers} registers per thread" in compiled
    assert known.cost.triton in compiled
    assert " on an A100: not tested " in predicted
    *_, tested = records.sources_table(view.EXAMPLE, shown, fitted(*registry.shipped())).splitlines()
    assert " on the H100, where " in tested
    bare = records.sources_table(view.EXAMPLE, [], None).splitlines()
    assert bare[4].endswith("| – |")
    assert bare[5].endswith("| – |")
    assert bare[6].endswith("| – |")


def test_an_error_is_told_without_its_class_and_its_line():
    shown = [one for one in registry.entries()[0] if records.missed(one.record)]
    told = records.missed_table(shown)
    assert "CUDA out of memory" in told
    assert "Error:" not in told
    assert ".py" not in told


def test_experiments_of_one_of_two_records_are_counted():
    h200, h100 = registry.entries()[0][:2]
    timed, other = ({key for key, one in entry.record.points.items() if one.timing} for entry in (h200, h100))
    (said, *_) = records.lacking([h200, h100])
    assert said.startswith(f"**{len(timed - other)}** experiments of the H200 have no time of the H100: ")
    assert records.lacking([h200]) == records.lacking([h200, h200]) == []


def test_experiments_that_were_not_run_are_told_from_those_that_failed_and_name_their_set():
    h200 = registry.entries()[0][0]
    first, second, third = sizes("softmax_online")
    every = {point.experiment: point for point in h200.record.points.values()}

    def told(left: dict[Experiment, Point]) -> str:
        one, fewer = (made.record(*points.values()) for points in (every, left))
        entries = [replace(h200, record=one), replace(h200, record=fewer, key="other")]
        return "".join(records.lacking(entries))

    skipped = {run: point for run, point in every.items() if run not in (first, second)}
    assert told(skipped).endswith(f": 2 were not run, all of the set *{PLANS['levels'].about}*")
    failed = every | {third: Point(third, why="out of memory")}
    assert told(failed).endswith(": 1 failed")
    alone = next(run for run in PLANS["flashattention"].experiments if run not in PLANS["levels"].experiments)
    both = {run: point for run, point in failed.items() if run not in (first, alone)}
    assert told(both).endswith(": 1 failed, 2 were not run")
