"""The first page's words: how long, how many cards in a row, and what was measured beforehand."""

from __future__ import annotations

from explain import recordings
from explain.records import results
from explain.records.code import stale_parts, stale_parts_if_known, stale_words

HALL = results.BENCHMARKS / "classroom_load.json"


_HOURS = ("half an hour", "an hour", "two hours", "three hours", "four hours", "five hours", "six hours")


def about(minutes: int) -> str:
    """A length of time as one says it: "about two hours". Raises ValueError for more than six hours."""
    hours = round(minutes / 60)
    if hours >= len(_HOURS):
        raise ValueError(f"minutes={minutes}: allowed are at most {60 * len(_HOURS) - 31}")
    return f"about {_HOURS[hours]}"


def rows(cards: int, most: int = 3) -> list[int]:
    """How many cards stand in each row: `most`, but no card is alone in the last row."""
    full, rest = divmod(cards, most)
    if rest == 1 and full and most > 2:
        return [most] * (full - 1) + [most - 1, 2]
    return [most] * full + [rest] * bool(rest)


def verified() -> str:
    """How many experiments on a GPU are within their tolerance; "" without a record, as below."""
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
