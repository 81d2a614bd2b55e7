"""The rungs in Gluon, run as Python, a thread a job: right against float64, and stuck or wrong where one barrier is missing."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch

from explain.experiment import Experiment
from kernels import edits
from kernels.edits import Edit
from kernels.launch import tensors
from kernels.rungs import GLUON
from kernels.verify import verify
from tests.kernels.gluon_on_cpu import Stuck, on_cpu
from tests.kernels.rungs import ENTRY, module

SHAPES = (
    {"heads": 2, "seq_len": 97, "kv_len": 657, "head_dim": 64, "causal": True},
    {"batch": 2, "heads": 3, "kv_heads": 1, "seq_len": 64, "kv_len": 97, "head_dim": 128},
    {"seq_len": 257, "kv_len": 97, "head_dim": 64, "causal": True},
    {"heads": 2, "seq_len": 400, "kv_len": 400, "head_dim": 128, "causal": True},
    {"seq_len": 130, "kv_len": 1024, "head_dim": 64},
    {"seq_len": 1, "kv_len": 1, "head_dim": 64},
)
PRESETS = ("normal", "ascending", "first_tile_masked", "everything_masked")
KERNELS = {
    **{rung: (f"kernels.rungs.{rung}", "attention") for rung in GLUON},
    "the top": ("kernels.attention_hopper", "flash_attention_hopper"),
}


def verdict(attention, experiment: Experiment):
    p = experiment.values
    arrays = ENTRY.make_inputs(experiment.preset, p, experiment.seed)
    outputs = attention(**tensors(p, arrays, "cpu"), causal=p["causal"])
    return verify(ENTRY, p, arrays, dict(zip(ENTRY.outputs, outputs, strict=True)))


@pytest.mark.parametrize("name", KERNELS)
def test_it_gives_what_flash_attention_must_give(name):
    """The top has run on a GPU: that it passes says that what stands in for the machine is no obstacle."""
    path, wrapper = KERNELS[name]
    attention = on_cpu(importlib.import_module(path), wrapper)
    missed = []
    for number, shape in enumerate(SHAPES):
        for preset in PRESETS:
            dtype = ("fp16", "bf16")[(number + PRESETS.index(preset)) % 2]
            e = Experiment.of("flash_attention", {**shape, "dtype": dtype, "block_n": 128}, preset, number)
            if not (v := verdict(attention, e)).within_budget:
                missed.append((e.key, v))
    assert not missed


V_FULL = "mbarrier.wait(v_full.index(place), phase)"
TURN = "mbarrier.arrive(turn.index(1 - C), count=1)\n        s = warp"
BROKEN = [
    ("specialised", "_compute", "mbarrier.arrive(k_empty.index(place), count=1)", "pass"),
    ("specialised", "_compute", V_FULL, "pass"),
    ("specialised", "_fetch", "mbarrier.wait(k_empty.index(place), phase ^ 1)", "pass"),
    ("specialised", "_fetch", "j // STAGES & 1", "j & 1"),
    ("specialised", "_compute", "whole = gl.minimum(kv_len, row + diagonal + 1)", "whole = gl.minimum(kv_len, row + diagonal + BLOCK_N)"),
    ("two_groups", "_compute", "mbarrier.wait(turn.index(C), (j & 1) ^ C)", "mbarrier.wait(turn.index(C), j & 1)"),
    ("two_groups", "attention_kernel", "mbarrier.init(v_empty.index(i), count=2)", "mbarrier.init(v_empty.index(i), count=1)"),
    ("two_groups", "_compute", "row += C * 64", "row += 0"),
    ("overlapped", "_compute", TURN, "s = warp"),
    ("overlapped", "_compute", "s = warpgroup_mma_wait(1, deps=(s,))", "s = warpgroup_mma_wait(2, deps=(s,))"),
    ("overlapped", "_compute", "mbarrier.arrive(v_empty.index(before), count=1)", "mbarrier.arrive(v_empty.index(place), count=1)"),
]  # fmt: skip


@pytest.mark.parametrize(("rung", "function", "old", "new"), BROKEN)
def test_one_barrier_less_and_it_is_stuck_or_wrong(rung, function, old, new):
    broken = edits.load(f"kernels.rungs.{rung}", Edit(f"{rung} {old} {new}", function, old, new))
    e = Experiment.of("flash_attention", {**SHAPES[0], "dtype": "fp16", "block_n": 128}, "ascending", 0)
    assert any(is_stuck_or_wrong(on_cpu(broken, "attention", seed), e) for seed in range(20))


@pytest.mark.parametrize("rung", GLUON)
def test_unbroken_it_is_neither(rung):
    e = Experiment.of("flash_attention", {**SHAPES[0], "dtype": "fp16", "block_n": 128}, "ascending", 0)
    assert not any(is_stuck_or_wrong(on_cpu(module(rung), "attention", seed), e) for seed in range(8))


def is_stuck_or_wrong(attention, experiment: Experiment) -> bool:
    try:
        return not verdict(attention, experiment).within_budget
    except (Stuck, AssertionError):
        return True


def test_any_number_of_stages_and_any_order_of_events_gives_the_same_bits():
    q, k, v = (torch.randn(1, 1, 128, 64).half(), *(torch.randn(1, 1, 900, 64).half() for _ in range(2)))
    for rung in GLUON:
        first = on_cpu(module(rung), "attention")(q, k, v)
        for seed, stages in itertools.product(range(1, 6), (1, 2, 3)):
            attention = on_cpu(module(rung), "attention", seed)
            if rung != "overlapped" or stages > 1:
                assert all(torch.equal(*pair) for pair in zip(first, attention(q, k, v, stages=stages), strict=True))
