"""The causes of differences, by bugs that are in no list, in renamed kernels; and right kernels that are not blamed."""

from __future__ import annotations

import re

import pytest

from explain.difference.compare import first_difference
from kernels.catalog import KERNELS
from kernels.edits import Edit, source_of
from tests.explain.test_difference import HEADS, ROWS, traced

CAUSAL = {**HEADS, "causal": True}
GROUPS = {**HEADS, "kv_heads": 1}
PARTS = {**HEADS, "seq_len": 2, "kv_len": 24, "splits": 3}
CROSS = {"tokens": 4, "vocab": 10, "dim": 16, "block_m": 2, "block_n": 4, "block_d": 16}
NAMES = {
    "p": "weights", "s": "logits", "dp": "grad_w", "ds": "grad_s", "delta": "inner", "lse": "total", "q": "ask",
    "k": "key", "v": "val", "do": "up", "o": "out", "dq": "g_ask", "dk": "g_key", "dv": "g_val", "rows": "mine",
    "cols": "theirs", "visible": "allowed", "start": "at0", "at_q": "here", "head": "number", "begin": "from_row",
    "m_i": "top", "l_i": "mass", "acc": "sum_o", "m_new": "higher", "m_safe": "shift", "alpha": "shrink",
    "beta": "grow", "lse_j": "part_total", "o_j": "part_o", "split": "share", "first": "begin_at", "last": "end_at",
    "x": "scores", "dh": "g_h", "dx": "g_x", "h": "hidden", "w": "table", "row": "line",
}  # fmt: skip


def renamed(kernel: str, function: str, old: str, new: str) -> tuple[Edit, int]:
    """The edit that renames the variables of a function and breaks it, and the line of the bug, 0 without one."""
    source = source_of(KERNELS[kernel].module)
    start = source.index(f"def {function}(")
    whole = source[start : source.index("\n\n\n", start)]
    head, colon, body = whole.partition("):")
    assert not old or body.count(old) == 1, f"{old} is there {body.count(old)} times"
    line = source[: source.index(whole) + len(head + colon) + body.index(old)].count("\n") + 1 if old else 0
    body = body.replace(old, new) if old else body
    for name, other in NAMES.items():
        if re.search(rf"\b{name}\b", head):
            continue
        body = re.sub(rf"(?<![.\w]){name}\b(?!=)", other, body)
    return Edit(f"mine{abs(hash((function, old, new)))}", function, whole, head + colon + body), line


