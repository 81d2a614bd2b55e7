"""Recorded values are the very bits the kernel had, whatever the dtype; bf16 and NaN as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from explain.trace.fidelity import bf16_to_f32, f32_to_bf16, f64_to_bf16, interpreter_fidelity
from explain.trace.model import Affine, Tile
from explain.trace.recorder import record_call
from tests.explain.trace import sample_kernels as kernels

floats = st.floats(width=32)


def recorded(trace, name):
    return trace.history(name)[-1][1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_recorded_bits_are_the_stored_ones(dtype):
    x = torch.randn(64, dtype=torch.float64).to(dtype)
    x[3], x[5], x[7] = float("inf"), -0.0, 1e-40
    s, p = torch.empty(64, dtype=torch.float64), torch.empty(64, dtype=torch.float64)
    trace = record_call(lambda: kernels.store_everything[(1,)](x, s, p, BLOCK=64))
    loaded = recorded(trace, "x")
    name = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}[dtype]
    assert loaded.dtype == name
    bits = {2: torch.uint16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    assert loaded.bits.tobytes() == x.view(bits).numpy().tobytes()
    for name, stored in (("s", s), ("p", p)):
        assert np.array_equal(recorded(trace, name).numpy().astype(np.float64), stored.numpy(), equal_nan=True)


def test_nothing_is_changed_after_it_was_recorded():
    # `>>` and a reversed scan are where the interpreter writes to arrays it already has
    u = torch.tensor([1, 2, 3, 2**31], dtype=torch.uint32)
    out = torch.zeros(4, dtype=torch.uint32)
    trace = record_call(lambda: kernels.shifts[(1,)](u, out, BLOCK=4))
    assert recorded(trace, "u").dtype == "u32"
    assert recorded(trace, "u").numpy().tolist() == u.tolist()
    assert recorded(trace, "half").numpy().tolist() == [0, 1, 1, 2**30]
    total = [2**31 + 6, 2**31 + 5, 2**31 + 3, 2**31]
    assert recorded(trace, "backwards").numpy().tolist() == total


def test_bf16_is_computed_as_a_gpu_does():
    torch.manual_seed(0)
    x, y = (torch.randn(256).bfloat16() for _ in range(2))
    out = torch.empty_like(x)
    trace = record_call(lambda: kernels.bf16_arithmetic[(1,)](x, y, out, BLOCK=256))

    def same(name, expected):
        assert recorded(trace, name).numpy().tolist() == expected.float().tolist()

    same("added", x + y)
    same("multiplied", x * y * 2)
    same("larger", torch.maximum(x, y))
    same("less", (x < y))
    same("chosen", torch.where((x < y) & (x > 0), x + y, x * y * 2))
    same("largest", x.max())
    same("clamped", x.clamp(-0.5, 0.5))
    same("negated", -x)
    same("whole", torch.arange(256).bfloat16())
    assert recorded(trace, "total").numpy() == pytest.approx(x.float().sum().bfloat16().item())
    assert recorded(trace, "count").numpy() == pytest.approx(x.float().sum().bfloat16().item())
    assert recorded(trace, "running").numpy() == pytest.approx(x.float().cumsum(0).numpy(), rel=1e-6)
    assert torch.equal(out, torch.where((x < y) & (x > 0), x + y, x * y * 2))


def test_bf16_matrix_product():
    a, b = (torch.randn(16, 16).bfloat16() for _ in range(2))
    c = torch.empty(16, 16)
    with interpreter_fidelity():
        kernels.matmul[(1,)](a, b, c, N=16)
    assert c.numpy() == pytest.approx((a.double() @ b.double()).numpy(), rel=1e-5, abs=1e-5)


def test_bf16_atomic_add_goes_lane_by_lane():
    x = torch.tensor([256.0, 1.0, 1.0, 1.0]).bfloat16()
    total = torch.zeros(1).bfloat16()
    trace = record_call(lambda: kernels.bf16_atomic[(1,)](x, total, BLOCK=4))
    assert total.item() == 256  # each 1 is below half of the last bit
    assert recorded(trace, "before").numpy().tolist() == [0, 256, 256, 0]


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_bf16_blocks_are_padded_with_nan():
    x, y = torch.ones(6, 12).bfloat16(), torch.zeros(6, 12).bfloat16()
    trace = record_call(lambda: kernels.block_pointers[(1,)](x, y, 6, 12, BLOCK=8))
    tile = recorded(trace, "tile").numpy()
    assert (np.isnan(tile), (tile == 1).sum()) == (pytest.approx(~(tile == 1)), 6 * 4)
    assert torch.equal(y, 2 * x)


def test_nan_loses_a_maximum_unless_told_to_propagate():
    x, out = torch.tensor([float("nan")]), torch.zeros(1)
    trace = record_call(lambda: kernels.nan_rules[(1,)](x, out))
    found = {name: float(recorded(trace, name).numpy()) for name in ("number", "least", "clamped")}
    assert found == {"number": 1.0, "least": 1.0, "clamped": -1.0}
    assert np.isnan(recorded(trace, "kept").numpy())


@given(floats)
def test_rounding_to_bf16_is_torchs(value):
    bits = f32_to_bf16(np.array([value], np.float32))
    expected = torch.tensor([value]).bfloat16()
    assert np.array_equal(bf16_to_f32(bits), expected.float().numpy(), equal_nan=True)


@given(st.floats(-3e38, 3e38))
def test_rounding_from_float64_goes_to_the_nearest(value):
    (bits,) = f64_to_bf16(np.array([value]))
    near = bf16_to_f32(((int(bits) + np.arange(-1, 2)) % 2**16).astype(np.uint16)).astype(np.float64)
    distances = np.abs(near - value)
    assert distances[1] == np.nanmin(distances)
    if np.count_nonzero(distances == distances[1]) > 1 and value:
        assert bits % 2 == 0


def test_rounding_from_float64_happens_once():
    just_above_a_tie = 1 + 2**-8 + 2**-30  # a tie, once it was rounded to float32
    assert bf16_to_f32(f64_to_bf16(np.array([just_above_a_tie]))) == 1 + 2**-7


@pytest.mark.parametrize("bits", [0x7F800001, 0xFFC00000, 0x7FBFFFFF])
def test_no_nan_becomes_a_number_in_bf16(bits):
    nan = np.array([bits], np.uint32).view(np.float32)
    assert np.isnan(bf16_to_f32(f32_to_bf16(nan)))
    with np.errstate(invalid="ignore"):  # a signalling NaN says so when it is converted
        assert np.isnan(bf16_to_f32(f64_to_bf16(nan.astype(np.float64))))


@given(st.integers(-(2**40), 2**40), st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=3), st.data())
def test_affine_tiles_are_what_they_describe(base, strides, data):
    shape = tuple(data.draw(st.integers(1, 5)) for _ in strides)
    tile = Affine("i64", shape, base, tuple(strides)).numpy()
    for index in np.ndindex(shape):
        assert tile[index] == base + sum(i * stride for i, stride in zip(index, strides, strict=True))


def test_bf16_tiles_decode_exactly():
    every = np.arange(2**16, dtype=np.uint16)
    decoded = Tile("bf16", (2**16,), every).numpy()
    expected = torch.from_numpy(every.view(np.int16)).view(torch.bfloat16).float().numpy()
    assert np.array_equal(decoded, expected, equal_nan=True)
