"""What takes the place of Triton's functions for speed gives what they give: types, bits, and the words of an error."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
import pytest
from triton import language as tl
from triton.runtime import interpreter

from explain.trace import fidelity
from explain.trace.quick import QUICK

DTYPES = (
    tl.int1, tl.int8, tl.uint8, tl.int16, tl.uint16, tl.int32, tl.uint32, tl.int64, tl.uint64,
    tl.float16, tl.bfloat16, tl.float32, tl.float64, tl.float8e5, tl.float8e4nv, tl.float8e4b8,
    tl.pointer_type(tl.float32), tl.pointer_type(tl.int1),
)  # fmt: skip
SHAPES = ((), (4,), (1,), (4, 1), (1, 4), (2, 4), (2, 2, 1))
NUMBERS = (0, 3, 127, 128, -3, 2**40, 2**64, 0.0, 2.5, -1e-300, float("inf"), True, None)
OPERATIONS = ("truediv", "floordiv", "mod", "less_than", "equal", "and_", "mul")
INDICES = (
    None, slice(None), (None,), (slice(None), None), (None, slice(None)), (None, slice(0, 1)), (0,), tl.constexpr(None),
    (tl.constexpr(None), None), tl.core.tuple([tl.constexpr(None)]),
)  # fmt: skip
LENGTHS: tuple[Any, ...] = (
    [4], [4, 1], [3], [4.0], [True], [], [tl.constexpr(4), 2], ["4"], [1 << 21], (4,), 4, tl.core.tuple([4, 2]),
)  # fmt: skip
Case = tuple[object, Callable[[], Any]]


def made(dtype: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of small numbers. The type is made anew, as a kernel's own code may do it."""
    data = np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint8).reshape(shape or (1,))
    stored = interpreter._get_np_dtype(dtype)
    bits = data.astype(stored) if dtype.is_int() or stored.kind == "f" else data.astype(stored) << 3
    same = tl.dtype(dtype.name) if type(dtype) is tl.dtype and len(shape) == 2 else dtype  # equal, but another object
    return tl.tensor(interpreter.TensorHandle(bits, same), tl.block_type(same, list(shape)) if shape else same)


def described(thing: Any) -> object:
    if isinstance(thing, tuple):
        return tuple(map(described, thing))
    if isinstance(thing, tl.block_type):
        return type(thing), str(thing), list(thing.shape), thing.numel, str(thing.element_ty)
    data = thing.handle.data
    strides = [stride for length, stride in zip(data.shape, data.strides, strict=True) if length > 1]
    kinds = [type(thing.shape), type(thing.numel), *map(type, thing.shape)]
    return (
        described(thing.type) if thing.type.is_block() else str(thing.type), str(thing.handle.dtype), str(thing.dtype),
        [length.value for length in thing.shape], thing.numel.value, kinds,
        data.dtype, data.shape, strides, data.flags.writeable, data.tobytes(),
    )  # fmt: skip


def outcome(call: Callable[[], Any]) -> object:
    try:
        return described(call())
    except Exception as error:
        return type(error), str(error)


def casts(semantic: Any) -> Iterator[Case]:
    for one, other, shape, rounding in itertools.product(DTYPES, DTYPES, ((), (4,)), (None, "rtz", "rtne")):
        yield (one.name, other.name, shape, rounding), partial(semantic.cast, made(one, shape), other, rounding)


def operations(semantic: Any) -> Iterator[Case]:
    for name in OPERATIONS:
        run = getattr(semantic, name)
        for one, other in itertools.product(DTYPES, DTYPES):
            yield (name, one.name, other.name), partial(run, made(one, (2, 4)), made(other, (1, 4)))
        for one, number in itertools.product(DTYPES, NUMBERS):
            yield (name, one.name, repr(number)), partial(run, made(one, (4,)), number)
            yield (name, repr(number), one.name), partial(run, number, made(one, (4,)))
    for one, other in itertools.product(DTYPES, DTYPES):
        for how in itertools.product((False, True), repeat=4):
            check = semantic.binary_op_type_checking_impl
            yield (one.name, other.name, how), partial(check, made(one, (4,)), made(other, ()), *how)


def shapes(semantic: Any) -> Iterator[Case]:
    def joined(one: tuple[int, ...], other: tuple[int, ...], turned: bool) -> Any:
        tile = made(tl.int32, one)
        axes = tuple(reversed(range(len(one))))
        return semantic.broadcast_impl_value(semantic.permute(tile, axes) if turned else tile, made(tl.float16, other))

    def to_ir(dtype: Any, lengths: Any) -> Any:
        return tl.block_type(dtype, lengths).to_ir(semantic.builder)

    for key in itertools.product(SHAPES, SHAPES, (False, True)):
        yield key, partial(joined, *key)
    for shape, axis in itertools.product(SHAPES, range(-4, 5)):
        yield (shape, axis), partial(semantic.expand_dims, made(tl.float32, shape), axis)
    for shape, index in itertools.product(SHAPES, INDICES):
        yield (shape, str(index)), partial(getitem, made(tl.float16, shape), index)
    for dtype, lengths in itertools.product(DTYPES, LENGTHS):
        yield (dtype.name, str(lengths)), partial(tl.block_type, dtype, lengths)
        yield (dtype.name, str(lengths), "splat"), partial(semantic.splat, made(dtype, ()), lengths)
        yield (dtype.name, str(lengths), "ir"), partial(to_ir, dtype, lengths)


def outcomes(cases: Callable[[Any], Iterator[Case]]) -> dict[object, object]:
    with fidelity.interpreter_fidelity():
        scope = interpreter._patch_lang(None)
        try:
            return {key: outcome(call) for key, call in cases(interpreter.interpreter_semantic)}
        finally:
            scope.restore()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cases", [casts, operations, shapes])
def test_what_is_quick_gives_what_triton_gives(cases, monkeypatch):
    quick = outcomes(cases)
    again = outcomes(cases)  # with what the first kept
    monkeypatch.setattr(fidelity, "QUICK", ())
    plain = outcomes(cases)
    different = [key for key in plain if not plain[key] == quick[key] == again[key]]
    assert not different, [(key, plain[key], quick[key]) for key in different[:3]]
    errors = sum(isinstance(one, tuple) and isinstance(one[0], type) and issubclass(one[0], Exception)
                 for one in plain.values())  # fmt: skip
    assert 0 < errors < len(plain)


def test_what_is_quick_takes_what_triton_takes():
    for owner, name, value in QUICK:
        assert [*inspect.signature(value).parameters] == [*inspect.signature(vars(owner)[name]).parameters]
