"""Each exhibit changes one line, passes ordinary inputs, and breaks on the input that should show it."""

from __future__ import annotations

import pytest

from explain.experiment import Experiment
from explain.run_experiment import run_traced
from explain.verification import grid
from kernels.catalog import KERNELS, TAUGHT
from kernels.edits import Edit, load, source_of
from kernels.museum import EXHIBITS
from kernels.verify import Verdict
from tests.kernels.quick import LONG, quick_grid, tiles
from tests.kernels.test_against_float64 import verdict_of

each = pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)


def verdict(kernel: str, exhibit, inputs: str, seed: int = 0) -> Verdict:
    return verdict_of(KERNELS[kernel], Experiment.of(kernel, exhibit.sizes, inputs, seed))


@each
def test_an_exhibit_is_one_line_of_the_real_kernel(exhibit):
    source = source_of(KERNELS[exhibit.kernel].module)
    (_, number, old), (_, same, new) = exhibit.edit.diff(source)
    assert number == same
    assert source.splitlines()[number - 1] == old
    assert exhibit.new in new


@each
def test_its_own_input_breaks_it_and_not_the_right_kernel(exhibit):
    assert verdict(exhibit.base, exhibit, exhibit.shown_by).within_tolerance
    assert verdict(exhibit.kernel, exhibit, exhibit.shown_by).within_tolerance == exhibit.harmless


@each
def test_the_input_that_hides_it_does_so_with_any_seed(exhibit):
    assert all(verdict(exhibit.kernel, exhibit, exhibit.hidden_by, seed).within_tolerance for seed in range(8))


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS.values() if e.hidden_by == "normal"], ids=lambda e: e.name)
def test_plain_random_numbers_pass_in_every_shape_whose_rows_see_a_key(exhibit):
    experiments = [
        experiment
        for experiment in grid(KERNELS[exhibit.base])
        if experiment.inputs == "normal" and experiment.values["dtype"] == "fp32" and tiles(experiment) < 4 * LONG
        if experiment.values.get("kv_len", 1) >= experiment.values.get("seq_len", 1)
    ]
    assert len(experiments) >= 7
    missed = [e.key for e in experiments if not verdict_of(KERNELS[exhibit.kernel], e).within_tolerance]
    assert not missed


def test_plain_random_numbers_show_a_missing_rescale():
    exhibit = EXHIBITS["acc_not_rescaled"]
    assert not verdict(exhibit.kernel, exhibit, "normal").within_tolerance


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS.values() if e.harmless], ids=lambda e: e.name)
def test_a_harmless_exhibit_passes_the_grid_and_every_other_exhibits_input(exhibit):
    experiments = [e for e in quick_grid(KERNELS[exhibit.base]) if e.values["dtype"] == "fp32"]
    others = [
        Experiment.of(exhibit.base, other.sizes, other.shown_by)
        for other in EXHIBITS.values()
        if other.base == exhibit.base
    ]
    missed = [e.key for e in [*experiments, *others] if not verdict_of(KERNELS[exhibit.kernel], e).within_tolerance]
    assert not missed


@each
def test_an_exhibits_formula_is_its_trace(exhibit):
    for inputs in (exhibit.shown_by, "normal"):
        experiment = Experiment.of(exhibit.kernel, exhibit.sizes, inputs)
        trace, _ = run_traced(experiment, "first", lambda *_: None)
        assert trace.traffic() == experiment.traffic.totals()


@each
def test_the_recorded_source_is_the_edited_one_in_its_place(exhibit):
    experiment = Experiment.of(exhibit.kernel, exhibit.sizes, exhibit.shown_by)
    trace, _ = run_traced(experiment, "first", lambda *_: None)
    source = trace.sources[0]
    assert exhibit.new in source.text
    assert source.file == f"kernels/{KERNELS[exhibit.kernel].module.rpartition('.')[2]}.py~{exhibit.name}"
    _, number, _ = exhibit.edit.diff(source_of(KERNELS[exhibit.kernel].module))[0]
    assert exhibit.new in source.text.splitlines()[number - source.first_line]


def test_an_exhibit_is_an_experiment_as_any_other():
    experiment = Experiment.of("flash_attention~finite_mask", {"causal": True}, "made:offset=-16000")
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert Experiment.from_query(experiment.to_query()) == experiment
    assert not set(TAUGHT) & {exhibit.kernel for exhibit in EXHIBITS.values()}


def test_an_edit_that_does_not_fit_is_refused():
    for edit in (
        Edit("x", "softmax_online_kernel", "nowhere", ""),
        Edit("x", "softmax_online_kernel", "m_i", ""),  # more than once
        Edit("x", "no_such_kernel", "m_i", ""),
    ):
        with pytest.raises(ValueError, match="must have"):
            load("kernels.softmax", edit)
