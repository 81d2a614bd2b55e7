"""The tuning grid's picture, sentences and CSV; the shipped grid is of the rung's own code."""

from __future__ import annotations

import csv
import io
import re

from explain.chapters.speed import tuning
from explain.chapters.speed import tuning_figures as figures
from explain.chapters.speed.rungs import BY_NAME
from explain.chapters.speed.tuning import Grid, Point
from explain.gpus import GPUS
from kernels.catalog import KERNELS

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


def test_a_cell_has_its_time_and_the_fastest_stands_out():
    picture = figures.grid(GRID, 2)
    assert re.search(r'stroke="currentColor"[^>]*><title>128 × 64, 8 warps, 3 stages; 2 ms', picture)
    assert re.search(r'font-weight="650">2.00 ms<', picture)
    assert picture.count('stroke="currentColor"') == 1 + picture.count("<line")
    filled = [float(opacity) for opacity in re.findall(r'fill="var\(--f-kernel-2\)" fill-opacity="([\d.]+)"', picture)]
    assert filled[0] > 2 * filled[1]


def test_what_spills_does_not_fit_or_is_wrong_is_marked():
    picture = figures.grid(GRID, 2)
    assert f">8.00 ms {figures.SPILLED}<" in picture
    for point in GRID.points[2:]:
        assert f">{tuning.FAILURES[point.failure][0]}<" in picture
    assert "240 B" in figures.setting(GRID.points[1])


def test_the_sentences_have_the_gain_and_what_is_left_out():
    said = figures.grid_told(GRID, GPUS["H200"])
    for number in (
        "2 of 4",
        "**128 × 64 with 8 warps and 3 stages**",
        "2 ms",
        "500 TFLOP/s",
        "**4.00 ×**",
        "1 of 4",
        "227 KiB",
    ):
        assert number in said


def test_without_times_a_cell_has_what_the_compiler_says():
    compiled = tuning.load(tuning.COMPILED)
    assert compiled is not None
    grid = compiled.grids[0]
    for one in compiled.grids:
        assert one.code == KERNELS[BY_NAME[one.rung].kernel].code, "run python -m explain record tuning"
    assert not grid.timed
    picture, said = figures.grid(grid, 2), figures.grid_told(grid, GPUS["H200"])
    for point in grid.points:
        assert (point.failure == "shared memory") == ((point.shared_bytes or 0) > GPUS["H200"].shared_bytes)
        assert point.failure or f">{point.registers} regs{' ⚠' * bool(point.spills)}<" in picture
    assert "TFLOP/s" not in said


def test_the_table_has_a_line_for_every_setting():
    rows = list(csv.DictReader(io.StringIO(GRID.csv)))
    assert len(rows) == len(GRID.points)
    assert (rows[0]["block_m"], rows[0]["stages"], rows[0]["seconds"], rows[0]["failure"]) == ("128", "3", "0.002", "")
