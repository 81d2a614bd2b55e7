"""What is said of times is what was measured."""

from __future__ import annotations

import pytest

from explain.chapters.speed.lengths import LENGTHS, Times, answer, experiments, of, table
from explain.device.measurement import Provenance, Timing
from explain.figures import numbers
from explain.records import registry
from explain.records.model import Point, Record

WHERE = Provenance("Test GPU", "1", "13.0", "2", "3", "3.11", "2026-01-01")


def made(standard: dict[int, float], flash: dict[int, float]) -> Times:
    points = {
        experiment.key: Point(experiment, timing=Timing(100 * ms[n], ms[n], ms[n], ms[n], 10, "made"))
        for kernel, ms in (("attention_standard", standard), ("flash_attention", flash))
        for n, experiment in zip(LENGTHS, experiments(kernel), strict=True)
        if n in ms
    }
    times = of(Record("", WHERE, points))
    assert times is not None
    return times


@pytest.mark.parametrize(
    ("flash", "first", "crossed"),
    [
        ({128: 0.5, 256: 1.0, 512: 2.0}, 128, False),
        ({128: 2.0, 256: 1.0, 512: 1.0}, 256, True),
        ({128: 0.5, 256: 3.0, 512: 1.0}, 512, True),
        ({128: 2.0, 256: 3.0, 512: 8.0}, None, False),
    ],
)
def test_faster_means_faster_at_every_longer_length_too(flash, first, crossed):
    found = made({128: 1.0, 256: 2.0, 512: 4.0}, flash).crossing
    assert found.first == first
    assert (found.x is not None) == crossed
    if crossed:
        assert first / 2 < found.x < first


def test_a_gain_at_short_lengths_only_is_said_with_its_numbers():
    times = made({128: 1.0, 256: 2.0, 512: 4.0}, {128: 0.5, 256: 3.0, 512: 1.0})
    for number in ("**N = 512**", "4.00 ×", "N ≈ 299"):
        assert number in answer(times)


def test_a_record_without_these_times_has_none_to_show():
    assert of(None) is None
    assert of(Record("", WHERE)) is None


def test_the_table_has_every_length_of_the_record():
    record, times = registry.recorded(), of(registry.recorded())
    assert times is not None
    assert times.lengths == list(LENGTHS)
    shown = table(times)
    for kernel in times.by_kernel:
        for n, experiment in zip(LENGTHS, experiments(kernel), strict=True):
            timing = record.points[experiment.key].timing
            assert f"| {n:,} |" in shown
            assert numbers.duration(timing.median_ms / 1e3) in shown


def test_what_the_words_say_of_the_first_call_holds():
    """FlashAttention compiles once; standard attention at every power of two."""
    times = of(registry.recorded())
    shortest, *others = times.lengths
    flash, standard = times.by_kernel["flash_attention"], times.by_kernel["attention_standard"]
    assert flash[shortest].first_call_ms > 100
    for n in others:
        assert flash[n].first_call_ms < 10
        assert standard[n].first_call_ms > 10 * standard[n].median_ms
