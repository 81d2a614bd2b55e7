"""Kernels under each other: which are comparable, and that bars are as long as their cycles and inside the picture."""

from __future__ import annotations

import re

import pytest

from explain.chapters.speed import stacked, timeline
from tests.explain.chapters.speed import schedules


def test_only_runs_of_one_shape_dtype_and_mask_are_comparable():
    made, causal, other = schedules.made(), schedules.made(causal=True), schedules.made()
    assert stacked.comparable([made, causal, other]) == (made, other)
    assert stacked.comparable([made, causal]) == ()
    assert stacked.comparable([]) == ()


@pytest.mark.parametrize("narrow", [False, True])
def test_bars_are_inside_the_picture_and_have_one_scale(narrow):
    runs = stacked.comparable(timeline.recorded())
    drawn = stacked.stacked(runs, narrow=narrow)
    width = stacked.PHONE if narrow else stacked.WIDE
    bars = [(float(x), float(wide)) for x, wide in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)]
    assert all(x + wide <= width + 0.3 for x, wide in bars)  # 0.25 is the least width
    for one in runs:
        assert f">{one.short}<" in drawn
        least, most = stacked.shares(one, stacked.shown_cycles(runs))
        assert f"busy: {least:.0%} or more<" in drawn if most is None else f"–{most:.0%}<" in drawn
        assert 0 < least <= (most or 1)


def test_the_row_of_the_tensor_cores_is_filled_while_any_warp_multiplies():
    (program,) = timeline.from_proton(schedules.trace(), 1)
    spans = [(span.start, span.end) for lane in program.lanes for span in lane.spans if span.scope in timeline.MATMULS]
    at = range(0, program.cycles, 7)
    busy = [any(start <= one < end for start, end in spans) for one in at]
    assert busy == [any(start <= one < end for start, end in program.multiplies) for one in at]
