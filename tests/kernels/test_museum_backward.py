"""Each bug of the backward pass changes one line and breaks only what it should; the race is found by its addresses."""

from __future__ import annotations

from typing import Any

import pytest

from explain.experiment import Experiment
from explain.run_experiment import run_traced
from explain.trace.checks import checked
from explain.trace.recorder import record_call
from kernels.catalog import KERNELS
from kernels.edits import source_of
from kernels.launch import launcher, tensors
from kernels.museum_backward import BUGS
from kernels.verify import expectations_of

each = pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
WRONG = {"delta_forgotten": {"dk"}, "lse_without_m": {"lse"}, "mask_forgotten": {"dk", "dv"}, "race_on_dq": set()}


@each
def test_it_changes_one_line_and_its_formula_is_its_trace(bug):
    (_, number, _), (_, same, _) = bug.edit.diff(source_of(KERNELS[bug.kernel].module))
    assert number == same
    for kernel in (bug.base, bug.kernel):
        experiment = Experiment.of(kernel, bug.sizes, bug.shown_by)
        trace, verdict = run_traced(experiment, "first", lambda *_: None)
        assert trace.traffic() == experiment.traffic.totals()
        assert verdict.within_tolerance == (kernel == bug.base or bug.harmless)


@each
def test_only_what_uses_the_line_is_wrong(bug):
    experiment = Experiment.of(bug.kernel, bug.sizes, bug.shown_by)
    entry, p, arrays = experiment.entry, experiment.values, experiment.make_inputs()
    inputs = tensors(p, arrays, "cpu")
    outputs: dict[str, Any] = {}
    record_call(lambda: outputs.update(launcher(entry, p, inputs)()), programs=[])
    right = expectations_of(entry, p, arrays, inputs, None)
    wrong = {
        name for name, (exact, most) in right.items() if (abs(outputs[name].double().numpy() - exact) > most).any()
    }
    assert wrong == WRONG[bug.name]


def findings(kernel: str) -> list[str]:
    bug = BUGS["race_on_dq"]
    experiment = Experiment.of(kernel, bug.sizes, bug.shown_by)
    launch = launcher(experiment.entry, experiment.values, tensors(experiment.values, experiment.make_inputs(), "cpu"))
    trace = checked(lambda evidence: record_call(launch, programs="all", evidence=evidence))
    return [finding.sort for finding in trace.report.findings or ()]


def test_the_race_is_found_and_the_atomic_addition_is_none():
    bug = BUGS["race_on_dq"]
    assert "race" in findings(bug.kernel)
    assert "race" not in findings(bug.base)
