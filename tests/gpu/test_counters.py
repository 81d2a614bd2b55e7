"""The counters of a real GPU: a copy's bytes, the traced bytes at L1, and DRAM reads where the theory says them."""

from __future__ import annotations

import time

import pytest

from explain.chapters.three_numbers.byte_accounting import gaps
from explain.chapters.three_numbers.levels import levels
from explain.engine import Engine
from explain.experiment import Experiment
from explain.records import file
from explain.records.model import Record
from explain.records.plans import MEASURED, sizes
from kernels.catalog import KERNELS

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture(scope="module")
def engine():
    engine = Engine()
    yield engine
    engine.close()


def test_the_copy_is_counted_within_a_thousandth(engine):
    counters = counters_of(engine, Experiment.of("softmax_online"))
    assert counters.method.startswith("CUPTI"), counters.fallback
    assert counters.copy.read_bytes == pytest.approx(counters.copy.copied_bytes, rel=1e-3)
    assert counters.copy.written_bytes == pytest.approx(counters.copy.copied_bytes, rel=1e-3)
    assert counters.copy.passed


def counters_of(engine, experiment):
    point = engine.point(experiment, timing=False)
    assert point.counters is not None, point.why
    return point.counters


def test_a_run_is_counted_in_less_than_half_a_second_once_its_kernel_is_warm(engine):
    experiment = Experiment.of("softmax_online")
    counters_of(engine, experiment)
    start = time.perf_counter()
    counters_of(engine, experiment)
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize("kernel", ["softmax_online", "flash_attention"])
def test_the_reasons_that_warps_wait_add_up_to_the_warps_that_were_there(engine, kernel):
    point = engine.point(sizes(kernel)[0], counters=False, timing=False, stalls=True)
    assert point.why == ""
    stalls = point.counters.stalls
    assert sum(stalls.by_kind.values()) == pytest.approx(1, abs=0.05)
    assert stalls.share("selected") == pytest.approx(stalls.issued / stalls.warp_cycles, rel=0.05)
    assert 0 < stalls.busy <= 1
    assert 1 <= stalls.warps <= 16
    assert stalls.passes <= 8
    if kernel == "softmax_online":  # it does little but wait for x
        assert stalls.by_kind["memory"] > 0.3


@pytest.mark.parametrize("kernel", ["softmax_safe", "softmax_online", "flash_attention"])
def test_l1_counts_the_traced_bytes(engine, kernel):
    rows = {"rows": 64, "cols": 4096, "block_n": 1024}
    heads = {"heads": 2, "seq_len": 256, "head_dim": 64, "dtype": "bf16", "block_m": 64, "block_n": 64}
    experiment = Experiment.of(kernel, heads if kernel == "flash_attention" else rows, "normal")
    traced = engine.check(experiment, seconds=300)["traffic"]
    counts = counters_of(engine, experiment).cold
    own = counts.l1_bytes - counts.spill_read_bytes - counts.spill_written_bytes
    assert own == pytest.approx(traced["read_bytes"] + traced["written_bytes"], rel=1e-3)


@pytest.mark.parametrize("kernel", MEASURED)
def test_what_l1_is_asked_beyond_the_formula_has_named_causes(engine, kernel):
    rows = {"rows": 64, "cols": 4096} | ({"block_n": 1024} if kernel != "softmax_row" else {})
    tiles = {"dtype": "bf16", "block_m": 64, "block_n": 64}
    heads = {"heads": 2, "seq_len": 256, "head_dim": 64, **tiles}
    tokens = {"tokens": 512, "vocab": 8191, "dim": 256, **tiles}  # rows of logits that begin inside a sector
    sized = {"softmax": rows, "attention": heads, "loss": tokens}
    experiment = Experiment.of(kernel, sized[KERNELS[kernel].family], "normal")  # type: ignore[arg-type]  # all are dicts
    formula = experiment.entry.formula(experiment.values)
    counters = counters_of(engine, experiment)
    for counts, warm in ((counters.cold, False), (counters.warm, True)):
        between = gaps(experiment, levels(formula, None, counts, "", ""), counts, warm=warm)
        down = [gap for gap in between if gap.below == "l1"]
        assert [gap.written for gap in down] == [False, True]
        assert sum(abs(gap.unexplained) for gap in down) <= 1e-3 * (formula.read_bytes + formula.written_bytes), down


@pytest.mark.parametrize("kernel", ["softmax_safe", "softmax_online", "flash_attention"])
def test_dram_reads_are_the_predicted(engine, kernel):
    """Softmax at rows in flight beyond L2 reads x again in every pass; FlashAttention's re-reads of K and V are served
    by L2.
    """
    attention = kernel == "flash_attention"
    experiment = sizes(kernel)[0 if attention else 2]
    terms = [term for term in experiment.entry.formula(experiment.values).terms if not term.written]
    predicted = sum(term.elements * term.item_bytes * (1 if attention else term.times) for term in terms)
    counters = counters_of(engine, experiment)
    assert counters.cold.dram_read_bytes == pytest.approx(predicted, rel=0.01)


def test_a_warm_l2_saves_dram_reads_of_what_fits(engine):
    counters = counters_of(engine, Experiment.of("softmax_row", {"rows": 1024, "cols": 4096}, "normal"))  # 16 MB
    assert counters.cold.dram_read_bytes == pytest.approx(1024 * 4096 * 4, rel=0.05)
    assert counters.warm.dram_read_bytes < counters.cold.dram_read_bytes / 2


def test_what_is_written_is_at_dram_or_dirty_in_l2(engine):
    experiment = sizes("softmax_online")[2]
    counts = counters_of(engine, experiment).cold
    written = experiment.entry.formula(experiment.values).written_bytes
    assert counts.dram_written_bytes + counts.dirty_bytes == pytest.approx(written, rel=2e-3)


def test_a_point_has_counters_time_and_memory_and_its_file_is_read_back(engine, tmp_path):
    experiment = sizes("softmax_online")[0]
    point = engine.point(experiment)
    written = experiment.entry.formula(experiment.values).written_bytes
    assert point.counters.provenance.gpu.startswith("NVIDIA")
    assert 0 < point.timing.p20_ms <= point.timing.median_ms <= point.timing.p80_ms
    assert point.peak_bytes == written  # the output, and nothing else
    record = Record("", point.counters.provenance, {experiment.key: point})
    file.save(tmp_path / "gpu.json", record)
    assert file.load(tmp_path / "gpu.json") == record


def test_standard_attention_holds_s_and_p_in_memory_and_flash_does_not(engine):
    sizes_ = {"heads": 4, "seq_len": 2048, "head_dim": 64, "dtype": "bf16", "block_m": 64, "block_n": 64}
    standard, flash = (
        engine.point(Experiment.of(kernel, sizes_, "normal"), counters=False).peak_bytes
        for kernel in ("attention_standard", "flash_attention")
    )
    assert standard > 2 * 4 * 2048 * 2048 * 2
    assert flash < 4 * 2048 * 64 * 8
