"""The counters of a real GPU: a copy's bytes, the traced bytes at L1, and DRAM reads where the theory says them."""

from __future__ import annotations

import pytest

from explain.counters import file
from explain.counters.sizes import sizes
from explain.engine import Engine
from explain.experiment import Experiment

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def engine():
    engine = Engine()
    yield engine
    engine.close()


def test_the_copy_is_counted_within_a_thousandth(engine):
    counters = engine.counters(Experiment.of("softmax_online"))
    assert counters.method.startswith("CUPTI"), counters.fallback
    assert counters.copy.read_bytes == pytest.approx(counters.copy.copied_bytes, rel=1e-3)
    assert counters.copy.written_bytes == pytest.approx(counters.copy.copied_bytes, rel=1e-3)
    assert counters.copy.passed


@pytest.mark.parametrize("kernel", ["softmax_safe", "softmax_online", "flash_attention"])
def test_l1_counts_the_traced_bytes(engine, kernel):
    rows = {"rows": 64, "cols": 4096, "block_n": 1024}
    heads = {"heads": 2, "seq_len": 256, "head_dim": 64, "dtype": "bf16", "block_m": 64, "block_n": 64}
    experiment = Experiment.of(kernel, heads if kernel == "flash_attention" else rows, "normal")
    traced = engine.check(experiment, seconds=300)["traffic"]
    counts = engine.counters(experiment).cold
    own = counts.l1_bytes - counts.spill_read_bytes - counts.spill_written_bytes
    assert own == pytest.approx(traced["read_bytes"] + traced["written_bytes"], rel=1e-3)


@pytest.mark.parametrize("kernel", ["softmax_safe", "softmax_online", "flash_attention"])
def test_dram_reads_are_the_predicted(engine, kernel):
    """Softmax at rows in flight beyond L2 reads x again in every pass; FlashAttention's re-reads of K and V are served by L2."""
    attention = kernel == "flash_attention"
    experiment = sizes(kernel)[0 if attention else 2]
    terms = [term for term in experiment.entry.formula(experiment.values).terms if not term.written]
    predicted = sum(term.elements * term.item_bytes * (1 if attention else term.times) for term in terms)
    counters = engine.counters(experiment)
    assert counters.cold.dram_read_bytes == pytest.approx(predicted, rel=0.01)


def test_a_warm_l2_saves_dram_reads_of_what_fits(engine):
    counters = engine.counters(Experiment.of("softmax_row", {"rows": 1024, "cols": 4096}, "normal"))  # 16 MB
    assert counters.cold.dram_read_bytes == pytest.approx(1024 * 4096 * 4, rel=0.05)
    assert counters.warm.dram_read_bytes < counters.cold.dram_read_bytes / 2


def test_what_is_written_is_at_dram_or_dirty_in_l2(engine):
    experiment = sizes("softmax_online")[2]
    counts = engine.counters(experiment).cold
    written = experiment.entry.formula(experiment.values).written_bytes
    assert counts.dram_written_bytes + counts.dirty_bytes == pytest.approx(written, rel=2e-3)


def test_a_file_of_it_is_read_back(engine, tmp_path):
    counters = engine.counters(Experiment.of("softmax_online"))
    file.save(tmp_path / "gpu.json", [counters], [])
    assert file.load(tmp_path / "gpu.json").counted == (counters,)
    assert "NVIDIA" in counters.provenance.gpu
