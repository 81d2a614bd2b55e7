"""The fast kernels that the interpreter can run pass the tests of the kernels they replace."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from explain.trace.fidelity import interpreter_fidelity
from kernels import decode, edits, reference, softmax_fast, softmax_lanes, softmax_parts, softmax_staged
from kernels.attention import flash_attention
from kernels.decode import flash_decode
from kernels.edits import Edit
from kernels.parameters import next_power_of_two
from kernels.softmax_fast import softmax_pipelined, softmax_rows, softmax_shared_row, softmax_two_reads
from kernels.topk_fast import softmax_topk_lanes
from tests.kernels.fast import FAST, experiments, verdict
from tests.kernels.gluon_on_cpu import Stuck, on_cpu
from tests.kernels.quick import quick

SOFTMAX = [
    lambda x: softmax_rows(x, block_m=4),
    softmax_pipelined,
    lambda x: softmax_two_reads(x, block_n=4, apart=2 * x.shape[1]),
    lambda x: softmax_shared_row(x, block_n=16),
]
RAGGED = {
    "rows": lambda module: lambda x: module.softmax_rows(x, block_m=4),
    "two_reads": lambda module: lambda x: module.softmax_two_reads(x, block_n=64, apart=2 * x.shape[1]),
    "shared_row": lambda module: lambda x: module.softmax_shared_row(x, block_n=next_power_of_two(x.shape[1] + 7)),
}
NAMES = ["rows", "pipelined", "two_reads", "shared_row"]
every_softmax = pytest.mark.parametrize("softmax", SOFTMAX, ids=NAMES)
with_lanes = pytest.mark.parametrize(
    "softmax", [*SOFTMAX, lambda x: softmax_lanes.softmax_lanes(x, lanes=8, warps=1)], ids=[*NAMES, "lanes"]
)


@pytest.mark.parametrize("name", FAST)
def test_every_seventh_experiment_of_the_grid(name):
    with interpreter_fidelity():
        missed = [
            (e.key, v) for e in quick(experiments(name, 7)) if not (v := verdict(name, e, "cpu")).within_tolerance
        ]
    assert not missed


@with_lanes
def test_a_masked_row_is_zeros_and_a_nan_spoils_its_row_alone(softmax):
    x = torch.randn(5, 11)
    x[0] = -math.inf
    x[2, 9] = math.nan
    y = softmax(x)
    assert torch.equal(y[0], torch.zeros(11))
    assert y[2].isnan().all()
    torch.testing.assert_close(y[[1, 3, 4]], torch.softmax(x[[1, 3, 4]], dim=-1))


@every_softmax
def test_strides_are_respected(softmax):
    x = torch.randn(5, 10)
    torch.testing.assert_close(softmax(x), softmax(x.T.contiguous().T), rtol=1e-6, atol=0)  # other parts, other sums


@with_lanes
def test_a_stride_past_2_to_the_31_elements(softmax):
    x = torch.empty(2**31 + 64, dtype=torch.float16).as_strided((2, 8), (2**31, 1))
    x.copy_(torch.randn(2, 8))
    assert torch.equal(softmax(x)[1], softmax(x.clone().contiguous())[1])


def test_equal_weights_are_listed_from_the_left_whatever_lane_has_them():
    x = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0, -0.0, 3.0, 3.0, 0.0, 1.0]])
    _, index = softmax_topk_lanes(x, k=9, block_n=4)
    assert index[0].tolist() == reference.softmax_topk(x.numpy(), 9)[1][0].tolist() == [1, 2, 4, 6, 7, 0, 9, 3, 5]


def test_what_does_not_fit_is_named():
    x = torch.randn(2, 40)
    with pytest.raises(ValueError, match="block_n=32"):
        softmax_rows(x, block_n=32)
    with pytest.raises(ValueError, match="3 parts"):
        softmax_shared_row(x, block_n=16)
    with pytest.raises(ValueError, match="x of strides"):
        softmax_lanes.softmax_lanes(x.T)
    with pytest.raises(ValueError, match="vector=4: 2 rows of 41 from this address are no whole vectors"):
        softmax_lanes.softmax_lanes(torch.randn(2, 41), lanes=16, vector=4, warps=1)
    with pytest.raises(ValueError, match="x of 20 columns, strides"):
        softmax_parts.softmax_parts(x[:, ::2])
    with pytest.raises(ValueError, match="part=64: a row of 400 has 4 parts"):
        softmax_parts.softmax_parts(torch.randn(2, 400), part=64, warps=1)
    with pytest.raises(ValueError, match="k=33"):
        softmax_topk_lanes(x, k=33)
    q, kv = torch.randn(1, 2, 257, 16), torch.randn(1, 2, 8, 16)
    with pytest.raises(ValueError, match="q has 257 queries"):
        flash_decode(q, kv, kv)


def ragged(dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Rows that start anywhere, between larger neighbours: contiguous, in a wider matrix, and after an odd start."""
    torch.manual_seed(0)
    for cols in (1, 3, 7, 8, 13, 17, 31, 33, 47, 383, 767):
        x = (torch.randn(5, cols) + 50.0 * torch.arange(5)[:, None].remainder(2)).to(dtype)
        wider = torch.full((5, cols + 16 - cols % 8), 300.0, dtype=dtype)
        wider[:, :cols] = x
        shifted = torch.full((5 * cols + 3,), 300.0, dtype=dtype)
        shifted[3:] = x.flatten()
        yield from (x, wider[:, :cols], shifted[3:].view(5, cols))


