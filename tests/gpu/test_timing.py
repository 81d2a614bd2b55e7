"""How a launch is timed: what the host does meanwhile is not the kernel's time."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def timed(launch):
    from explain.device.point import measure_time

    launch()
    return measure_time(launch, 0.0, lambda *_: None)


def test_a_host_slower_than_the_kernel_is_not_timed():
    import torch

    x = torch.rand(2**20, device="cuda")

    def slow_to_launch():
        time.sleep(2e-4)
        for _ in range(4):
            x.exp()

    timing = timed(slow_to_launch)
    assert "CUDA graph" in timing.method
    assert timing.median_ms < 0.1


def test_what_waits_for_the_gpu_is_timed_as_it_is():
    import torch

    x = torch.rand(2**10, device="cuda")
    timing = timed(lambda: x.sum().item())
    assert "CUDA graph" not in timing.method
    assert timing.median_ms > 0
    assert float(x.sum()) > 0  # the context is well
