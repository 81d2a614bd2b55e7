"""Which GPU tests passed, where and when: what `pytest --gpu --result FILE` writes, so that a run on a GPU can be kept beside the code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ORDER = ("failed", "skipped", "passed")  # a test that failed once has failed
Outcomes = dict[str, str]


def outcomes(stats: Mapping[str, Iterable[Any]]) -> Outcomes:
    """Each test's outcome by its id, of the reports that pytest's terminal reporter keeps by kind; an error in set-up or clean-up is a failure."""
    found: Outcomes = {}
    for kind in reversed(ORDER):
        reports = [*stats.get(kind, ()), *(stats.get("error", ()) if kind == "failed" else ())]
        found.update({report.nodeid: kind for report in reports if report.nodeid})
    return found


def write(path: Path, found: Outcomes, where: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Writes the run; one that the file has of the same day, GPU, versions and code is added to, so that a suite may be run in parts."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    same = before.get("where") == where
    tests = {**(before["tests"] if same else {}), **found}
    result = {
        "where": where,
        "seconds": round(seconds + (before["seconds"] if same else 0)),
        **{kind: sum(outcome == kind for outcome in tests.values()) for kind in ORDER},
        "tests": dict(sorted(tests.items())),
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result
