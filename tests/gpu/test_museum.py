"""The broken kernels, compiled: a real GPU says of each what the interpreter says."""

from __future__ import annotations

import pytest

from explain.experiment import Experiment
from kernels.launch import launcher, tensors
from kernels.museum import EXHIBITS
from kernels.verify import Verdict, verify

pytestmark = pytest.mark.gpu


def compiled(kernel: str, exhibit, inputs: str) -> Verdict:
    experiment = Experiment.of(kernel, exhibit.sizes, inputs)
    entry, p = experiment.entry, experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    return verify(entry, p, arrays, launcher(entry, p, tensors(p, arrays, "cuda"))())


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_compiled_it_breaks_and_holds_where_it_does_in_the_interpreter(exhibit):
    assert compiled(exhibit.base, exhibit, exhibit.shown_by).within_tolerance
    assert compiled(exhibit.kernel, exhibit, exhibit.shown_by).within_tolerance == exhibit.harmless
    assert compiled(exhibit.kernel, exhibit, exhibit.hidden_by).within_tolerance
