"""Milakov & Gimelshein's figures: accesses are counted, sentences have their section, speedups come from a record."""

from __future__ import annotations

import re

import pytest

from explain import recordings
from explain.chapters.papers import milakov, milakov_figures
from explain.figures import lines
from explain.figures.numbers import ratio, si
from explain.gpus import GPUS
from explain.records import registry
from explain.records.model import Record
from explain.records.plans import PLANS
from explain.trace import file as trace_file
from kernels.catalog import KERNELS
from tests.explain.chapters.papers import made
from tests.explain.records.made import WHERE

RECORD = made.record()
SHIPPED = registry.recorded() or RECORD
FIGURE_1, _, FIGURE_3, _ = milakov.FIGURES


@pytest.mark.parametrize("kernel", milakov.PAPERS_ACCESSES)
def test_the_papers_accesses_are_the_formulas_and_the_traces(kernel):
    experiment = milakov.counting(kernel)
    papers, where = milakov.PAPERS_ACCESSES[kernel]
    traced = trace_file.read(recordings.path_of(experiment)).traffic()
    assert milakov.accesses(experiment, traced) == papers
    assert milakov.accesses(experiment, experiment.traffic.totals()) == papers
    assert where


def test_every_point_of_the_figures_is_planned_once():
    planned = PLANS["milakov"].experiments
    for figure in milakov.FIGURES:
        assert set(figure.experiments()) <= set(planned)
        assert figure.slow in figure.kernels
        assert set(figure.fast) <= set(figure.kernels)
        assert list(figure.lengths) == sorted(set(figure.lengths))
    assert set(PLANS["milakov-counters"].experiments) <= set(planned)


def test_the_lengths_are_the_papers():
    every = {cols for figure in milakov.FIGURES for cols in figure.lengths} - {milakov.LONG}
    assert all(cols % 63 == 0 and (cols // 63).bit_count() == 1 for cols in every)


def test_every_sentence_of_the_paper_has_its_section():
    for said in (*(said for figure in milakov.FIGURES for said in figure.said), *milakov.LARGER_K):
        assert said.words.startswith("“")
        assert said.words.endswith("”")
        assert said.where.startswith("section 5.")


def test_a_rate_is_elements_over_time():
    point = RECORD.point(milakov.experiment("softmax_safe", 4000, 63))
    assert milakov.rate(point) == pytest.approx(4000 * 63 / (point.timing.median_ms / 1e3))
    assert milakov.rate(None) is None


def test_the_gain_at_the_end_is_that_of_the_accesses():
    assert milakov.gains(RECORD, FIGURE_1)[-1][1] == pytest.approx(4 / 3, rel=0.01)
    assert milakov.gains(RECORD, FIGURE_3)[-1][1] == pytest.approx(5, rel=0.02)


def test_the_knee_is_where_the_gain_begins_and_stays():
    assert milakov.knee([(1, 1.2), (2, 1.0), (4, 1.3), (8, 1.2)]) == 4
    assert milakov.knee([(1, 1.2), (2, 1.0)]) is None
    assert (
        milakov.knee(milakov.gains(RECORD, FIGURE_1)) == 2 * made.FITS - 256
    )  # 63 · 2⁸, the first row that does not fit


def test_reads_are_counted_for_each_element():
    safe = dict(milakov.reads(RECORD, "softmax_safe", "dram"))
    assert safe[63] == pytest.approx(1)
    assert safe[max(safe)] == pytest.approx(3)
    assert milakov.reads(Record("", WHERE), "softmax_safe", "dram") == []


def test_the_knee_is_told_from_the_counters():
    shown = re.findall(r"[\d,]*\d(?:\.\d+)?", milakov_figures.knee_words(RECORD))
    assert {"16,128", "8,064"} <= set(shown)  # the knee, the longest row read once


def test_how_long_a_row_an_l2_holds_for_all_rows_in_flight():
    gpu = GPUS["H200"]
    longest = milakov.fits_l2(gpu)
    in_flight = gpu.sms * 2048 // milakov.THREADS
    assert in_flight * longest * 4 <= gpu.l2_bytes < in_flight * (longest + 1) * 4
    assert milakov.fitted_theirs() < longest


def test_larger_k_stands_beside_the_papers():
    table = milakov_figures.larger_k({"H200": RECORD, "nothing": Record("", WHERE)})
    assert "| 30 | 1.4 × | " in table
    assert table.count("–") == 2 * len(milakov.LARGER_K)


def test_a_figure_draws_every_kernel_and_the_papers_sentences():
    rates, gains = milakov_figures.rates(FIGURE_1, {"H200": RECORD})
    assert [line.name for line in rates.data] == [KERNELS[kernel].short for kernel in FIGURE_1.kernels]
    assert {line.name for line in gains.data} == {KERNELS["softmax_online"].short, "paper: 1 ×", "paper: 1.3 ×"}
    assert all(len(line.x) == len(FIGURE_1.lengths) for line in rates.data)
    assert lines.as_csv(rates).splitlines()[1].startswith(f"{KERNELS[FIGURE_1.kernels[0]].short},63,")


def test_how_much_of_the_bandwidth_a_fused_kernel_gets():
    words = milakov_figures.topk_words(RECORD)
    point = RECORD.point(milakov.experiment(milakov.LANES, 4000, milakov.LONG))
    share = 4 * (milakov.rate(point) or 0) / RECORD.roofs["hbm"].per_second
    assert si(share * 4.2e12, "B/s") in words
    assert f"{share:.0%}" in words


def test_a_record_without_these_points_draws_nothing():
    empty = Record("", WHERE)
    assert len(milakov_figures.rates(FIGURE_1, {"": empty})[0].data) == 0
    assert milakov_figures.tiles_words(empty) == milakov_figures.topk_words(empty) == ""


def test_the_verdict_begins_with_the_claim_and_its_own_length():
    told = milakov_figures.softmax_verdict(milakov.FIGURES[0], SHIPPED)
    gains = dict(milakov.gains(SHIPPED, milakov.FIGURES[0]))
    paper, here, begins = told.split("\n\n")
    assert paper.startswith("**Paper**: online softmax is about 1.3 × as fast as safe softmax, from 4,000 elements")
    assert here.startswith(
        f"**Here**: {ratio(gains[4032])} on rows of 4,032, {ratio(gains[2064384])} on rows of 2,064,384. "
        ":orange-badge[partly: the size is reproduced, the starting point is not]"
    )
    assert begins.startswith("On the H200 the speedup begins at 8,064 elements, not 4,000: ")


def test_speedups_are_drawn_around_1():
    _, speedup = milakov_figures.rates(milakov.FIGURES[0], {"H200": SHIPPED})
    low, high = speedup.layout.yaxis.range
    assert 0.5 < low < 1 < high
    assert any(shape.y0 == shape.y1 == 1 for shape in speedup.layout.shapes)