PLANTED = [
    # kernel, function, sizes, inputs, old, new, what the cause must say
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", HEADS, "normal",
     "dp - delta", "dp + delta", "is added, not subtracted"),
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", HEADS, "normal",
     "dq * sm_scale", "dq * sm_scale * sm_scale", "factor `sm_scale` is there twice"),
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", HEADS, "normal",
     "dq * sm_scale", "dq / sm_scale", "divided by `sm_scale`, not multiplied"),
    ("flash_attention_backward", "flash_attention_backward_keys_kernel", CAUSAL, "normal",
     "(cols[None, :] <= rows[:, None] + diagonal)", "(cols[None, :] > rows[:, None] + diagonal)", "wrong side"),
    ("flash_attention_backward", "flash_attention_backward_keys_kernel", CAUSAL, "normal",
     "(cols[None, :] <= rows[:, None] + diagonal)", "(cols[None, :] <= rows[:, None] + diagonal + 2)", "off by 2"),
    ("flash_attention_backward", "flash_attention_backward_keys_kernel", HEADS, "normal",
     "dk = dk + tl.dot(", "dk = tl.dot(", "so far is not added"),
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", HEADS, "normal",
     "head // group * kv_len", "(1 - head // group) * kv_len", "another value of `head`: 1 in place of 0"),
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", GROUPS, "normal",
     "tl.dot(q, tl.trans(k)", "tl.dot(do, tl.trans(k)", "`up` in place of `q`"),
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", HEADS, "normal",
     "p = tl.where(visible, tl.exp(", "p = tl.where(visible, tl.exp2(", "base 2"),
    ("flash_attention_backward_atomic", "flash_attention_backward_atomic_kernel", HEADS, "normal",
     "tl.atomic_add(dq_sum_ptr", "tl.store(dq_sum_ptr", "stored to `dq_sum`, not added"),
    ("flash_attention_backward_atomic", "flash_attention_backward_atomic_kernel", CAUSAL, "normal",
     "tl.program_id(0) * BLOCK_N - diagonal", "(tl.program_id(0) + 1) * BLOCK_N - diagonal", "tl.program_id(0)"),
    ("flash_decoding", "flash_decoding_merge_kernel", PARTS, "normal",
     "o_j * beta[:, None]", "o_j", "factor β"),
    ("flash_decoding", "flash_decoding_merge_kernel", PARTS, "normal",
     "l_i * alpha + beta", "l_i * alpha + beta * beta", "`grow` is multiplied with `beta`, and should not be"),
    ("flash_decoding", "flash_decoding_part_kernel", PARTS, "normal",
     "first = split * tiles // splits", "first = split * tiles // splits + 1", "`begin_at` is 1 too large"),
    ("flash_decoding", "flash_decoding_part_kernel", PARTS, "normal",
     "tiles = tl.cdiv(kv_len, BLOCK_N)", "tiles = kv_len // (BLOCK_N + 1)", "`tiles` is 2 too small"),
    ("cross_entropy_backward", "cross_entropy_dh_kernel", CROSS, "normal",
     "(p - tl.where(cols[None, :] == target[:, None], 1.0, 0.0))", "p",
     "the case `cols[None, :] == target[:, None]` is missing"),
    ("cross_entropy_backward", "cross_entropy_dh_kernel", CROSS, "normal",
     "tl.exp(x - lse[:, None])", "tl.exp(lse[:, None] - x)", "upside down"),
    ("softmax_split", "softmax_merge_kernel", ROWS, "normal",
     "l_i * alpha + l_j * beta", "l_i + l_j", "the factors"),
    ("softmax_tiled", "softmax_tiled_kernel", {**ROWS, "block_m": 2}, "normal",
     "y = tl.exp(x - m_i[:, None])", "y = tl.abs(x - m_i[:, None])", "in place of"),
]  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: f"{bug[0]}: {bug[5][:30]}")
def test_a_bug_in_a_renamed_kernel_has_its_cause(bug):
    kernel, function, sizes, inputs, old, new, cause = bug
    edit, line = renamed(kernel, function, old, new)
    found = first_difference(traced(kernel, sizes, inputs), traced(kernel, sizes, inputs, edit))
    assert found.wrong.line == line
    assert cause in found.cause


SAME = [
    ("flash_attention_backward", "flash_attention_backward_keys_kernel", CAUSAL, CAUSAL),
    ("flash_attention_backward", "flash_attention_backward_queries_kernel", GROUPS, {**GROUPS, "block_n": 8}),
    ("flash_attention_backward_atomic", "flash_attention_backward_atomic_kernel", CAUSAL, {**CAUSAL, "block_m": 8}),
    ("flash_decoding", "flash_decoding_merge_kernel", PARTS, {**PARTS, "splits": 2}),
    ("flash_decoding", "flash_decoding_part_kernel", PARTS, {**PARTS, "block_n": 8}),
    ("cross_entropy_backward", "cross_entropy_dh_kernel", CROSS, {**CROSS, "block_n": 8}),
]


@pytest.mark.parametrize(("kernel", "function", "sizes", "others"), SAME, ids=lambda value: str(value)[-30:])
def test_a_renamed_kernel_with_other_tiles_is_the_same(kernel, function, sizes, others):
    edit, _ = renamed(kernel, function, "", "")
    assert first_difference(traced(kernel, sizes), traced(kernel, others, edit=edit)) is None


def test_keys_from_the_last_to_the_first_give_the_same_gradient():
    function, last = "flash_attention_backward_queries_kernel", "(tl.cdiv(end, BLOCK_N) - 1) * BLOCK_N"
    edit, _ = renamed("flash_attention_backward", function, "cols = start + tl", f"cols = {last} - start + tl")
    runs = traced("flash_attention_backward", HEADS), traced("flash_attention_backward", HEADS, edit=edit)
    assert first_difference(*runs) is None
