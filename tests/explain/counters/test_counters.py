"""Counters as a value: what they mean, the copy check, the fallback."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from explain.counters import count, errors, ncu
from explain.counters.model import COPIED_BYTES, METRICS, CopyCheck, Counters, Counts
from explain.device import point
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from explain.plain import made, plain
from explain.records.model import Point

WHERE = Provenance("Test GPU", "1", "13.0", "2", "3", "3.11", "2026-01-01")
EXPERIMENT = Experiment.of("softmax_online")
TIMING = Timing(80.0, 1.0, 0.9, 1.1, 50, "fake")
WHY = errors.of_code(35, "cuptiRangeProfilerEnable", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")


def counted(**values: float) -> Counts:
    return Counts.of(
        {name: values.get(name, 1.0) for name in METRICS}, {"dram_written_bytes": values.get("dirty", 0.0)}
    )


def counters() -> Counters:
    copy = CopyCheck(COPIED_BYTES, COPIED_BYTES, COPIED_BYTES)
    return Counters(
        EXPERIMENT.to_json(), counted(), counted(tensor_active_percent=0.5), copy, "GH100", "fake", "", (), 1, WHERE
    )


def test_sectors_are_bytes_a_share_stays_a_share_and_no_value_is_none():
    counts = counted(l2_read_bytes=10.0, tensor_active_percent=12.5, l1_bytes=math.nan, dirty=7.0)
    assert counts.l2_read_bytes == 320
    assert counts.tensor_active_percent == 12.5
    assert counts.l1_bytes is None
    assert counts.dirty_bytes == 7
    assert Counts.of({}, {}).dram_read_bytes is None


@pytest.mark.parametrize(
    ("off", "passes"), [(0, True), (0.0009, True), (-0.0009, True), (0.0011, False), (-0.3, False)]
)
def test_a_copy_must_be_counted_within_a_thousandth(off, passes):
    moved = COPIED_BYTES * (1 + off)
    dirty = 20_000_000
    for reads, writes in ((moved, COPIED_BYTES), (COPIED_BYTES, moved)):
        check = CopyCheck.of(
            COPIED_BYTES, counted(dram_read_bytes=reads, dram_written_bytes=writes - dirty, dirty=dirty)
        )
        assert check.passed is passes
        if passes:
            count.require(check)
        else:
            with pytest.raises(errors.CountersUnavailable, match="1,073,741,824 bytes"):
                count.require(check)


def test_without_dram_counters_nothing_is_trusted():
    with pytest.raises(errors.CountersUnavailable, match="no DRAM bytes"):
        count.require(CopyCheck(COPIED_BYTES, None, None))


def test_counters_round_trip():
    assert made(Counters, json.loads(json.dumps(plain(counters())))) == counters()


# The fallback


def _ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str, status: int = 0) -> None:
    """An ncu on the path that prints this."""
    (tmp_path / "says").write_text(prints)
    (tmp_path / "ncu").write_text(f'#!/bin/sh\ncat "{tmp_path}/says"\nexit {status}\n')
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def _table(*reads: int) -> str:
    rows = [f'"{number}","python","{value:,}","2,000"' for number, value in enumerate(reads)]
    head = [
        "==PROF== Profiling",
        '"ID","Process Name","dram__bytes_read.sum","l1tex__t_bytes.sum"',
        '"","","byte","byte"',
    ]
    return "\n".join([*head, *rows, ""])


def _point_without_cupti(monkeypatch: pytest.MonkeyPatch, why: errors.CountersUnavailable) -> Point:
    """What the device worker answers where CUPTI refuses; the launch is left out, since there is no GPU."""

    def refused(*_: object) -> None:
        raise why

    monkeypatch.setattr(point, "count", refused)
    monkeypatch.setattr(point, "launch_of", lambda _: (lambda: None, 80.0))
    monkeypatch.setattr(point, "measure_time", lambda *_: TIMING)
    monkeypatch.setattr(point, "peak_bytes", lambda _: 4096)
    return point.measure(EXPERIMENT, True, True, WHERE, lambda *_: None)


def test_where_neither_counts_the_time_is_still_there_and_the_point_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    got = _point_without_cupti(monkeypatch, errors.not_trusted("a copy was counted as half of it"))
    assert (got.counters, got.timing, got.peak_bytes) == (None, TIMING, 4096)
    assert "a copy was counted as half of it" in got.why
    assert got.holds(counters=False, timing=True)
    assert not got.holds(counters=True, timing=True)


def test_ncu_is_not_asked_again_where_this_user_may_read_no_counters(tmp_path, monkeypatch):
    monkeypatch.setattr(point, "_forbidden", {})
    _ncu(tmp_path, monkeypatch, "==ERROR== ERR_NVGPUCTRPERM\n", 1)
    first = _point_without_cupti(monkeypatch, WHY)
    assert "ncu could not count either" in first.why
    (tmp_path / "ncu").unlink()
    assert _point_without_cupti(monkeypatch, WHY).why == first.why
    other = _point_without_cupti(monkeypatch, errors.no_library())
    assert "ncu" not in other.why  # another reason: asked again, and it is gone


def test_where_cupti_cannot_ncu_counts_and_it_is_said(tmp_path, monkeypatch):
    _ncu(tmp_path, monkeypatch, _table(COPIED_BYTES, 123_456, 78))

    got = _point_without_cupti(monkeypatch, WHY).counters
    assert (got.cold.dram_read_bytes, got.warm.dram_read_bytes, got.cold.l1_bytes) == (123_456, 78, 2000)
    assert got.method.startswith("ncu")
    assert "ERR_NVGPUCTRPERM" in got.fallback
    assert "l2_read_bytes" in got.lacking
    assert got.cold.dirty_bytes is None


@pytest.mark.parametrize(
    ("prints", "status", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", 1, "ncu could not count either: ==ERROR== ERR_NVGPUCTRPERM"),
        ("nothing\n", 0, "printed no table"),
        (_table(COPIED_BYTES, 1), 0, "counted 2 ranges, not 3"),
        (_table(COPIED_BYTES // 2, 1, 1), 0, "counters not trusted"),
    ],
)
def test_where_ncu_cannot_either_both_reasons_are_given(tmp_path, monkeypatch, prints, status, words):
    _ncu(tmp_path, monkeypatch, prints, status)
    with pytest.raises(errors.CountersUnavailable, match=words) as failed:
        ncu.count(EXPERIMENT, WHERE, WHY)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(failed.value)


def test_without_ncu_cuptis_reason_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.CountersUnavailable) as failed:
        ncu.count(EXPERIMENT, WHERE, WHY)
    assert failed.value is WHY
