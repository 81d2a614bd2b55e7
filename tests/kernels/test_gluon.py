"""The Gluon rungs run as Python threads: right against float64; stuck or wrong if a barrier is missing."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch

from explain.experiment import Experiment
from explain.verification import SYNTHETIC
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
    # At the top three groups, of which some skip what another sees
    {"heads": 2, "seq_len": 576, "kv_len": 576, "head_dim": 128, "causal": True},
)
WIDTHS = (
    {"heads": 2, "seq_len": 97, "kv_len": 257, "head_dim": 40, "causal": True},
    {"seq_len": 97, "kv_len": 130, "head_dim": 96},
    {"heads": 2, "seq_len": 200, "kv_len": 300, "head_dim": 16},
    {"heads": 2, "seq_len": 257, "kv_len": 257, "head_dim": 192, "causal": True},
    {"heads": 2, "seq_len": 130, "kv_len": 577, "head_dim": 136},
    {"batch": 2, "heads": 2, "kv_heads": 1, "seq_len": 400, "kv_len": 97, "head_dim": 256},
)
"""Heads that are padded or in parts: the top rung alone takes them."""
TELLING = (SHAPES[0], SHAPES[1], SHAPES[-1])
"""Inputs that show bugs: a mask that cuts two tiles of a row, an edge without a mask, skipped tiles."""
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


@pytest.mark.parametrize("causal", [False, True])
def test_heads_of_16_features_pass_every_preset(causal):
    attention = on_cpu(importlib.import_module("kernels.attention_hopper"), "flash_attention_hopper")
    shape = {"heads": 2, "seq_len": 97, "kv_len": 300, "head_dim": 16, "causal": causal, "block_n": 128}
    for number, (preset, dtype) in enumerate(itertools.product(SYNTHETIC, ("fp16", "bf16"))):
        e = Experiment.of("flash_attention", {**shape, "dtype": dtype}, preset, number)
        assert verdict(attention, e).within_tolerance, e.key


@pytest.mark.parametrize("name", KERNELS)
def test_it_gives_what_flash_attention_must_give(name):
    """The top kernel passes on a GPU, so it must pass on the model of one: each shape with a preset, all in turn."""
    path, wrapper = KERNELS[name]
    attention = on_cpu(importlib.import_module(path), wrapper)
    missed = []
    for number, shape in enumerate(SHAPES + (WIDTHS if name == "the top" else ())):
        preset, dtype = PRESETS[number % len(PRESETS)], ("fp16", "bf16")[number % 2]
        e = Experiment.of("flash_attention", {**shape, "dtype": dtype, "block_n": 128}, preset, number)
        if not (v := verdict(attention, e)).within_tolerance:
            missed.append((e.key, v))
    assert not missed


def told(seeds: int):
    """Experiments, each with seeds for that many orders of events."""
    for seed, shape in itertools.product(range(seeds), TELLING):
        yield seed, Experiment.of("flash_attention", {**shape, "dtype": "fp16", "block_n": 128}, "normal", 0)


V_FULL = "mbarrier.wait(v_full.index(place), phase)"
V_USED = "mbarrier.arrive(v_empty.index(used % STAGES), count=1)"
SKIPPED = f"{V_USED}\n            used += 1\n        mbarrier.wait(q_full"
TURN = "mbarrier.arrive(turn.index(1 - C), count=1)\n        s = warp"
BROKEN = [
    ("specialised", "_compute", "mbarrier.arrive(k_empty.index(place), count=1)", "pass"),
    ("specialised", "_compute", V_FULL, "pass"),
    ("specialised", "_fetch", "mbarrier.wait(k_empty.index(place), phase ^ 1)", "pass"),
    ("specialised", "_fetch", "j // STAGES & 1", "j & 1"),
    ("specialised", "_compute", "whole = gl.minimum(kv_len, row + diagonal + 1)",
     "whole = gl.minimum(kv_len, row + diagonal + BLOCK_N)"),
    ("two_groups", "_compute", "mbarrier.wait(turn.index(C), (j & 1) ^ C)", "mbarrier.wait(turn.index(C), j & 1)"),
    ("two_groups", "attention_kernel", "mbarrier.init(v_empty.index(i), count=2)",
     "mbarrier.init(v_empty.index(i), count=1)"),
    ("two_groups", "_compute", "row += C * 64", "row += 0"),
    ("overlapped", "_compute", TURN, "s = warp"),
    ("overlapped", "_compute", "s = warpgroup_mma_wait(1, deps=(s,))", "s = warpgroup_mma_wait(2, deps=(s,))"),
    ("overlapped", "_compute", "mbarrier.arrive(v_empty.index(before), count=1)",
     "mbarrier.arrive(v_empty.index(place), count=1)"),
    ("the top", "_this_tile_and_the_next", "(taken + 1) * programs", "taken * programs"),
    ("the top", "_this_tile_and_the_next", "program + taken * programs", "program + taken"),
    ("the top", "_first_tile", "gl.cdiv(tiles - program, programs)", "(tiles - program) // programs"),
    ("the top", "_fetch", "mbarrier.wait(q_empty.index(c), (taken & 1) ^ 1)", "pass"),
    ("the top", "_fetch", "if j == 0:", "if j == visits - 1:"),
    ("the top", "_fetch", "_visits(this, row, GROUPS * 64,", "_visits(this, row, 64,"),
    ("the top", "_compute", "_visits(this, row, 64,", "_visits(this, row, 1,"),
    ("the top", "_compute", SKIPPED, SKIPPED.replace(V_USED, "pass")),
    ("the top", "_compute", SKIPPED, SKIPPED.replace("used += 1", "pass")),
    ("the top", "_compute", "mbarrier.wait(q_full.index(C), taken & 1)", "mbarrier.wait(q_full.index(C), 0)"),
    ("the top", "_compute", "if visits == 0:\n            mbarrier.arrive(q_empty.index(C), count=1)",
     "if visits == 0:\n            pass"),
    ("the top", "_compute", "tma.store_wait(0)  # the O before has left this place", "pass"),
    ("the top", "_compute", "if visits == 1:", "if False:"),
    ("the top", "_compute", "if visit == visits - 1:", "if False:"),
    ("the top", "_compute", "if CAUSAL or col + BLOCK_N > kv_len:", "if CAUSAL:"),
    ("the top", "_compute", "col + BLOCK_N - 1 > (0 if SPLIT else row)", "col > (0 if SPLIT else row)"),
    ("the top", "_compute", "gl.sum(l_i, axis=1)", "gl.max(l_i, axis=1)"),
    ("the top", "_thread_sums", "_of_threads(p), axis=3", "_of_threads(p)[:, :, :, :1], axis=3"),
    ("the top", "_masked", "diagonal + 1 - col", "diagonal - col"),
    ("the top", "_masked", "kv_len - col", "kv_len + 1 - col"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "old", "new"), BROKEN)
def test_one_thing_less_and_it_is_stuck_or_wrong(name, function, old, new):
    path, wrapper = KERNELS[name]
    broken = edits.load(path, Edit(f"{old} {new}", function, old, new))
    assert any(is_stuck_or_wrong(on_cpu(broken, wrapper, seed), e) for seed, e in told(20))


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("_compute", "if part == 0 or not O_APART:", "if part == 0:"),
        ("_copy", "places[part]", "places[0]"),
        ("_plus_values", "v_s[part]", "v_s[0]"),
    ],
)
def test_where_the_parts_of_o_share_a_place(function, old, new):
    path, wrapper = KERNELS["the top"]
    broken = edits.load(path, Edit(f"{old} {new}", function, old, new))
    shape = {"heads": 3, "seq_len": 257, "kv_len": 97, "head_dim": 256, "dtype": "fp16", "block_n": 128}
    e = Experiment.of("flash_attention", shape, "normal", 0)
    assert any(is_stuck_or_wrong(on_cpu(broken, wrapper, seed), e) for seed in range(8))
    assert not any(is_stuck_or_wrong(on_cpu(importlib.import_module(path), wrapper, seed), e) for seed in range(8))


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("_copy", "row, part * FIRST]", "row, 0]"),
        ("_copy", "(FIRST + REST) * descs[0].block_type.nbytes // FIRST", "descs[0].block_type.nbytes"),
        ("_scores", "use_acc=part > 0", "use_acc=False"),
        ("_compute", "row, part * FIRST], place", "row, 0], place"),
        ("_compute", "warpgroup_mma_wait(PARTS,", "warpgroup_mma_wait(PARTS + 1,"),
    ],
)
@pytest.mark.parametrize("head_dim", [96, 136])
def test_a_head_in_parts_with_one_thing_wrong(function, old, new, head_dim):
    path, wrapper = KERNELS["the top"]
    broken = edits.load(path, Edit(f"{old} {new}", function, old, new))
    shape = {"heads": 2, "seq_len": 97, "kv_len": 300, "head_dim": head_dim, "dtype": "fp16", "block_n": 128}
    e = Experiment.of("flash_attention", shape, "normal", 0)
    assert any(is_stuck_or_wrong(on_cpu(broken, wrapper, seed), e) for seed in range(8))


@pytest.mark.parametrize("name", KERNELS)
def test_unbroken_it_is_neither(name):
    path, wrapper = KERNELS[name]
    whole = importlib.import_module(path)
    assert not any(is_stuck_or_wrong(on_cpu(whole, wrapper, seed), e) for seed, e in told(1))


def is_stuck_or_wrong(attention, experiment: Experiment) -> bool:
    try:
        return not verdict(attention, experiment).within_tolerance
    except (Stuck, AssertionError):
        return True


@pytest.mark.parametrize("name", ["overlapped", "the top"])
def test_who_overlaps_asks_for_two_places_at_least(name):
    path, wrapper = KERNELS[name]
    q = torch.zeros(1, 1, 64, 64).half()
    with pytest.raises(ValueError, match="stages=1"):
        on_cpu(importlib.import_module(path), wrapper)(q, q, q, stages=1)


def test_any_number_of_stages_and_any_order_of_events_gives_the_same_bits():
    q, k, v = (torch.randn(1, 1, 128, 64).half(), *(torch.randn(1, 1, 900, 64).half() for _ in range(2)))
    for rung in GLUON:
        first = on_cpu(module(rung), "attention")(q, k, v)
        for seed, stages in itertools.product(range(1, 6), (1, 2, 3)):
            attention = on_cpu(module(rung), "attention", seed)
            if rung != "overlapped" or stages > 1:
                assert same(first, attention(q, k, v, stages=stages))


@pytest.mark.parametrize("causal", [True, False])
def test_at_the_top_any_number_of_groups_too_gives_the_same_bits(causal):
    q, k, v = torch.randn(3, 1, 2, 500, 64).half()
    path, wrapper = KERNELS["the top"]
    top = importlib.import_module(path)
    first = on_cpu(top, wrapper)(q, k, v, causal=causal, block_n=128)
    for seed, stages, groups in itertools.product(range(1, 4), (2, 3), (1, 2, 3)):
        options = {"stages": stages, "groups": groups, "block_n": 128}
        assert same(first, on_cpu(top, wrapper, seed)(q, k, v, causal=causal, **options))


def same(ours, theirs) -> bool:
    return all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
