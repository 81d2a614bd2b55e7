"""The bugs of the backward pass, compiled: a real GPU says of each what the interpreter says, and shows the race."""

from __future__ import annotations

import pytest

from explain.experiment import Experiment
from kernels.launch import launcher, tensors
from kernels.museum_backward import BUGS
from kernels.verify import Verdict, verify

pytestmark = pytest.mark.gpu


def compiled(kernel: str, bug, **sizes: int) -> Verdict:
    experiment = Experiment.of(kernel, {**bug.sizes, **sizes}, bug.shown_by)
    entry, p, arrays = experiment.entry, experiment.values, experiment.make_inputs()
    return verify(entry, p, arrays, launcher(entry, p, tensors(p, arrays, "cuda"))())


@pytest.mark.parametrize("bug", [bug for bug in BUGS.values() if not bug.harmless], ids=lambda bug: bug.name)
def test_compiled_it_breaks_where_it_does_in_the_interpreter(bug):
    assert compiled(bug.base, bug).within_tolerance
    assert not compiled(bug.kernel, bug).within_tolerance


def test_the_race_loses_additions_on_a_gpu():
    """In one of ten runs at least: which programs meet is not fixed."""
    bug = BUGS["race_on_dq"]
    assert compiled(bug.base, bug, seq_len=2048).within_tolerance
    assert any(not compiled(bug.kernel, bug, seq_len=2048).within_tolerance for _ in range(10))
