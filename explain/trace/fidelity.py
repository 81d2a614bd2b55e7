"""Mends what Triton's interpreter computes differently from a GPU (seen in 3.5 to 3.7).

The interpreter keeps bfloat16 as its 16 bits and mostly computes with those bits as if they were integers. Here it is
computed in float32 and rounded to nearest, ties to even. For one +, −, × or ÷ that equals rounding the exact result,
as float32 has more than twice the bits; sums and products of matrices are float32 throughout, as tensor cores have it.
8-bit floats are left as the interpreter has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton import language as tl
from triton.runtime import interpreter

from explain.trace.language import LanguagePatches
from explain.trace.patches import replaced

NAN_BITS = 0x7FFF  # what a GPU's conversion makes of every NaN
HALF_MINUS_ONE = 0x7FFF  # added before the low 16 bits are cut off, with the last kept bit: round half to even

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
    """The bits of the nearest bfloat16, ties to even, rounded once: by way of a float32 rounded to odd."""
    cut = _toward_zero(values)
    inexact = cut.astype(np.float64) != values
    odd = (cut.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    return f32_to_bf16(np.where(np.isnan(values), cut, odd))


def _toward_zero(values: NDArray[np.float64]) -> NDArray[np.float32]:
    near = np.asarray(values, dtype=np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(values)
    return np.where(beyond, np.nextafter(near, np.float32(0)), near)


def _is_bf16(handle: Any) -> bool:
    # A comparison's handle keeps its operands' dtype and holds bools.
    return bool(handle.data.dtype == np.uint16 and handle.dtype.scalar == tl.bfloat16)


def _promoted(handle: Any) -> Any:
    """The handle with its numbers as float32, where it has bf16 bits."""
    return _Handle(bf16_to_f32(handle.data), tl.float32) if _is_bf16(handle) else handle


def _demoted(handle: Any) -> Any:
    """The handle in bf16, where it has floats (not the bools of a comparison)."""
    is_number = handle.data.dtype.kind == "f"
    return _Handle(f32_to_bf16(handle.data) if is_number else handle.data, tl.bfloat16)


def _in_float32(plain: Callable[..., Any], operands: int) -> Callable[..., Any]:
    """`plain`, a method of the builder on `operands` handles, with bf16 ones computed in float32."""

    def method(self: Any, *args: Any) -> Any:
        if not _is_bf16(args[0]):
            return plain(self, *args)
        return _demoted(plain(self, *map(_promoted, args[:operands]), *args[operands:]))

    return method


def _cast_impl(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Stock: float32 → bf16 cuts the low bits off (NaN may become inf), others → bf16 convert to an integer.
    def method(self: Any, src: Any, dst_type: Any) -> Any:
        if dst_type.scalar == tl.bfloat16:
            to_bits = f32_to_bf16 if src.data.dtype in (np.float32, np.float16) else f64_to_bf16
            return _Handle(to_bits(src.data), tl.bfloat16)
        return plain(self, _promoted(src), dst_type)

    return method


def _get_bf16(self: Any, value: float) -> Any:
    # Stock: has no bf16 constants, so `x * 2.0` fails.
    return _Handle(f64_to_bf16(np.array([value], dtype=np.float64)), tl.bfloat16)


def _fp_to_fp(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Stock: floats that are asked to be cut off to bf16 may turn from NaN to inf, and subnormals to other numbers.
    def method(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        if dst_type.scalar == tl.bfloat16 and src.data.dtype in (np.float32, np.float64):
            cut = _toward_zero(src.data).view(np.uint32) >> np.uint32(16)
            return _Handle(np.where(np.isnan(src.data), np.uint32(NAN_BITS), cut).astype(np.uint16), tl.bfloat16)
        return plain(self, src, dst_type, rounding_mode)

    return method


def _dot(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Stock: multiplies the bits of bf16.
    def method(self: Any, a: Any, b: Any, d: Any, *args: Any) -> Any:
        return plain(self, _promoted(a), _promoted(b), d, *args)

    return method


def _atomic_rmw(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Stock: adds the bits of bf16, and gives for masked-off lanes what it finds in fresh memory.
    def method(self: Any, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if not (_is_bf16(val) and op == interpreter._ir.ATOMIC_OP.FADD):
            result = plain(self, op, ptr, val, mask, sem, scope)
            return _Handle(np.where(mask.data, result.data, np.zeros_like(result.data)), result.dtype)
        # Lanes one after another, as several may go to one address.
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
    # Stock: padding bf16 with NaN fails, as its bits are integers.
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
    # Stock: sums and compares the bits of bf16; a maximum of NaNs alone warns, and takes three passes.
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
            return plain(self, operands)
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
    # Stock: adds and multiplies the bits of bf16.
    def method(self: Any, operands: Any) -> Any:
        first = operands[0]
        if not _is_bf16(first.handle) or self.combine_fn not in (tl.standard._sum_combine, tl.standard._prod_combine):
            return plain(self, operands)
        (result,) = plain(self, (_tensor(_promoted(first.handle), first, tl.float32),))
        return [_tensor(_demoted(result.handle), result, tl.bfloat16)]

    return method


def _tensor(handle: Any, like: Any, dtype: Any) -> Any:
    type_ = like.type.with_element_ty(dtype) if like.type.is_block() else dtype
    return tl.tensor(handle, type_)


def _clampf(self: Any, arg: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
    # Stock: NaN always stays. Unless told to propagate, a GPU gives the lower bound; where the bounds are each other's
    # negative (a Hopper has one instruction for that) the one of the NaN's sign.
    def clamp(x: Any, low: Any, high: Any) -> Any:
        if propagate_nans == tl.PropagateNan.ALL:
            return np.clip(x, low, high)
        bounded = np.fmin(np.fmax(x, low), high)
        return np.where(np.isnan(x) & (low == -high), np.copysign(high, x), bounded)

    return self.ternary_op(arg, low, high, clamp)


def _tensor_as_index(plain: Callable[..., Any]) -> Callable[..., Any]:
    # Stock, Triton 3.6 with NumPy 2.4: `range(0, n)` fails, as a scalar is an array of one element.
    def patch(tensor: Any, scope: Any) -> None:
        plain(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch


@contextmanager
def interpreter_fidelity() -> Iterator[None]:
    """While open, kernels in the interpreter give a GPU's results in bf16 and where NaNs meet, and run faster.

    Process-wide and not thread-safe, as the interpreter itself. Floating-point warnings are off: a GPU gives none.
    """
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
        (builder, "create_dot", _dot(builder.create_dot)),
        (builder, "create_atomic_rmw", _atomic_rmw(builder.create_atomic_rmw)),
        # Stock: NaN wins. A GPU's maximum and minimum give the other operand, unless told to propagate.
        (builder, "create_maxnumf", lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)),
        (builder, "create_minnumf", lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)),
        (interpreter.ReduceOps, "apply_impl", _reduction(interpreter.ReduceOps.apply_impl)),
        (interpreter.ScanOps, "apply_impl", _scan(interpreter.ScanOps.apply_impl)),
        (interpreter, "_patch_lang", LanguagePatches(interpreter._patch_lang)),
        (interpreter, "_patch_lang_tensor", _tensor_as_index(interpreter._patch_lang_tensor)),
        (builder, "create_tensor_pointer_load", _block_load(builder.create_tensor_pointer_load)),
        (builder, "create_descriptor_load", _descriptor_load(builder.create_descriptor_load)),
    ]
    with ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        for owner, name, value in methods:
            stack.enter_context(replaced(owner, name, value))
        yield
