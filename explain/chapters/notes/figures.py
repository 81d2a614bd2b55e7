"""Minutes in words."""

from __future__ import annotations

from explain.figures.numbers import number

QUARTERS = {0.0: "", 0.25: "¼", 0.5: "½", 0.75: "¾"}


def minutes(time: float) -> str:
    """A number of minutes as it is said: 18½."""
    whole, part = divmod(time, 1)
    return f"{whole:.0f}{QUARTERS[part]}" if whole and part in QUARTERS else number(time)
