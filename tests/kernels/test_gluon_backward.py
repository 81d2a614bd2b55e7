"""The five-matmul backward pass in Gluon, on a model of an SM: right as written, stuck or wrong with one thing less."""

from __future__ import annotations

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import (
    attention_backward_hopper,
    attention_backward_launches,
    attention_backward_pieces,
    attention_backward_wide,
    edits,
)
from kernels.attention import flash_attention
from kernels.attention_backward import flash_attention_backward
from kernels.edits import Edit
from tests.kernels.gluon_on_cpu import Stuck, on_cpu
from tests.kernels.gradients import gradient_error, worst_gradient

NARROW = [  # batch, heads, kv_heads, seq_len, kv_len, head_dim
    (1, 2, 1, 200, 257, 64),
    (1, 1, 1, 130, 300, 128),
    (2, 2, 2, 256, 140, 96),
    (1, 1, 1, 65, 1, 40),
    (1, 1, 1, 200, 130, 24),
]
WIDE = [
    (1, 2, 1, 200, 257, 192),
    (1, 2, 1, 130, 200, 256),
    (2, 2, 2, 97, 140, 200),
    (1, 1, 1, 65, 1, 136),
    (1, 1, 1, 200, 70, 168),
]
WHOLE = (1 << 30, 1)
"""More whole programs than any launch has: none is split."""
SPLITS = [(0, 2), (1, 3), (0, 7)]
"""Whole programs, and pieces of each other one. 7 are more than some have tiles of queries: pieces of no query."""
EVERY = [(attention_backward_hopper, shape) for shape in NARROW] + [(attention_backward_wide, shape) for shape in WIDE]


@pytest.fixture(autouse=True)
def unwritten_is_nan():
    """What a launch leaves unwritten is NaN, not the result of the launch before.

    `torch.use_deterministic_algorithms` says the same and imports PyTorch's compiler, which takes seconds.
    """
    torch.set_deterministic_debug_mode("error")
    yield
    torch.set_deterministic_debug_mode("default")


def worst(module, shape, causal: bool, seed: int, split: tuple[int, int] = WHOLE, **options) -> float:
    wrapper = "attention_backward_wide" if hasattr(module, "attention_backward_wide") else "attention_backward_hopper"
    with interpreter_fidelity():
        return worst_gradient(
            flash_attention,
            shape,
            torch.float16,
            causal,
            "cpu",
            backward=on_cpu(module, wrapper, seed),
            l2_share=4.0,
            split=split,
            **options,
        )  # a share that lets several heads be at work at once


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("module", "shape"), EVERY)
def test_gradients_are_those_of_float64_in_any_order_of_events(module, shape, causal):
    assert all(worst(module, shape, causal, seed) <= 1 for seed in range(3))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("module", "shape"), EVERY)
def test_the_first_keys_store_dq_and_the_others_add_to_it(module, shape, causal):
    """Or nobody stores it, where a query sees no key."""
    assert worst(module, shape, causal, 0, stored=True) <= 1
    assert worst(module, shape, causal, 0, stored=False) <= 1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", WIDE)
def test_a_persistent_program_takes_one_tile_of_keys_after_another(shape, causal):
    """In any order of events, in pieces, and where the first keys store dQ."""
    for seed, split in enumerate((WHOLE, *SPLITS)):
        assert worst(attention_backward_wide, shape, causal, seed, split=split, persistent=True) <= 1
    assert worst(attention_backward_wide, shape, causal, 0, stored=True, persistent=True) <= 1


@pytest.mark.parametrize("shape", NARROW)
def test_programs_start_with_different_queries(shape):
    """In any order of events; also where more keys than queries are left, or fewer."""
    assert all(worst(attention_backward_hopper, shape, False, seed, turned=True) <= 1 for seed in range(3))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("module", "shape"), EVERY)
def test_pieces_of_the_last_programs_add_up(module, shape, causal):
    """In any order of events, with programs that start with different queries, and with dQ stored by the first keys."""
    for seed, split in enumerate(SPLITS):
        turned = {"turned": seed == 1} if module is attention_backward_hopper else {}
        assert worst(module, shape, causal, seed, split=split, stored=False, **turned) <= 1
    assert worst(module, shape, causal, 0, split=(0, 2), stored=True) <= 1


