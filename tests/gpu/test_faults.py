"""What goes wrong on a GPU costs one run: it is said in words, and the next run is right, and soon."""

from __future__ import annotations

import time

import pytest

from explain.engine import DEVICE_WORKER, Engine
from explain.experiment import Experiment
from explain.workers import WorkerError, WorkerSpec
from tests.gpu.bad_worker import FAULTS, HELD

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
BAD = WorkerSpec(
    "device", "tests.gpu.bad_worker:handle", env=DEVICE_WORKER.env, default_seconds=120, address_space_limit=False
)
WELL = Experiment.of("flash_attention")
TIMES = 2
"""How often each fault happens."""
LIMIT_S = 8.0
"""For an endless kernel."""
RECOVERED_S = 5.0
"""For the next run: a new process imports torch and Triton and makes a CUDA context first."""
KEEPS = ("memory full",)
"""Faults that the process survives."""


@pytest.fixture(scope="module")
def engine():
    engine = Engine(device=BAD)
    yield engine
    engine.close()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_one_run_and_is_said_in_words(engine, name):
    seed, (_, words) = 1 + [*FAULTS].index(name), FAULTS[name]
    before = engine.measure(WELL, timed=False)
    slowest = 0.0
    for _ in range(TIMES):
        with pytest.raises(WorkerError, match=words):
            engine.measure(WELL.with_(seed=seed), timed=False, seconds=LIMIT_S)
        began = time.monotonic()
        after = engine.measure(WELL, timed=False)
        slowest = max(slowest, time.monotonic() - began)
        assert (after.error, after.within_tolerance) == (before.error, True)
        assert (after.provenance.driver == before.provenance.driver) == (name in KEEPS)
        before = after
    assert slowest < RECOVERED_S, f"{name}: the next run took {slowest:.1f} s"


def test_counters_that_another_profiler_holds_are_read_otherwise_or_the_reason_is_said(engine):
    held = engine.point(WELL.with_(seed=HELD), timing=False)
    assert held.counters is not None or "profiler" in held.why
    free = engine.point(WELL, timing=False)
    assert free.counters is not None
