"""Each broken cross entropy must fail on the grid that the correct kernel passes."""

from __future__ import annotations

import pytest

from kernels.catalog import KERNELS
from tests.kernels.mutants_cross_entropy import MUTANTS, mutated
from tests.kernels.quick import quick_grid
from tests.kernels.test_against_float64 import verdict_of


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.kernel}: {mutant.name}")
def test_the_grid_notices(mutant):
    kernel, tried = mutated(mutant), quick_grid(KERNELS[mutant.kernel])
    in_fp32_first = sorted(tried, key=lambda experiment: experiment.values["dtype"] != "fp32")
    assert any(not verdict_of(kernel, experiment).within_tolerance for experiment in in_fp32_first)
