"""What the speed benchmark runs of the ladder."""

from __future__ import annotations

from benchmarks.speed_cases import Case, variants
from explain.chapters.speed.results import RUNG
from kernels.rungs import ORDER


def test_a_rung_is_called_alike_on_every_step_and_told_apart_in_the_benchmark():
    case = Case("attention", (1, 2, 8192, 64), "bf16", 1.0, "FLOP/s")
    names = [variant.name for variant in variants(case, tune=False)]
    assert [name for name in names if name.startswith(RUNG)] == [f"{RUNG}{rung}" for rung in ORDER]
    assert len(set(names)) == len(names)


def test_the_slowest_rung_is_not_timed_at_the_longest_rows():
    case = Case("attention", (1, 2, 16384, 64), "bf16", 1.0, "FLOP/s")
    names = [variant.name for variant in variants(case, tune=False)]
    assert [name for name in names if name.startswith(RUNG)] == [f"{RUNG}{rung}" for rung in ORDER[1:]]
