"""Why warps wait, as a value and as pictures: what adds up, what a chip lacks, what is told."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace

import pytest

from explain.chapters.speed import counted_figures as figures
from explain.counters import count, errors
from explain.counters.cupti import Cupti, RangeProfiler
from explain.counters.stalls import KINDS, METRICS, REASONS, Stalls
from explain.device import point
from explain.plain import made, plain
from tests.explain.counters.fake_cupti import FakeCupti
from tests.explain.counters.test_counters import EXPERIMENT, WHERE, counters

WAITING = Stalls(
    warp_cycles=1000,
    cycles=250,
    issued=100,
    reasons={"selected": 100, "long_scoreboard": 600, "gmma": 200, "wait": 93, "drain": 2, "barrier": 0},
    passes=7,
)


def test_shares_are_of_the_warps_that_were_there():
    assert WAITING.share("long_scoreboard") == 0.6
    assert (WAITING.warps, WAITING.busy) == (4.0, 0.4)
    assert WAITING.by_kind["memory"] == 0.6
    assert sum(WAITING.by_kind.values()) == pytest.approx(0.995)


def test_the_reasons_to_wait_are_told_greatest_first_and_working_is_none_of_them():
    assert WAITING.most == ["long_scoreboard", "gmma", "wait", "drain"]


def test_every_state_has_a_metric_a_kind_and_a_sentence():
    assert {reason.kind for reason in REASONS.values()} == set(KINDS)
    for key, reason in REASONS.items():
        assert METRICS[key] == (f"smsp__warps_issue_stalled_{key}.sum",)
        assert reason.words.endswith(".")


def test_what_a_chip_does_not_count_is_no_reason_and_without_a_whole_there_are_no_stalls():
    values = dict.fromkeys(METRICS, 100.0) | {"gmma": math.nan}
    stalls = Stalls.of(values, 7)
    assert "gmma" not in stalls.reasons
    assert stalls.share("gmma") == 0
    for without in ("warp_cycles", "cycles", "issued"):
        assert Stalls.of({name: value for name, value in values.items() if name != without}, 7) is None
    assert Stalls.of(values | {"warp_cycles": 0.0}, 7) is None


def test_stalls_round_trip():
    assert made(Stalls, json.loads(json.dumps(plain(WAITING)))) == WAITING


def test_each_run_is_counted_cold_and_gives_its_stalls(monkeypatch):
    fake, ran = FakeCupti(values=[[50.0]], passes=7), []
    profiler = RangeProfiler(Cupti(fake), METRICS, context=1, synchronize=lambda: None)
    monkeypatch.setattr(count, "stall_profiler", lambda: profiler)
    monkeypatch.setattr(count, "evicting", lambda: lambda: ran.append("L2 emptied"))
    stalls = count.count_stalls(lambda: ran.append("ran"))
    assert ran == ["L2 emptied", "ran"] * 7
    assert stalls
    assert (stalls.passes, stalls.share("wait")) == (7, 1.0)


def _asked(monkeypatch, counted):
    monkeypatch.setattr(point, "count", counted)
    monkeypatch.setattr(point, "launch_of", lambda _: (lambda: None, 80.0))
    monkeypatch.setattr(point, "peak_bytes", lambda _: 4096)
    monkeypatch.setattr(point, "ncu", SimpleNamespace(count=lambda *_: counters()))
    return point.measure(EXPERIMENT, True, False, WHERE, lambda *_: None, stalls=True)


def test_a_chip_that_does_not_count_them_and_a_cupti_that_may_not_are_said(monkeypatch):
    lacking = _asked(monkeypatch, lambda *_: counters())
    assert "no counter for it" in lacking.why
    assert lacking.counters

    def refused(*_):
        raise errors.no_library()

    by_ncu = _asked(monkeypatch, refused)
    assert "nvidia-cuda-cupti" in by_ncu.why
    assert not by_ncu.holds(counters=True, timing=False, stalls=True)
    whole = _asked(monkeypatch, lambda *_: replace(counters(), stalls=WAITING))
    assert (whole.why, whole.holds(counters=True, timing=False, stalls=True)) == ("", True)


def test_the_bars_fill_the_width_and_name_what_they_are_of():
    drawn = ET.fromstring(
        figures.stall_bars(
            [
                figures.Waits("rung one", WAITING, 70.0),
                figures.Waits("rung two", replace(WAITING, reasons={"wait": 1000})),
            ]
        )
    )
    boxes = [rect.attrib for rect in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    bars = [box for box in boxes if float(box["height"]) == figures.BAR]
    for y in {box["y"] for box in bars}:
        assert sum(float(box["width"]) for box in bars if box["y"] == y) == pytest.approx(figures.WIDTH, rel=1e-3)
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    legend = dict(zip(figures.GROUPS.values(), figures.GROUPS, strict=True))
    assert {"rung one", "rung two", "60%", legend["memory",]} <= set(texts)
    assert legend["barrier",] not in texts  # neither kernel waits at one


def test_each_kind_of_time_is_in_one_part_of_the_bars():
    assert sorted(kind for kinds in figures.GROUPS.values() for kind in kinds) == sorted(KINDS)


def test_waiting_is_excused_only_where_the_tensor_cores_are_busy():
    busy, unknown, idle = (figures.stalls_told(figures.Waits("a", WAITING, tensor)) for tensor in (83.0, None, 12.0))
    assert "83%" in busy
    assert "most of the time" in busy  # all but the tenth of the time in which the warps issue
    assert idle == unknown


def test_the_commonest_stall_is_told_with_its_share():
    said = figures.stalls_told(figures.Waits("a", WAITING))
    assert "60%" in said
    assert REASONS["long_scoreboard"].words in said


def test_warps_without_work_are_no_stall():
    at_a_barrier = replace(WAITING, reasons={"barrier": 320, "wait": 250, "long_scoreboard": 100})
    one = figures.Waits("a", at_a_barrier, empty=0.25)
    assert one.by_group[figures.EMPTY] == 0.25
    assert one.share("barrier") == pytest.approx(0.07)
    said = figures.stalls_told(one)
    assert REASONS["wait"].words in said
    assert "The dashed part, 25%: warps without work" in said
