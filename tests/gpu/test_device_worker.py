"""The device worker on a real GPU: measures, goes through the traced states, and survives what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from explain import ROOT
from explain.device.prefixes import compare_prefixes
from explain.engine import DEVICE_WORKER, Engine
from explain.experiment import Experiment
from explain.trace import file as trace_file
from explain.workers import WorkerFailed, WorkerSpec

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture(scope="module")
def engine():
    engine = Engine()
    yield engine
    engine.close()


def test_it_says_what_it_is(engine):
    status = engine.device()
    assert status.available
    assert "NVIDIA" in status.provenance["gpu"]


@pytest.mark.parametrize("causal", [False, True])
def test_compiled_and_traced_go_through_the_same_states(engine, tmp_path, causal):
    experiment = Experiment.of("flash_attention", {"block_m": 16, "block_n": 16, "causal": causal}, "sentence")
    measured = engine.measure(experiment, prefixes=tmp_path / "prefixes.npz")
    assert measured.within_tolerance
    assert [state.keys for state in measured.prefixes] == [16, 32, 48, 64]
    assert all(state.within_tolerance for state in measured.prefixes)
    assert (
        0
        < measured.timing.p20_ms
        <= measured.timing.median_ms
        <= measured.timing.p80_ms
        < measured.timing.first_call_ms
    )
    engine.trace_to(experiment, tmp_path / "trace")
    states = compare_prefixes(trace_file.read(tmp_path / "trace"), experiment, tmp_path / "prefixes.npz")
    assert len(states) == 4
    for state in states:
        assert state["largest difference in O"] < 5e-6
        assert state["largest difference in lse"] < 5e-6


def test_a_tile_too_large_is_said_in_words(engine):
    large = Experiment.of("flash_attention", {"head_dim": 256, "seq_len": 256, "block_m": 32, "block_n": 128})
    with pytest.raises(WorkerFailed, match=r"The tile is too large.*Choose a smaller"):
        engine.measure(large)
    assert engine.measure(Experiment.of("flash_attention")).within_tolerance


def test_a_full_memory_is_said_in_words(engine):
    huge = Experiment.of(
        "attention_standard", {"heads": 96, "seq_len": 32768, "head_dim": 16, "block_m": 64, "block_n": 64}
    )
    with pytest.raises(WorkerFailed, match="memory is full"):
        engine.measure(huge, timed=False)
    assert engine.measure(Experiment.of("flash_attention")).within_tolerance


def test_no_gpu_visible_is_said_in_words():
    hidden = WorkerSpec(
        "device",
        DEVICE_WORKER.target,
        env=(*DEVICE_WORKER.env, ("CUDA_VISIBLE_DEVICES", "")),
        address_space_limit=False,
    )
    engine = Engine(device=hidden)
    try:
        status = engine.device()
        assert not status.available
        assert "CUDA" in status.reason or "driver" in status.reason
    finally:
        engine.close()


def test_the_command_line_runs_on_the_gpu():
    words = [
        sys.executable,
        "-m",
        "explain",
        "run",
        "flash_attention",
        "--set",
        "causal=true",
        "--set",
        "dtype=bf16",
        "--json",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["backend"] == "cuda"
    assert answer["within_tolerance"]
    assert answer["traffic"]["formula"] == answer["traffic"]["traced"]
