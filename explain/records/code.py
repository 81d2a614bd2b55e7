"""Which code a number was measured on: the commit, and the digest of the code that ran. Other code makes it stale."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from explain.records.model import Point

ROOT = Path(__file__).resolve().parents[2]


def is_stale(point: Point) -> bool:
    """Whether the code has changed since this was measured; False if the point does not say what it measured."""
    return point.origin is not None and point.origin.code not in ("", point.experiment.entry.code)


@functools.cache
def commit() -> str:
    """The commit of the code, "+" where it was changed since; "unknown" outside a checkout."""
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
