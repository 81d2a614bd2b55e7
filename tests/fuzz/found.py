"""What came of one random input."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """What was wrong, "" for nothing; the CPU seconds that it took, so a busy machine is not to blame; the input."""

    wrong: str
    seconds: float
    what: str = ""
