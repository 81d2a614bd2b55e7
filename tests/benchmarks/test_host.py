"""A call's cost on the host: many calls by the clock, the GPU idle before them, and no time for a wrong result."""

from __future__ import annotations

import time

import pytest
import torch

from benchmarks.host import compared, measured, timed


def test_a_call_has_the_median_of_its_turns_and_the_gpu_is_idle_before_each():
    done: list[str] = []

    def slow() -> None:
        done.append("slow")
        time.sleep(0.004)

    found = timed({"slow": slow, "fast": lambda: done.append("fast")}, 3, 5, lambda: done.append("idle"))
    assert found["slow"] == pytest.approx(0.004, rel=0.5)
    assert found["fast"] < 0.001
    assert done == 7 * ["idle", *3 * ["slow"], "idle", *3 * ["fast"]] + ["idle"]  # two turns warm up


def test_a_call_that_differs_from_pytorchs_has_no_time():
    x = torch.ones(4)
    found = measured(lambda: x, lambda: 1.1 * x)
    assert found == {"seconds": {}, "why": "the results differ"}


def test_ours_comes_first(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    found = compared(lambda: time.sleep(1e-4), lambda: None, calls=1)
    assert found["ours"] > found["torch"]