PIECES = [
    ("program = whole +", "program = "),
    ("program // columns * at_once +", "program // columns +"),
    ("column % at_once", "0"),
    ("column // at_once * KEYS", "column * KEYS"),
    ("pieces * 2 + tl.program_id(2)", "2 + tl.program_id(2)"),
    ("piece * (2 * KEYS * WIDTH)", "piece * (KEYS * WIDTH)"),
    ("sums += tl.load", "sums = tl.load"),
    ("dv_ptr if of_values else dk_ptr", "dk_ptr if of_values else dv_ptr"),
    ("tl.where(of_values, 1.0, sm_scale)", "sm_scale"),
]


@pytest.mark.parametrize(("old", "new"), PIECES)
def test_the_sum_of_pieces_with_one_thing_less_is_wrong(old, new, monkeypatch):
    kernel = "attention_pieces_kernel"
    broken = edits.load("kernels.attention_backward_pieces", Edit(f"{old} {new}", kernel, old, new))
    monkeypatch.setattr(attention_backward_launches, kernel, getattr(broken, kernel))
    tried = [(shape, causal, split) for shape in NARROW for causal in (True, False) for split in SPLITS]
    assert any(is_stuck_or_wrong(attention_backward_hopper, *one[:2], 0, one[2]) for one in tried)


@pytest.mark.parametrize(
    ("programs", "group", "tiles", "causal", "split"),
    [  # measured on an H200, with 132 SMs
        (16, 1, 32, False, (0, 8)),  # 1×1×2048×128: 106 → 48 µs
        (144, 1, 48, False, (132, 10)),  # 6×3072×64: 146 → 95 in 8 pieces
        (3584, 1, 256, False, (3564, 6)),  # 1×28×16384×128: 17513 → 17024
        (8192, 1, 128, False, (8192, 1)),  # 2×64×8192×128: 19775, in 16 pieces 19819
        (384, 1, 16, False, (384, 1)),  # 4×12×1024×64: 141, in 2 pieces 148
        (32, 1, 16, True, (0, 4)),  # 4×1024×64, causal: 31 → 22
        (160, 1, 16, True, (160, 1)),  # 20×1024×64, causal: 38, in 2 pieces 45
        (264, 8, 64, False, (264, 1)),  # two full rounds
        (300, 1, 200, True, (300, 1)),
    ],
)
def test_programs_are_split_where_that_is_faster(programs, group, tiles, causal, split, monkeypatch):
    monkeypatch.setattr(attention_backward_pieces, "sms", lambda _: 132)
    assert attention_backward_pieces.split_of(torch.empty(0), programs, group, tiles, causal) == split


@pytest.mark.parametrize("causal", [False, True])
def test_every_query_is_in_a_piece_and_no_more_pieces_than_tiles(causal, monkeypatch):
    monkeypatch.setattr(attention_backward_pieces, "sms", lambda _: 132)
    for programs in (1, 7, 66, 131, 133, 263, 265, 1000):
        for tiles in (1, 2, 5, 64, 1000):
            whole, pieces = attention_backward_pieces.split_of(torch.empty(0), programs, 2, tiles, causal)
            assert 1 <= pieces <= min(tiles, attention_backward_pieces.MOST)
            assert (whole == programs) == (pieces == 1)
            assert whole % 132 == 0 or pieces == 1


WRAPPERS = [
    (attention_backward_hopper, "attention_backward_hopper", 64),
    (attention_backward_hopper, "attention_backward_hopper", 104),
    (attention_backward_wide, "attention_backward_wide", 136),
]


@pytest.mark.parametrize(("module", "wrapper", "head_dim"), WRAPPERS)
def test_a_key_outside_brings_nothing_where_all_scores_are_far_below_0(module, wrapper, head_dim):
    """Its score is 0, and 2^(0 − lse) is inf."""
    torch.manual_seed(0)
    shape = (1, 1, 70, head_dim)
    q, k = torch.randn(shape).half() + 4, torch.randn(shape).half() - 4
    v, do = torch.randn(2, *shape).half()
    with interpreter_fidelity():
        o, lse = flash_attention(q, k, v)
        result = on_cpu(module, wrapper)(q, k, v, o, lse, do)
    assert lse.max() < -90
    assert gradient_error((q, k, v, do), result, causal=False) <= 1


