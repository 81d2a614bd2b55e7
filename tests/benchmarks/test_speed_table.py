"""The README's table of speeds says what was measured: ratios, misses, and what has no time."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.speed import merged
from benchmarks.speed_table import PROMISES, lines, reached
from benchmarks.speed_table import speed as speeds


def _case(columns: int, **seconds: float) -> dict[str, Any]:
    names = {"ours": "softmax", "copy": "copy", "torch": "torch.softmax"}
    rows = [{"name": names[k], "seconds": s, "per_second": 1e9 / s} for k, s in seconds.items()]
    case = {"table": "softmax", "shape": [8, columns], "unit": "B/s", "name": f"softmax 8×{columns}"}
    return {"case": case, "variants": rows}


LONG = next(promise for promise in PROMISES if promise.table == "softmax" and promise.last[0] == 65536)


def test_a_ratio_is_the_peers_time_over_ours_from_the_worst_shape_to_the_best():
    cases = [_case(65536, ours=1.0, copy=0.8), _case(131072, ours=1.0, copy=0.9)]
    assert reached("softmax", LONG.milestone, cases) == "**0.80–0.90**"
    assert reached("softmax", LONG.goal, cases) == "**0.80–0.90**, missed in 2 of 2; not measured"


def test_a_kernel_without_a_time_is_a_miss_and_a_peer_without_one_is_said():
    wrong = _case(65536, copy=0.8)
    wrong["variants"].append({"name": "softmax", "right": False, "why": "exceeds its tolerance"})
    assert reached("softmax", LONG.milestone, [wrong]) == "not measured, missed in 1 of 1"
    assert speeds("softmax", [wrong]) == "no time"
    nothing = _case(65536, ours=1.0)
    assert reached("softmax", LONG.milestone, [nothing]) == "not measured"
    some = [nothing, _case(131072, ours=1.0, copy=0.9)]
    assert reached("softmax", LONG.milestone, some) == "**0.90** in the 1 of 2 shapes that were measured"


def test_only_what_was_measured_is_in_the_table():
    where = {"gpu": "G", "driver": "1", "torch": "2", "triton": "3", "date": "2026-01-01"}
    result = {
        "provenance": where,
        "before": {},
        "after": {},
        "method": "median",
        "cases": [_case(65536, ours=1e-3, copy=9e-4)],
    }
    rows = [line for line in lines(result) if line.startswith("| softmax")]
    assert rows == [
        "| softmax, fp32 and bf16, rows of 64k–256k | 1.00 TB/s | ≥ 0.75 × copy | **0.90** | ≥ 0.92 × copy, ≥ 1.00 × "
        "QuACK | **0.90**, missed in 1 of 1; not measured |"
    ]


def test_other_tables_stay_as_they_were_if_gpu_and_versions_are_the_same():
    def result(table: str, date: str, rounds: int, gpu: str = "H200") -> dict[str, Any]:
        provenance = {"gpu": gpu, "date": date}
        case = {"case": {"table": table, "name": f"{table} {date}"}, "variants": []}
        return {"provenance": provenance, "code": {table: date}, "method": f"median of {rounds}", "cases": [case]}

    old = result("softmax", "1", 30)
    old["cases"] += result("backward", "1", 30)["cases"]
    old["code"] |= {"backward": "1"}
    both = merged(old, result("backward", "2", 20))
    assert [one["case"]["name"] for one in both["cases"]] == ["softmax 1", "backward 2"]
    assert both["code"] == {"softmax": "1", "backward": "2"}
    assert both["method"] == "median of 30; backward: median of 20"
    assert both["provenance"]["date"] == "1 to 2"
    assert merged(both, result("softmax", "3", 30))["provenance"]["date"] == "1 to 3"
    assert merged(result("softmax", "1", 30), result("softmax", "2", 30))["provenance"]["date"] == "2"
    with pytest.raises(ValueError, match="another gpu"):
        merged(old, result("backward", "2", 20, "H100"))
