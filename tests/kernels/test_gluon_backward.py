"""The five-matmul backward pass in Gluon, on a model of an SM: right as written, stuck or wrong with one thing less."""

from __future__ import annotations

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import attention_backward_hopper, edits
from kernels.attention import flash_attention
from kernels.edits import Edit
from tests.kernels.gluon_on_cpu import Stuck, on_cpu
from tests.kernels.gradients import gradient_error, worst_gradient

WRAPPER = "attention_backward_hopper"
SHAPES = [  # batch, heads, kv_heads, seq_len, kv_len, head_dim
    (1, 2, 1, 200, 257, 64),
    (1, 1, 1, 130, 300, 128),
    (2, 2, 2, 97, 140, 96),
    (1, 1, 1, 65, 1, 40),
    (1, 1, 1, 200, 130, 24),
]


@pytest.fixture(autouse=True)
def unwritten_is_nan():
    """What a launch leaves unwritten is NaN, not the result of the launch before."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def worst(module, shape, causal: bool, seed: int) -> float:
    with interpreter_fidelity():
        return worst_gradient(
            flash_attention, shape, torch.float16, causal, "cpu", backward=on_cpu(module, WRAPPER, seed), l2_share=4.0
        )  # a share that lets several heads be at work at once


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_float64_in_any_order_of_events(shape, causal):
    assert all(worst(attention_backward_hopper, shape, causal, seed) <= 1 for seed in range(3))


def test_a_key_outside_brings_nothing_where_all_scores_are_far_below_0():
    """Its score is 0, and 2^(0 − lse) is inf."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 70, 64).half() + 4, torch.randn(1, 1, 70, 64).half() - 4
    v, do = torch.randn(2, 1, 1, 70, 64).half()
    with interpreter_fidelity():
        o, lse = flash_attention(q, k, v)
        result = on_cpu(attention_backward_hopper, WRAPPER)(q, k, v, o, lse, do)
    assert lse.max() < -90
    assert gradient_error((q, k, v, do), result, causal=False) <= 1


READY = "mbarrier.wait(ds_full.index(turn % 2), turn // 2 & 1)"
BROKEN = [
    ("_mine", "// at_once * 128", "* 128"),
    ("_mine", "first - diagonal) // 64 * 64", "first - diagonal + 64) // 64 * 64"),
    ("_fetch", "kv_head * group + member", "kv_head * group"),
    ("_fetch", "first + c * 64, part", "first, part"),
    ("_fetch", "mbarrier.wait(empty.index(place), phase ^ 1)", "pass"),
    ("_fetch", "fetched // STAGES & 1", "fetched & 1"),
    ("_scores", "use_acc=part > 0", "use_acc=False"),
    ("_plus", "b_s.index(b * PARTS + part)", "b_s.index(b * PARTS)"),
    ("_dq", "use_acc=c > 0", "use_acc=False"),
    ("_dq", "turn % 2 * 2 + c", "turn % 2 * 2"),
    ("_compute", "first += C * 64", "first += 0"),
    ("_compute", "mbarrier.wait(q_full.index(place), phase)", "pass"),
    ("_compute", "mbarrier.wait(do_full.index(place), phase)", "pass"),
    ("_compute", "s = warpgroup_mma_wait(PARTS, deps=(s,))", "s = warpgroup_mma_wait(PARTS + 1, deps=(s,))"),
    ("_compute", "row + diagonal < first + 63", "row + diagonal < first"),
    ("_compute", "<= queries[None, :], p", "< queries[None, :], p"),
    ("_compute", "(dp - delta[None, :])", "dp"),
    ("_compute", READY, "pass"),
    ("_compute", "mbarrier.arrive(empty.index(place), count=1)", "pass"),
    ("_compute", "if turn % 2 == C", "if turn % 2 == 0"),
    ("_compute", "part * WIDTH], dq_s", "0], dq_s"),
    ("_compute", "C * WIDTH], dq_s", "0], dq_s"),
    ("_compute", "dk[part] * sm_scale", "dk[part]"),
    ("_compute", "mbarrier.wait(done.index(0), 0)", "pass"),
    ("_compute", "tma.store_wait(0)\n                dq_s", "dq_s"),
    ("attention_backward_hopper_kernel", "mbarrier.init(ds_full.index(i), count=2)",
     "mbarrier.init(ds_full.index(i), count=1)"),
    ("attention_backward_hopper_kernel", "mbarrier.init(empty.index(i), count=2)",
     "mbarrier.init(empty.index(i), count=1)"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "old", "new"), BROKEN)
def test_one_thing_less_and_it_is_stuck_or_wrong(function, old, new):
    broken = edits.load("kernels.attention_backward_hopper", Edit(f"{old} {new}", function, old, new))
    tried = ((shape, causal, seed) for seed in range(8) for shape in SHAPES[:3] for causal in (True, False))
    assert any(is_stuck_or_wrong(broken, *one) for one in tried)


def is_stuck_or_wrong(module, shape, causal: bool, seed: int) -> bool:
    try:
        return not worst(module, shape, causal, seed) <= 1
    except (Stuck, AssertionError):
        return True


def test_what_it_does_not_take_is_named():
    q = torch.zeros(1, 1, 8, 136).half()
    lse = torch.zeros(1, 1, 8)
    for wrong, named in ((q, "head_dim 136"), (q[..., :60].contiguous(), "head_dim 60"), (q[..., 1:65], "strides")):
        with pytest.raises(ValueError, match=named):
            attention_backward_hopper.attention_backward_hopper(wrong, wrong, wrong, wrong, lse, wrong)
    whole = torch.zeros(1, 1, 8, 64)
    with pytest.raises(ValueError, match="float32"):
        attention_backward_hopper.attention_backward_hopper(whole, whole, whole, whole, lse, whole)