def some_are_wrong(softmax: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> bool:
    """Whether it gets one of the ragged matrices wrong."""
    rtol = {torch.float32: 1e-5, torch.float16: 2e-3}.get(dtype, 8e-3)
    for x in ragged(dtype):
        before = x.clone()
        try:
            y = softmax(x).double()
        except (IndexError, Stuck):  # the stand-in for a GPU: an address outside the matrix, or no end
            return True
        right = torch.softmax(before.double(), dim=-1)
        if not torch.allclose(y, right, rtol=rtol, atol=1e-7) or not torch.equal(x, before):
            return True
    return False


def taking(module: ModuleType, run: Callable[..., Any], **options: int) -> Callable[[torch.Tensor], Any]:
    """What the module's kernel refuses is another's."""
    return lambda x: torch.softmax(x.float(), -1).to(x.dtype) if module.refusal(x) else run(x, **options)


def lanes(module: ModuleType = softmax_lanes, seed: int = 0) -> Callable[[torch.Tensor], Any]:
    """By the usual lanes and vectors, and where the rows are one span by 8 rows a program and vectors of 4."""

    def run(x: torch.Tensor) -> torch.Tensor:
        few = {"lanes": 4, "vector": 4} if x.is_contiguous() and x.data_ptr() % 16 == 0 and x.shape[1] >= 4 else {}
        return module.softmax_lanes(x, warps=1, **few)

    return run


def staged(module: ModuleType = softmax_staged, seed: int = 0) -> Callable[[torch.Tensor], Any]:
    return taking(module, on_cpu(module, "softmax_staged", seed), warps=1)


def parts(module: ModuleType = softmax_parts, seed: int = 0) -> Callable[[torch.Tensor], Any]:
    """A row in one or two parts."""
    run = on_cpu(module, "softmax_parts", seed, together="softmax_parts_kernel")
    return lambda x: taking(module, run, part=768 * x.element_size(), warps=1)(x)


MODULES = {"lanes": (softmax_lanes, lanes), "staged": (softmax_staged, staged), "parts": (softmax_parts, parts)}
"""Kernels in modules of their own, and what runs them here; Gluon runs on a model of a GPU."""


def softmax_of(name: str, module: ModuleType | None = None) -> Callable[[torch.Tensor], Any]:
    """The kernel of its module, or of a broken one."""
    own, run = MODULES.get(name, (softmax_fast, RAGGED.get(name)))
    assert run
    return run(module or own)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*RAGGED, *MODULES])
def test_rows_that_start_anywhere(name, dtype):
    with interpreter_fidelity():
        assert not some_are_wrong(softmax_of(name), dtype)


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_row_wait_for_each_other_in_any_order(seed):
    x = torch.randn(4, 1003)
    torch.testing.assert_close(parts(seed=seed)(x), torch.softmax(x, dim=-1))


@pytest.mark.parametrize("seed", range(5))
def test_the_next_call_waits_for_its_own_pairs(seed):
    """A second and a third call find what the one before left."""
    x = torch.randn(4, 1003)
    run: Any = on_cpu(softmax_parts, "softmax_parts", seed, together="softmax_parts_kernel")
    launch = run.prepare(x, part=768 * 4, warps=1)
    for _ in range(3):
        x.normal_()
        x[3, 0] = math.nan  # whose sum is NaN, of either sign
        y = launch(x)
        torch.testing.assert_close(y[:3], torch.softmax(x[:3], dim=-1))
        assert y[3].isnan().all()


