"""Runs the whole grid of experiments on the GPU at hand and records the verdicts, with their provenance.

    python scripts/record_verification.py --out explain/recordings/verification-h200.json

Also in the record: the chapters' opening experiment, compiled, with its state after each tile of keys against the trace.
One process a kernel: most of the time goes into compiling.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from explain.verification import grid, must_pass  # noqa: E402
from kernels.catalog import CATALOG  # noqa: E402


def verdicts(name: str) -> list[dict[str, Any]]:
    """Every experiment of one kernel's grid, run on the GPU: its JSON, error, budget and whether that is as it should be."""
    return list(_verdicts(name))


def _verdicts(name: str) -> Iterator[dict[str, Any]]:
    from kernels.launch import launcher, tensors
    from kernels.verify import verify

    kernel = CATALOG[name]
    for experiment in grid(kernel):
        p = experiment.values
        arrays = kernel.make_inputs(experiment.preset, p, experiment.seed)
        verdict = verify(kernel, p, arrays, launcher(kernel, p, tensors(p, arrays, "cuda"))())
        yield {
            **experiment.to_json(),
            "error": str(verdict.error),
            "budget": verdict.budget,
            "within_budget": verdict.within_budget,
            "bites": verdict.bites,
            "as_expected": verdict.within_budget or not must_pass(experiment),
        }


def measure_opening() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The measurement of the experiment the chapters open on, and its states tile by tile beside the shipped trace's."""
    from explain import lessons
    from explain.device.prefixes import compare_prefixes
    from explain.engine import Engine

    engine = Engine()
    try:
        with tempfile.TemporaryDirectory() as folder:
            prefixes = Path(folder) / "prefixes.npz"
            measurement = engine.measure(lessons.OPENING, prefixes=prefixes)
            trace = engine.trace(lessons.OPENING).trace
            return measurement.to_json(), compare_prefixes(trace, lessons.OPENING, prefixes)
    finally:
        engine.close()


def main() -> int:
    """Runs, writes the file, prints a line a kernel; 1 when a kernel that should pass did not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("kernels", nargs="*", default=list(CATALOG), metavar="KERNEL")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(len(arguments.kernels), multiprocessing.get_context("spawn")) as pool:
        results = dict(zip(arguments.kernels, pool.map(verdicts, arguments.kernels), strict=True))
    opening, states = measure_opening()
    summary = {
        name: {
            "experiments": len(rows),
            "within_budget": sum(row["within_budget"] for row in rows),
            "zeros_would_miss": sum(row["bites"] for row in rows),
            "wrong_on_purpose": CATALOG[name].wrong,
            "unexpected": [row for row in rows if not row["as_expected"]],
        }
        for name, rows in results.items()
    }
    record = {
        "format": 1,
        "provenance": opening["provenance"],
        "kernels": summary,
        "opening": opening,
        "states": states,
    }
    arguments.out.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    for name, row in summary.items():
        print(
            f"{name}: {row['within_budget']} of {row['experiments']} within budget, {len(row['unexpected'])} unexpected"
        )
    return 1 if any(row["unexpected"] for row in summary.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
