"""The first page's words: how long the chapters take, and what was verified on a GPU."""

from __future__ import annotations

from explain import recordings
from explain.records.code import stale_parts, stale_words

_HOURS = ("half an hour", "an hour", "two hours", "three hours", "four hours", "five hours", "six hours")


def about(minutes: int) -> str:
    """A length of time as one says it: "about two hours". Raises ValueError for more than six hours."""
    hours = round(minutes / 60)
    if hours >= len(_HOURS):
        raise ValueError(f"minutes={minutes}: allowed are at most {60 * len(_HOURS) - 31}")
    return f"about {_HOURS[hours]}"


def verified() -> str:
    """How many experiments on a GPU are within their tolerance; "" without a record."""
    record = recordings.measured("verification-h200")
    if record is None:
        return ""
    where, right = record["provenance"], [k for k in record["kernels"].values() if not k["wrong_on_purpose"]]
    within, total = (sum(kernel[name] for kernel in right) for name in ("within_tolerance", "experiments"))
    return (
        f"recorded · {within:,} of {total:,} experiments within their tolerance against float64 · "
        f"{where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"
        + (f" · stale: {words}" if (words := stale_words(stale_parts(record.get("code")))) else "")
    )
