"""Random cases: as many as were asked for, the same for a seed, right for a right kernel, and a wrong one is found."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks import cases
from explain.verification import drawn, shapes
from kernels.catalog import KERNELS

RIGHT = [kernel for kernel in KERNELS.values() if kernel.kind in ("taught", "fast", "rung") and not kernel.wrong]


def test_the_work_is_shared_without_a_rest():
    jobs = [*cases._jobs(["softmax_online", "flash_attention", "vector_add"], 1000, 7)]
    assert sum(many for _, _, many, _ in jobs) == 1000
    assert max(many for _, _, many, _ in jobs) <= cases.AT_A_TIME
    assert len({seed for *_, seed in jobs}) == len(jobs)


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.name)
def test_every_right_kernel_has_cases_of_many_sizes_and_presets(kernel):
    for number in range(len(shapes(kernel))):
        found = [*islice(drawn(kernel, number, 3), 60)]
        assert found == [*islice(drawn(kernel, number, 3), 60)]
        assert len({experiment.inputs for experiment in found}) > 6
        assert len({experiment.key for experiment in found}) > 50


def test_a_right_kernel_misses_no_case_and_a_wrong_one_does(monkeypatch):
    assert not cases.run("softmax_online", 3, 30, 1, "cpu")["missed"]
    monkeypatch.setattr(cases, "must_pass", lambda experiment: True)
    found = cases.run("flash_attention~acc_not_rescaled", 0, 15, 1, "cpu")
    assert found["cases"] == 15
    assert "spike_last_tile" in {case["inputs"] for case in found["missed"]}
