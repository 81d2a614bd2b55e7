"""The tables of records."""

from __future__ import annotations

from dataclasses import replace

from explain.chapters.measurements import records
from explain.experiment import Experiment
from explain.records import registry
from explain.records.model import Point
from explain.records.plans import PLANS, sizes
from tests.explain.records import made


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
