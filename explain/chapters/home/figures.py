"""What was measured beforehand, for the first page: each a sentence from a committed file, "" where there is none."""

from __future__ import annotations

from explain import recordings
from explain.records import results
from explain.records.code import stale_parts, stale_parts_if_known, stale_words

HALL = results.BENCHMARKS / "classroom_load.json"


def verified() -> str:
    """How many experiments on a GPU are within their tolerance."""
    record = recordings.measured("verification-h200")
    if record is None:
        return ""
    where, right = record["provenance"], [k for k in record["kernels"].values() if not k["wrong_on_purpose"]]
    within, total = (sum(kernel[name] for kernel in right) for name in ("within_tolerance", "experiments"))
    return (
        f"recorded · {within:,} of {total:,} experiments within their tolerance against float64 · "
        f"{where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"
        + _stale(stale_parts(record.get("code")))
    )


def lecture_hall() -> str:
    """How a hall of students fares on one server."""
    hall = results.load(HALL, dict, "python -m benchmarks.classroom_load")
    if hall is None:
        return ""
    return (
        f"recorded · {hall['students']} students at once, each with a rerun every {hall['period_s']:g} s: answered "
        f"within {hall['p95_ms']:.0f} ms (95 of 100), {hall['dropped']} dropped · {hall['machine']}, "
        f"{hall['date'][:10]}" + _stale(stale_parts_if_known(hall.get("code")))
    )


def _stale(parts: list[str]) -> str:
    words = stale_words(parts)
    return f" · stale: {words}" if words else ""
