"""A record's file gives back what was saved, and is refused with the reason where it cannot be believed."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from explain.experiment import Experiment
from explain.gpus import card
from explain.plain import made as made_of
from explain.plain import plain
from explain.records import file, registry
from explain.records.model import Point
from tests.explain.records import made


def test_a_file_gives_back_what_was_saved(tmp_path):
    missed = Point(Experiment.of("softmax_row"), why="the tile is too large")
    bare = replace(made.point(Experiment.of("flash_attention")), counters=None)
    record = made.record(made.point(), bare, missed)
    file.save(tmp_path / "gpu.json", record)
    assert file.load(tmp_path / "gpu.json") == record
    assert [path.name for path in tmp_path.iterdir()] == ["gpu.json"]
    assert record.point(missed.experiment) == missed
    assert record.point(Experiment.of("softmax_safe")) is None


def _stalled() -> Point:
    point = made.point()
    assert point.counters
    return replace(point, counters=replace(point.counters, stalls=made.STALLS))


def test_a_file_keeps_why_warps_waited_beside_points_that_were_not_asked(tmp_path):
    other = made.point(Experiment.of("flash_attention"))
    record = made.record(_stalled(), other)
    file.save(tmp_path / "gpu.json", record)
    loaded = file.load(tmp_path / "gpu.json")
    assert loaded == record
    with_stalls, without = (loaded.points[key].counters for key in (made.EXPERIMENT.key, other.experiment.key))
    assert with_stalls
    assert with_stalls.stalls == made.STALLS
    assert without
    assert without.stalls is None


@pytest.mark.parametrize(
    "damage", [{"cycles": "many"}, {"warp_cycles": 0}, {"reasons": {"wait": 0.5}}, {"passes": None}]
)
def test_stalls_that_are_none_are_refused(damage):
    content = json.loads(file.written(made.record(_stalled())))
    content["points"][0]["stalls"] |= damage
    with pytest.raises(file.RecordFileError, match="does not know"):
        file.parse(_signed(content))


def test_a_point_round_trips_as_json():
    for point in (made.point(), _stalled(), Point(made.EXPERIMENT, why="no")):
        assert made_of(Point, json.loads(json.dumps(plain(point)))) == point


def test_four_hundred_points_are_a_small_file_of_one_line_each():
    points = [made.point(made.EXPERIMENT.with_(seed=seed)) for seed in range(400)]
    data = file.written(made.record(*points))
    assert len(data) < 400_000
    assert sum(line.startswith(b'{"experiment"') for line in data.splitlines()) == 400


def _saved() -> dict[str, Any]:
    return json.loads(file.written(made.record()))


def _signed(content: dict[str, Any]) -> bytes:
    body = {name: value for name, value in content.items() if name not in ("format", "version", "digest")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()}).encode()


def test_a_damaged_file_is_refused():
    data = file.written(made.record())
    for broken in (b"", data[: len(data) // 2], b"\xff\xfe", data.replace(b'"version": 1', b'"version": "one"')):
        with pytest.raises(file.RecordFileError, match="damaged"):
            file.parse(broken)


def test_an_altered_number_is_refused():
    content = _saved()
    content["points"][0]["cold"][0] += 1
    with pytest.raises(file.RecordFileError, match="altered"):
        file.parse(json.dumps(content).encode())


def test_a_newer_format_is_refused_as_newer():
    content = {**_saved(), "version": file.VERSION + 1, "points": "in another way"}
    with pytest.raises(file.RecordFileError, match=r"format 2.*update Tilescope"):
        file.parse(json.dumps(content).encode())


@pytest.mark.parametrize("data", [b"[]", b"3", b'{"format": "tilescope"}'])
def test_another_file_is_refused(data):
    with pytest.raises(file.RecordFileError, match="explain measure"):
        file.parse(data)


def test_a_file_too_large_is_refused_unread():
    with pytest.raises(file.RecordFileError, match="larger than"):
        file.parse(b" " * (file.MOST_BYTES + 1))


def test_an_unknown_kernel_a_missing_field_or_a_wrong_number_is_refused():
    contents = [_saved() for _ in range(5)]
    contents[0]["points"][0]["experiment"]["kernel"] = "softmax_of_tomorrow"
    del contents[1]["points"][0]["timed"]
    contents[2]["points"][0]["counted"] = 9
    contents[3]["points"] = {"not": "a list"}
    contents[4]["counts"].append("what_no_one_knows")
    for content in contents:
        with pytest.raises(file.RecordFileError, match="does not know"):
            file.parse(_signed(content))


@pytest.mark.parametrize("broken", [None, "many", [1], {"a": 1}, True, math.nan, math.inf])
def test_a_value_of_the_wrong_type_is_refused_before_a_page_shows_it(broken):
    contents = [_saved() for _ in range(6)]
    contents[0]["points"][0]["ms"][1] = broken
    contents[1]["points"][0]["cold"][0] = broken if broken is not None else "none"
    contents[2]["provenance"]["gpu"] = broken if broken != "many" else 3
    contents[3]["roofs"][0]["per_second"] = broken
    contents[4]["counting"][0]["copy"]["copied_bytes"] = broken
    contents[5]["points"][0]["why"] = broken if broken != "many" else 3
    for content in contents:
        with pytest.raises(file.RecordFileError, match="does not know"):
            file.parse(_signed(content))


def test_a_count_that_an_older_tilescope_did_not_know_is_none():
    content = _saved()
    at = content["counts"].index("l1_bytes")
    for row in (content["counts"], content["points"][0]["cold"], content["points"][0]["warm"]):
        del row[at]
    point = file.parse(_signed(content)).point(made.EXPERIMENT)
    assert point.counters.cold.l1_bytes is None
    assert point.counters.cold.time_ns == 1000


@pytest.mark.parametrize("path", registry.SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_record_is_whole_and_its_copies_passed(path):
    record = file.load(path)
    assert path.name == registry.file_name(record.gpu)
    assert card(record.gpu) is not None
    counted = [point.counters for point in record.points.values() if point.counters]
    assert len(counted) >= 39
    assert all(one.copy.passed for one in counted)
