"""What was measured beforehand, for the first page: each a sentence from a committed file, "" where there is none."""

from __future__ import annotations

import json

from explain import recordings
from explain.contents import ROOT

HALL = ROOT / "benchmarks" / "results" / "classroom_load.json"


def verified() -> str:
    """How many experiments on a GPU are within their error budget."""
    record = recordings.measured("verification-h200")
    if record is None:
        return ""
    where, right = record["provenance"], [k for k in record["kernels"].values() if not k["wrong_on_purpose"]]
    within, total = (sum(kernel[name] for kernel in right) for name in ("within_budget", "experiments"))
    return (
        f"recorded · {within:,} of {total:,} experiments within their error budget against float64 · "
        f"{where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"
    )


def lecture_hall() -> str:
    """How a hall of students fares on one server."""
    if not HALL.exists():
        return ""
    hall = json.loads(HALL.read_text())
    return (
        f"recorded · {hall['students']} students at once, each with a rerun every {hall['period_s']:g} s: answered within "
        f"{hall['p95_ms']:.0f} ms (95 of 100), {hall['dropped']} dropped · {hall['machine']}, {hall['date'][:10]}"
    )
