"""The first page's words: how long the chapters take, and what was verified on a GPU."""

from __future__ import annotations

from typing import Any

from explain import recordings
from explain.figures.numbers import count
from explain.records import results
from explain.records.code import stale_parts, stale_words

_HALF_HOURS = (
    "half an hour", "an hour", "an hour and a half", "two hours", "two and a half hours", "three hours",
    "three and a half hours", "four hours", "four and a half hours", "five hours", "five and a half hours", "six hours",
)  # fmt: skip


def about(minutes: int) -> str:
    """A length of time as one says it: "about two and a half hours". Raises ValueError for more than six hours."""
    halves = max(1, round(minutes / 30))
    if halves > len(_HALF_HOURS):
        raise ValueError(f"minutes={minutes}: allowed are at most {30 * len(_HALF_HOURS) + 14}")
    return f"about {_HALF_HOURS[halves - 1]}"


def in_minutes(minutes: float) -> str:
    """A short length of time as one says it: "about a minute", "about 2 minutes"."""
    whole = max(1, round(minutes))
    return "about a minute" if whole == 1 else f"about {whole} minutes"


def verified() -> str:
    """How many experiments on a GPU are within their tolerance; "" without a record. Raises ResultFileError."""
    path = recordings.FOLDER / "verification-h200.json"
    return results.load(path, _verified, "python -m explain record verification") or ""


def _verified(record: dict[str, Any]) -> str:
    where, right = record["provenance"], [k for k in record["kernels"].values() if not k["wrong_on_purpose"]]
    within, total = (sum(kernel[name] for kernel in right) for name in ("within_tolerance", "experiments"))
    return (
        f"recorded · {count(within)} of {count(total)} experiments (all kernels; shapes, dtypes, masks, inputs) "
        f"within their tolerance against float64 · "
        f"{where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"
        + (f" · stale: {words}" if (words := stale_words(stale_parts(record.get("code")))) else "")
    )
