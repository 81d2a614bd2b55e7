"""Keys shared evenly among programs: the Hopper kernel on a model of its GPU, and the kernel that joins the parts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import attention_hopper, attention_split, dispatch, edits
from kernels.attention import _Call
from kernels.attention_split import flash_attention_split
from kernels.edits import Edit
from tests.kernels.gluon_on_cpu import Stuck, on_cpu

SHAPES = (  # batch, heads, heads of keys, queries, keys, head_dim, groups
    (1, 3, 3, 70, 400, 64, 1),
    (2, 6, 2, 40, 300, 72, 2),
    (1, 8, 2, 5, 97, 24, 1),
    (2, 4, 1, 50, 300, 16, 3),
    (1, 2, 1, 90, 257, 128, 3),
    (2, 3, 1, 60, 321, 136, 2),
    (1, 4, 4, 1, 33, 256, 1),
)


def inputs(shape) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys of very different sizes, so that a part's maximum is not another's."""
    batch, heads, kv_heads, seq_len, kv_len, head_dim = shape
    torch.manual_seed(0)
    q = torch.randn(batch, heads, seq_len, head_dim).half()
    k, v = torch.randn(2, batch, kv_heads, kv_len, head_dim).half()
    k[:, :, ::3] *= 4
    if seq_len > 50:  # by rows
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    return q, k, v


def right(q, k, v, causal) -> tuple[torch.Tensor, torch.Tensor]:
    group = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group, dim=1) for x in (k, v))
    s = q.double() @ k.mT * q.shape[3] ** -0.5
    if causal:
        s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(k.shape[2] - q.shape[2]), -torch.inf)
    return torch.softmax(s, dim=-1) @ v, s.logsumexp(-1)


