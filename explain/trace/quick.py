"""Makes the interpreter quick: what its operations make or compare anew each time is made once, and known again.

Each function takes the place of one of Triton's. In the common cases it gives what Triton's gives. All other cases, and
so all errors, stay Triton's: there it calls the function that it replaces.
"""

from __future__ import annotations

import functools
import math
from types import NoneType
from typing import Any

import numpy as np
from triton import language as tl
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

_BUILDER = interpreter.InterpreterBuilder
_BLOCK, _EQUAL, _GETITEM = tl.block_type.__init__, tl.dtype.__eq__, tl.tensor.__getitem__
_BROADCAST, _EXPAND_DIMS = TritonSemantic.broadcast_impl_value, TritonSemantic.expand_dims
_OPERANDS, _CAST = TritonSemantic.binary_op_type_checking_impl, TritonSemantic.cast
_NUMPY_DTYPE, _PATCH_ATTR = interpreter._get_np_dtype, interpreter._patch_attr
_NEW_AXIS, _UNWRAP = _BUILDER.create_expand_dims, core._unwrap_if_constexpr


# Types


class Shape(core.tuple):  # type: ignore[misc]  # Triton has no types
    """The shape of blocks. There is one object for each shape, so equal shapes are the same object."""

    __hash__ = object.__hash__

    def __init__(self, plain: Any) -> None:
        super().__init__(plain.shape.values)
        self.lengths = tuple(plain.shape.values)
        self.numel, self.text = plain.numel, str(plain.shape)
        self.of_tensor = _of_tensor(self.lengths)


def _of_tensor(lengths: tuple[int, ...]) -> tuple[Any, Any]:
    """The shape of a tensor, and its number of elements."""
    return core.tuple([tl.constexpr(length) for length in lengths]), tl.constexpr(math.prod(lengths))


_SCALAR = _of_tensor(())


@functools.lru_cache(maxsize=None, typed=True)
def _shape(*lengths: int) -> Shape:
    """Raises what `block_type` raises for a shape that it refuses."""
    plain = object.__new__(tl.block_type)
    _BLOCK(plain, tl.int1, list(lengths))
    return Shape(plain)


def block_type(self: Any, element_ty: Any, shape: Any) -> None:
    """Takes the place of `block_type.__init__`."""
    if type(shape) is not Shape:
        if type(shape) not in (list, core.tuple):
            _BLOCK(self, element_ty, shape)
            return
        try:
            shape = _shape(*[length.value if type(length) is tl.constexpr else length for length in shape])
        except TypeError:  # a length is no whole number
            _BLOCK(self, element_ty, shape)
            return
    self.element_ty, self.shape, self.numel = element_ty, shape, shape.numel
    self.name = f"<{shape.text}, {element_ty}>"


def tensor(self: Any, handle: Any, type: Any) -> None:
    """Takes the place of `tensor.__init__`."""
    if not type.is_block():
        self.shape, self.numel = _SCALAR
    else:
        if not isinstance(type.shape, Shape):  # a type that was made before
            type = tl.block_type(type.element_ty, type.shape)
        self.shape, self.numel = type.shape.of_tensor
    self.handle, self.type, self.dtype = handle, type, type.scalar


def equal(self: Any, other: Any) -> bool:
    """Takes the place of `dtype.__eq__`, which unwraps constants before it compares."""
    return self is other or (self.name == other.name if type(other) is tl.dtype else _EQUAL(self, other))


_numpy_dtypes: dict[str, np.dtype[Any]] = {}
_ADDRESS = np.dtype(np.uint64)


def numpy_dtype(tt_dtype: Any) -> np.dtype[Any]:
    """Takes the place of `_get_np_dtype`, which makes a table of all dtypes at each call."""
    scalar = tt_dtype.scalar
    if scalar.is_ptr():
        return _ADDRESS
    if (found := _numpy_dtypes.get(scalar.name)) is None:
        found = _numpy_dtypes[scalar.name] = _NUMPY_DTYPE(scalar)
    return found


# Shapes of operands


