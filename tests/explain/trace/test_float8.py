"""8-bit floats are converted as a GPU converts them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from explain.trace.recorder import record_call

FORMATS = [torch.float8_e4m3fn, torch.float8_e5m2]
LANES = 256


@triton.jit
def converts(x_ptr, wide_ptr, narrow_ptr, back_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    tl.store(wide_ptr + lanes, tl.load(x_ptr + lanes).to(wide_ptr.dtype.element_ty))
    tl.store(back_ptr + lanes, tl.load(narrow_ptr + lanes).to(back_ptr.dtype.element_ty))


def patterns(dtype):
    return torch.arange(LANES, dtype=torch.int32).to(torch.uint8).view(dtype)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("wide", [torch.float16, torch.bfloat16, torch.float32])
def test_every_pattern_is_the_number_that_it_is_and_comes_back(dtype, wide):
    given, result, back = patterns(dtype), torch.zeros(LANES, dtype=wide), torch.zeros(LANES, dtype=dtype)
    numbers = given.to(wide)
    record_call(lambda: converts[(1,)](given, result, numbers, back, LANES=LANES))
    assert torch.equal(result.nan_to_num(1e4, 2e4, -2e4), numbers.nan_to_num(1e4, 2e4, -2e4))
    finite = numbers.isfinite()
    assert torch.equal(back.view(torch.uint8)[finite], given.view(torch.uint8)[finite])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("wide", [torch.float16, torch.float32])
def test_ties_go_to_even_and_what_is_too_large_to_the_largest(dtype, wide):
    known = patterns(dtype).float()
    below, above = (known[i : i + 64].clone() for i in (8, 9))  # neighbours, positive
    ties = ((below + above) / 2).to(wide)
    largest = torch.finfo(dtype).max
    given = torch.cat([ties, torch.tensor([largest * 1.2, -np.inf, np.nan], dtype=wide).repeat(64)])
    result = torch.zeros(LANES, dtype=dtype)
    record_call(lambda: converts[(1,)](patterns(dtype), torch.zeros(LANES), given, result, LANES=LANES))
    even = torch.where(torch.arange(8, 72) % 2 == 0, below, above)
    assert torch.equal(result[:64].float(), even)
    assert result[64:67].float().nan_to_num(0.0).tolist() == [largest, -largest, 0.0]
    assert result[66].float().isnan()
