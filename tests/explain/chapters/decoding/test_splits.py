"""The measured time over the number of splits: the words and the picture say what the points have."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from explain.chapters.decoding import rates, splits, splits_figures
from explain.device.measurement import Provenance, Timing
from explain.figures.numbers import duration, moved, ratio, ratios
from explain.figures.svg import LEGIBLE
from explain.gpus import GPUS
from explain.records import registry
from explain.records.model import Origin, Point, Record
from explain.records.plans import PLANS
from tests.drawings import width_around_words
from tests.pages import page, texts

H200, T4 = GPUS["H200"], GPUS["T4"]
WHERE = Provenance("NVIDIA H200", "580", "13.0", "2.11", "3.6", "3.12", "2026-11-30")
PHONE = 388


def record(*fastest: int, code: str = "") -> Record:
    """A record in which these numbers of splits are the fastest, one for each cache."""
    points = {}
    for cache, best in zip(splits.CACHES, fastest, strict=True):
        for run in splits.experiments(*cache):
            distance = abs(splits.SPLITS.index(run.values["splits"]) - splits.SPLITS.index(best))
            timing = Timing(100.0, 1.5**distance, 1.0, 1.0, 30, "")
            points[run.key] = Point(run, timing=timing, origin=Origin(WHERE, code=code))
    return Record("", WHERE, points)


def found(*fastest: int) -> splits.Curves:
    curves = splits.curves([record(*fastest)], H200)
    assert curves is not None
    return curves


@pytest.mark.parametrize("fastest", [(32, 64, 4, 1), (1, 1, 1, 1), (128, 128, 128, 128), (2, 16, 64, 8)])
def test_the_words_and_the_picture_have_the_least_time_of_the_points(fastest):
    curves = found(*fastest)
    said = splits_figures.words(curves, H200)
    told = re.findall(r"- (\d+) sequences? of ([\d,]+) keys: \*\*(\d+) splits?\*\*", said)
    caches = [(str(batch), f"{kv_len:,}") for batch, kv_len in splits.CACHES]
    assert told == [(*cache, str(best)) for cache, best in zip(caches, fastest, strict=True)]
    programs = [batch * 8 * best for (batch, _), best in zip(splits.CACHES, fastest, strict=True)]
    least, most = f"{min(programs):,}", f"{max(programs):,}"
    assert f"**{least if least == most else f'{least} to {most}'} programs**" in said
    assert ("another can compute" in said) == all(one > H200.sms for one in programs)
    for narrow in (False, True):
        labels = re.findall(
            r'font-weight="650">(\d+) splits?</text>', splits_figures.drawn(curves, H200, narrow=narrow)
        )
        assert labels == [str(best) for best in fastest]


def test_the_words_say_what_fewer_and_more_splits_cost():
    said = splits_figures.words(found(32, 64, 4, 1), H200)  # each doubling away from the fastest takes 1.5 × the time
    assert f"1 split takes up to {1.5**6:.1f} × the time of the fastest run" in said
    assert f"128 splits take 1.50 to {1.5**7:.1f} × the time of the fastest run" in said


def test_the_details_say_what_one_program_per_sm_costs():
    """At most 132 programs: 16 splits of one sequence, 1 of 16, none of 64."""
    once = "The best run with at most one program per SM takes"
    said = splits_figures.details(found(32, 64, 4, 1), H200)
    assert f"{once} 1.50 to {1.5**2:.2f} × the time of the fastest run." in said


def test_the_words_say_how_much_of_the_lost_time_the_extra_bytes_are():
    curves = found(32, 64, 4, 128)
    said = splits_figures.details(curves, H200)
    assert said.count("** lost") == 3  # where 128 splits are fastest, nothing is
    one = 8 * 4 * (128 + 1) * 4 * 2  # O and lse of a part of one sequence, written and read
    extra = 16 * (128 - 4) * one
    lost = curves.curves[2].seconds[128] - curves.curves[2].seconds[4]
    assert (
        f"16 sequences of 8,192 keys: {moved(extra)} beside {moved(2 * 16 * 8 * 8192 * 128 * 2)} of K and V. "
        f"**{duration(extra / H200.hbm_bytes_per_second)} of the {duration(lost)}** lost" in said
    )


def test_the_words_say_how_much_longer_than_reading_the_fastest_runs_take():
    curves = splits.curves(registry.shipped(), rates.rated(H200, registry.shipped()))
    assert curves is not None
    small, *others = [one.over_floor for one in sorted(curves.curves, key=lambda one: one.floor)]
    said = splits_figures.details(curves, H200)
    assert f"**{ratio(small)}** the time of reading; with the others, {ratios(others)}." in said


def test_the_floor_is_k_and_v_read_once_at_the_rate_of_the_page():
    for gpu, rate in (
        (H200, "the datasheet's bandwidth"),
        (rates.rated(H200, registry.shipped()), "the measured rate"),
    ):
        curves = splits.curves([record(32, 64, 4, 1)], gpu)
        assert curves is not None
        floors = [batch * kv_len * 8 * 128 * 2 * 2 / gpu.hbm_bytes_per_second for batch, kv_len in splits.CACHES]
        assert [one.floor for one in curves.curves] == pytest.approx(floors)
        assert splits_figures.drawn(curves, gpu).count("K and V: ") == len(floors)
        assert rate in curves.source


def test_a_record_without_one_of_the_points_has_no_curves_and_the_next_one_is_taken():
    whole = record(32, 64, 4, 1)
    assert splits.curves([whole], T4) is None
    missing = replace(whole, points=dict(list(whole.points.items())[1:]))
    assert splits.curves([missing], H200) is None
    assert splits.curves([missing, whole], H200) is not None


def test_where_nothing_is_recorded_the_page_has_another_gpu_s_curves_and_the_command_that_measures():
    shown = page("decoding", gpu="T4")
    command = "To measure your own GPU: `python -m explain measure --plan splits`"
    assert [one.value for one in shown.info] == [f"Not recorded on T4. Below: H200. {command}"]
    assert "recorded · NVIDIA H200" in texts(shown)
    assert "On the H200, as measured" in texts(shown)
    assert splits.curves_of_some([], T4) is None
    assert PLANS["splits"].experiments == splits.TIMED


def test_the_caption_says_where_and_when_and_whether_the_kernel_has_changed():
    curves = found(32, 64, 4, 1)
    assert curves.source.startswith(f"recorded · {WHERE.words} · ")
    assert "tiles of 16 × 64" in curves.source
    stale = splits.curves([record(32, 64, 4, 1, code="other")], H200)
    assert stale is not None
    assert "the kernels have changed since" in stale.source


def test_the_page_shows_what_the_shipped_record_has():
    curves = splits.curves(registry.shipped(), rates.rated(H200, registry.shipped()))
    assert curves is not None
    said = texts(page("decoding"))
    assert splits_figures.words(curves, H200).splitlines()[2] in said
    assert "How much of the time this is was not measured." in said
    assert curves.source in said


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("gpu", [H200, T4], ids=["H200", "T4"])
@pytest.mark.parametrize("fastest", [(32, 64, 4, 1), (1, 1, 1, 1), (128, 128, 128, 128)])
def test_no_word_leaves_the_picture(fastest, gpu, narrow):
    drawn = splits_figures.drawn(found(*fastest), gpu, narrow=narrow)
    width = width_around_words(drawn)
    assert not narrow or width * LEGIBLE <= PHONE
