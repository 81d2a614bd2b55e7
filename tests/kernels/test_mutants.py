"""Each mutant must fail on the grid that the correct kernel passes."""

from __future__ import annotations

import pytest

from explain.verification import grid
from kernels.catalog import KERNELS
from tests.kernels.mutants import MUTANTS, Mutant, mutated
from tests.kernels.test_against_float64 import verdict_of


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.kernel}: {mutant.name}")
def test_the_suite_notices(mutant):
    kernel = mutated(mutant)
    assert any(
        not verdict_of(kernel, experiment).within_tolerance
        for experiment in grid(KERNELS[mutant.kernel], every=2)
        if experiment.values["dtype"] == mutant.dtype
    )


def test_a_mutant_that_changes_nothing_passes():
    """Else the test above could not fail: this is the frame it hangs in."""
    kernel = mutated(Mutant("", "softmax_online", "alpha = ", "alpha = "))
    experiments = [e for e in grid(KERNELS["softmax_online"], every=8) if e.values["dtype"] == "fp32"]
    assert all(verdict_of(kernel, experiment).within_tolerance for experiment in experiments)
