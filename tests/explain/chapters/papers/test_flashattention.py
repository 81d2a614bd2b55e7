"""FlashAttention's figures, tables and theorem: the paper's numbers, our counts, fitted slopes."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from explain.chapters.papers import exercises, flashattention, flashattention_figures
from explain.chapters.papers.flashattention import FIGURE_2, TABLE_20, TABLE_21, TABLE_LENGTHS
from explain.chapters.sweeps.analysis import slope
from explain.figures.numbers import ratio
from explain.records import registry
from explain.records.model import Record
from explain.records.plans import PLANS
from kernels.catalog import KERNELS
from tests.explain.chapters.papers import made
from tests.explain.records.made import WHERE

RECORD = made.record()
SHIPPED = registry.recorded() or RECORD
EMPTY = Record("", WHERE)


def test_the_papers_flops_are_about_a_twelfth_of_those_counted():
    standard, flash = FIGURE_2
    assert flashattention.matmul_flops(standard) == 12 * 64 * 16 * 1024**2 * 64
    for row in FIGURE_2:
        experiment = flashattention.gpt2(row.baseline)
        assert experiment.traffic.flops_of("matmul") == flashattention.matmul_flops(row)
        assert 12 < flashattention.matmul_flops(row) / 1e9 / row.gflops < 13
    assert flash.gflops / standard.gflops == pytest.approx(7 / 6, rel=0.04)


def test_throughput_counts_the_matmuls_as_the_table_and_the_speed_page_do():
    record = registry.recorded()
    flops, _ = exercises._flash(exercises.Shown(exercises.FIGURE_2, record, {}))
    p = flashattention.OURS[-1].values
    assert flops == 4 * p["batch"] * p["heads"] * p["seq_len"] ** 2 * p["head_dim"]


def test_the_papers_tables_begin_at_the_shortest_length_and_end_where_the_gpu_was_full():
    for table in (TABLE_20, TABLE_21):
        full, ended = table["torch:flash_backward"], table["torch:attention_backward"]
        assert len(ended) < len(full) == len(TABLE_LENGTHS)


def test_the_papers_memory_is_what_its_matrices_weigh():
    """Flash keeps 8 matrices of N d a head and some sums; standard attention adds about 4 of N²."""
    both = itertools.zip_longest(TABLE_21["torch:flash_backward"], TABLE_21["torch:attention_backward"])
    for n, (flash, standard) in zip(TABLE_LENGTHS, both, strict=True):
        small = 2 * flashattention.inputs_bytes(n) / 1e6
        assert 1 <= flash / small < 1.7
        if standard and n >= 1024:
            assert (standard - small) / (16 * 8 * n * n * 2 / 1e6) == pytest.approx(4, rel=0.1)


def test_every_point_is_planned():
    for plan, experiments in (
        ("flashattention", flashattention.COUNTED),
        ("flashattention-memory", flashattention.TIMED),
    ):
        assert PLANS[plan].experiments == experiments
        assert len(set(experiments)) == len(experiments)


def test_the_tile_that_stays_on_chip_is_what_grows():
    for kernel, side in (("flash_attention_v1", "block_n"), ("flash_attention", "block_m")):
        tiles = [flashattention.by_block(kernel, block).values for block in flashattention.BLOCKS]
        assert [p[side] for p in tiles] == list(flashattention.BLOCKS)
        assert all(min(p["block_m"], p["block_n"]) <= 64 for p in tiles)


def test_the_formulas_slopes_are_theorem_2s():
    for kernel in ("flash_attention_v1", "flash_attention"):
        by_block = [
            (b, flashattention.formula_bytes(flashattention.by_block(kernel, b))) for b in flashattention.BLOCKS
        ]
        assert slope(dict(by_block), fitted=len(by_block)) == pytest.approx(-1, abs=0.1)
        by_length = [
            (n, flashattention.formula_bytes(flashattention.by_length(kernel, n))) for n in flashattention.LENGTHS
        ]
        assert slope(dict(by_length), fitted=len(by_length)) == pytest.approx(2, abs=0.1)


def test_slopes_are_fitted_to_what_was_counted():
    rows = flashattention_figures.slopes(RECORD).splitlines()
    assert len(rows) == 2 + 2 + 3
    assert rows[-1].endswith("| 1.00 |")  # in this record FlashAttention-2's DRAM bytes grow with N
    assert flashattention_figures.slopes(EMPTY).count("| – | – |") == 5


def test_a_tile_that_spills_is_named_and_not_fitted():
    experiment = flashattention.by_block("flash_attention", 256)
    point = RECORD.point(experiment)
    assert point is not None
    assert point.counters is not None
    cold = replace(point.counters.cold, l2_read_bytes=10**12, spill_read_bytes=3 * 10**9, spill_written_bytes=10**9)
    spilled = RECORD.with_(replace(point, counters=replace(point.counters, cold=cold)))
    assert "B = 256: 4.00 GB" in flashattention_figures.spills_words(spilled)
    assert flashattention_figures.spills_words(RECORD) == ""
    line = next(
        line
        for line in flashattention_figures.slopes(spilled).splitlines()
        if line.startswith("| B | FlashAttention-2")
    )
    formula, on_chip, _ = line.removesuffix(" |").split(" | ")[-3:]
    assert on_chip.startswith("−0.9")
    assert formula.startswith("−0.9")


def test_what_a_run_left_dirty_in_l2_is_its_own():
    point = RECORD.point(flashattention.OURS[0])
    assert point is not None
    assert point.counters is not None
    cold = point.counters.cold
    assert flashattention.hbm_bytes(point) == sum(
        part or 0 for part in (cold.dram_read_bytes, cold.dram_written_bytes, cold.dirty_bytes)
    )


def test_figure_2_has_the_papers_columns_beside_ours():
    table = flashattention_figures.table_2(RECORD)
    assert "| Standard attention | 66.6 | 825 (12.4 ×) | 40.30 GB | 25.23 GB | " in table
    assert "| FlashAttention | 75.2 | 962 (12.8 ×) | 4.40 GB |" in table
    assert table.count("–") == 0
    assert flashattention_figures.table_2(EMPTY).count("–") == 4


def test_the_tables_charts_have_both_gpus():
    ours = [f"{KERNELS[row.baseline].short}, H200" for row in FIGURE_2]
    papers = [f"paper: {row.name}" for row in FIGURE_2]
    for chart in flashattention_figures.tables(RECORD):
        assert [line.name for line in chart.data] == [papers[0], ours[0], papers[1], ours[1]]
        assert [line.line.dash for line in chart.data] == ["dash", "solid"] * 2
    assert [line.name for line in flashattention_figures.tables(EMPTY)[0].data] == papers


def test_the_pyramid_has_the_papers_levels_and_those_measured():
    ours, papers = flashattention_figures.hierarchy(RECORD).data
    assert list(papers.y) == ["SRAM (shared memory)", "HBM", "host memory"]
    assert set(ours.y) <= {"SRAM (shared memory)", "L1", "L2", "HBM", "host memory"}
    assert "L2" in list(ours.y)
    assert "19 TB/s, 20 MB" in papers.text[0]


def test_the_pyramid_has_a_verdict_with_both_ratios():
    told = flashattention_figures.hierarchy_verdict(SHIPPED)
    shared, hbm = (SHIPPED.roofs[level].per_second for level in ("shared", "hbm"))
    assert told.startswith("**The same order")
    assert f"**SRAM ÷ HBM**: {ratio(shared / hbm)} here" in told
    slow = replace(SHIPPED.roofs["shared"], per_second=hbm / 2)
    other = replace(SHIPPED, roofs={**SHIPPED.roofs, "shared": slow})
    assert flashattention_figures.hierarchy_verdict(other).startswith("**Another order")
    assert flashattention_figures.hierarchy_verdict(EMPTY) == ""


def test_the_pyramids_labels_are_below_the_tools_of_its_chart():
    assert flashattention_figures.hierarchy(SHIPPED).layout.margin.t >= 40


def test_the_note_on_the_flops_has_the_factors_of_the_table():
    table, note = flashattention_figures.table_2(SHIPPED), flashattention_figures.table_2_note()
    factors = re.findall(r"\(([\d.]+ ×)\)", table)
    assert len(factors) == 2
    assert all(factor in note for factor in factors)


def test_a_curve_that_jumps_is_called_that_and_explained():
    jumping = [
        line for line in flashattention_figures.slopes(SHIPPED).splitlines() if flashattention_figures.JUMPS in line
    ]
    assert [line.split("|")[2].strip() for line in jumping] == ["FlashAttention-1 forward"]
    told = flashattention_figures.slopes_words(SHIPPED)
    assert f"**{flashattention_figures.JUMPS}**" in told
    assert "DRAM near 0" in told
    assert flashattention_figures.slopes_words(EMPTY) == ""
