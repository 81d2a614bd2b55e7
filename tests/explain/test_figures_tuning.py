"""The grid of settings: the fastest stands out, what does not fit, spills or was not timed says so; the shipped grid is of the rung's own code."""

from __future__ import annotations

import re

from explain.chapters.speed import tuning_figures as figures
from explain.chapters.speed import tuning_grid
from explain.chapters.speed.rungs import BY_NAME
from explain.chapters.speed.tuning_grid import Grid, Point
from explain.gpus import GPUS
from kernels.catalog import KERNELS

BEST = Point(128, 64, 8, 3, seconds=2e-3, registers=176, shared_bytes=131072, spills=0)
GRID = Grid(
    "pipelined", "", (2, 16, 8192, 128), "bf16", False, 1e12,
    (
        BEST,
        Point(128, 64, 4, 3, seconds=8e-3, registers=255, shared_bytes=131072, spills=60),
        Point(256, 128, 8, 3, trouble="shared memory", why="262,144 bytes", registers=255, shared_bytes=262144, spills=0),
        Point(256, 128, 4, 3, trouble="wrong", error=3.0),
    ),
)  # fmt: skip


def test_a_cell_has_its_time_and_the_fastest_stands_out():
    picture = figures.grid(GRID)
    assert re.search(r'stroke="currentColor"[^>]*><title>128 × 64, 8 warps, 3 stages; 2 ms', picture)
    assert re.search(r'font-weight="650">2 ms<', picture)
    assert picture.count('stroke="currentColor"') == 1 + picture.count("<line")
    filled = [float(opacity) for opacity in re.findall(r'fill="#2388C7" fill-opacity="([\d.]+)"', picture)]
    assert filled[0] > 2 * filled[1]


def test_what_spills_does_not_fit_or_is_wrong_is_marked():
    picture = figures.grid(GRID)
    assert ">8 ms ⚠<" in picture
    assert ">does not fit<" in picture
    assert ">wrong result<" in picture
    assert "240 B of each thread" in figures.said(GRID.points[1])


def test_the_sentences_have_the_gain_and_what_is_left_out():
    said = " ".join(figures.told(GRID, GPUS["H200"]))
    assert "Of 4 settings 2 have a time" in said
    assert "**128 × 64 with 8 warps and 3 stages**, takes 2 ms: 500 TFLOP/s" in said
    assert "**4.0 times** as long" in said
    assert "1 of 4 do not fit the shared memory of 227 KiB" in said
    assert "1 spill, all with 4 warps" in said


def test_without_times_a_cell_has_what_the_compiler_says():
    tuning = tuning_grid.load(tuning_grid.COMPILED)
    assert tuning is not None
    grid = tuning.grids[0]
    for one in tuning.grids:
        assert one.code == KERNELS[BY_NAME[one.rung].kernel].code, "run python -m explain record tuning"
    assert not grid.timed
    picture, said = figures.grid(grid), figures.told(grid, GPUS["H200"])
    for point in grid.points:
        assert (point.trouble == "shared memory") == ((point.shared_bytes or 0) > GPUS["H200"].shared_bytes)
        assert point.trouble or f">{point.registers} regs{' ⚠' * bool(point.spills)}<" in picture
    assert not any("TFLOP/s" in sentence or "times" in sentence for sentence in said)


def test_the_table_has_a_line_for_every_setting():
    lines = figures.table(GRID).splitlines()
    assert lines[0].startswith("block_m,block_n,warps,stages,seconds")
    assert lines[1] == "128,64,8,3,0.002,,131072,176,0"
    assert len(lines) == 1 + len(GRID.points)
