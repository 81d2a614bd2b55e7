"""The tuning grid's file as values."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace

import pytest

from explain.chapters.speed import tuning
from explain.records.results import ResultFileError
from tests.explain.records.made import WHERE

DATA = {
    "provenance": asdict(WHERE),
    "commit": "0" * 40,
    "method": "median of 10 launches",
    "before": {"clocks.sm": "1980 MHz"},
    "after": {},
    "grids": [
        {
            "rung": "pipelined", "code": "abc", "shape": [2, 16, 8192, 128], "dtype": "bf16", "causal": True,
            "work": 1e12,
            "points": [
                {"block_m": 128, "block_n": 64, "warps": 8, "stages": 3, "seconds": 2e-3, "p20": 1.9e-3, "p80": 2.1e-3,
                "error": 0.3,
                 "failure": "", "why": "", "shared_bytes": 131072, "registers": 172, "spills": 0},
                {"block_m": 256, "block_n": 128, "warps": 8, "stages": 4, "failure": "shared memory",
                "why": "Required: 327680", "shared_bytes": 327680},
                {"block_m": 128, "block_n": 64, "warps": 4, "stages": 2, "seconds": 1e-3},
            ],
        }
    ],
}  # fmt: skip


def test_a_file_is_read_as_values(tmp_path):
    path = tmp_path / "grid.json"
    assert tuning.load(path) is None
    path.write_text(json.dumps(DATA))
    found = tuning.load(path)
    assert found
    assert found == tuning.parse(DATA)
    grid = found.of("pipelined")
    assert grid
    assert found.of("tma") is None
    assert [point.seconds for point in grid.timed] == [1e-3, 2e-3]
    assert grid.points[1].shared_bytes == 327680
    assert grid.words == "2 × 16 × 8,192 × 128, bf16, causal"
    assert WHERE.gpu in found.source


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("commit"),
        lambda data: data["grids"][0].update(shape=[1, 2]),
        lambda data: data["grids"][0]["points"][0].update(failure="tired"),
        lambda data: data["grids"][0]["points"][0].update(tile=3),
        lambda data: data.update(grids=3),
    ],
)
def test_what_is_no_such_file_is_refused(change):
    data = copy.deepcopy(DATA)
    change(data)
    with pytest.raises((KeyError, TypeError, ValueError)):
        tuning.parse(data)


def test_a_file_that_is_not_json_is_refused_by_its_name(tmp_path):
    (tmp_path / "grid.json").write_text("{")
    with pytest.raises(ResultFileError, match=r"grid\.json"):
        tuning.load(tmp_path / "grid.json")


def test_what_did_not_answer_and_cannot_fit_takes_the_compilers_word():
    silent = tuning.Point(256, 128, 8, 4, failure="silent", why="no word")
    (grid,) = tuning.parse(DATA).grids
    timed = replace(grid, points=(grid.points[0], silent, replace(silent, stages=3)))
    first, second, third = tuning.completed(timed, grid).points
    assert first == grid.points[0]
    assert second == grid.points[1]
    assert third.failure == "silent"
    assert tuning.completed(timed, replace(grid, code="other")) == timed
    assert tuning.completed(timed, None) == timed