@pytest.mark.parametrize("diagonal", [20, 64, 300, -70])
@pytest.mark.parametrize(("module", "wrapper", "head_dim"), WRAPPERS)
def test_any_diagonal_hides_what_it_hides_in_seven_matmuls(module, wrapper, head_dim, diagonal):
    """Even all of a program's keys, or no key outside."""
    torch.manual_seed(0)
    q, do = torch.randn(2, 1, 2, 130, head_dim).half()
    k, v = torch.randn(2, 1, 2, 300, head_dim).half()
    with interpreter_fidelity():
        o, lse = flash_attention(q, k, v, causal=True, diagonal=diagonal)
        right = flash_attention_backward(q, k, v, o, lse, do, causal=True, diagonal=diagonal)
        result = on_cpu(module, wrapper)(q, k, v, o, lse, do, causal=True, diagonal=diagonal)
    for ours, theirs in zip(result, right, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=2e-2)


READY = "mbarrier.wait(ds_full.index(turn % 2), turn // 2 & 1)"
FREE = "mbarrier.wait(ds_empty.index(turn % 2), turn // 2 & 1 ^ 1)"
BROKEN = [
    ("_mine", "// at_once * (GROUPS * 64)", "* (GROUPS * 64)"),
    ("_mine", "first - diagonal) // 64 * 64", "first - diagonal + 64) // 64 * 64"),
    ("_mine", "item = whole + piece // pieces", "item = whole + piece"),
    ("_mine", "item % columns, item // columns,", "item // columns, item % columns,"),
    ("_mine", "pieces) * 64  # of a piece", "pieces + 1) * 64  # of a piece"),
    ("_mine", "start += piece % pieces * queries", "start = piece % pieces * queries"),
    ("_mine", "end = gl.minimum(end, start + queries)", "end = start + queries"),
    ("_leave", "part * WIDTH + dims", "dims"),
    ("_leave", "* (PARTS * WIDTH)", "* WIDTH"),
    ("_compute", "(piece * 4 + C)", "(piece * 4)"),
    ("_compute", "(piece * 4 + 2 + C)", "(piece * 4 + 2)"),
    ("_fetch", "kv_head * group + member", "kv_head * group"),
    ("_fetch", "first + c * 64, part", "first, part"),
    ("_fetch", "mbarrier.wait(empty.index(place), phase ^ 1)", "pass"),
    ("_fetch", "fetched // STAGES & 1", "fetched & 1"),
    ("_scores", "use_acc=part > 0", "use_acc=False"),
    ("_plus", "b_s.index(b * PARTS + part)", "b_s.index(b * PARTS)"),
    ("_dq", "use_acc=c > 0", "use_acc=False"),
    ("_dq", "turn % 2 * GROUPS + c", "turn % 2 * GROUPS"),
    ("_add_dq", READY, "pass"),
    ("_add_dq", "if part == PARTS - 1", "if part == 0"),
    ("_add_dq", "mbarrier.arrive(ds_empty.index(turn % 2), count=1)", "pass"),
    ("_add_dq", "(turn * PARTS + part) % 2", "part % 2"),
    ("_add_dq", "tma.store_wait(1)", "tma.store_wait(2)"),
    ("_add_dq", "part * WIDTH), place", "0), place"),
    ("_add_dq", "group + member", "group"),
    ("_add_dq", "mbarrier.arrive(done.index(0), count=1)", "pass"),
    ("_compute", "first += C * 64", "first += 0"),
    ("_seen", "mbarrier.wait(q_full.index(place), phase)", "pass"),
    ("_seen", "mbarrier.wait(do_full.index(place), phase)", "pass"),
    ("_seen", "s = warpgroup_mma_wait(PARTS, deps=(s,))", "s = warpgroup_mma_wait(PARTS + 1, deps=(s,))"),
    ("_compute", "start + 63 + diagonal < first", "start + diagonal < first"),
    ("_compute", "gl.where(first < kv_len, begin, end)", "end"),
    ("_compute", "MASKED, EDGE, APART, C, not APART", "False, EDGE, APART, C, not APART"),
    ("_seen", "<= queries[None, :], p", "< queries[None, :], p"),
    ("_seen", "(dp - delta[None, :])", "dp"),
    ("_seen", FREE, "pass"),
    ("_seen", "mbarrier.wait(ds_full.index(last % 2), last // 2 & 1)", "pass"),
    ("_seen", "_turned(row - 64,", "_turned(row,"),
    ("_turned", "row - padded", "0"),
    ("_fetch", "_turned(tile, first % padded,", "_turned(tile, 0,"),
    ("_compute", "_turned((end - 1) // 64 * 64,", "_turned(0,"),
    ("_seen", "mbarrier.arrive(empty.index(place), count=1)", "pass"),
    ("_seen", "dk = _waited(dk, 0, PARTS)", "dk = _waited(dk, PARTS, PARTS)"),
    ("_seen", "dq = warpgroup_mma_wait(PARTS, deps=(dq,))", "dq = warpgroup_mma_wait(PARTS + 1, deps=(dq,))"),
    ("_seen", "C * WIDTH), dq_s", "0), dq_s"),
    ("_seen", "tma.store_wait(0)", "pass"),
    ("_unseen", "gl.zeros([64, 64], ds_s.dtype, S_LAYOUT)", "gl.full([64, 64], 1.0, ds_s.dtype, S_LAYOUT)"),
    ("_unseen", FREE, "pass"),
    ("_unseen", "mbarrier.wait(q_full.index(place), turn // STAGES & 1)", "pass"),
    ("_mine", "LAUNCH == 2", "LAUNCH == 3"),
    ("_send_dq", "LAUNCH == 1", "LAUNCH == 3"),
    ("_dq_rows", "head *= padded", "pass"),
    ("_send_dq", "[0, 2, 1, 3]", "[0, 1, 2, 3]"),
    ("_unseen", "mbarrier.arrive(empty.index(place), count=1)", "pass"),
    ("_own_dq", "mbarrier.wait(barriers[1].index(turn % 2), turn // 2 & 1)", "pass"),
    ("_own_dq", "tma.store_wait(0)", "pass"),
    ("_compute", "turn - 1, at", "turn, at"),
    ("_compute", "dk[part] * sm_scale", "dk[part]"),
    ("_compute", "mbarrier.wait(done.index(0), 0)", "pass"),
    ("attention_backward_hopper_kernel", "mbarrier.init(ds_full.index(i), count=2)",
     "mbarrier.init(ds_full.index(i), count=1)"),
    ("attention_backward_hopper_kernel", "mbarrier.init(empty.index(i), count=2)",
     "mbarrier.init(empty.index(i), count=1)"),
]  # fmt: skip
BROKEN_WIDE = [
    ("_fetch", "kv_head * group + member", "kv_head * group"),
    ("_fetch", "mbarrier.wait(q_empty.index(place), fetched // STAGES & 1 ^ 1)", "pass"),
    ("_fetch", "mbarrier.wait(do_empty.index(place), fetched // DO_STAGES & 1 ^ 1)", "pass"),
    ("_fetch", "if fetched == before", "if fetched == before + 1"),
    ("_weights", "(q_empty.index(place), count=1)", "(q_empty.index(place), count=2)"),
    ("_weights", "row + diagonal < first + 63", "row + diagonal < first"),
    ("_weights", "<= queries[None, :], p", "< queries[None, :], p"),
    ("_weights", "mbarrier.wait(p_empty.index(0), turn & 1 ^ 1)", "pass"),
    ("_weights", "mbarrier.arrive(p_full.index(0), count=1)", "pass"),
    ("_slopes", "mbarrier.arrive(do_empty.index(place), count=1)", "pass"),
    ("_slopes", "mbarrier.wait(p_full.index(0), turn & 1)", "pass"),
    ("_slopes", "(dp - delta[None, :])", "dp"),
    ("_slopes", "mbarrier.arrive(p_empty.index(0), count=1)", "pass"),
    ("_slopes", FREE, "pass"),
    ("_slopes", "mbarrier.arrive(ds_full.index(turn % 2), count=1)", "pass"),
    ("_values", "(turn - before) % tiles * 64", "(turn - before) * 64"),
    ("_values", "mbarrier.wait(do_full.index(last), (turn - 1) // DO_STAGES & 1)", "pass"),
    ("_values", "mbarrier.wait(q_full.index(place), turn // STAGES & 1)", "pass"),
    ("_values", "dv = _waited(dv, PARTS, PARTS)", "dv = _waited(dv, 2 * PARTS, PARTS)"),
    ("_values", "mbarrier.arrive(do_empty.index(last), count=1)", "pass"),
    ("_values", "last = before - 1", "last = before"),
    ("_values", "mbarrier.arrive(done.index(0), count=1)", "pass"),
    ("_values", "mbarrier.wait(done.index(1), taken & 1)", "pass"),
    ("_keys", "mbarrier.wait(kept.index(1), seen & 1)", "pass"),
    ("_keys", "mbarrier.wait(kept.index(1), seen & 1)", "mbarrier.wait(kept.index(1), 0)"),
    ("_keys", "last = (turn - 1) % STAGES", "last = turn % STAGES"),
    ("_keys", "mbarrier.wait(do_full.index(place), turn // DO_STAGES & 1)", "pass"),
    ("_keys", "mbarrier.arrive(q_empty.index(last), count=1)", "pass"),
    ("_keys", "mbarrier.wait(done.index(0), taken & 1)", "pass"),
    ("_keys", "mbarrier.arrive(free.index(0), count=1)", "pass"),
    ("_keys", "mbarrier.wait(free.index(1), taken & 1 ^ 1)", "pass"),
    ("_keys", "mbarrier.arrive(q_empty.index(last % STAGES), count=1)", "pass"),
    ("_values", "mbarrier.arrive(free.index(1), count=1)", "pass"),
    ("_values", "mbarrier.arrive(do_empty.index(last % DO_STAGES), count=1)", "pass"),
    ("_values", "before += group * tiles", "before += tiles"),
    ("_fetch", "mbarrier.wait(free.index(0), taken & 1 ^ 1)", "pass"),
    ("_fetch", "mbarrier.wait(free.index(1), taken & 1 ^ 1)", "pass"),
    ("_keys", "dk[part] * sm_scale", "dk[part]"),
    ("_values", "piece * 2 + 1", "piece * 2"),
    ("_keys", "(piece * 2)", "(piece * 2 + 1)"),
    ("attention_backward_wide_kernel", "mbarrier.init(q_empty.index(i), count=2)",
     "mbarrier.init(q_empty.index(i), count=1)"),
    ("attention_backward_wide_kernel", "mbarrier.init(do_empty.index(i), count=2)",
     "mbarrier.init(do_empty.index(i), count=1)"),
    ("attention_backward_wide_kernel", "mbarrier.init(done.index(i), count=2 - i)",
     "mbarrier.init(done.index(i), count=1)"),
]  # fmt: skip
FAULTS = [("hopper", NARROW, *fault) for fault in BROKEN] + [("wide", WIDE, *fault) for fault in BROKEN_WIDE]


