"""The file that a run of the GPU tests leaves."""

from __future__ import annotations

import json
from types import SimpleNamespace

from tests import gpu_result

HERE = {"gpu": "NVIDIA Test 1", "date": "2026-01-01", "commit": "abc"}


def reports(*names: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(nodeid=name) for name in names]


def test_a_test_that_fails_or_errs_anywhere_has_failed():
    stats = {"passed": reports("a", "b", "c"), "failed": reports("b"), "error": reports("c"), "skipped": reports("d"),
        "warnings": reports("e")}  # fmt: skip
    assert gpu_result.outcomes(stats) == {"a": "passed", "b": "failed", "c": "failed", "d": "skipped"}


def test_parts_of_a_suite_are_one_run_and_another_day_begins_anew(tmp_path):
    path = tmp_path / "suite.json"
    gpu_result.write(path, {"a": "failed", "b": "passed"}, HERE)
    both = gpu_result.write(path, {"a": "passed", "c": "skipped"}, HERE)
    assert both == json.loads(path.read_text())
    assert (both["passed"], both["failed"], both["skipped"]) == (2, 0, 1)
    later = gpu_result.write(path, {"a": "passed"}, {**HERE, "date": "2026-01-02"})
    assert later["tests"] == {"a": "passed"}
