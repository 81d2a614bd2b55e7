"""Kernels mean in the tracer what they mean to Triton's compiler, and what it refuses is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from explain.trace.errors import Refused
from explain.trace.libdevice import function_of
from explain.trace.model import Scalar, Tile, numbers
from explain.trace.recorder import record_call
from tests.explain.trace import foreign_kernels as kernels

REFUSED = {  # arguments after y_ptr, the compiler's types of them, constants, the line counted from the def line
    "leaves_loop": ([4], {"n": "i32"}, {}, 2),  # at the `if`: both of its branches are compiled
    "skips": ([4], {"n": "i32"}, {}, 2),
    "has_dict": ([], {}, {}, 1),
    "changes_type": ([4], {"n": "i32"}, {}, 2),
    "changes_type_while": ([2], {"n": "i32"}, {}, 2),
    "between": ([2], {"n": "i32"}, {}, 1),
    "if_of_tile": ([], {}, {"BLOCK": 4}, 2),
    "uses_global": ([], {}, {}, 1),
    "sets_element": ([], {}, {"BLOCK": 4}, 2),
    "returns_in_loop": ([4], {"n": "i32"}, {}, 2),
    "whole_of_tensor": ([4], {"n": "i32"}, {}, 1),
    "library_of_int16": ([4], {"n": "i32"}, {}, 1),
    "over_list": ([], {}, {}, 1),
    "changes_type_in_branch": ([4], {"n": "i32"}, {"BLOCK": 4}, 2),
    "ternary_of_two_types": ([4], {"n": "i32"}, {}, 1),
}
ACCEPTED = {
    "and_between_tiles": ({"x_ptr": "*fp32", "y_ptr": "*fp32", "rows": "i32", "cols": "i32"}, {"BLOCK": 4}),
    "booleans": ({"y_ptr": "*i32", "n": "i32"}, {"TRUE": True, "BLOCK": 4}),
    "whole_division": ({"y_ptr": "*i32"}, {}),
    "downwards": ({"y_ptr": "*fp32", "n": "i32"}, {}),
    "float_argument": ({"y_ptr": "*fp32", "eps": "fp32", "flag": "u1"}, {"BLOCK": 4}),
    "aliases": ({"y_ptr": "*fp32"}, {"BLOCK": 4}),
    "flipped": ({"y_ptr": "*fp32"}, {"BLOCK": 4}),
    "aggregates": ({"y_ptr": "*fp32"}, {}),
    "library": ({"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"BLOCK": 4}),
    "asserts": ({"y_ptr": "*i32", "limit": "i32"}, {"BLOCK": 4}),
    "two_loops": ({"y_ptr": "*fp32", "n": "i32"}, {}),
    "constant_branch": ({"y_ptr": "*fp32"}, {"WIDE": False}),
    "branches": ({"y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 4}),
    "in_an_unrolled_loop_of_one_branch": ({"y_ptr": "*fp32", "n": "i32"}, {}),
    "sides_of_each_type": ({"y_ptr": "*fp32", "n": "i32"}, {"FIRST": True}),
    "inline_ptx": ({"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"BLOCK": 4}),
    "names_of_a_loop": ({"y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 4}),
    "names_of_an_unrolled_loop": ({"y_ptr": "*fp32", "n": "i32"}, {}),
}


@pytest.fixture(scope="module")
def compiler_says(compile_workers):
    calls: dict[str, Any] = {
        name: ({"y_ptr": "*fp32", **types}, constants) for name, (_, types, constants, _) in REFUSED.items()
    }
    of_two = "branches_of_two_types", "ternary_of_two_widths"
    lost = "only_in_one_branch", "in_a_loop_of_one_branch", "name_of_a_loop_after_it"
    calls |= {name: ({"y_ptr": "*fp32", "n": "i32"}, {}) for name in (*of_two, *lost)}
    calls |= ACCEPTED | {"small_dot": ({"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"M": 4, "K": 4})}
    asked = {"script": "tests.explain.trace.compile_foreign", "arguments": [json.dumps(calls)]}
    return json.loads(compile_workers.call(asked)["printed"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_compiler_refuses_is_refused_at_its_line(compiler_says, name):
    assert compiler_says[name]
    arguments, _, constants, line = REFUSED[name]
    kernel = getattr(kernels, name)
    with pytest.raises(Refused) as refused:
        record_call(lambda: kernel[(1,)](torch.zeros(4), *arguments, **constants))
    lines = [entry.lineno for entry in refused.traceback if str(entry.path).endswith("foreign_kernels.py")]
    assert (
        lines[-1] == kernel.fn.__code__.co_firstlineno + line
    )  # pytest counts lines from 0, and one has the decorator


def test_what_the_compiler_accepts(compiler_says):
    assert {name: compiler_says[name] for name in ACCEPTED} == dict.fromkeys(ACCEPTED, "")


def test_and_between_tiles_is_element_by_element_and_broadcasts():
    x, y = torch.arange(16.0).reshape(4, 4), torch.full((4, 4), 9.0)
    trace = record_call(lambda: kernels.and_between_tiles[(1,)](x, y, 2, 3, BLOCK=4))
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[:2, :3] = True
    assert torch.equal(y, torch.where(mask, x, 9.0))
    assert trace.traffic() == {"read_bytes": 24, "written_bytes": 24, "flops": 0}
    assert numbers(trace.history("mask")[0][1]).tolist() == mask.tolist()
    counted = record_call(lambda: kernels.and_between_tiles[(1,)](x, y, 2, 3, BLOCK=4), programs=[])
    assert counted.traffic() == trace.traffic()  # a program that is not recorded means the same


def test_or_not_and_constants():
    y = torch.zeros(4, 4, dtype=torch.int32)
    record_call(lambda: kernels.booleans[(1,)](y, 9, TRUE=True, BLOCK=4))
    assert y.tolist() == [[1, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 1]]


def test_loop_variables_divide_towards_zero():
    y = torch.zeros(13, dtype=torch.int32)
    trace = record_call(lambda: kernels.whole_division[(1,)](y))
    assert y.tolist() == [-1, -1, 0, 0, 0, 1, -1, 0, -1, 0, 1, 0, -3]
    assert trace.history("i")[0][1] == Scalar("-3", "int")


def test_loop_variables_are_tensors_and_static_ones_constants():
    y = torch.zeros(10)
    record_call(lambda: kernels.downwards[(1,)](y, 7))
    assert y.tolist() == [0, 0.5, 0, 1.5, 0, 2.5, 0, 3.5, -2, -1]


@triton.jit
def far_kernel(y_ptr, n):
    for i in range(n, n + 2):
        tl.store(y_ptr + (i - n), i)


def test_a_loop_counts_in_the_type_of_its_bounds():
    y = torch.zeros(2, dtype=torch.int64)
    record_call(lambda: far_kernel[(1,)](y, 2**40))
    assert y.tolist() == [2**40, 2**40 + 1]


def test_float_arguments_are_fp32_tensors_and_booleans_are_taken():
    y = torch.zeros(1)
    trace = record_call(lambda: kernels.float_argument[(1,)](y, 0.1, True, BLOCK=4))
    assert y.item() == np.float32(np.float16(0.1))
    product = trace.history("product")[0][1]
    assert isinstance(product, Tile)
    assert product.dtype == "f32"
    assert dict(trace.launches[0].arguments)["eps"] == Scalar("0.1", "float")


def test_aliases_constants_values_and_annotations_that_are_strings():
    y = torch.zeros(4)
    record_call(lambda: kernels.aliases[(1,)](y, BLOCK=4))
    assert y.tolist() == [1 + 2 + 0 + 4, 2 + 2 + 1 + 4, 4 + 2 + 2 + 4, 8 + 2 + 2 + 4]


def test_flip_aggregates_and_two_loops():
    y, z, total = torch.zeros(4), torch.zeros(1), torch.zeros(1)
    record_call(lambda: kernels.flipped[(1,)](y, BLOCK=4))
    record_call(lambda: kernels.aggregates[(1,)](z))
    record_call(lambda: kernels.two_loops[(1,)](total, 4))  # `once` is new in each loop
    assert (y.tolist(), z.item(), total.item()) == ([3, 2, 1, 0], 7.0, 6.0)


def test_libdevice():
    x, y = torch.linspace(-2, 2, 4), torch.zeros(4, 4)
    trace = record_call(lambda: kernels.library[(1,)](x, y, BLOCK=4))
    exact = (x.double() / 3).numpy()
    assert torch.allclose(y[0], torch.tanh(x), rtol=1e-6)
    assert torch.allclose(y[1], torch.erf(x), rtol=1e-6)
    assert torch.equal(y[2], x * x)
    assert (np.abs(y[3].double().numpy()) <= np.abs(exact)).all()
    assert torch.allclose(y[3], x / 3, rtol=2e-7)
    assert trace.launches[0].flops.total == 16


@pytest.mark.parametrize(
    ("symbol", "arguments", "expected"),
    [
        ("__nv_clz", [1, -1], [31, 0]),
        ("__nv_ffs", [0, 8], [0, 4]),
        ("__nv_popc", [-1, 5], [32, 2]),
        ("__nv_brev", [1, 2], [-(2**31), 2**30]),
        ("__nv_float2int_rz", [-1.7, 3e9], [-1, 2**31 - 1]),
        ("__nv_float2int_rd", [-1.2, 1.2], [-2, 1]),
        ("__nv_roundf", [2.5, -2.5], [3, -3]),
        ("__nv_rintf", [2.5, -2.5], [2, -2]),
        ("__nv_fast_expf", [0.0, 1.0], [1, np.float32(np.e)]),
        ("__nv_isinff", [np.inf, 1.0], [1, 0]),
        ("__nv_erfcinvf", [1.0, 0.5], [0, 0.47693628]),
        ("__nv_tgammaf", [5.0, 0.5], [24, 1.7724539]),
    ],
)
def test_functions_of_libdevice(symbol, arguments, expected):
    kind = np.float32 if isinstance(arguments[0], float) else np.int32
    function = function_of(symbol)
    assert function is not None
    assert np.allclose(function(np.array(arguments, kind)), expected, rtol=1e-6)


def test_inline_ptx_of_one_instruction(compiler_says):
    x, y = torch.tensor([1.0, 1 + 2**-11, 1 + 2**-12, -np.inf]), torch.zeros(8)
    record_call(lambda: kernels.inline_ptx[(1,)](x, y, BLOCK=4))
    assert y[:4].tolist() == [1, 1 + 2**-10, 1, -np.inf]
    assert torch.allclose(y[4:], torch.exp2(x))
    with pytest.raises(Refused, match=r"inline PTX cannot be traced.*lop3"):
        record_call(lambda: kernels.other_inline_ptx[(1,)](torch.zeros(4)))


def test_scaled_dot():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 16, (16, 64), dtype=np.uint8)
    a = torch.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4)
    b = torch.randn(64, 16).to(torch.float8_e5m2)
    sa, sb = (torch.from_numpy(generator.integers(125, 130, (16, 2), dtype=np.uint8)) for _ in range(2))
    y = torch.zeros(16, 16)
    trace = record_call(lambda: kernels.scaled_dot[(1,)](a, b, sa, sb, y, N=16, K=64))
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7] * np.where(codes & 8, -1, 1)
    left = magnitudes * np.exp2(np.repeat(sa.numpy().astype(float) - 127, 32, 1))
    right = b.float().numpy() * np.exp2(np.repeat(sb.numpy().astype(float) - 127, 32, 1)).T
    assert (abs(y.numpy() - left @ right) <= 64 * 2**-24 * (abs(left) @ abs(right))).all()
    assert trace.launches[0].flops.matmul == 2 * 16 * 16 * 64


def test_a_dot_too_small_for_a_gpu(compiler_says):
    assert "K >= 16" in compiler_says["small_dot"]
    x, y = torch.randn(4, 4), torch.zeros(4, 4)
    record_call(lambda: kernels.small_dot[(1,)](x, y, M=4, K=4))
    assert torch.allclose(y, x @ x.T)
    with pytest.raises(Exception, match="K >= 16"):
        record_call(lambda: kernels.small_dot[(1,)](x, y, M=4, K=4), any_dot=False)


def test_tf32_drops_the_low_bits_of_a_dot():
    x, y = torch.randn(16, 16), torch.zeros(16, 16)
    record_call(lambda: kernels.small_dot[(1,)](x, y, M=16, K=16))
    assert torch.allclose(y, x @ x.T, atol=1e-5)
    record_call(lambda: kernels.small_dot[(1,)](x, y, M=16, K=16), tf32=True)
    cut = torch.from_numpy((x.numpy().view(np.uint32) & 0xFFFFE000).view(np.float32))
    assert not torch.allclose(y, x @ x.T, atol=1e-5)
    assert torch.allclose(y, cut @ cut.T, atol=1e-5)


def test_a_false_assertion_stops(capsys):
    y = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(Exception, match=r"2 of 4 are false, the first at \[2\]"):
        record_call(lambda: kernels.asserts[(1,)](y, 2, BLOCK=4))
    record_call(lambda: kernels.asserts[(1,)](y, 4, BLOCK=4))
    assert "[0 1 2 3]" in capsys.readouterr().out


def test_a_constant_branch_that_is_not_taken_may_hold_anything():
    y = torch.zeros(1)
    record_call(lambda: kernels.constant_branch[(1,)](y, WIDE=False))
    assert y.item() == 1
    with pytest.raises(Refused):
        record_call(lambda: kernels.constant_branch[(1,)](y, WIDE=True))


def test_both_branches_of_a_computed_condition_must_leave_one_type(compiler_says):
    y = torch.zeros(4)
    record_call(lambda: kernels.branches[(1,)](y, 4, BLOCK=4))
    assert y[0] == 1 + 3 + 2 * (1 + 2)
    assert "Mismatched type for x" in compiler_says["branches_of_two_types"]
    with pytest.raises(Refused, match="fp32 in the other branch and int32"):  # where each branch ran in a program
        record_call(lambda: kernels.branches_of_two_types[(2,)](y, 1))
    record_call(lambda: kernels.branches_of_two_types[(2,)](y, 2))  # only one ran: nothing is known of the other


def test_both_sides_of_a_ternary_must_have_one_type(compiler_says):
    assert "inconsistent types" in compiler_says["ternary_of_two_widths"]
    y = torch.ones(1)
    with pytest.raises(Refused, match=r"is fp16 and the other is fp32"):  # where each side ran in a program
        record_call(lambda: kernels.ternary_of_two_widths[(2,)](y, 1))
    record_call(lambda: kernels.ternary_of_two_widths[(2,)](y, 2))  # only one ran: nothing is known of the other


def test_branches_may_leave_a_type_for_each_type_of_the_arguments():
    y = torch.full((1,), 1.5)
    for tensor, first, expected in ((y, True, 2 * 1.5 - 2 * 1), (y.int(), True, 0), (y, False, 0)):
        trace = record_call(lambda: kernels.sides_of_each_type[(1,)](tensor, 1, FIRST=first))  # noqa: B023
        assert tensor.item() == expected
        assert trace.steps


@pytest.mark.parametrize(("kernel", "n"), [("only_in_one_branch", 4), ("in_a_loop_of_one_branch", 1)])
def test_a_variable_of_one_branch_is_lost_after_it(compiler_says, kernel, n):
    assert "x is not defined" in compiler_says[kernel]
    with pytest.raises(Exception, match="'x'"):
        record_call(lambda: getattr(kernels, kernel)[(1,)](torch.zeros(4), n))


@pytest.mark.parametrize(("n", "expected"), [(4, 1.0), (1, 4.0)])
def test_a_variable_of_an_unrolled_loop_in_a_branch_lives_on(n, expected):
    y = torch.zeros(1)
    record_call(lambda: kernels.in_an_unrolled_loop_of_one_branch[(1,)](y, n))
    assert y.item() == expected


def test_a_loops_own_variables_end_with_each_iteration():
    y = torch.zeros(3)
    record_call(lambda: kernels.names_of_a_loop[(1,)](y, 3, BLOCK=4))
    assert y.tolist() == [3, 4 * 2 + 2, 4 * 2]
    record_call(lambda: kernels.names_of_an_unrolled_loop[(1,)](y, 3))
    assert y[0] == 4


def test_a_loops_own_variable_is_lost_after_it(compiler_says):
    assert "x is not defined" in compiler_says["name_of_a_loop_after_it"]
    with pytest.raises(Exception, match="'x'"):
        record_call(lambda: kernels.name_of_a_loop_after_it[(1,)](torch.zeros(4), 4))
