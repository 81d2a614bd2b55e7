"""How many students one server takes, in words."""

from __future__ import annotations

from explain.figures.numbers import fixed, number
from explain.records import results
from explain.records.code import stale_parts_if_known, stale_words

QUARTERS = {0.0: "", 0.25: "¼", 0.5: "½", 0.75: "¾"}
HALL = results.BENCHMARKS / "classroom_load.json"


def minutes(time: float) -> str:
    """A number of minutes as it is said: 18½."""
    whole, part = divmod(time, 1)
    return f"{whole:.0f}{QUARTERS[part]}" if whole and part in QUARTERS else number(time)


def lecture_hall() -> str:
    """How a class fares on one server, as measured; "" without a measurement."""
    hall = results.load(HALL, dict, "python -m benchmarks.classroom_load")
    if hall is None:
        return ""
    servers = "One server process" if hall["processes"] == 1 else f"{hall['processes']} server processes"
    said = (
        f"{servers}, {hall['students']} students at once, each moves a control every {number(hall['period_s'])} s: "
        f"95% of them are answered within {fixed(hall['p95_ms'], 0)} ms, {hall['dropped']} are lost. Measured on "
        f"{hall['machine']}, {hall['date'][:10]}"
    )
    words = stale_words(stale_parts_if_known(hall.get("code")))
    return f"{said} · stale: {words}" if words else said
