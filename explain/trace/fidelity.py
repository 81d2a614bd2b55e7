"""Makes Triton's interpreter compute as a GPU does, where the two differ (checked for Triton 3.5 to 3.7).

The interpreter keeps bfloat16 as its 16 bits and mostly computes with these bits as if they were integers. Here bf16 is
computed in float32 and rounded to nearest, ties to even. For one +, −, × or ÷ this equals rounding the exact result,
because float32 has more than twice the bits. Reductions and matmuls stay in float32 throughout, as in tensor cores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton import language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import min_dot_size
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from explain.trace import combine, float8
from explain.trace.inline_ptx import inline_asm
from explain.trace.language import LanguagePatches
from explain.trace.libdevice import extern_elementwise
from explain.trace.patches import replaced
from explain.trace.quick import QUICK

SMALLEST_DOT = GPUTarget("cuda", 90, 32)
NAN_BITS = 0x7FFF  # a GPU converts every NaN to this
HALF_MINUS_ONE = 0x7FFF  # added with the last kept bit before the low 16 bits are dropped: rounds half to even

_Handle = interpreter.TensorHandle


def bf16_to_f32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The float32 of the same value, same shape."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even, same shape; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(np.shape(values))
    rounded = (bits + np.uint32(HALF_MINUS_ONE) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(NAN_BITS), rounded).astype(np.uint16)


def f64_to_bf16(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even, same shape; rounded once, through a float32 rounded to odd."""
    cut = _toward_zero(values)
    inexact = cut.astype(np.float64) != values
    odd = (cut.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    return f32_to_bf16(np.where(np.isnan(values), cut, odd))


def _toward_zero(values: NDArray[np.float64]) -> NDArray[np.float32]:
    near = np.asarray(values, dtype=np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(values)
    return np.where(beyond, np.nextafter(near, np.float32(0)), near)


def _is_bf16(handle: Any) -> bool:
    # The handle of a comparison has its operands' dtype but holds bools.
    return bool(handle.data.dtype == np.uint16 and handle.dtype.scalar == tl.bfloat16)


def _promoted(handle: Any) -> Any:
    """The handle in float32 if it holds bf16 bits, else unchanged."""
    return _Handle(bf16_to_f32(handle.data), tl.float32) if _is_bf16(handle) else handle


def _demoted(handle: Any) -> Any:
    """The handle in bf16 if it holds floats, not the bools of a comparison."""
    is_number = handle.data.dtype.kind == "f"
    return _Handle(f32_to_bf16(handle.data) if is_number else handle.data, tl.bfloat16)


def _in_float32(plain: Callable[..., Any], operands: int) -> Callable[..., Any]:
    """`plain`, a builder's method on `operands` handles, computed in float32 where they are bf16."""

    def method(self: Any, *args: Any) -> Any:
        if not _is_bf16(args[0]):
            return plain(self, *args)
        return _demoted(plain(self, *map(_promoted, args[:operands]), *args[operands:]))

    return method


def _cast_impl(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: float32 → bf16 drops the low bits (NaN may become inf); others → bf16 convert to an integer.
    def method(self: Any, src: Any, dst_type: Any) -> Any:
        if dst_type.scalar == tl.bfloat16:
            to_bits = f32_to_bf16 if src.data.dtype in (np.float32, np.float16) else f64_to_bf16
            return _Handle(to_bits(src.data), tl.bfloat16)
        return plain(self, _promoted(src), dst_type)

    return method


def _get_bf16(self: Any, value: float) -> Any:
    # Original: has no bf16 constants, so `x * 2.0` fails.
    return _Handle(f64_to_bf16(np.array([value], dtype=np.float64)), tl.bfloat16)


def _fp_to_fp(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: rounding to bf16 toward zero may turn NaN into inf, and subnormals into other numbers.
    def method(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        if dst_type.scalar == tl.bfloat16 and src.data.dtype in (np.float32, np.float64):
            cut = _toward_zero(src.data).view(np.uint32) >> np.uint32(16)
            return _Handle(np.where(np.isnan(src.data), np.uint32(NAN_BITS), cut).astype(np.uint16), tl.bfloat16)
        return plain(self, src, dst_type, rounding_mode)

    return method


def to_tf32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The values as tensor cores read them for TF32, same shape: without the low 13 bits.

    Triton converts nothing: for sm_90 it passes float32 to `wgmma….tf32.tf32`, which ignores these bits.
    """
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _dot(plain: Callable[..., Any], tf32: bool, note: Callable[[str], None]) -> Callable[..., Any]:
    # Original: multiplies the bits of bf16, and never rounds to TF32.
    def method(self: Any, a: Any, b: Any, d: Any, precision: Any, *args: Any) -> Any:
        if precision == interpreter._ir.INPUT_PRECISION.TF32 and a.data.dtype == np.float32:
            done = "so they do here" if tf32 else "here they keep all their bits; --tf32 drops them"
            note(f"tl.dot: its float32 inputs lose their low 13 bits on a GPU (input_precision tf32); {done}")
            if tf32:
                a, b = (_Handle(to_tf32(one.data), tl.float32) for one in (a, b))
        return plain(self, _promoted(a), _promoted(b), d, precision, *args)

    return method


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
"""The eight magnitudes of a 4-bit float; its top bit is the sign."""


def _scaled(handle: Any, kind: Any, scale: Any, packed: bool, axis: int) -> NDArray[np.float32]:
    """An operand of a scaled dot in float32: its elements times the scale of their group along `axis`, the K axis.

    `packed`: 4-bit elements are packed along K, else along the other axis; the first one is in the low bits.
    """
    data = handle.data
    if kind == interpreter._ir.ScaleDotElemTypeTY.E2M1:
        packed_axis = axis if packed else -3 - axis
        pairs = np.stack([data & 15, data >> 4], axis=data.ndim if packed_axis == -1 else data.ndim - 1)
        halves = pairs.reshape([2 * n if k - data.ndim == packed_axis else n for k, n in enumerate(data.shape)])
        values = np.where(halves & 8, -1, 1).astype(np.float32) * E2M1[halves & 7]
    elif handle.dtype.scalar.primitive_bitwidth == 8:
        half = interpreter._convert_float(data, handle.dtype.scalar, tl.float16, None).view(np.float16)
        values = half.astype(np.float32)
    else:
        values = _promoted(handle).data.astype(np.float32)
    if scale is None:
        return values
    if scale.dtype.scalar.is_floating():
        factors = interpreter._convert_float(scale.data, scale.dtype.scalar, tl.float16, None).view(np.float16)
    else:  # e8m0: a power of two, 255 for NaN
        factors = np.where(scale.data == 255, np.nan, np.exp2(scale.data.astype(np.float32) - 127))
    factors = np.repeat(factors.astype(np.float32), values.shape[axis] // scale.data.shape[-1], axis=-1)
    return values * (factors if axis == -1 else np.swapaxes(factors, -1, -2))


def _dot_scaled(
    self: Any, a: Any, a_scale: Any, a_kind: Any, b: Any, b_scale: Any, b_kind: Any, fast: Any,
    a_packed: Any, b_packed: Any, d: Any,
) -> Any:  # fmt: skip
    # Original: has none.
    left = _scaled(a, a_kind, a_scale, bool(core._unwrap_if_constexpr(a_packed)), -1)
    right = _scaled(b, b_kind, b_scale, bool(core._unwrap_if_constexpr(b_packed)), -2)
    return _Handle(np.matmul(left, right, dtype=d.data.dtype) + d.data, d.dtype.scalar)


def _formats(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: fails for a format that is Python's string, as constants are in the interpreter.
    def method(self: Any, a: Any, a_scale: Any, a_kind: Any, b: Any, b_scale: Any, b_kind: Any, *args: Any) -> Any:
        kinds = [tl.constexpr(core._unwrap_if_constexpr(kind)) for kind in (a_kind, b_kind)]
        return plain(self, a, a_scale, kinds[0], b, b_scale, kinds[1], *args)

    return method


def _assert(self: Any, condition: Any, message: str) -> None:
    # Original: says neither where nor how often it is false.
    data = condition.data
    if not data.all():
        first = np.argwhere(data == 0)[0].tolist()
        wrong = np.count_nonzero(data == 0)
        raise AssertionError(f"{message} ({wrong} of {data.size} are false, the first at {first})")


def _print(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: prints the bits of bf16.
    def method(self: Any, prefix: Any, hexadecimal: Any, values: Any, *args: Any) -> Any:
        return plain(self, prefix, hexadecimal, [*map(_promoted, values)], *args)

    return method


def _atomic_rmw(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: adds the bits of bf16, and returns uninitialised memory for masked-off lanes.
    def method(self: Any, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if not (_is_bf16(val) and op == interpreter._ir.ATOMIC_OP.FADD):
            result = plain(self, op, ptr, val, mask, sem, scope)
            return _Handle(np.where(mask.data, result.data, np.zeros_like(result.data)), result.dtype)
        # One lane after another: several may have the same address.
        before = np.zeros_like(val.data)
        active = np.ones((1,), dtype=bool)
        for lane in np.ndindex(val.data.shape):
            if mask.data[lane]:
                at = ptr.data[lane].reshape(1)
                old = interpreter._interpreter.load(at, active, np.zeros(1, np.uint16), np.dtype(np.uint16))
                before[lane] = old[0]
                total = bf16_to_f32(old) + bf16_to_f32(val.data[lane].reshape(1))
                interpreter._interpreter.store(at, f32_to_bf16(total), active)
        return _Handle(before, tl.bfloat16)

    return method


def _nan_padded(self: Any, pointers: Any, mask: Any, *args: Any) -> Any:
    other = _Handle(np.full_like(pointers.data, NAN_BITS, dtype=np.uint16), tl.bfloat16)
    return self.create_masked_load(pointers, mask, other, *args)


def _pads_bf16(base: Any, padding: Any) -> bool:
    # Original: padding bf16 with NaN fails because its bits are integers.
    return bool(padding == interpreter._ir.PADDING_OPTION.PAD_NAN and base.get_element_ty() == tl.bfloat16)


def _block_load(plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, ptr: Any, boundary_check: Any, padding: Any, *args: Any) -> Any:
        if _pads_bf16(ptr.base, padding):
            return _nan_padded(self, *ptr.materialize_pointers(boundary_check), *args)
        return plain(self, ptr, boundary_check, padding, *args)

    return method


def _descriptor_load(plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, desc: Any, indices: Any, cache_modifier: Any, eviction_policy: Any) -> Any:
        if _pads_bf16(desc.base, desc.padding):
            return _nan_padded(self, *desc.materialize_pointers(indices), cache_modifier, eviction_policy, False)
        return plain(self, desc, indices, cache_modifier, eviction_policy)

    return method


def _reduction(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: sums and compares the bits of bf16; a maximum of only NaNs warns, and takes three passes.
    standard = tl.standard
    extremes = {standard._elementwise_max: np.fmax, standard._elementwise_min: np.fmin}
    in_numpy = {
        *extremes,
        standard._sum_combine,
        standard._argmax_combine_tie_break_left,
        standard._argmin_combine_tie_break_left,
    }

    def method(self: Any, operands: Any) -> Any:
        first = operands[0]
        if self.combine_fn not in in_numpy:
            return combine.reduced(self, operands)
        bf16 = _is_bf16(first.handle)
        if bf16:
            first = _tensor(_promoted(first.handle), first, tl.float32)
        if extreme := extremes.get(self.combine_fn):
            data = extreme.reduce(first.handle.data, axis=self.axis, keepdims=self.keep_dims)
            result = self.to_tensor(data, first.dtype)
        else:
            result = plain(self, (first, *operands[1:]))
        if not bf16:
            return result
        number, *rest = result if isinstance(result, tuple) else (result,)
        rounded = _tensor(_demoted(number.handle), number, tl.bfloat16)
        return (rounded, *rest) if rest else rounded

    return method


def _scan(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original: adds and multiplies the bits of bf16.
    def method(self: Any, operands: Any) -> Any:
        first = operands[0]
        if self.combine_fn not in (tl.standard._sum_combine, tl.standard._prod_combine):
            return combine.scanned(self, operands) or plain(self, operands)
        if not _is_bf16(first.handle):
            return plain(self, operands)
        (result,) = plain(self, (_tensor(_promoted(first.handle), first, tl.float32),))
        return [_tensor(_demoted(result.handle), result, tl.bfloat16)]

    return method


def _tensor(handle: Any, like: Any, dtype: Any) -> Any:
    type_ = like.type.with_element_ty(dtype) if like.type.is_block() else dtype
    return tl.tensor(handle, type_)


def _clampf(self: Any, arg: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
    # Original: NaN stays NaN. Unless told to propagate it, a GPU returns the lower bound. If low == −high, for which
    # Hopper has one instruction, it returns the bound with the NaN's sign.
    def clamp(x: Any, low: Any, high: Any) -> Any:
        if propagate_nans == tl.PropagateNan.ALL:
            return np.clip(x, low, high)
        bounded = np.fmin(np.fmax(x, low), high)
        return np.where(np.isnan(x) & (low == -high), np.copysign(high, x), bounded)

    return self.ternary_op(arg, low, high, clamp)


def _tensor_as_index(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Original, Triton 3.6 with NumPy 2.4: `range(0, n)` fails because a scalar is an array of one element.
    def patch(tensor: Any, scope: Any) -> None:
        plain(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch


@contextmanager
def interpreter_fidelity(
    tf32: bool = False, any_dot: bool = True, note: Callable[[str], None] = lambda text: None
) -> Iterator[None]:
    """While open, the interpreter gives a GPU's results in bf16 and for NaNs, and runs faster.

    A false `tl.device_assert` stops the kernel. `tf32`: a dot of float32 rounds its inputs to TF32 where a GPU does;
    `note` is told that there is such a dot. `any_dot`: tl.dot takes tiles that are too small for a GPU.

    Process-wide and not thread-safe, like the interpreter. Floating-point warnings are off: a GPU gives none.
    """
    smallest = (lambda left, right: (1, 1, 1)) if any_dot else min_dot_size(SMALLEST_DOT)
    instance, functions = interpreter.interpreter_builder, interpreter.interpreter_builder.codegen_fns
    # Its checks of overflow compute every integer sum twice, and nothing reads the result.
    options = dataclasses.replace(instance.options, debug=True, sanitize_overflow=False)
    builder = interpreter.InterpreterBuilder
    binary, clampf = builder.binary_op, _in_float32(_clampf, 3)
    methods: list[tuple[Any, str, object]] = [
        (builder, "binary_op", _in_float32(binary, 2)),
        (builder, "unary_op", _in_float32(builder.unary_op, 1)),
        (builder, "create_fma", _in_float32(builder.create_fma, 3)),
        (builder, "create_clampf", clampf),
        (builder, "cast_impl", _cast_impl(builder.cast_impl)),
        (builder, "create_fp_to_fp", _fp_to_fp(builder.create_fp_to_fp)),
        (builder, "get_bf16", _get_bf16),
        (builder, "create_dot", _dot(builder.create_dot, tf32, note)),
        (builder, "create_dot_scaled", _dot_scaled),
        (TritonSemantic, "dot_scaled", _formats(TritonSemantic.dot_scaled)),
        (builder, "create_extern_elementwise", extern_elementwise),
        (builder, "create_inline_asm", inline_asm),
        (builder, "create_assert", _assert),
        (builder, "create_print", _print(builder.create_print)),
        (instance, "codegen_fns", {**functions, "min_dot_size": smallest}),
        (instance, "options", options),
        (builder, "create_atomic_rmw", _atomic_rmw(builder.create_atomic_rmw)),
        # Original: NaN wins. A GPU's maximum and minimum return the other operand, unless told to propagate NaN.
        (builder, "create_maxnumf", lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)),
        (builder, "create_minnumf", lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)),
        (interpreter, "_convert_float", float8.convert(interpreter._convert_float)),
        (interpreter.ReduceOps, "apply_impl", _reduction(interpreter.ReduceOps.apply_impl)),
        (interpreter.ScanOps, "apply_impl", _scan(interpreter.ScanOps.apply_impl)),
        (interpreter, "_patch_lang", LanguagePatches(interpreter._patch_lang)),
        (interpreter, "_patch_lang_tensor", _tensor_as_index(interpreter._patch_lang_tensor)),
        (builder, "create_tensor_pointer_load", _block_load(builder.create_tensor_pointer_load)),
        (builder, "create_descriptor_load", _descriptor_load(builder.create_descriptor_load)),
        *QUICK,
    ]
    with ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        for owner, name, value in methods:
            stack.enter_context(replaced(owner, name, value))
        yield