@pytest.mark.parametrize(("name", "shapes", "function", "old", "new"), FAULTS)
def test_one_thing_less_and_it_is_stuck_or_wrong(name, shapes, function, old, new):
    broken = edits.load(f"kernels.attention_backward_{name}", Edit(f"{old} {new}", function, old, new))
    tried = [(shape, causal, seed) for seed in range(8) for shape in shapes[:3] for causal in (True, False)]
    first = [(shapes[0], True, 0), (shapes[2], True, 1), (shapes[0], True, 2)]  # a kind each: they find most faults
    assert any(is_stuck_or_wrong(broken, *one) for one in sorted(tried, key=lambda one: one not in first))


def is_stuck_or_wrong(module, shape, causal: bool, seed: int, split: tuple[int, int] | None = None) -> bool:
    split = split or (WHOLE, (1, 3), (0, 7))[seed % 3]
    try:
        wide = hasattr(module, "attention_backward_wide")
        options = {"persistent": seed % 3 > 0} if wide else {"turned": seed % 4 > 1}
        return not worst(module, shape, causal, seed, split=split, stored=seed % 2 == 1, **options) <= 1
    except (Stuck, AssertionError):
        return True


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (attention_backward_hopper.attention_backward_hopper, 128),
        (attention_backward_wide.attention_backward_wide, 256),
    ],
)
def test_what_it_does_not_take_is_named(function, most):
    q = torch.zeros(1, 1, 8, most + 8).half()
    lse = torch.zeros(1, 1, 8)
    for wrong, named in (
        (q, f"head_dim {most + 8}"), (q[..., :60].contiguous(), "head_dim 60"), (q[..., 1:65], "strides"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=named):
            function(wrong, wrong, wrong, wrong, lse, wrong)
    whole = torch.zeros(1, 1, 8, 64)
    with pytest.raises(ValueError, match="float32"):
        function(whole, whole, whole, whole, lse, whole)
