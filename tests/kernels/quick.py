"""The part of the grid that the interpreter runs in the time that tests have; a GPU runs all of it (tests/gpu)."""

from __future__ import annotations

from collections.abc import Iterable

from explain.experiment import Experiment
from explain.verification import grid
from kernels.catalog import Kernel

LONG = 60
"""Tiles from which a run takes more than some 50 ms here."""


def tiles(experiment: Experiment) -> int:
    """The tiles that the programs of a run visit, with top-k's K scans of each: what its time here grows with."""
    p = experiment.values
    if "n" in p:
        return -(-p["n"] // p["block_n"])
    if "rows" in p:
        return p["rows"] * -(-p["cols"] // p["block_n"]) * p.get("k", 1)
    if "vocab" in p:
        return -(-p["tokens"] // p["block_m"]) * -(-p["vocab"] // p["block_n"])
    return p["batch"] * p["heads"] * -(-p["seq_len"] // p["block_m"]) * -(-p["kv_len"] // p["block_n"])


def quick(experiments: Iterable[Experiment]) -> list[Experiment]:
    """The quickest first; of those that take long one dtype, fp16, and one preset."""
    chosen = (e for e in experiments if tiles(e) < LONG or (e.values["dtype"] == "fp16" and e.inputs == "normal"))
    return sorted(chosen, key=tiles)


def quick_grid(kernel: Kernel) -> list[Experiment]:
    """A seventh of the grid: every shape, and every preset in every dtype, the long runs in one of each.

    The mutants die on it (test_mutants.py). A GPU runs the whole grid (tests/gpu).
    """
    return quick(grid(kernel, every=7))
