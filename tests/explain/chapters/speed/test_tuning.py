"""The tuning grid: its file as values, its map, sentences and CSV; the shipped grid is of the rung's own code."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from dataclasses import asdict, replace

import pytest

from explain.chapters.speed import tuning
from explain.chapters.speed.results import Variant
from explain.chapters.speed.rungs import BY_NAME, Step
from explain.chapters.speed.tuning import Grid, Point
from explain.gpus import GPUS, card
from explain.records.results import ResultFileError
from kernels.catalog import KERNELS
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
BEST = Point(128, 64, 8, 3, seconds=2e-3, registers=176, shared_bytes=131072, spills=0)
GRID = Grid(
    "pipelined", "", (2, 16, 8192, 128), "bf16", False, 1e12,
    (
        BEST,
        Point(128, 64, 4, 3, seconds=8e-3, registers=255, shared_bytes=131072, spills=60),
        Point(256, 128, 8, 3, failure="shared memory", why="262,144 bytes", registers=255, shared_bytes=262144,
        spills=0),
        Point(256, 128, 4, 3, failure="wrong", error=3.0),
    ),
)  # fmt: skip


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


def test_a_cell_has_its_time_and_the_fastest_stands_out():
    picture = tuning.grid(GRID, 2)
    assert re.search(r'stroke="currentColor"[^>]*><title>128 × 64, 8 warps, 3 stages; 2.00 ms', picture)
    assert re.search(r'font-weight="650">2.00 ms<', picture)
    assert picture.count(tuning.CLIMBS) == any(point.settings == tuning.used(GRID) for point in GRID.timed)
    assert picture.count('stroke="currentColor"') == 1 + picture.count("<line")
    filled = [float(opacity) for opacity in re.findall(r'fill="var\(--f-kernel-2\)" fill-opacity="([\d.]+)"', picture)]
    assert filled[0] > 2 * filled[1]


def test_what_spills_does_not_fit_or_is_wrong_is_marked():
    picture = tuning.grid(GRID, 2)
    for one in (picture, tuning.grid(GRID, 2, narrow=True)):
        assert ">8.00 ms<" in one
        assert f">{tuning.SPILLED} 240 B<" in one
    for point in GRID.points[2:]:
        assert f">{tuning.FAILURES[point.failure][0]}<" in picture
    assert "240 B" in tuning.setting(GRID.points[1])


def test_the_sentences_have_the_gain_and_what_is_left_out():
    said = tuning.grid_told(GRID, GPUS["H200"])
    for number in (
        "2 of 4",
        "**128 × 64 with 8 warps and 3 stages**",
        "2.00 ms",
        "500 TFLOP/s",
        "**4.00 ×**",
        "1 of 4",
        "227 KiB",
    ):
        assert number in said


def test_the_fastest_setting_that_spills_nothing_is_compared():
    timed = [Point(256, 128, 8, 2, seconds=2.0, spills=44), Point(128, 128, 8, 3, seconds=2.1, spills=0)]
    said = tuning.grid_told(replace(GRID, points=tuple(timed)), None)
    assert "spills 176 B per thread" in said
    assert "5% faster than 128 × 128 with 8 warps and 3 stages, which spills nothing." in said
    assert "We did not separate the larger tile from the spill." in said


def stages(*seconds: float, shared: int, spills: int = 0) -> tuple[Point, ...]:
    """A tile with 2 stages, then 3, and so on: `shared` KiB for each stage."""
    return tuple(
        Point(64, 64, 4, at, seconds=one, registers=100, shared_bytes=at * shared * 1024, spills=spills)
        for at, one in enumerate(seconds, start=2)
    )


def test_a_stage_that_leaves_an_sm_fewer_programs_is_told_apart_from_one_that_does_not():
    gpu = GPUS["H200"]
    points = stages(3e-3, 2e-3, 4e-3, shared=35)  # 70, 105 and 140 KiB: 3, 2 and 1 programs
    assert [point.programs(gpu) for point in points] == [3, 2, 1]
    grid = replace(GRID, points=points)
    assert tuning.stage_pairs(grid, gpu) == ([points[:2], points[1:]], [])
    assert "Programs per SM" not in tuning.grid_told(grid, gpu)  # slower in half of them only
    grid = replace(GRID, points=points[1:])
    assert "slower in 1 of 1 pairs. 64 × 64, 4 warps, 3 → 4 stages: 105 KiB → 140 KiB" in tuning.grid_told(grid, gpu)
    assert "2 → 1 programs, **2.00 → 4.00 ms**" in tuning.grid_told(grid, gpu)
    grid = replace(GRID, points=stages(3e-3, 2e-3, shared=10))
    assert "faster in 1 of 1 pairs" in tuning.grid_told(grid, gpu)
    assert tuning.stage_pairs(replace(GRID, points=stages(3e-3, 2e-3, shared=10, spills=4)), gpu) == ([], [])


def test_the_rule_holds_in_the_shipped_grids():
    shipped = tuning.load()
    assert shipped
    for grid in shipped.grids:
        said = tuning.grid_told(grid, card(shipped.provenance.gpu))
        assert "**Programs per SM**" in said
        assert "**Loads in flight**" in said


def test_the_winners_are_compared():
    other = replace(GRID, points=(Point(64, 64, 4, 2, seconds=1e-3),))
    said = tuning.winners_told({"pipelined": GRID, "TMA": other})
    assert said.startswith("**Each kernel has its own best setting.** Pipelined is fastest with 128 × 64, 8 warps")
    assert "TMA is fastest with 64 × 64, 4 warps, 2 stages." in said
    assert "own best" not in tuning.winners_told({"pipelined": GRID, "TMA": GRID})
    assert tuning.winners_told({"TMA": replace(GRID, points=GRID.points[2:])}) == ""


def two_changes(spills: int) -> str:
    """What is said of a specialized kernel at 483 TFLOP/s, and TMA with both tiles."""
    points = (
        Point(128, 64, 8, 3, seconds=1 / 450e12, spills=0),
        Point(128, 128, 8, 2, seconds=1 / 460e12, spills=0),
        Point(128, 128, 8, 3, seconds=1 / 510e12, spills=spills),
    )
    step = Step(BY_NAME["specialised"], Variant("rung specialised", 1.0, 483e12), None)
    return tuning.two_changes_told(step, BY_NAME["tma"], replace(GRID, rung="tma", work=1.0, points=points))


def test_the_tile_and_the_producer_warp_are_told_apart_by_the_settings_of_the_kernel_below():
    said = two_changes(spills=0)
    assert "The tile has 128 keys, not 64, and one warp only loads." in said
    assert "450 TFLOP/s with 128 × 64, 8 warps, 3 stages. It reaches 510 TFLOP/s with 128 × 128, 8 warps, 3" in said
    assert "does not need the producer’s registers" in said
    assert "TMA reaches 460 TFLOP/s and this kernel 483 TFLOP/s, 1.05 × as fast." in said
    assert "With 3 stages, TMA at this tile is faster than this kernel." in said
    assert "registers" not in two_changes(spills=4)
    step = Step(BY_NAME["specialised"], None, None)
    assert tuning.two_changes_told(step, BY_NAME["tma"], None).endswith("we did not time them separately.")
    assert tuning.two_changes_told(replace(step, rung=BY_NAME["two_groups"]), BY_NAME["specialised"], None) == ""


def test_without_times_a_cell_has_what_the_compiler_says():
    compiled = tuning.load(tuning.COMPILED)
    grid = compiled.grids[0]
    for one in compiled.grids:
        assert one.code == KERNELS[BY_NAME[one.rung].kernel].code, "run python -m explain record tuning"
    assert not grid.timed
    picture, said = tuning.grid(grid, 2), tuning.grid_told(grid, GPUS["H200"])
    for point in grid.points:
        assert (point.failure == "shared memory") == ((point.shared_bytes or 0) > GPUS["H200"].shared_bytes)
        assert point.failure or f">{point.registers} regs{' ⚠' * bool(point.spills)}<" in picture
    assert "TFLOP/s" not in said


def test_the_table_has_a_line_for_every_setting():
    rows = list(csv.DictReader(io.StringIO(GRID.csv())))
    assert len(rows) == len(GRID.points)
    assert (rows[0]["block_m"], rows[0]["stages"], rows[0]["seconds"], rows[0]["failure"]) == ("128", "3", "0.002", "")