def is_right(shape, causal: bool, seed: int) -> bool:
    q, k, v = inputs(shape[:6])
    attention = on_cpu(attention_split, "flash_attention_split", seed)
    with interpreter_fidelity():
        o, lse = attention(q, k, v, causal=causal, groups=shape[6])
    expected, expected_lse = right(q, k, v, causal)
    return torch.allclose(o.double(), expected, rtol=1e-2, atol=2e-3) and torch.allclose(
        lse.double(), expected_lse, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_shares_that_end_within_a_tile_are_joined(shape, causal):
    assert is_right(shape, causal, 0)


BROKEN = [
    ("attention_hopper", "_share", "share * each + gl.minimum(share, more)", "share * each"),
    ("attention_hopper", "_first_tile", "gl.cdiv(end, visits) - begin // visits", "end // visits - begin // visits"),
    ("attention_hopper", "_this_tile_and_the_next", "found = tile, tile + m_tiles", "found = tile, tile + 1"),
    ("attention_hopper", "_visits", "gl.minimum(end - others, visits)", "visits"),
    ("attention_hopper", "_visits", "gl.maximum(begin - others, 0)", "0"),
    ("attention_hopper", "_visits", "if CAUSAL and not SPLIT:", "if CAUSAL:"),
    ("attention_hopper", "_query", "rows % queries", "rows + 0"),
    ("attention_hopper", "_compute", "(0 if SPLIT else row)", "row"),
    ("attention_hopper", "_compute", "this % m_tiles * slots", "this % m_tiles"),
    ("attention_hopper", "_compute", "gl.program_id(0) // m_tiles + this", "this"),
    ("attention_hopper", "_compute", "* (GROUPS * 64) + C * 64", "* (GROUPS * 64)"),
    ("attention_hopper", "_compute", "at * (FIRST + REST) + part * FIRST", "at * (FIRST + REST)"),
    ("attention_hopper", "_store_part", "rows[:, None] * WIDTH", "rows[:, None] * o.shape[1]"),
    ("attention_hopper", "_store_part", "rows < rows_left", "rows < rows_left - 1"),
    ("decode", "_share_of", "more + (visit - more", "(visit - more"),
    ("decode", "join_parts_kernel", "_share_of((head + 1) * visits - 1,", "_share_of((head + 1) * visits - 2,"),
    ("decode", "join_parts_kernel", "first + head).to", "first).to"),
    ("decode", "join_parts_kernel", "start // BLOCK_M * slots + first", "first"),
    ("decode", "join_parts_kernel", "start % BLOCK_M + lanes", "lanes"),
    ("decode", "join_parts_kernel", "head.to(tl.int64) * rows + row", "row"),
    ("decode", "pack_rows_kernel", "head // heads * stride_qb + head", "head"),
    ("decode", "pack_rows_kernel", "row % seq_len", "row // seq_len"),
    ("decode", "_joined", "theirs[:, :, None] * WIDTH", "theirs[:, :, None] * HEAD_DIM"),
]


@pytest.mark.parametrize(("module", "function", "old", "new"), BROKEN)
def test_one_thing_wrong_and_some_result_is_too(module, function, old, new, monkeypatch):
    broken = edits.load(f"kernels.{module}", Edit(f"{old} {new}", function, old, new))
    for kernel in ("flash_attention_hopper_kernel", "join_parts_kernel", "pack_rows_kernel"):
        if hasattr(broken, kernel):
            monkeypatch.setattr(attention_split, kernel, getattr(broken, kernel))
    assert any(is_stuck_or_wrong(shape, causal) for causal in (True, False) for shape in SHAPES)


def is_stuck_or_wrong(shape, causal) -> bool:
    try:
        return not is_right(shape, causal, 0)
    except (Stuck, AssertionError, IndexError):
        return True


@pytest.mark.parametrize(
    ("q", "kv_heads", "kv_len", "shares"),
    [
        ((1, 16, 137, 256), 16, 25444, True), ((3, 16, 103, 176), 16, 6799, True),
        ((8, 128, 18, 192), 128, 2936, False), ((2, 64, 241, 96), 64, 3699, False),
    ],
)  # fmt: skip
def test_keys_are_shared_where_whole_tiles_would_leave_sms_idle(q, kv_heads, kv_len, shares, monkeypatch):
    for module in (attention_split, attention_hopper):
        monkeypatch.setattr(module, "sms", lambda _: 132)
    queries = torch.empty(q, dtype=torch.half, device="meta")
    keys = torch.empty(q[0], kv_heads, kv_len, q[3], dtype=torch.half, device="meta")
    call = _Call.of(queries, keys, keys, False, None, None, 16, 16)
    assert (attention_split.time_of(queries, call) < attention_hopper.time_of(queries, call)) == shares


@pytest.mark.parametrize(
    ("q", "kv_heads", "kv_len", "by_rows", "kernel"),
    [
        ((1, 16, 137, 256), 16, 25444, True, "split"),
        ((2, 40, 59, 128), 40, 2425, False, "whole"),  # each SM has a head
        ((2, 28, 200, 128), 4, 10312, False, "split"),
        ((3, 64, 40, 128), 8, 2399, True, "split"),
        ((3, 112, 129, 88), 14, 3333, False, "packed"),
        ((6, 64, 9, 96), 64, 3707, False, "whole"),  # few rows, but more heads than SMs
        ((1, 16, 4, 128), 16, 9000, False, "decode"),
        ((1, 4, 2, 128), 1, 9000, False, "decode"),
    ],
)
def test_few_queries_go_to_the_kernel_that_takes_the_least_time(q, kv_heads, kv_len, by_rows, kernel, monkeypatch):
    batch, heads, rows, head_dim = q
    for module in (attention_split, attention_hopper, dispatch):
        monkeypatch.setattr(module, "sms", lambda _: 132)
    monkeypatch.setattr(dispatch, "is_hopper", lambda _: True)

    chosen = []

    def prepare(name):
        def noted(queries, *_, **__):
            chosen.append("packed" if name == "whole" and tuple(queries.shape) != q else name)

        return SimpleNamespace(prepare=noted)

    monkeypatch.setattr(attention_split, "flash_attention_split", prepare("split"))
    monkeypatch.setattr(attention_hopper, "flash_attention_hopper", prepare("whole"))
    monkeypatch.setattr(dispatch, "flash_decode", prepare("decode"))
    queries = torch.empty((batch, rows, heads, head_dim) if by_rows else q, dtype=torch.half, device="meta")
    keys = torch.empty(batch, kv_heads, kv_len, head_dim, dtype=torch.half, device="meta")
    dispatch.attention.prepare(queries.transpose(1, 2) if by_rows else queries, keys, keys)
    assert chosen == [kernel]


def test_what_it_does_not_take_is_named():
    q, k = torch.zeros(1, 2, 4, 64), torch.zeros(1, 2, 300, 64)
    with pytest.raises(ValueError, match="dtype torch"):
        flash_attention_split(q, k, k)
    with pytest.raises(ValueError, match="head_dim 60"):
        flash_attention_split(*(x[..., :60].half() for x in (q, k, k)))
