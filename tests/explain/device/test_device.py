"""What goes wrong on a GPU is said in words, costs that run alone, and the worker is replaced where it must be."""

from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest
import torch

from explain.device.handler import DeviceError, DeviceLost, explained, handle, probe
from explain.device.measurement import Measurement
from explain.device.prefixes import compare_prefixes, traced_states
from explain.engine import Engine
from explain.experiment import Experiment
from explain.plain import made, plain
from explain.run_experiment import run_traced
from explain.workers import WorkerDied, WorkerFailed, WorkerSpec, WorkerTimeout
from kernels import reference
from kernels.attention import flash_attention
from kernels.launch import tensors

FAKE = WorkerSpec("device", "tests.explain.device.fake_worker:handle", default_seconds=120, address_space_limit=False)


def asking(seed: int) -> Experiment:
    return Experiment.of("flash_attention", seed=seed)


@pytest.fixture(scope="module")
def engine():
    engine = Engine(device=FAKE)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (1, "The tile is too large.*400,000 of 232,448"),
        (2, "memory is full.*Choose smaller sizes"),
        (6, "driver is too old"),
        (3, "illegal access"),  # last: the next process would import torch anew
    ],
)
def test_a_failure_is_said_in_words_and_the_next_run_works(engine, seed, words):
    with pytest.raises(WorkerFailed, match=words):
        engine.measure(asking(seed))
    assert engine.measure(asking(0)).within_tolerance


def test_only_an_illegal_access_costs_the_process(engine):
    def process() -> str:
        return engine.measure(asking(0)).provenance.driver

    first = process()
    with pytest.raises(WorkerFailed):
        engine.measure(asking(1))
    assert process() == first
    with pytest.raises(WorkerFailed):
        engine.measure(asking(3))
    assert process() != first


def test_a_worker_that_dies_or_hangs_is_replaced(engine):
    with pytest.raises(WorkerDied, match=r"SIGABRT"):
        engine.measure(asking(4))
    with pytest.raises(WorkerTimeout):
        engine.measure(asking(5), seconds=0.5)
    assert engine.measure(asking(0)).within_tolerance


def test_a_measurement_round_trips():
    measured = made(
        Measurement, {
            "experiment": asking(0).to_json(), "error": math.nan, "tolerance": 1.0, "output": "o",
            "within_tolerance": False, "timing": None,
            "prefixes": [{"tiles": 1, "keys": 16, "error": 0.0, "tolerance": 1.0, "within_tolerance": True}],
            "provenance": dict.fromkeys(("gpu", "driver", "cuda", "torch", "triton", "python", "date"), ""),
        }
    )  # fmt: skip
    assert np.isnan(measured.error)
    assert measured.prefixes[0].keys == 16
    assert repr(made(Measurement, plain(measured))) == repr(measured)  # NaN is not equal to itself


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what is said where there is no GPU")
def test_without_a_gpu_the_reason_is_given():
    assert not probe()["available"]
    with pytest.raises(DeviceError, match=r"CUDA|driver"):
        handle({"kind": "run", "experiment": asking(0).to_json(), "time": False, "prefixes": None}, lambda *_: None)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("CUDA error: an illegal memory access was encountered", DeviceLost, "illegal access"),
        ("CUDA error: misaligned address", DeviceLost, "misaligned address"),
        ("CUDA error: an illegal instruction was encountered", DeviceLost, "illegal instruction"),
        ("CUDA error: device-side assert triggered", DeviceLost, "assertion"),
        (
            "The NVIDIA driver on your system is too old (found version 11040). Please update",
            DeviceError,
            "too old.*11040",
        ),
        ("Found no NVIDIA driver on your system. Please check", DeviceError, "No NVIDIA driver was found"),
    ],
)
def test_cudas_messages_are_explained(text, kind, words):
    error = explained(RuntimeError(text))
    assert isinstance(error, kind)
    assert re.search(words, str(error))


def test_what_is_not_known_is_passed_on():
    error = KeyError("x")
    assert explained(error) is error


@pytest.mark.parametrize("causal", [False, True])
def test_the_traced_state_after_j_tiles_is_a_launch_on_j_tiles(tmp_path, causal):
    sizes = {"heads": 2, "seq_len": 21, "kv_len": 30, "head_dim": 24, "causal": causal, "block_m": 8, "block_n": 8}
    experiment = Experiment.of("flash_attention", sizes, "ascending")
    p = experiment.values
    trace, _ = run_traced(experiment, "all", lambda *_: None)
    arrays = experiment.entry.make_inputs(experiment.preset, p, 0)
    saved: dict[str, np.ndarray] = {}
    for j, end in enumerate((8, 16, 24, 30), start=1):
        t = tensors(p, {**arrays, "k": arrays["k"][:, :, :end].copy(), "v": arrays["v"][:, :, :end].copy()}, "cpu")
        o, lse = flash_attention(t["q"], t["k"], t["v"], causal=causal, diagonal=9, block_m=8, block_n=8)
        saved |= {f"o_{j}": o.numpy(), f"lse_{j}": lse.numpy()}
        expected, _ = reference.attention(*(t[name].numpy() for name in "qkv"), causal=causal, diagonal=9)
        np.testing.assert_allclose(o.numpy(), expected, atol=2e-6)
    np.savez(tmp_path / "prefixes.npz", allow_pickle=False, **saved)
    states = compare_prefixes(trace, experiment, tmp_path / "prefixes.npz")
    assert [state["keys"] for state in states] == [8, 16, 24, 30]
    assert all(state["largest difference in O"] == 0 == state["largest difference in lse"] for state in states)
    saved["o_2"][0, 1, 13] += 0.25
    np.savez(tmp_path / "prefixes.npz", allow_pickle=False, **saved)
    assert compare_prefixes(trace, experiment, tmp_path / "prefixes.npz")[1][
        "largest difference in O"
    ] == pytest.approx(0.25)


def test_prefixes_of_another_kernel_are_refused():
    trace, _ = run_traced(Experiment.of("softmax_online"), "all", lambda *_: None)
    with pytest.raises(ValueError, match="kernel=softmax_online"):
        next(traced_states(trace, Experiment.of("softmax_online")))


def test_the_page_server_imports_neither_torch_nor_triton():
    import subprocess

    code = "import explain.ui, explain.cli, explain.engine, sys; sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
