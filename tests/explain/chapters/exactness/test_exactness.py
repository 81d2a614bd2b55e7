"""Outputs beside float64: the arithmetic of errors, the orders, and what the chapter says of them."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from explain import lessons, recordings
from explain.chapters.exactness import figures, roundings
from explain.chapters.exactness import orders as exactness
from explain.engine import Engine, engine
from explain.experiment import Experiment
from explain.figures.numbers import scientific
from explain.output import Output
from explain.run_experiment import run_output, run_traced
from explain.trace.recorder import recording
from explain.workers import WorkerFailed
from kernels.catalog import KERNELS
from kernels.launch import launcher, tensors


@functools.cache
def output(experiment: Experiment, reverse_keys: bool = False) -> Output:
    return Output(*(array.astype(np.float64) for array in run_output(experiment, reverse_keys)))


BOTH = ("attention_standard", "flash_attention")
PHONE = 388
"""The width of a column on a phone of 420 pixels."""


def pair(dtype: str) -> tuple[Output, Output]:
    experiment = lessons.EXACT.with_(dtype=dtype)
    return output(exactness.flash(experiment)), output(exactness.standard(experiment))


def test_errors_count_what_is_no_number_only_where_it_should_be_one():
    inf, nan = np.inf, np.nan
    found = Output(np.array([1.0, inf, nan, nan]), np.array([1.5, inf, nan, 1.0]), np.ones(4))
    assert found.error[:3].tolist() == [0.5, 0.0, 0.0]
    assert np.isnan(found.error[3])
    assert not found.within_tolerance
    assert found.changed_from(Output(np.array([1.0, inf, nan, 2.0]), found.expected, found.allowed)) == 1


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_every_order_has_other_bits_and_an_error_like_the_first(dtype):
    experiment = lessons.EXACT.with_(dtype=dtype)
    runs = [output(way.experiment, way.reverse_keys) for way in exactness.ways(experiment)]
    first, *others = runs
    assert all(run.within_tolerance for run in runs)
    *orders, in_base_2 = others
    assert all(run.changed_from(first) > 0 for run in orders)
    assert all(0.5 < run.quantile(0.5) / first.quantile(0.5) < 2 for run in (*orders, in_base_2))
    if dtype == "fp32":
        assert all(run.changed_from(first) > 2 / 3 * run.error.size for run in others)
        assert all(run.largest() < 1e-6 for run in runs)


@pytest.mark.parametrize(("kernel", "symbols"), [("attention_standard", "S P O"), ("flash_attention", "P̃ O")])
def test_roundings_of_the_source_are_those_of_the_run(kernel, symbols):
    found = roundings.roundings(kernel)
    assert [one.symbol for one in found] == symbols.split()
    trace, _ = run_traced(lessons.EXACT.through(kernel).with_(seq_len=16, kv_len=16), "all", lambda *_: None)
    names = KERNELS[kernel].buffers
    narrow = {
        names.get(launch.kernel, {}).get(name := buffer.name.removesuffix("_ptr"), name)
        for launch in trace.launches
        for buffer in launch.buffers
        if buffer.item_bytes == 2
    }
    assert narrow - {"q", "k", "v"} == {one.symbol.lower() for one in found if one.stored}


def test_the_worked_sum_depends_on_its_order():
    left, right = (line.rpartition("= ")[2] for line in figures.not_associative().splitlines()[:2])
    assert left != right


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_in_16_bits_flash_attention_is_nearer_to_float64_than_standard_attention(dtype):
    flash, standard = pair(dtype)
    for share in (0.5, 0.99, 1.0):
        assert flash.quantile(share) < standard.quantile(share)


def test_a_typical_error_grows_about_eightfold_from_fp16_to_bf16():
    for narrow, wide in zip(pair("bf16"), pair("fp16"), strict=True):
        assert 6 < narrow.quantile(0.5) / wide.quantile(0.5) < 10


def test_with_one_key_that_takes_all_the_weight_every_way_gives_the_same_bits():
    first, *others = (
        output(way.experiment, way.reverse_keys)
        for way in exactness.ways(lessons.EXACT.with_(inputs="large_magnitude", seq_len=64, kv_len=64))
    )
    assert all(run.changed_from(first) == 0 for run in others)


def test_joining_the_tiles_of_a_softmax_in_another_order_changes_bits_and_not_the_error_and_16_bits_hide_it():
    runs = [output(way.experiment) for way in exactness.merges(lessons.JOINED)]
    first, *others = runs
    assert len(others) == 2
    assert all(run.within_tolerance for run in runs)
    assert all(run.changed_from(first) > 0.05 * run.error.size for run in others)
    assert all(0.5 < run.quantile(0.5) / first.quantile(0.5) < 2 for run in others)
    for dtype in ("fp16", "bf16"):
        first, *others = (output(way.experiment) for way in exactness.merges(lessons.JOINED.with_(dtype=dtype)))
        assert all(run.changed_from(first) < 0.02 * run.error.size for run in others)


def test_a_causal_attention_cannot_have_its_keys_reversed():
    causal = lessons.EXACT.with_(causal=True)
    assert not any(way.reverse_keys for way in exactness.ways(causal))
    with pytest.raises(ValueError, match="without a mask"):
        run_output(exactness.flash(causal), True)


def test_the_figure_names_the_median_and_largest_error_of_each_output():
    exact = Output(np.ones((1, 1, 2, 2)), np.ones((1, 1, 2, 2)), np.zeros((1, 1, 2, 2)))
    outputs = dict(zip(("flash_attention", "attention_standard"), pair("fp16"), strict=True))
    ways = [figures.Way(kernel, kernel, one) for kernel, one in outputs.items()]
    for narrow in (False, True):
        drawn = figures.errors({"fp16": [*ways, figures.Way("exact", "flash_attention", exact)]}, narrow=narrow)
        for one in outputs.values():
            assert f">{scientific(one.quantile(0.5))}<" in drawn
            assert f">{scientific(one.largest())}<" in drawn
        assert drawn.count(">0</text>") == 2


def test_on_a_phone_both_figures_keep_all_they_show_and_need_no_scrolling():
    ways = [figures.Way(kernel, kernel, one) for kernel, one in zip(BOTH, pair("fp16"), strict=True)]
    pictures = (
        lambda narrow: figures.where_rounded(BOTH, 16, narrow=narrow),
        lambda narrow: figures.errors({"fp16": ways}, narrow=narrow),
    )
    for picture in pictures:
        wide, narrow = picture(False), picture(True)
        assert float(re.findall(r'viewBox="0 0 (\S+)', narrow)[0]) <= PHONE
        assert narrow.count("<title>") == wide.count("<title>")


def test_the_share_of_the_tolerance_is_the_largest_of_any_element():
    assert Output(np.array([1.0, 2.0]), np.array([1.5, 2.0]), np.array([2.0, 0.0])).most_of_tolerance() == 0.25
    assert Output(np.array([1.0]), np.array([2.0]), np.zeros(1)).most_of_tolerance() == np.inf


def test_the_error_grows_over_many_tiles_in_fp32_and_hides_behind_the_rounding_of_p_in_fp16():
    wide, narrow = (exactness.long_rows(dtype) for dtype in ("fp32", "fp16"))
    assert [tiles for tiles, *_ in wide] == [4, 16, 64, 256, 1024]
    assert all(3 < wide[-1][at] / wide[0][at] < 16 for at in (1, 2))
    assert narrow[-1][2] / narrow[0][2] < 1.5
    assert all(one[2] > 100 * other[2] for one, other in zip(narrow, wide, strict=True))
    drawn = {line.name: list(line.y) for line in figures.growth({"fp32": wide, "fp16": narrow}).data}
    assert [error for *_, error in narrow] in drawn.values()


def test_the_map_has_a_dot_for_each_element_with_other_bits():
    runs = {way.name: output(way.experiment, way.reverse_keys) for way in exactness.ways(lessons.EXACT)}
    first, *others = runs.values()
    drawn = figures.changed(runs)
    assert drawn.count(f"h{figures.CELL:g}v") == sum(one.changed_from(first) for one in others)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_an_output_has_the_bits_of_a_recorded_run_but_records_nothing(monkeypatch, dtype):
    ways = [*exactness.ways(lessons.EXACT.with_(dtype=dtype)), *exactness.merges(lessons.JOINED.with_(dtype=dtype))]
    for experiment in (way.experiment for way in ways if not way.reverse_keys):
        p, entry = experiment.values, experiment.entry
        launch = launcher(entry, p, tensors(p, experiment.make_inputs(), "cpu"))
        with recording([]):
            recorded = launch()[entry.outputs[0]]
        with monkeypatch.context() as patch:
            patch.setattr("explain.trace.recorder.Recorder.__init__", lambda *_: pytest.fail("it records"))
            result, _, _ = run_output(experiment, False)
        np.testing.assert_array_equal(result, recorded.float().numpy())


def test_a_worker_writes_what_the_engine_reads():
    experiment = exactness.flash(lessons.EXACT.with_(seq_len=16, kv_len=32))
    found = engine().output(experiment, reverse_keys=True)
    here = output(experiment, True)
    assert (found.result == here.result).all()
    np.testing.assert_allclose(found.expected, here.expected, rtol=1e-12)
    with pytest.raises(WorkerFailed, match="without a mask"):
        engine().output(exactness.flash(lessons.EXACT.with_(causal=True, seq_len=16, kv_len=16)), reverse_keys=True)


def test_a_recorded_output_is_preferred(monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    monkeypatch.setattr("explain.engine.has_triton", lambda: False)
    experiment = exactness.flash(lessons.EXACT)
    np.savez(recordings.output_path_of(experiment, False), result=1.0, expected=2.0, allowed=3.0)
    assert Engine().output(experiment).expected == 2.0


@pytest.mark.parametrize(
    "way", list(exactness.shipped(lessons.EXACT, lessons.JOINED)), ids=lambda way: way.experiment.key
)
def test_shipped_outputs_are_of_the_kernels_as_they_are(way):
    path = recordings.output_path_of(way.experiment, way.reverse_keys)
    assert path.exists(), "run: python -m explain record traces"
    shipped, here = Output.read(path), output(way.experiment, way.reverse_keys)
    # Another machine's exp may round otherwise, but not by more than is allowed.
    assert (np.abs(shipped.result - here.result) <= here.allowed).all()


def test_no_shipped_output_is_left_over():
    ways = exactness.shipped(lessons.EXACT, lessons.JOINED)
    assert set(recordings.files(".npz")) == {recordings.output_path_of(w.experiment, w.reverse_keys) for w in ways}
