"""What the difference between two neighbouring levels is called: its bytes, its causes, and what none explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explain.chapters.three_numbers.byte_accounting import UNEXPLAINED, Gap
from explain.chapters.three_numbers.levels import amount
from explain.figures.numbers import percent

SMALL = 0.01
"""A difference below this share of a level's bytes is told as a share too."""
TINY = 1e-3
"""What is not explained is left to the tables below this share of a level's bytes."""
UNKNOWN_CAUSE = "No known cause accounts for these bytes."


def told(gap: Gap) -> str:
    """A difference with what it is the sum of: "−1.08 GB: Hit in L1"."""
    return f"{signed(gap.bytes)}{share(gap)}: {named(gap)}"


def share(gap: Gap) -> str:
    """A small difference as a share of the bytes that the causes are of: " (0.02%)"; "" for a larger one."""
    share = abs(gap.bytes) / max(gap.of, 1)
    least = 1e-3
    return f" ({percent(share, 1) if share >= least else f'< {percent(least, 1)}'})" if share < SMALL else ""


def named(gap: Gap) -> str:
    """A difference's one cause, or several with the bytes of each: "Not yet written back −135.4 kB; Not explained
    +155.6 kB". Causes whose bytes make 0 together are only named by these.
    """
    parts = shown_parts(gap)
    named = "; ".join(name if len(parts) == 1 else f"{name} {signed(bytes)}" for name, bytes in parts.items())
    cancelled = " and ".join(signed(cause.bytes) for cause in gap.cancelling)
    return f"{named} ({cancelled} besides: together 0)" if cancelled else named


def shown_parts(gap: Gap) -> Mapping[str, int]:
    """The parts of a difference without a rest that is TINY beside the level's bytes."""
    tiny = abs(gap.unexplained) < TINY * gap.of and len(gap.parts) > 1
    return {name: bytes for name, bytes in gap.parts.items() if not (tiny and name == UNEXPLAINED)}


def steps(gap: Gap) -> Iterator[tuple[str, int, str, str]]:
    for cause in gap.causes if gap.bytes else ():
        yield cause.name, cause.bytes, cause.words, cause.source
    if gap.unexplained:
        yield UNEXPLAINED, gap.unexplained, UNKNOWN_CAUSE, "hardware"


def signed(count: int) -> str:
    return f"{'+' if count > 0 else ''}{amount(count)}"


def written(written: bool) -> str:
    return "written" if written else "read"
