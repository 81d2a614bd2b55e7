"""Every kernel, in Triton's interpreter, against float64 on the grid of shapes, dtypes, masks and presets."""

from __future__ import annotations

import pytest

from explain.experiment import Experiment
from explain.trace.fidelity import interpreter_fidelity
from explain.verification import grid, must_pass
from kernels.catalog import TAUGHT, Kernel
from kernels.launch import launcher, tensors
from kernels.verify import Verdict, verify


def verdict_of(kernel: Kernel, experiment: Experiment) -> Verdict:
    p = experiment.values
    arrays = kernel.make_inputs(experiment.preset, p, experiment.seed)
    with interpreter_fidelity():
        outputs = launcher(kernel, p, tensors(p, arrays, "cpu"))()
    return verify(kernel, p, arrays, outputs)


def tiles(experiment: Experiment) -> int:
    """The tiles that the programs of a run visit, with top-k's K scans of each: what its time here grows with."""
    p = experiment.values
    if "n" in p:
        return -(-p["n"] // p["block_n"])
    if "rows" in p:
        return p["rows"] * -(-p["cols"] // p["block_n"]) * p.get("k", 1)
    return p["batch"] * p["heads"] * -(-p["seq_len"] // p["block_m"]) * -(-p["kv_len"] // p["block_n"])


def quick_grid(kernel: Kernel) -> list[Experiment]:
    """A seventh of the grid, the quickest first: every shape and every preset in every dtype, long rows with one
    preset.

    The mutants die on it (test_mutants.py). A GPU runs the whole grid (tests/gpu).
    """
    seventh = (e for e in grid(kernel, every=7) if e.values.get("kv_len", 0) < 4096 or e.inputs == "normal")
    return sorted(seventh, key=tiles)


@pytest.mark.parametrize("kernel", TAUGHT.values(), ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
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
    missed = {e.inputs for e in quick_grid(kernel) if not verdict_of(kernel, e).within_tolerance}
    assert "large_magnitude" in missed
    assert ("normal" in missed) == (kernel.name != "softmax_naive")