@pytest.mark.parametrize("softmax", [staged(), parts()], ids=["staged", "parts"])
def test_a_row_of_minus_infinity_is_zeros_and_a_nan_spoils_its_row_alone(softmax):
    x = torch.randn(4, 1001)
    x[0], x[2, 1000], x[3, :800] = -math.inf, math.nan, -math.inf
    y = softmax(x)
    assert torch.equal(y[0], torch.zeros(1001))
    assert y[2].isnan().all()
    torch.testing.assert_close(y[[1, 3]], torch.softmax(x[[1, 3]], dim=-1))


@pytest.mark.parametrize("softmax", [lanes(), staged(), parts()], ids=["lanes", "staged", "parts"])
def test_a_row_of_the_smallest_numbers_is_uniform(softmax):
    """A mask of the smallest number, not of −∞, on all of a row: its product with log2 e overflows."""
    x = torch.full((2, 801), torch.finfo(torch.float32).min)
    x[1, 7] = torch.finfo(torch.float32).max
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=-1))


BROKEN = [
    ("rows", "_load", "cols // VECTOR * VECTOR < hi", "cols < hi - VECTOR"),
    ("rows", "_load", "(cols >= lo) & (cols < hi), x", "cols < hi, x"),
    ("rows", "_load", "(cols >= lo) & (cols < hi), x", "cols >= lo, x"),
    ("rows", "_in_whole_vector", "(vector >= lo)", "(vector >= 0)"),
    ("rows", "_edges", "hi // VECTOR * VECTOR + lanes - VECTOR", "lanes - VECTOR"),
    ("rows", "softmax_rows_kernel", "lanes // (2 * VECTOR)\n        lo", "lanes // VECTOR\n        lo"),
    ("rows", "softmax_rows_kernel", "tl.gather(m_i, own_row, 0)", "tl.gather(m_i, own_row * 0, 0)"),
    ("rows", "vectors", "(x.stride(0) - y.stride(0)) * x.element_size()", "x.element_size() * 8"),
    ("two_reads", "_store_edges", "tl.exp(x - m_i) / l_i", "tl.exp(x - m_i)"),
    ("two_reads", "softmax_two_reads_kernel", "(first >= lo) & (first + BLOCK_N <= hi)", "first + BLOCK_N <= hi"),
    ("two_reads", "softmax_two_reads", "triton.cdiv(before + n_cols, block_n)", "triton.cdiv(n_cols, block_n)"),
    ("shared_row", "softmax_shared_row_kernel", "(row * stride_xm % VECTOR).to(tl.int32) if EDGES else 0", "0"),
    ("lanes", "softmax_lanes_kernel", "mask=vector + i * STEP < hi", "mask=cols + i * STEP < hi - VECTOR"),
    ("lanes", "softmax_lanes_kernel", "row[:, None] < rows_left, lo", "row[:, None] < rows_left - 1, lo"),
    ("lanes", "softmax_lanes_kernel", "l_lane += p", "l_lane = p"),
    ("lanes", "softmax_lanes_kernel", "tl.where(cols >= lo, x", "tl.where(cols >= 0, x"),
    ("lanes", "softmax_lanes_kernel", "cols + i * STEP < hi, x", "cols + i * STEP <= hi, x"),
    ("lanes", "softmax_lanes_kernel", "i >= FULL", "i > FULL"),
    ("lanes", "softmax_lanes_kernel", "i * STEP + VECTOR <= hi", "i * STEP + 2 * VECTOR <= hi"),
    ("lanes", "softmax_lanes_kernel", "tl.gather(m_i, next_row, 0)", "tl.gather(m_i, row, 0)"),
    ("lanes", "softmax_lanes_kernel", "tl.gather(inverse, next_row, 0)", "tl.gather(inverse, row, 0)"),
    ("lanes", "softmax_lanes_kernel", "[None, :] < mine", "[None, :] < mine - 1"),
    ("lanes", "softmax_lanes_kernel", "if rows_left <= BLOCK_M:", "if rows_left < 0:"),
    ("lanes", "softmax_lanes", "edges * (vector - 1)", "0"),
    ("parts", "softmax_parts_kernel", "(cols >= lo) & (cols < hi), x_s", "cols < hi, x_s"),
    ("parts", "softmax_parts_kernel", "(start < lo) | (start + TILE > hi)", "start < lo"),
    ("parts", "softmax_parts_kernel", "own & (at >= first) & (at < first + TILES * TILE)", "own & (at < 0)"),
    ("parts", "softmax_parts_kernel", "pairs_ptr += row * n_parts", "pairs_ptr += row"),
    ("parts", "softmax_parts_kernel", "first = part * (TILES * TILE)", "first = part * TILE"),
    ("parts", "softmax_parts_kernel", "wait_group(TILES - 1 - i)", "wait_group(TILES - i)"),
    ("parts", "softmax_parts_kernel", "gl.maximum(m_own, gl.max(x, axis=1))", "gl.max(x, axis=1)"),
    ("parts", "softmax_parts_kernel", "l_own = l_own * gl.exp2((m_own - m_safe) * log2_e)", "l_own = l_own"),
    ("parts", "softmax_parts_kernel", "gl.sum(l_own * gl.exp2((m_own - m_safe) * log2_e)", "gl.sum(l_own"),
    ("parts", "_joined", "l_j * gl.exp2", "gl.exp2"),
    ("parts", "_joined", "!= 0:", "> 1:"),
    ("staged", "softmax_staged_kernel", "i == 0 or i >= TILES - 2", "i == 0 or i >= TILES - 1"),
    ("staged", "softmax_staged_kernel", "i == 0 or i >= TILES - 2", "i >= TILES - 2"),
    ("staged", "softmax_staged_kernel", "mask=vector < hi", "mask=vector + VECTOR < hi"),
    ("staged", "softmax_staged_kernel", "mask=own_vector", "mask=i * TILE + lanes < hi - VECTOR"),
    ("staged", "softmax_staged_kernel", "_in_whole_vector(at, lo, hi, VECTOR) == 0", "at >= VECTOR"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "old", "new"), BROKEN)
