"""Runs the whole grid of experiments on this machine's GPU and records the verdicts.

The record also has the measurement of the chapters' opening experiment, with its state after each tile of keys beside
the trace. Each kernel has a process of its own, since most of the time goes into compiling.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from explain.experiment import Experiment
from explain.plain import plain
from explain.records import results
from explain.records.code import measured_code
from explain.verification import grid, must_pass
from kernels.catalog import KERNELS, TAUGHT

OUT = results.RECORDINGS / "verification-h200.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernels", nargs="*", default=list(TAUGHT), metavar="KERNEL", help="only these kernels")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help=f"the file to write ({OUT.name})")


def run(parsed: argparse.Namespace) -> int:
    """Runs everything, writes the file and prints one line per kernel; 1 if a kernel that should pass did not."""
    with ProcessPoolExecutor(len(parsed.kernels), multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(parsed.kernels, pool.map(verdicts, parsed.kernels), strict=True))
    opening, states = measure_opening()
    summary = {
        name: {
            "experiments": len(rows),
            "within_tolerance": sum(row["within_tolerance"] for row in rows),
            "zeros_would_miss": sum(row["bites"] for row in rows),
            "wrong_on_purpose": KERNELS[name].wrong,
            "unexpected": [row for row in rows if not row["as_expected"]],
        }
        for name, rows in found.items()
    }
    content = {"format": 1, "provenance": opening["provenance"], **measured_code(found), "kernels": summary}
    results.write(parsed.out, {**content, "opening": opening, "states": states})
    for name, row in summary.items():
        within = f"{row['within_tolerance']} of {row['experiments']} within tolerance"
        print(f"{name}: {within}, {len(row['unexpected'])} unexpected")
    return 1 if any(row["unexpected"] for row in summary.values()) else 0


def verdicts(name: str) -> list[dict[str, Any]]:
    """Every experiment of one kernel's grid, run on the GPU: JSON, error, tolerance, whether that is expected."""
    from explain.run_experiment import verdict_of

    def row(experiment: Experiment) -> dict[str, Any]:
        verdict = verdict_of(experiment, "cuda")
        return {
            **experiment.to_json(),
            "error": str(verdict.error),
            "tolerance": verdict.tolerance,
            "within_tolerance": verdict.within_tolerance,
            "bites": verdict.bites,
            "as_expected": verdict.within_tolerance or not must_pass(experiment),
        }

    return [row(experiment) for experiment in grid(KERNELS[name])]


def measure_opening() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The measurement of the chapters' opening experiment, and its states tile by tile beside the shipped trace."""
    from explain import lessons
    from explain.device.prefixes import compare_prefixes
    from explain.engine import Engine

    with closing(Engine()) as engine, tempfile.TemporaryDirectory() as folder:
        prefixes = Path(folder) / "prefixes.npz"
        measurement = engine.measure(lessons.OPENING, prefixes=prefixes)
        trace = engine.trace(lessons.OPENING).trace
        return plain(measurement), compare_prefixes(trace, lessons.OPENING, prefixes)
