"""The lessons that this grew from, each by its name: what they teach holds here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from explain import lessons
from explain.experiment import Experiment
from explain.figures import softmax as figures
from explain.runs import run_traced
from explain.trace.model import Tile, Trace


def traced(experiment: Experiment) -> Trace:
    return run_traced(experiment, "all", lambda *_: None)[0]


def stored(trace: Trace) -> np.ndarray:
    return np.concatenate([value.numpy() for _, value in trace.history("y") if isinstance(value, Tile)])


def test_safe_softmax():
    naive, safe = stored(traced(lessons.naive_twin(lessons.SAFE))), stored(traced(lessons.SAFE))
    assert naive[:5].tolist() == [0.0] * 5
    assert math.isnan(naive[5])  # exp(89) is ∞, and ∞ / ∞ is NaN
    x = np.arange(84.0, 90.0)
    np.testing.assert_allclose(safe, np.exp(x - 89) / np.exp(x - 89).sum(), rtol=1e-6)


@pytest.mark.parametrize("inputs", ["normal", "ascending", "one_hot"])
def test_safe_softmax_costs_a_walk_more_and_changes_nothing(inputs):
    safe = Experiment.of("softmax_safe", {"rows": 3, "cols": 37, "block_n": 8}, inputs)
    naive = lessons.naive_twin(safe)
    traces = traced(naive), traced(safe)
    assert [figures.accesses(e, t) for e, t in zip((naive, safe), traces, strict=True)] == [3, 4]
    if inputs != "one_hot":  # there exp(40) and 1 share a sum, each rounded on its own
        lanes = [stored(trace) for trace in traces]
        np.testing.assert_allclose(lanes[0], lanes[1], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("target", range(6))
def test_cross_entropy(dtype, target):
    x = np.array([-0.3, 0.2, 0.5, 0.7, 0.1, 0.8])
    found = figures.losses(x, target, dtype)
    rounded = torch.tensor(figures.safe(x, dtype).x).double()
    exact = torch.nn.functional.cross_entropy(rounded[None], torch.tensor([target])).item()
    assert found.pop("float64") == pytest.approx(exact, rel=1e-12)
    unit = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    for way, value in found.items():
        assert value == pytest.approx(exact, abs=8 * unit * max(exact, 1)), way
