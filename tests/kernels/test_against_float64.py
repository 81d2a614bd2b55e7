"""Every kernel, in Triton's interpreter, against float64 on the grid of shapes, dtypes, masks and presets."""

from __future__ import annotations

import pytest

from explain import run_experiment
from explain.experiment import Experiment
from explain.verification import must_pass
from kernels.catalog import TAUGHT, Kernel
from kernels.parameters import ITEM_BYTES
from kernels.verify import Verdict
from tests.kernels.quick import quick_grid

IN_ONE_WORKER = [pytest.param(dtype, marks=pytest.mark.xdist_group(f"grid in {dtype}")) for dtype in ITEM_BYTES]
"""The dtypes. The kernels run on the same inputs, and a worker computes the reference of these once (conftest.py)."""


def verdict_of(kernel: Kernel, experiment: Experiment) -> Verdict:
    return run_experiment.verdict_of(experiment, "cpu", kernel)


@pytest.mark.parametrize("kernel", TAUGHT.values(), ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", IN_ONE_WORKER)
def test_grid(kernel, dtype):
    missed = [
        (experiment.key, verdict)
        for experiment in quick_grid(kernel)
        if experiment.values["dtype"] == dtype and must_pass(experiment)
        if not (verdict := verdict_of(kernel, experiment)).within_tolerance
    ]
    assert not missed


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in TAUGHT.values() if kernel.wrong], ids=lambda kernel: kernel.name
)
def test_a_kernel_that_is_wrong_on_purpose_exceeds_its_tolerance_where_it_should(kernel):
    tried = (e for e in quick_grid(kernel) if e.inputs in ("large_magnitude", "normal"))
    missed = {e.inputs for e in tried if not verdict_of(kernel, e).within_tolerance}
    assert "large_magnitude" in missed
    assert ("normal" in missed) == (kernel.name != "softmax_naive")
