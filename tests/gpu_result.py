"""Which GPU tests passed, where and when: the file that `pytest --gpu --result FILE` writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from explain.records import results
from explain.records.code import measured_code

ORDER = ("failed", "skipped", "passed")  # a test that failed once has failed
Outcomes = dict[str, str]


def outcomes(stats: Mapping[str, Iterable[Any]]) -> Outcomes:
    """Each test's outcome by its id, from the reports of pytest's terminal reporter. An error in set-up or clean-up is
    a failure.
    """
    found: Outcomes = {}
    for kind in reversed(ORDER):
        reports = [*stats.get(kind, ()), *(stats.get("error", ()) if kind == "failed" else ())]
        found.update({report.nodeid: kind for report in reports if report.nodeid})
    return found


def write(path: Path, found: Outcomes, where: dict[str, Any]) -> dict[str, Any]:
    """Writes the run, added to the file's run of the same day, GPU, versions and code: a suite may run in parts."""
    before = results.read(path) if path.exists() else {}
    code = measured_code(["GPU tests"])["code"]
    same = (before.get("where"), before.get("code")) == (where, code)
    tests = {**(before["tests"] if same else {}), **found}
    result = {
        "where": where,
        "code": code,
        **{kind: sum(outcome == kind for outcome in tests.values()) for kind in ORDER},
        "tests": dict(sorted(tests.items())),
    }
    results.write(path, result)
    return result