def test_one_thing_wrong_with_the_edges_and_rows_are_too(name, function, old, new):
    own, _ = MODULES.get(name, (softmax_fast, None))
    broken = edits.load(own.__name__, Edit(f"{name} {old} {new}", function, old, new))
    softmax = softmax_of(name, broken)
    with interpreter_fidelity():
        assert any(some_are_wrong(softmax, dtype) for dtype in (torch.float32, torch.bfloat16))


def test_rows_compile_for_a_hopper_gpu_with_the_widest_loads_and_spill_hardly_anything(compile_workers):
    printed = compile_workers.call({"script": "tests.kernels.compile_softmax", "arguments": []})["printed"]
    launches = [json.loads(line) for line in printed.splitlines()]
    few = {"4 B stored, 4 B loaded", "8 B stored, 8 B loaded"}  # a register or two, of fp32 rows in 16 tiles
    assert {one["spills"] for one in launches} <= {"none", *few}
    lanes = [one["bits"] for one in launches if one["kernel"] == "softmax_lanes_kernel"]
    assert lanes == [[64, 128], [32, 128], [32], [64], [128], [32], [32], [64], [128]]
    parts = [one for one in launches if one["kernel"] == "softmax_parts_kernel"]
    assert len(parts) == 4
    assert all(one["copies"] for one in parts)


DECODE_BROKEN = [
    ("flash_decode_kernel", "rows % seq_len", "rows // seq_len"),
    ("flash_decode_kernel", "kv_head * group + rows // seq_len", "kv_head * group"),
    ("flash_decode_kernel", "queries[:, None] + diagonal", "queries[:, None]"),
    ("flash_decode_kernel", "tl.program_id(1) % m_tiles * BLOCK_M + lanes", "lanes"),
    ("flash_decode_kernel", "kv_head * group + row // seq_len", "kv_head * group"),
    ("flash_decode_kernel", "tl.program_id(1) % m_tiles * BLOCK_M + joined", "joined"),
    ("flash_decode_kernel", "(batch * kv_heads * group + head) * seq_len + query", "query"),
    ("_joined", "acc * alpha[:, None]", "acc"),
    ("_joined", "l_i * alpha", "l_i"),
    ("_joined", "m_i = m_new", "m_i = m_i"),
    ("_joined", "(part + others)", "part"),
]


@pytest.mark.parametrize(("function", "old", "new"), DECODE_BROKEN)
def test_a_few_queries_with_one_thing_wrong(function, old, new, monkeypatch):
    broken = edits.load("kernels.decode", Edit(f"{old} {new}", function, old, new))
    q, k, v = torch.randn(1, 4, 9, 16), torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16)
    for module in (decode, broken):
        monkeypatch.setattr(module, "JOINED", 1)  # part by part, so that a maximum grows between parts
    with interpreter_fidelity():
        right, wrong = (
            module.flash_decode(q, k, v, causal=True, splits=3, block_m=16, block_n=16) for module in (decode, broken)
        )
    o, lse = flash_attention(q, k, v, causal=True)
    torch.testing.assert_close(right, (o, lse), rtol=1e-4, atol=1e-5)
    assert not all(torch.allclose(one, other, rtol=1e-3) for one, other in zip(wrong, (o, lse), strict=True))
