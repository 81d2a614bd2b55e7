"""Addresses at sizes that no machine here could hold: int32 offsets that wrap, accesses outside a tensor."""

from __future__ import annotations

from pathlib import Path

import pytest

from explain.trace.errors import BadTarget, TraceError
from explain.trace.sizes import Sizes, at_sizes

PROGRAM = """
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def row_kernel(x_ptr, y_ptr, cols, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < cols)
        tl.store(y_ptr + row * stride + at, 2 * x, mask=at < cols)

def rows(rows=8, cols=100, wide=False, device="cpu"):
    x = torch.randn(rows, cols, device=device)
    y = torch.empty_like(x)
    row_kernel[(rows,)](x, y, cols, x.stride(0), WIDE=wide, BLOCK=64)
    torch.testing.assert_close(y, 2 * x)

@triton.jit
def flat_kernel(x_ptr, index_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    x = tl.load(x_ptr + index * 1000)
    if MASKED:
        tl.atomic_add(x_ptr + at, x, mask=at < n)
    else:
        tl.store(x_ptr + at, x)

def flat(n=100, masked=True):
    flat_kernel[(triton.cdiv(n, 128),)](torch.zeros(n), torch.arange(n), n, MASKED=masked, BLOCK=128)

@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tiles_kernel(x, y_ptr, n, BLOCK: tl.constexpr):
    here = tl.program_id(0) * BLOCK
    tile = x.load([here, 0])
    block = tl.make_block_ptr(y_ptr, (n, n), (n, 1), (here, 0), (BLOCK, BLOCK), (1, 0))
    tl.store(block, tile + tl.dot(tile, tile).to(tl.float16), boundary_check=(0, 1))

def tiles(n=64):
    x = torch.randn(n, n, dtype=torch.float16)
    described = TensorDescriptor.from_tensor(x, [32, 32])
    tiles_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](described, torch.empty_like(x), n)

def asks(n=8):
    if torch.zeros(n).sum() > 0:
        rows(n)

def fails(n=8):
    row_kernel[(n,)](torch.zeros(n), torch.zeros(n), n, "no stride", WIDE=False, BLOCK=64)
"""


@pytest.fixture
def at(tmp_path: Path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    return lambda function, **sizes: at_sizes(tmp_path / "mine.py", function, sizes, lambda *said: None, 60)


def told(found: Sizes) -> list[tuple[str, str, int, tuple[int, int, int]]]:
    return [(one.sort, one.buffer, one.line, one.program) for one in found.findings]


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


LAST = (2**17 - 1, 0, 0)


def test_an_offset_that_wraps_only_at_the_larger_size_is_found_without_its_memory(at):
    assert told(at("rows", rows=2**17, cols=2**14)) == []  # the last element is 2³¹ − 1
    found = at("rows", rows=2**17, cols=2**14 + 1)
    load, store = line_of("x = tl.load(x_ptr + row"), line_of("tl.store(y_ptr + row")
    assert told(found) == [("wrapped", "x_ptr", load, LAST), ("wrapped", "y_ptr", store, LAST)]
    assert f"offset {(2**17 - 1) * (2**14 + 1):,}," in found.findings[0].words
    (launch,) = found.launches
    assert launch.grid == (2**17, 1, 1)
    assert launch.programs == ((0, 0, 0), LAST)
    assert launch.tensor_bytes == 2 * 4 * 2**17 * (2**14 + 1)


def test_its_right_twin_is_not_blamed_and_may_ask_for_a_gpu(at):
    assert told(at("rows", rows=2**17, cols=2**14 + 1, wide=True, device="cuda")) == []


def test_a_comparison_after_the_launches_ends_the_run_and_is_said(at):
    found = at("rows")
    assert "values" in found.stopped
    assert found.failure == ""


def test_the_end_of_a_tensor_is_checked_at_its_size_and_loaded_offsets_are_not(at):
    size = 2**33 + 1
    assert told(at("flat", n=size)) == []
    assert told(at("flat", n=size, masked=False)) == [
        ("outside", "x_ptr", line_of("tl.store(x_ptr + at, x)"), (2**26, 0, 0))
    ]


def test_descriptors_block_pointers_and_autotuned_kernels_run_without_memory(at):
    found = at("tiles", n=2**16)
    assert (told(found), found.failure, found.stopped) == ([], "", "")
    assert found.launches[0].grid == (2**11, 1, 1)


def test_what_a_kernel_or_its_caller_fails_at_is_said(at):
    assert at("fails").failure
    with pytest.raises(TraceError, match="values of its tensors"):
        at("asks")
    with pytest.raises(BadTarget, match="no parameter columns"):
        at("rows", columns=3)
