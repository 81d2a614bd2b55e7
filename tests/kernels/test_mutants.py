"""Each mutant must fail on the grid that the correct kernel passes."""

from __future__ import annotations

import pytest

from explain.verification import grid
from kernels.catalog import KERNELS
from tests.kernels.mutants import MUTANTS, Mutant, mutated
from tests.kernels.quick import quick_grid
from tests.kernels.test_against_float64 import verdict_of


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.kernel}: {mutant.name}")
def test_the_suite_notices(mutant):
    kernel = mutated(mutant)
    entry = KERNELS[mutant.kernel]
    in_its_dtype_first = sorted(quick_grid(entry), key=lambda e: e.values["dtype"] != mutant.dtype)
    # What is rounded at every tile is seen where there are many.
    many_tiles = [e for e in grid(entry) if e.values.get("kv_len", 0) >= 4096 and e.values["dtype"] == mutant.dtype]
    rounds = mutant.dtype != "fp32"
    assert any(
        not verdict_of(kernel, experiment).within_tolerance
        for experiment in (many_tiles + in_its_dtype_first if rounds else in_its_dtype_first)
    )


def test_a_mutant_that_changes_nothing_passes():
    """Else the test above could not fail: this is the frame it hangs in."""
    kernel = mutated(Mutant("", "softmax_online", "alpha = ", "alpha = "))
    assert all(verdict_of(kernel, experiment).within_tolerance for experiment in quick_grid(KERNELS["softmax_online"]))
