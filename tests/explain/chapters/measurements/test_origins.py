"""The picture of the sources: what each says of one run, and whether those that count the same bytes agree."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from explain.chapters.measurements import origins, view
from explain.compile.service import compiler
from explain.figures.labels import text_width
from explain.figures.numbers import NONE, duration, moved
from explain.figures.palette import css
from explain.prediction import fitted
from explain.records import registry
from tests.explain.records.made import SHIPPED

RUN = view.EXAMPLE
SHOWN = [registry.Entry("a", SHIPPED, registry.YOURS)]


def words(drawn: str) -> list[str]:
    return [html.unescape(said) for said in re.findall(r"<text[^>]*>([^<]*)<", drawn)]


def test_three_sources_count_the_same_bytes_of_the_example():
    bytes_of = RUN.traffic.read_bytes + RUN.traffic.written_bytes
    assert origins.loaded_and_stored(RUN, SHOWN) == dict.fromkeys(("formula", "trace", "hardware"), bytes_of)
    drawn = origins.drawn(RUN, SHOWN, None)
    assert words(drawn).count(f"{bytes_of:,} B") == 3
    parts = f"{moved(RUN.traffic.read_bytes)} loaded, {moved(RUN.traffic.written_bytes)} stored"
    assert f"The same number, to the byte: {moved(bytes_of)} ({parts})" in words(drawn)
    assert css("right") in drawn


def test_spills_are_told_to_be_none_only_where_none_were_counted():
    assert "This run has none." in " ".join(words(origins.drawn(RUN, SHOWN, None)))
    spills = next(p for p in SHIPPED.points.values() if p.counters and p.counters.cold.spilled_bytes)
    assert "Spilled" not in " ".join(words(origins.drawn(spills.experiment, SHOWN, None)))


def test_a_source_that_differs_is_not_told_as_equal():
    point = SHIPPED.point(RUN)
    assert point
    assert point.counters
    more = replace(point.counters.cold, l1_bytes=round(1.25 * (point.counters.cold.l1_bytes or 0)))
    other = replace(point, counters=replace(point.counters, cold=more))
    one = replace(SHOWN[0], record=replace(SHIPPED, points={RUN.key: other}))
    drawn = origins.drawn(RUN, [one], None)
    assert "The numbers differ by 25.00%" in words(drawn)
    assert css("right") not in drawn


def test_what_one_source_alone_says_is_that_of_the_record_the_compiler_and_the_model():
    point = SHIPPED.point(RUN)
    assert point
    assert point.seconds
    assert point.counters
    hardware, compiled, predicted = origins.alone(RUN, SHOWN, fitted(*registry.shipped()))
    read = point.counters.cold.dram_read_bytes or 0
    assert hardware.says == [f"H200: {duration(point.seconds)}, {moved(read)}"]
    known = compiler().look(RUN, 90)
    assert known
    assert known.cost
    assert f"{known.cost.launches[0].registers} registers per thread" in compiled.says
    assert compiled.how.endswith(f"compiled by Triton {known.cost.triton}")
    timed = SHIPPED.provenance_of(point).triton
    assert compiled.note == (
        "" if timed == known.cost.triton else f"The timed run used Triton {timed}; its registers may differ."
    )
    h100 = registry.entries()[0][1].record.point(RUN)
    assert h100
    assert h100.seconds
    assert predicted.says[0].startswith("H100: ")
    assert predicted.note == f"Measured, to test the model: {duration(h100.seconds)}."
    *_, untested = origins.alone(RUN, SHOWN, fitted(SHIPPED))
    assert untested.says[0].startswith("A100")
    assert untested.note == "Not tested on that GPU."
    assert [source.says for source in origins.alone(RUN, [], None)] == [[NONE]] * 3
    both = origins.alone(RUN, registry.entries()[0], None)[0].says
    assert [line.partition(":")[0] for line in both] == ["H200", "H100"]


@pytest.mark.parametrize("narrow", [False, True])
def test_no_words_leave_their_picture_or_their_box(narrow):
    drawn = origins.drawn(RUN, registry.entries()[0], fitted(*registry.shipped()), narrow=narrow)
    across, tall = (float(end) for end in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
    boxes = [tuple(map(float, box)) for box in re.findall(
        r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn)]  # fmt: skip
    assert len(boxes) == 7
    for x, y, rest, said in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*)<', drawn):
        wide = text_width(html.unescape(said), bold="font-weight" in rest)
        start = float(x) - wide / 2 if "middle" in rest else float(x)
        assert start >= 0
        assert start + wide <= across
        assert float(y) < tall
        inside = [box for box in boxes if box[0] <= start <= box[0] + box[2] and box[1] <= float(y) <= box[1] + box[3]]
        assert all(start + wide <= left + width for left, _, width, _ in inside)