def broadcast(self: Any, lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """Takes the place of `broadcast_impl_value`, which compares the shapes length by length."""
    if lhs.shape is rhs.shape:
        return lhs, rhs
    one, other = lhs.type, rhs.type
    if not (one.is_block() and other.is_block()) or (shape := _joint(one.shape, other.shape)) is None:
        return _BROADCAST(self, lhs, rhs)

    def widened(tensor: Any) -> Any:
        data = self.builder.create_broadcast(tensor.handle, shape.lengths)
        return self.tensor(data, tl.block_type(tensor.type.scalar, shape))

    return lhs if one.shape is shape else widened(lhs), rhs if other.shape is shape else widened(rhs)


@functools.cache
def _joint(one: Shape, other: Shape) -> Shape | None:
    """The shape that both are broadcast to; None if there is none, or one has fewer axes."""
    if len(one.lengths) != len(other.lengths):
        return None
    pairs = list(zip(one.lengths, other.lengths, strict=True))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    return _shape(*(b if a == 1 else a for a, b in pairs))


def expand_dims(self: Any, input: Any, axis: int) -> Any:
    """Takes the place of `expand_dims`."""
    if not input.type.is_block():
        return _EXPAND_DIMS(self, input, axis)
    data = self.builder.create_expand_dims(input.handle, axis)
    return self.tensor(data, tl.block_type(input.type.scalar, _expanded(input.type.shape, axis)))


@functools.cache
def _expanded(shape: Shape, axis: int) -> Shape:
    return _shape(*shape.lengths[:axis], 1, *shape.lengths[axis:])


def create_expand_dims(self: Any, arg: Any, axis: int) -> Any:
    """Takes the place of the builder's `create_expand_dims`; NumPy takes long for the same view."""
    if not 0 <= axis <= arg.data.ndim:
        return _NEW_AXIS(self, arg, axis)
    return interpreter.TensorHandle(arg.data[(slice(None),) * axis + (None,)], arg.dtype.scalar)


def getitem(self: Any, slices: Any, _semantic: Any = None) -> Any:
    """Takes the place of `tensor.__getitem__`: `x[:, None]`."""
    found = self
    for axis, one in enumerate(slices if type(slices) is tuple else (slices,)):
        if one is None:
            found = _semantic.expand_dims(found, axis)
        elif not (type(one) is slice and one.start is None and one.stop is None and one.step is None):
            return _GETITEM(self, slices, _semantic=_semantic)
    return found


# Dtypes of operands


def operands(
    self: Any, lhs: Any, rhs: Any, allow_lhs_ptr: bool = False, allow_rhs_ptr: bool = False,
    arithmetic_check: bool = True, div_or_mod: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Takes the place of `binary_op_type_checking_impl`."""
    if isinstance(lhs, tl.tensor):
        if isinstance(rhs, tl.tensor):
            one, other = lhs.dtype, rhs.dtype
            if one is other:
                if type(one) is tl.dtype and one.primitive_bitwidth > (16 if div_or_mod else 0):  # 0: void
                    return self.broadcast_impl_value(lhs, rhs)
            elif not (one.is_ptr() and other.is_ptr()):
                how = one.name, other.name, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod
                if (dtype := _computed.get(how)) is None:
                    dtype = _computed[how] = _computed_in(self, one, other, *how[2:])
                if dtype is not tl.void:
                    lhs, rhs = self.cast(lhs, dtype), self.cast(rhs, dtype)
                return self.broadcast_impl_value(lhs, rhs)
        elif arithmetic_check and _takes(lhs.dtype, rhs, div_or_mod):
            return self.broadcast_impl_value(lhs, self.scalar_constant(rhs, lhs.dtype))
    elif arithmetic_check and isinstance(rhs, tl.tensor) and _takes(rhs.dtype, lhs, div_or_mod):
        return self.broadcast_impl_value(self.scalar_constant(lhs, rhs.dtype), rhs)
    return _OPERANDS(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)


_computed: dict[tuple[Any, ...], Any] = {}


def _computed_in(
    self: Any, one: Any, other: Any, allow_lhs_ptr: bool, allow_rhs_ptr: bool, arithmetic_check: bool, div_or_mod: bool
) -> Any:
    """The dtype that tensors of two dtypes are computed in; void if each keeps its own. Raises what Triton raises."""
    self.check_ptr_type_impl(one, other, allow_lhs_ptr)
    self.check_ptr_type_impl(other, one, allow_rhs_ptr)
    if not arithmetic_check or one.is_ptr() or other.is_ptr():
        return tl.void
    return self.computation_type_impl(one, False, other, False, div_or_mod)


def _takes(dtype: Any, number: Any, div_or_mod: bool) -> bool:
    """Whether a tensor of this dtype and one of Python's numbers are surely computed in the dtype, which holds it."""
    if type(dtype) is not tl.dtype or dtype.primitive_bitwidth <= (16 if div_or_mod else 1):
        return False
    return 0 <= number < 128 if type(number) is int else type(number) is float and dtype.is_floating()


_SIGNED, _UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("fp16", "bf16", "fp32", "fp64")
_CASTS: dict[tuple[str, str], tuple[Any, ...]] = {
    **{(a, b): ("create_int_cast", a in _SIGNED)
       for a in ("int1", *_SIGNED, *_UNSIGNED) for b in (*_SIGNED, *_UNSIGNED) if a != b},
    **{(a, b): ("create_si_to_fp",) for a in _SIGNED for b in _FLOATS},
    **{(a, b): ("create_ui_to_fp",) for a in ("int1", *_UNSIGNED) for b in _FLOATS},
    **dict.fromkeys((("fp16", "fp32"), ("bf16", "fp32"), ("fp32", "fp64")), ("create_fp_ext",)),
    **dict.fromkeys((("fp32", "fp16"), ("fp32", "bf16"), ("fp64", "fp16"), ("fp64", "bf16"), ("fp64", "fp32")),
                    ("create_fp_trunc",)),
}  # fmt: skip
"""The builder's method that `cast` ends at for two dtypes, and what else the method takes."""


def cast(self: Any, input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:
    """Takes the place of `cast`, which asks about twenty questions."""
    dtype, wanted = input.dtype, dst_ty.scalar
    if dtype is wanted:
        return input
    if fp_downcast_rounding is not None or (how := _CASTS.get((dtype.name, wanted.name))) is None:
        return _CAST(self, input, dst_ty, fp_downcast_rounding)
    method, *more = how
    type = input.type.with_element_ty(wanted)
    return self.tensor(getattr(self.builder, method)(input.handle, type.to_ir(self.builder), *more), type)


# Calls


def patch_attr(obj: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
    """Takes the place of `_patch_attr`. There a builtin takes three calls, here one."""
    _PATCH_ATTR(obj, name, member, builder, scope)
    if getattr(member, "__code__", None) is _BUILTIN:
        setattr(obj, name, _direct(member.__wrapped__))


_BUILTIN = core.builtin(lambda _semantic=None: None).__code__  # of all functions that `builtin` makes


def _direct(function: Any) -> Any:
    def builtin(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = interpreter.interpreter_semantic
        return function(*args, **kwargs)

    return builtin


def unwrap(o: Any) -> Any:
    """Takes the place of `_unwrap_if_constexpr`."""
    return o if type(o) in _NOT_WRAPPED else _UNWRAP(o)


_NOT_WRAPPED = {tl.tensor, tl.dtype, int, float, bool, NoneType}


QUICK = (
    (tl.block_type, "__init__", block_type),
    (tl.tensor, "__init__", tensor),
    (tl.tensor, "__getitem__", core.builtin(getitem)),
    (tl.dtype, "__eq__", equal),
    (core, "_unwrap_if_constexpr", unwrap),
    (TritonSemantic, "broadcast_impl_value", broadcast),
    (TritonSemantic, "expand_dims", expand_dims),
    (TritonSemantic, "binary_op_type_checking_impl", operands),
    (TritonSemantic, "cast", cast),
    (interpreter, "_get_np_dtype", numpy_dtype),
    (interpreter, "_patch_attr", patch_attr),
    (_BUILDER, "create_expand_dims", create_expand_dims),
)
"""What is replaced: owner, name, and what takes its place."""
