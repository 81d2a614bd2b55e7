"""The lessons that this grew from, each by its name: what they teach holds here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from explain import lessons
from explain.chapters.softmax import figures
from explain.chapters.triton_ladder import ladder
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.run_experiment import run_traced
from explain.trace.model import Tile, Trace, numbers
from kernels.attention import flash_attention
from kernels.inputs import NOTEBOOK_ROW
from kernels.softmax import softmax_blocked_wrong, softmax_online, softmax_row, softmax_safe, softmax_tiled

ROW = np.array(NOTEBOOK_ROW)
SUM = float(np.exp(ROW - 0.8).sum())
WEIGHTS = np.exp(ROW - 0.8) / SUM


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
    assert [ladder.accesses(e, t.traffic()) for e, t in zip((naive, safe), traces, strict=True)] == [3, 4]
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


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_memory_hierarchy(gpu):
    program, chip = gpu.shared_bytes, gpu.shared_bytes_all + gpu.register_bytes
    assert program < chip < gpu.hbm_bytes  # the nearer the smaller
    assert gpu.l2_bytes < gpu.hbm_bytes / 100
    known = [
        gpu.latencies[level].cycles for level in ("register", "shared", "l2", "hbm", "host") if level in gpu.latencies
    ]
    assert known == sorted(known)  # and the faster


@pytest.mark.parametrize("side", [8, 16, 32])
def test_tiling(side):
    experiment = lessons.STANDARD.with_(block_m=side, block_n=side)
    product, *_ = traced(experiment).launches
    p = experiment.values
    elements = p["seq_len"] * p["head_dim"] * 4
    for buffer in ("q_ptr", "k_ptr"):  # each element once a tile, not once an element of S
        assert product.read_bytes[buffer] == elements * p["seq_len"] // side


def last(trace: Trace, name: str) -> np.ndarray:
    return np.asarray(numbers(trace.history(name)[-1][1]), dtype=np.float64)


def test_the_notebooks_row_is_the_one_that_it_steps_through():
    assert NOTEBOOK_ROW == (-0.3, 0.2, 0.5, 0.7, 0.1, 0.8)


@pytest.mark.parametrize("block_n", [1, 2, 8], ids=["element by element", "several tiles", "one tile"])
def test_the_notebooks_online_softmax_comes_to_its_maximum_its_sum_and_its_probabilities(block_n):
    trace = traced(lessons.ONLINE.with_(block_n=block_n))
    assert last(trace, "m_new") == pytest.approx(0.8, abs=1e-6)
    assert last(trace, "l_i") == pytest.approx(SUM, abs=1e-6)
    np.testing.assert_allclose(ladder.stored(trace, "y", "y_ptr", (6,)), WEIGHTS, atol=1e-6)


def test_the_notebooks_running_maximum_and_sum_after_every_element():
    trace = traced(lessons.element_by_element(lessons.ONLINE))
    sums = [float(numbers(value)) for _, value in trace.history("l_i")][1:7]  # after the 0 that it starts from
    maxima = [float(numbers(value)) for _, value in trace.history("m_new")]
    for seen in range(1, 7):
        part = ROW[:seen]
        assert maxima[seen - 1] == pytest.approx(part.max(), abs=1e-6)
        assert sums[seen - 1] == pytest.approx(np.exp(part - part.max()).sum(), abs=1e-6)


def test_the_notebooks_blocks_each_normalised_alone_add_up_to_their_number():
    y = softmax_blocked_wrong(torch.tensor([NOTEBOOK_ROW]), block_n=2)
    np.testing.assert_allclose(y[0].reshape(3, 2).sum(1), np.ones(3), atol=1e-6)


def test_the_notebooks_batch_has_a_column_of_maxima_and_one_of_sums():
    experiment = Experiment.of("softmax_tiled", {"rows": 3, "block_m": 4, "block_n": 2}, "notebook")
    trace = traced(experiment)
    np.testing.assert_allclose(last(trace, "m_new")[:3], np.full(3, 0.8), atol=1e-6)
    np.testing.assert_allclose(last(trace, "l_i")[:3], np.full(3, SUM), atol=1e-6)
    rolled = [np.roll(WEIGHTS, row) for row in range(3)]
    np.testing.assert_allclose(ladder.stored(trace, "y", "y_ptr", (3, 6)), rolled, atol=1e-6)


@pytest.mark.parametrize(
    ("puzzle", "softmax"),
    [
        ("a whole row", softmax_row),
        ("brute force, three passes", softmax_safe),
        ("online", softmax_online),
        ("batched", softmax_tiled),
    ],
)
def test_the_softmax_puzzles(puzzle, softmax):
    """Their size: 4 rows of 200, in tiles of 32 where there are tiles."""
    x = torch.randn(4, 200, generator=torch.Generator().manual_seed(0))
    y = softmax(x, **({} if softmax is softmax_row else {"block_n": 32}))
    torch.testing.assert_close(y, torch.softmax(x, dim=1), rtol=1e-5, atol=1e-7)


def test_the_flash_attention_puzzle():
    """A vector of 200 queries, keys and values each, of one feature: here 16, the fewest that a matmul takes."""
    q, k, v = (torch.randn(1, 1, 200, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    o, lse = flash_attention(q, k, v, block_m=32, block_n=32)
    s = q @ k.mT / 4
    torch.testing.assert_close(o, torch.softmax(s, -1) @ v, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(lse, torch.logsumexp(s, -1), rtol=1e-5, atol=1e-6)
